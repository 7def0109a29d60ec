"""What could run instead: the outcomes of a layer for one cell, each with the launch that it leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..evaluate import bind_outcome, encode_problem, facts_env, holds, outcome_value
from ..expr import Compare, EnumWord, Name
from ..ir import CUSTOM, Arch, Family, Layer, Rule, Value
from ..resources import is_legal
from .records import FALLBACK_FORCE, Cell


@dataclass(frozen=True)
class Choices:
    """A layer's outcomes for one cell.

    `launches` maps each outcome to the name it is forced by: a tile, or `fallback`. Outcomes that lead to the same
    launch are timed once.
    """

    cell: Cell
    outcome: Value
    """What the rules yield today."""
    rule: Rule
    launches: Mapping[Value, str]
    env: Mapping[str, int]
    """Inputs, earlier outcomes and the layer's facts."""

    @property
    def incumbent(self) -> str:
        return self.launches[self.outcome]

    @property
    def challengers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for n in self.launches.values() if n != self.incumbent))


def choices(family: Family, arch: Arch, layer: Layer, cell: Cell, *, through: bool = False) -> Choices | None:
    """None when the layer is not asked for this cell: an earlier layer has settled it.

    With `through` earlier layers yield what this layer's gate asks for, whatever their rules say: so a tile is
    calibrated also where the fallback or another engine is chosen today.
    """
    env = encode_problem(family, cell.problem())
    wanted = _wanted(family, layer) if through else {}
    for earlier in family.layers:
        if earlier.name == layer.name:
            break
        value = wanted.get(earlier.name) or _run(family, earlier, arch.name, env)
        bind_outcome(family, earlier, value, env)
    full = facts_env(layer, env)
    found = _decide(family, layer, arch.name, env)
    if found is None:
        return None
    outcome, rule = found
    launches = {v: n for v in _outcomes(family, arch, layer, outcome) if (n := _launch(family, arch, layer, v, env))}
    if outcome not in launches:
        return None
    return Choices(cell, outcome, rule, launches, full)


def _wanted(family: Family, layer: Layer) -> dict[str, Value]:
    """What the gate of a layer asks earlier layers for, where it names one value."""
    found: dict[str, Value] = {}
    for cond in layer.gate:
        if isinstance(cond, Compare) and cond.op == "==" and isinstance(cond.left, Name):
            earlier = family.layer_by_name.get(cond.left.name)
            if earlier is not None and isinstance(cond.right, EnumWord):
                found[earlier.name] = earlier.values[cond.right.code]
    return found


def _outcomes(family: Family, arch: Arch, layer: Layer, current: Value) -> list[Value]:
    if layer.kind != "tile":
        return list(layer.values)
    engine = family.tile_by_id[str(current)].engine
    return [t.id for t in family.tiles if t.engine == engine and is_legal(arch.profile, t)]


def _launch(family: Family, arch: Arch, layer: Layer, value: Value, env: Mapping[str, int]) -> str | None:
    """The launch when this layer yields `value` and the others decide as they do; None when they cannot."""
    if layer.kind == "tile":
        if all(holds(layer, c, env) for c in family.tile_by_id[str(value)].requires):
            return str(value)
        if value not in layer.values:
            return None
    if layer.kind == "m_cap" and value != CUSTOM:
        return FALLBACK_FORCE
    inner, tile = dict(env), None
    bind_outcome(family, layer, value, inner)
    after = family.layers[[other.name for other in family.layers].index(layer.name) + 1 :]
    for later in after:
        found = _run(family, later, arch.name, inner)
        bind_outcome(family, later, found, inner)
        tile = str(found) if later.kind == "tile" and found is not None else tile
    if tile is None or not is_legal(arch.profile, family.tile_by_id[tile]):
        return None
    return tile if all(holds(layer, c, inner) for c in family.tile_by_id[tile].requires) else None


def _decide(family: Family, layer: Layer, arch: str, env: Mapping[str, int]) -> tuple[Value, Rule] | None:
    if not all(holds(layer, c, env) for c in layer.gate):
        return None
    full = facts_env(layer, env)
    for rule in layer.effective(arch):
        if all(holds(layer, c, full) for c in rule.conds):
            return outcome_value(family, layer, rule, full), rule
    return None


def _run(family: Family, layer: Layer, arch: str, env: Mapping[str, int]) -> Value | None:
    found = _decide(family, layer, arch, env)
    return None if found is None else found[0]
