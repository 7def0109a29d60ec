"""E310 to E314, W401 and W402: what rules reach, decided on problems seeded from the rules themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..engines import engine_dtypes
from ..ir import Family, Layer, Rule, Tile
from ..reachability import ArchRun, Problem, surveys
from ..resources import contradictions, shortfalls
from .context import Context, listed
from .regions import outside_evidence, regions_by_rule


@dataclass
class _Found:
    """What the surveys of one family have shown so far."""

    fired: set[str] = field(default_factory=set)
    launched: set[str] = field(default_factory=set)
    illegal: dict[tuple[str, str, str], list[tuple[str, Problem]]] = field(default_factory=dict)
    undischarged: dict[tuple[str, str, str], tuple[str, Problem]] = field(default_factory=dict)
    no_engine: set[tuple[str, str]] = field(default_factory=set)
    wrong_dtype: dict[tuple[str, str], tuple[str, Problem]] = field(default_factory=dict)
    outside: dict[str, tuple[str, Problem]] = field(default_factory=dict)


def check(context: Context) -> None:
    for family in context.tree.families.values():
        check_e313(context, family)
        found = _survey(context, family)
        check_e310(context, family, found)
        check_e311(context, family, found)
        check_e312(context, family, found)
        check_e314(context, family, found)
        check_w401(context, family, found)
        check_w402(context, family, found)


def _survey(context: Context, family: Family) -> _Found:
    found = _Found()
    regions = regions_by_rule(context, family)
    for run in surveys(context.tree, family):
        for layer in family.layers:
            fired = run.fired(layer.name)
            found.fired.update(r.id for r in fired)
            _engines(context, layer, run, fired, found)
            for rule in fired:
                if rule.id in regions and rule.id not in found.outside:
                    at = outside_evidence(run, layer, rule, regions[rule.id])
                    if at is not None:
                        found.outside[rule.id] = (run.arch, run.problem(at))
        _tiles(context, family, run, found)
    return found


def _engines(context: Context, layer: Layer, run: ArchRun, fired: list[Rule], found: _Found) -> None:
    """A choice layer may pick an engine by name; the arch must have it."""
    if layer.kind != "choice":
        return
    profile = context.tree.archs[run.arch].profile
    engines = {t.engine for t in run.survey.family.tiles}
    for rule in fired:
        word = getattr(rule.outcome, "value", None)
        if word in engines and word not in profile.engines:
            index = run.layers[layer.name].effective.index(rule)
            at = run.place(run.layers[layer.name].rules == index)
            found.no_engine.add((run.arch, str(word)))
            text = f"the arch has no such engine (engines: {listed(profile.engines)})"
            found.illegal.setdefault((rule.id, str(word), text), []).append((run.arch, run.problem(at)))


def _tiles(context: Context, family: Family, run: ArchRun, found: _Found) -> None:
    profile = context.tree.archs[run.arch].profile
    counts = np.bincount((run.tiles + 1).ravel(), minlength=len(family.tiles) + 1)[1:]
    for index in np.flatnonzero(counts):
        tile = family.tiles[index]
        found.launched.add(tile.id)
        lacking = () if (run.arch, tile.engine) in found.no_engine else shortfalls(profile, tile)
        if not (
            lacking or tile.requires or len(engine_dtypes(family.name, tile.engine, family.dtypes)) < len(family.dtypes)
        ):
            continue
        mask = run.tiles == index
        for text in lacking:
            at = run.place(mask)
            key = (run.picked_by(at).id, tile.id, text)
            found.illegal.setdefault(key, []).append((run.arch, run.problem(at)))
        _requires(tile, run, mask, found)
        _dtypes(family, tile, run, mask, found)


def _requires(tile: Tile, run: ArchRun, mask: Any, found: _Found) -> None:
    from ..expr import format_node

    conds = next(iter(run.layers.values())).conds
    for cond in tile.requires:
        broken = mask & ~conds.holds(cond)
        if broken.any():
            at = run.place(broken)
            key = (run.picked_by(at).id, tile.id, format_node(cond))
            found.undischarged.setdefault(key, (run.arch, run.problem(at)))


def _dtypes(family: Family, tile: Tile, run: ArchRun, mask: Any, found: _Found) -> None:
    taken = engine_dtypes(family.name, tile.engine, family.dtypes)
    wrong = [i for i, d in enumerate(family.dtypes) if d not in taken]
    if wrong:
        bad = mask & np.isin(run.survey.values["dtype"], wrong)
        if bad.any():
            at = run.place(bad)
            found.wrong_dtype.setdefault((_engine_rule(tile, run, at).id, tile.engine), (run.arch, run.problem(at)))


def _engine_rule(tile: Tile, run: ArchRun, at: tuple[int, int]) -> Rule:
    """The rule that picked the tile's engine by name, or else the one that picked the tile."""
    for part in run.layers.values():
        if part.rules[at] >= 0:
            rule = part.effective[int(part.rules[at])]
            if part.layer.kind == "choice" and getattr(rule.outcome, "value", None) == tile.engine:
                return rule
    return run.picked_by(at)


