"""E31x and W4xx: what rules reach, and what they rest on."""

from __future__ import annotations

from .entry import Code

LEGALITY = (
    Code(
        "E310",
        "tile illegal on an arch that can reach it",
        "A rule picks a tile on an arch that lacks what the tile needs: its engine, a feature, shared memory,\n"
        "registers, tensor memory or cluster size. The figures are computed from the tile's fields and the profile.\n"
        "The launch would fail on that card.",
        "- {id: hbm-wide, when: [tile_m == 32], tile: 32x256-128}    # 156672 B on sm121, whose limit is 101376 B",
        "send such problems to another tile, take the arch out of `for`, or make the tile smaller.",
    ),
    Code(
        "E311",
        "`requires` not discharged",
        "A tile states what must hold of a problem, by its kc. A rule launches it for a problem where it does not\n"
        "hold; the problem is in the message.",
        "requires: {128: [K % 128 == 0]}\n...\n- {id: rest, tile: 32x64-128}      # also for K = 192",
        "add the condition to the rule, or a later layer that repairs the choice.",
    ),
    Code(
        "E312",
        "tile never launched",
        "No rule launches the tile on any arch, for any problem that was tried. It would be compiled for nothing.",
        "- {id: 256x256-64, mt: 256, nt: 256, kc: 64, stages: 3, warps_m: 4, warps_n: 2}",
        'drop the tile, or say why it is kept: reserve: "for calibration".',
    ),
    Code(
        "E313",
        "fields of a tile contradict each other",
        "What the kernel's static assertions would reject: a tile that its warps do not divide, a ring of one stage,\n"
        "an early release of A without rings of its own, a collector for a B that nothing shares; or an id that\n"
        "states another shape than the fields.",
        "- {id: 32x64-64, mt: 32, nt: 64, kc: 64, stages: 3, warps_m: 4, warps_n: 2}",
        "correct the field; the message has the arithmetic.",
    ),
    Code(
        "E314",
        "element type that the engine does not take",
        "A rule launches a tile for a dtype for which its engine has no kernel, so the launch table has no entry.",
        "- {id: mma, engine: mma_m16n8k16}       # also for f32",
        "send the dtype to another engine by an earlier rule.",
    ),
    Code(
        "W401",
        "rule never fires",
        "The rule fired on none of the problems that were tried on its archs. They are seeded from the constants of\n"
        "all rules, each solved for M, N and K, and then again from the constants of the rules that had not fired.",
        "- {id: few, when: [M <= 4], m_cap: always}\n- {id: fewer, when: [M <= 2], m_cap: 8}",
        "drop the rule; `tilewright prove` can show that it never fires.",
    ),
    Code(
        "W402",
        "rule decides outside its evidence",
        "Every record that the rule cites states the region it measured. The rule fires beyond all of them, and there\n"
        "the list would decide otherwise without it.",
        "region: [M >= 48, M <= 256]\n...\n- {id: gb10, when: [full_wave], m_cap: 384, basis: measured}",
        "narrow the rule, or measure the rest.",
    ),
    Code(
        "W403",
        "assumed without an issue",
        "An assumption nobody tracks stays for ever.",
        "- {id: rest, m_cap: 8, basis: assumed}",
        "name the issue that will settle it: issue: 12.",
    ),
    Code(
        "W404",
        "evidence from a single shape",
        "A threshold drawn from one weight shape says little about others.",
        "cells: {measured: 8, won: 8, shapes: 1}",
        "measure a second shape, or call the rule assumed and name an issue.",
    ),
    Code(
        "W405",
        "statement that nothing needs any more",
        "A reason in `omits` for an arch that does not get to the section, or a `reserve` for a tile that rules\n"
        "launch. Stale reasons hide the ones that count.",
        "for: all\nomits: {sm121: no data}",
        "drop it.",
    ),
    Code(
        "W406",
        "fact, predicate or cost table never used",
        "A definition without a reader, often what is left of a rule that went away.",
        "facts:\n  waves: n_blocks // 48      # no rule, predicate or fact reads it",
        "drop it.",
    ),
    Code(
        "W407",
        "rule without a stated foundation",
        "A rule says what it rests on: `basis`, from itself or its section, and evidence when it is called measured\n"
        "or conservative.",
        "- {id: gb10, when: [full_wave], m_cap: 256, basis: measured}",
        "cite the evidence, or state another basis.",
    ),
)
