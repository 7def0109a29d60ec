"""E2xx: pieces are missing, given twice, or contradict each other."""

from __future__ import annotations

from .entry import Code

STRUCTURE = (
    Code(
        "E201",
        "no unconditional last rule",
        "The last rule that an arch meets in a layer has a condition, so there are problems that no rule decides.",
        "- section: sm121\n  for: [sm121]           # and no later section for sm121\n  rules:\n"
        "    - {id: gb10, when: [full_wave], m_cap: 256}",
        "end the list with a rule without `when`.",
    ),
    Code(
        "E202",
        "arch absent from a layer",
        "An arch profile exists, but no section of the layer covers it: on such a card nothing would be decided.",
        "# archs: sm80 sm90 unknown\nsections:\n  - section: all-i-know\n    for: [sm80, sm90]",
        "add the arch to the `for` of the sections it should follow, or give it one of its own.",
    ),
    Code(
        "E203",
        "rule after an unconditional one",
        "A rule without `when` ends the list of every arch that meets it. What follows on that arch never fires,\n"
        "although it reads as if it did.",
        "rules:\n  - {id: default, m_cap: 8}\n  - {id: tiny-m, when: [M <= 4], m_cap: always}",
        "move the later rule up, or take the arch out of the later section.",
    ),
    Code(
        "E204",
        "group sibling omitted without a reason",
        "A section names some archs of a group and leaves out another that still gets there. That is how a new card\n"
        "ends up on the wrong side of a rule unnoticed. Exempt: sections of one arch, archs whose list has already\n"
        "ended. Groups are a partition, so an arch alone in its group is reported too.",
        "- section: highbw-m4\n  for: [sm86, sm89, sm120]      # sm121 is in the same group",
        'add the arch to `for`, or say why not:  omits: {sm121: "LPDDR5X, not high bandwidth"}.',
    ),
    Code(
        "E205",
        "rule id used twice",
        "Rule ids name rules in explanations, diffs and evidence. They are unique in a family and never reused.",
        "- {id: tiny-m, when: [M <= 4], m_cap: always}\n- {id: tiny-m, when: [M <= 8], m_cap: always}",
        "give the newer rule an id of its own.",
    ),
    Code(
        "E206",
        "name defined twice",
        "Two archs, tiles, facts, sections, layers or records share a name, here or in the generated code, or a list "
        "names an arch twice. A name that is a word of the rule grammar or begins with `cost_` is taken, too.",
        "for: [sm80, sm80]",
        "rename or drop one.",
    ),
    Code(
        "E207",
        "a piece is missing",
        "A family declares a layer that no document describes, or a document describes one that no family declares,\n"
        "or there is no profile `unknown` for cards without one.",
        "layers:\n  - {name: engine, site: cpp, outcome: [simt, mma]}    # and no `layer: engine` document",
        "add the document, or correct the name.",
    ),
    Code(
        "E208",
        "an evidence record contradicts itself",
        "More cells won than measured, more shapes than cells, or a median below the minimum: a slip in copying.",
        "cells: {measured: 120, won: 121, shapes: 10}",
        "correct the counts from the data.",
    ),
    Code(
        "E209",
        "an arch profile contradicts itself",
        "Name, compute capability and gencode must agree; two profiles cannot share a compute capability; features\n"
        "and the figures that go with them come together.",
        "name: sm121\ncc: [12, 0]\ngencode: sm_121a",
        "correct the figure that is wrong.",
    ),
    Code(
        "E300",
        "expression outside the grammar",
        "conjunct   = comparison | predicate | not predicate\n"
        "comparison = sum (< | <= | == | != | >= | >) sum\n"
        "sum        = product { + product }\n"
        "product    = factor { * factor | // INT | % INT }        INT > 0\n"
        "factor     = INT | NAME | ceil_div(NAME, INT)\n\n"
        "All values are non-negative integers. There is no minus, no `or` (use `any:` in a predicate), no float.",
        "when: [M - 1 < 4]",
        "rewrite the expression; in a [...] list quote a conjunct that contains a comma.",
    ),
    Code(
        "E301",
        "unknown name",
        "An expression, list or key names something that does not exist, or uses it as what it is not.",
        "when: [n_block >= num_sms]",
        "use the name that is suggested.",
    ),
    Code(
        "E302",
        "name used before it is defined",
        "Facts and predicates are evaluated in file order and see earlier names only; a layer sees earlier layers.",
        "facts:\n  waves: n_blocks // 48\n  n_blocks: ceil_div(N, 64)",
        "move the definition up.",
    ),
    Code(
        "E303",
        "expression may overflow",
        "Interval arithmetic from the family's limits shows that a step can pass 63 bits.",
        "small: [M * N * K * K < 4_194_304]     # with limits of 1_048_576",
        "divide first, or lower the limits of the family.",
    ),
    Code(
        "E304",
        "expression not in canonical form",
        "Every expression has one spelling, so that a changed line is a changed meaning: single spaces, no needless\n"
        "zeros, underscores between thousands from 10_000 on.",
        "when: [M<=4, N * K < 4194304]",
        "write it as the hint says.",
    ),
    Code(
        "E305",
        "outcome read where there may be none",
        "A layer reads the outcome of an earlier layer that is skipped under some conditions, without asking for\n"
        "those conditions itself.",
        "- {name: tile_m, site: cpp, outcome: [32, 64], when: engine == mma}\n"
        "- {name: tile, site: cpp, outcome: tile}           # its rules read tile_m",
        "repeat the conditions of the earlier layer in the `when` of the later one.",
    ),
    Code(
        "E306",
        "keys out of order",
        "Keys stand in one order (a rule: id, when, outcome, basis, evidence, issue, why), so that two versions of a\n"
        "spec differ only where they mean different things.",
        "- {id: tiny-m, m_cap: always, when: [M <= 4]}",
        "reorder the keys as the message says.",
    ),
    Code(
        "E307",
        "list out of order",
        "Archs in `for` ascend by compute capability with `unknown` last; tiles ascend by (kc, mt, nt).",
        "for: [sm90, sm80]",
        "reorder the list as the hint says.",
    ),
)