def check_e310(context: Context, family: Family, found: _Found) -> None:
    """Tile illegal on an arch that can reach it."""
    for (rule_id, tile, text), places in found.illegal.items():
        archs = context.in_order(arch for arch, _ in places)
        context.sink.add(
            "E310",
            family.rule_by_id[rule_id].location,
            f"rule '{rule_id}' picks {tile} on {listed(archs)}: {text}.",
            f"for example {shown(places[0][1])}; send such problems elsewhere, or take the arch out of `for`",
        )


def check_e311(context: Context, family: Family, found: _Found) -> None:
    """`requires` not discharged."""
    for (rule_id, tile, cond), (arch, problem) in found.undischarged.items():
        context.sink.add(
            "E311",
            family.rule_by_id[rule_id].location,
            f"rule '{rule_id}' picks {tile} on {arch} although its tile requires `{cond}`, which is not so for "
            f"{shown(problem)}.",
            "add the condition to `when`, or a rule in a later layer that repairs the choice",
        )


def check_e312(context: Context, family: Family, found: _Found) -> None:
    """Tile never reachable, and no reserve."""
    for tile in family.tiles:
        if tile.id not in found.launched and tile.model.reserve is None:
            context.sink.add(
                "E312",
                tile.location,
                f"no rule launches tile '{tile.id}' on any arch.",
                'drop it, or say why it is kept: reserve: "..."',
            )
        if tile.id in found.launched and tile.model.reserve is not None:
            message = f"tile '{tile.id}' is kept in reserve, yet rules launch it."
            context.sink.add("W405", tile.location, message, "drop `reserve`")


def check_e313(context: Context, family: Family) -> None:
    """Fields of a tile that exclude each other."""
    for tile in family.tiles:
        for text in contradictions(tile):
            context.sink.add("E313", tile.location, f"tile '{tile.id}' contradicts itself: {text}.")


def check_e314(context: Context, family: Family, found: _Found) -> None:
    """Element type that the tile's engine does not take."""
    for (rule_id, engine), (arch, problem) in found.wrong_dtype.items():
        taken = listed(engine_dtypes(family.name, engine, family.dtypes))
        context.sink.add(
            "E314",
            family.rule_by_id[rule_id].location,
            f"rule '{rule_id}' sends {problem['dtype']} to {engine} on {arch}, whose kernels take {taken}.",
            f"for example {shown(problem)}",
        )


def check_w401(context: Context, family: Family, found: _Found) -> None:
    """Rule never fires on the seeded problems."""
    for layer in family.layers:
        for section in layer.sections:
            where = context.tree.archs if section.archs is None else section.archs
            for rule in section.rules:
                # A tile stands in a table because it is the cheapest in cells that were measured: few, perhaps.
                if rule.id not in found.fired and rule.cost is None:
                    context.sink.add(
                        "W401",
                        rule.location,
                        f"rule '{rule.id}' fires on no problem that was tried on {listed(where)}.",
                        "drop it, or find out with `tilewright prove` whether it can fire at all",
                    )


def check_w402(context: Context, family: Family, found: _Found) -> None:
    """Rule decides outside the region of its evidence."""
    for rule_id, (arch, problem) in found.outside.items():
        rule = family.rule_by_id[rule_id]
        context.sink.add(
            "W402",
            rule.location,
            f"rule '{rule_id}' makes a difference outside its evidence ({listed(rule.evidence)}), for example on "
            f"{arch} for {shown(problem)}.",
            "narrow the rule to the region that was measured, or measure further",
        )


def shown(problem: Problem) -> str:
    """`M=5 N=3072 ...`."""
    return " ".join(f"{k}={v}" for k, v in problem.items())
