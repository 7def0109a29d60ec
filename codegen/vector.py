"""The interpreter over numpy arrays: many problems of one arch at a time, agreeing with `evaluate.decide`.

Inputs may have any shapes that broadcast. A condition is computed in the shape of what it reads, so on a grid
whose axes are M, shapes and dtypes most conditions cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import LayerEnv
from .arrays import evaluate_arrays as evaluate_arrays
from .evaluate import ProblemError
from .expr import Cond, names
from .ir import CUSTOM, AnyCond, Cap, Choice, Family, Layer, Rule

Ints: TypeAlias = "npt.NDArray[np.int64]"
Codes: TypeAlias = "npt.NDArray[np.int16]"
Problems: TypeAlias = "Mapping[str, npt.ArrayLike]"

CHUNK = 1 << 15
"""Problems evaluated at once: intermediate arrays then stay in the cache."""
ABSENT = -1
"""Code and rule index where the layer's gate did not hold."""
NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class LayerArrays:
    """`codes` index `layer.values`, `rules` index `layer.effective(arch)`; both are -1 where there is no outcome."""

    codes: Codes
    rules: Codes


Outcomes: TypeAlias = "dict[str, LayerArrays]"


class Evaluator:
    """Decides arrays of problems for one arch; making one costs about as much as deciding a thousand problems."""

    def __init__(self, family: Family, arch: str) -> None:
        self.family = family
        self.arch = arch
        self.programs = [compile_layer(family, layer, arch) for layer in family.layers]

    def decide(self, problems: Problems) -> Outcomes:
        """Every layer's outcome, in the shape that the problems broadcast to.

        `problems` maps inputs to integers or integer arrays (words by their index in `input.words`). Enumerated
        inputs other than dtype may be left out. Raises ProblemError for a missing or out-of-range input,
        KeyError when a problem meets no rule (E201, E202).
        """
        env = encode_arrays(self.family, problems)
        shape = np.broadcast_shapes(*(a.shape for a in env.values()))
        total = int(np.prod(shape, dtype=np.int64))
        if not shape:
            single = _run(self.programs, {**env, "M": env["M"].reshape(1)}, (1,))
            return {n: LayerArrays(a.codes.reshape(()), a.rules.reshape(())) for n, a in single.items()}
        if total <= CHUNK:
            return _run(self.programs, env, shape)
        env = {name: a.reshape((1,) * (len(shape) - a.ndim) + a.shape) for name, a in env.items()}
        step = max(1, CHUNK * shape[0] // total)
        parts = []
        for start in range(0, shape[0], step):
            piece = {n: a if a.shape[0] == 1 else a[start : start + step] for n, a in env.items()}
            parts.append(_run(self.programs, piece, (min(step, shape[0] - start), *shape[1:])))
        return {
            name: LayerArrays(
                np.concatenate([p[name].codes for p in parts]), np.concatenate([p[name].rules for p in parts])
            )
            for name in parts[0]
        }


def decide_arrays(family: Family, arch: str, problems: Problems) -> Outcomes:
    """`Evaluator(family, arch).decide(problems)`, for a single batch."""
    return Evaluator(family, arch).decide(problems)


def launched_tiles(family: Family, outcomes: Outcomes) -> Codes:
    """Index in `family.tiles` of the tile that is launched (the last tile layer with an outcome), else -1."""
    order = {tile.id: index for index, tile in enumerate(family.tiles)}
    shape = next(iter(outcomes.values())).codes.shape
    result = np.full(shape, ABSENT, np.int16)
    for layer in family.layers:
        if layer.kind == "tile":
            table = np.array([*(order[str(v)] for v in layer.values), ABSENT], np.int16)
            codes = outcomes[layer.name].codes
            np.copyto(result, table[codes], where=codes != ABSENT)
    return result


def encode_arrays(family: Family, problems: Problems) -> dict[str, Ints]:
    """Inputs as int64 arrays, checked against the family's limits."""
    env: dict[str, Ints] = {}
    for item in family.inputs:
        if item.name not in problems:
            if not item.is_enum or item.name == "dtype":
                raise ProblemError(f"input '{item.name}' is missing")
            env[item.name] = np.zeros((), np.int64)
            continue
        array = np.asarray(problems[item.name], np.int64)
        low, high = (0, len(item.words) - 1) if item.is_enum else (1, item.limit)
        if array.size and (array.min() < low or array.max() > high):
            raise ProblemError(f"{item.name} has values outside {low} to {high}")
        env[item.name] = array
    return env


@dataclass(frozen=True)
class Program:
    """A layer made ready for one arch."""

    layer: Layer
    rules: tuple[Rule, ...]
    caps: Ints | None
    """m_cap layers: the greatest M of `custom` under each rule."""
    table: Codes
    """Other layers: the code each rule yields; for a rule that keeps an earlier tile, ABSENT."""
    kept: tuple[str, Codes] | None
    """Repaired layer, and this layer's code for each of its codes."""
    published: tuple[tuple[str, Ints], ...]
    """Names later layers read, with their value for each code; the last entry is for ABSENT."""
    slots: Mapping[int, int]
    """Number of each comparison by its object's id: equal comparisons share a number, and one evaluation."""


def compile_layer(family: Family, layer: Layer, arch: str) -> Program:
    """Rules of the layer for one arch, with their outcomes as lookup tables."""
    rules = layer.effective(arch)
    caps = np.array([_cap(r) for r in rules], np.int64) if layer.kind == "m_cap" else None
    codes = [layer.values.index(r.outcome.value) if isinstance(r.outcome, Choice) else ABSENT for r in rules]
    kept = None
    if layer.repairs:
        earlier = family.layer_by_name[layer.repairs].values
        kept = (layer.repairs, np.array([*(layer.values.index(v) for v in earlier), ABSENT], np.int16))
    return Program(layer, rules, caps, np.array(codes, np.int16), kept, _published(family, layer), _slots(layer))


def _slots(layer: Layer) -> dict[int, int]:
    numbers: dict[Cond, int] = {}
    return {id(cond): numbers.setdefault(cond, len(numbers)) for cond in _conds_of(layer)}


def _cap(rule: Rule) -> int:
    if isinstance(rule.outcome, Cap):
        return int(NO_LIMIT) if rule.outcome.limit is None else rule.outcome.limit
    assert isinstance(rule.outcome, Choice)
    return int(NO_LIMIT) if rule.outcome.value == CUSTOM else 0


def _published(family: Family, layer: Layer) -> tuple[tuple[str, Ints], ...]:
    later = family.layers[family.layers.index(layer) + 1 :]
    read = {n for other in later for n in _names_of(other) if n.split(".")[0] == layer.name}
    result = []
    for name in sorted(read):
        if name == layer.name:
            values = [v if isinstance(v, int) else i for i, v in enumerate(layer.values)]
        else:
            field = name.split(".", 1)[1]
            values = [int(family.tile_by_id[str(v)].fields[field]) for v in layer.values]
        result.append((name, np.array([*values, 0], np.int64)))
    return tuple(result)


def _conds_of(layer: Layer) -> list[Cond]:
    conds: list[Cond] = [*layer.gate, *(c for s in layer.sections for r in s.rules for c in r.conds)]
    for predicate in layer.predicates:
        for term in predicate.terms:
            conds.extend(term.conds if isinstance(term, AnyCond) else [term])
    return conds


def _names_of(layer: Layer) -> set[str]:
    return {n for c in _conds_of(layer) for n in names(c)} | {n for f in layer.facts for n in names(f.expr)}


def _run(programs: Sequence[Program], inputs: Mapping[str, Ints], shape: tuple[int, ...]) -> Outcomes:
    env: dict[str, Any] = dict(inputs)
    outcomes: Outcomes = {}
    for program in programs:
        result = _run_layer(program, env, shape, outcomes)
        outcomes[program.layer.name] = result
        for name, values in program.published:
            env[name] = values[result.codes]
    return outcomes


def _run_layer(program: Program, inputs: Mapping[str, Any], shape: tuple[int, ...], outcomes: Outcomes) -> LayerArrays:
    env = LayerEnv(program, inputs)
    gate = env.all_hold(program.layer.gate)
    if not gate.any():
        return LayerArrays(np.full(shape, ABSENT, np.int16), np.full(shape, ABSENT, np.int16))
    first = _first_rule(program, env, shape)
    none = np.iinfo(first.dtype).max
    if first.max(initial=0) == none and np.any((first == none) & gate):
        raise KeyError(f"layer '{program.layer.name}' has a problem that meets no rule (E201 or E202)")
    rules = first.astype(np.int16)
    if not gate.all():
        np.copyto(rules, ABSENT, where=~gate)
    return LayerArrays(_codes(program, rules, env, outcomes), rules)


def _first_rule(program: Program, env: LayerEnv, shape: tuple[int, ...]) -> Any:
    """Index of the first rule whose conjuncts hold, or the greatest value of the type where none does.

    The least index of all rules that hold, by byte arithmetic without branches: a byte per problem is 0 where
    a rule holds and 255 elsewhere, so that `| index` makes it the index or "none".
    """
    kind = np.uint8 if len(program.rules) < 255 else np.uint16
    first = np.full(shape, np.iinfo(kind).max, kind)
    for index, rule in enumerate(program.rules):
        mask = env.all_hold(rule.conds)
        if mask.ndim == 0:
            if mask:
                np.minimum(first, kind(index), out=first)
            continue
        missed = mask.view(np.uint8).astype(kind, copy=False) - kind(1)
        np.minimum(first, missed | kind(index), out=first)
    return first


def _codes(program: Program, rules: Codes, env: LayerEnv, outcomes: Outcomes) -> Codes:
    codes: Codes
    if program.caps is not None:
        codes = (env["M"] > program.caps[rules]).astype(np.int16)
    else:
        codes = program.table[rules]
        if program.kept is not None:
            layer, mapping = program.kept
            np.copyto(codes, mapping[outcomes[layer].codes], where=codes == ABSENT)
    np.copyto(codes, ABSENT, where=rules == ABSENT)
    return codes
