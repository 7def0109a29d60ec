"""What is done when z3 gives no answer: the goal over arrays of problems on the thresholds of the rules."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .expr import COMPARE, Compare, Cond, EnumWord, names
from .ir import CUSTOM, FALLBACK, Arch, Family
from .normal import ArchRules
from .prove_compare import DifferGoal, TransitionGoal
from .prove_goals import Goal, Region
from .prove_single import FiresGoal, ImpliesGoal, LaunchGoal, MonotoneGoal
from .smt_problems import Problem
from .smt_solve import Problemset
from .vector import ABSENT, Outcomes, decide_arrays, evaluate_arrays

Arrays = Mapping[str, Any]


def enumerate_goal(goal: Goal, arch: Arch, deadline: float) -> tuple[int, Problemset | None]:
    """Look for the condition on the thresholds of the rules. Returns how many problems were decided, and a hit."""
    from .seeds import seeded_grid

    count = 0
    for block in seeded_grid(list(goal.families), arch, dense=True):
        for part in _slices(block):
            if time.monotonic() > deadline:
                return count, None
            flags = np.asarray(mask(goal, part))
            count += flags.size
            for index in np.argwhere(flags)[:20]:
                hit = _problems_at(goal, part, flags.shape, tuple(index))
                if goal.check(hit):
                    return count, hit
    return count, None


def _slices(block: Arrays, size: int = 200_000) -> Iterator[dict[str, Any]]:
    """The block cut along its longest axis into parts that stay small."""
    shape = np.broadcast_shapes(*(np.shape(a) for a in block.values()))
    axis = int(np.argmax(shape)) if shape else 0
    steps = max(1, int(np.prod(shape, dtype=np.int64)) // size)
    width = max(1, (shape[axis] if shape else 1) // steps)
    for start in range(0, shape[axis] if shape else 1, width):
        yield {name: _cut(np.asarray(a), axis - len(shape), start, width) for name, a in block.items()}


def _cut(array: Any, axis: int, start: int, width: int) -> Any:
    if array.ndim < -axis or array.shape[axis] == 1:
        return array
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = slice(start, start + width)
    return array[tuple(index)]


def mask(goal: Goal, arrays: Arrays) -> Any:
    """The goal's condition over arrays of problems (enumerations by index)."""
    family = goal.head.family
    if isinstance(goal, MonotoneGoal):
        return _monotone_mask(goal, arrays)
    head = decide_arrays(family, goal.head.arch, _known(family, arrays))
    if isinstance(goal, TransitionGoal):
        assert goal.base is not None
        base = decide_arrays(goal.base.family, goal.base.arch, _known(goal.base.family, arrays))
        now = _values(goal.head, head, goal.layer)
        return (now == str(goal.target)) & (_values(goal.base, base, goal.layer) == str(goal.source))
    if isinstance(goal, DifferGoal):
        assert goal.base is not None
        base = decide_arrays(goal.base.family, goal.base.arch, _known(goal.base.family, arrays))
        moved = _values(goal.head, head, goal.layer) != _values(goal.base, base, goal.layer)
        return moved & _region(family, arrays, head, goal.region)
    if isinstance(goal, FiresGoal):
        ids = [r.id for r in goal.layer.effective(goal.arch)]
        if goal.rule not in ids:
            return np.zeros(1, bool)
        return (head[goal.layer.name].rules == ids.index(goal.rule)) & _region(family, arrays, head, goal.region)
    if isinstance(goal, ImpliesGoal):
        return _conds(family, arrays, head, goal.when) & ~_conds(family, arrays, head, goal.then)
    assert isinstance(goal, LaunchGoal)
    return _launch_mask(goal, arrays, head)


def _launch_mask(goal: LaunchGoal, arrays: Arrays, head: Outcomes) -> Any:
    from .vector import launched_tiles

    family = goal.head.family
    tiles = launched_tiles(family, head)
    words = np.asarray(arrays.get("dtype", 0))
    bad = np.zeros(tiles.shape, bool)
    for index, tile in enumerate(family.tiles):
        built = goal.dtypes.get(tile.id, family.dtypes)
        fault = tile.id in goal.faults or ~_conds(family, arrays, head, tile.requires)
        wrong = np.isin(words, [i for i, word in enumerate(family.dtypes) if word not in built])
        bad |= (tiles == index) & (fault | wrong)
    if goal.region is not None:
        bad |= (tiles == ABSENT) & _region(family, arrays, head, goal.region)
    return bad


def _monotone_mask(goal: MonotoneGoal, arrays: Arrays) -> Any:
    """Last axis: M in ascending order. True where custom comes back above a fallback."""
    lifted = {n: np.asarray(a)[..., None] for n, a in arrays.items() if n != "M"}
    lifted["M"] = np.unique(np.asarray(arrays["M"]))
    outcomes = decide_arrays(goal.head.family, goal.arch, _known(goal.head.family, lifted))
    values = _values(goal.head, outcomes, goal.layer)
    return np.maximum.accumulate(values == FALLBACK, axis=-1) & (values == CUSTOM)


def _known(family: Family, arrays: Arrays) -> dict[str, Any]:
    return {name: a for name, a in arrays.items() if name in family.input_by_name}


def _values(side: ArchRules, outcomes: Outcomes, layer: str) -> Any:
    """A layer's outcomes as text; `-` where there is none."""
    if layer not in outcomes:
        return np.array("-")
    table = np.array([*(str(v) for v in side.family.layer_by_name[layer].values), "-"])
    return table[outcomes[layer].codes]


def _region(family: Family, arrays: Arrays, outcomes: Outcomes, region: Region) -> Any:
    met = _conds(family, arrays, outcomes, region.conds)
    return met if region.inside else ~met


def _conds(family: Family, arrays: Arrays, outcomes: Outcomes, conds: Iterable[Cond]) -> Any:
    met: Any = np.array(True)
    for cond in conds:
        assert isinstance(cond, Compare)
        met = met & _comparison(family, arrays, outcomes, cond)
    return met


def _comparison(family: Family, arrays: Arrays, outcomes: Outcomes, cond: Compare) -> Any:
    env: dict[str, Any] = dict(arrays)
    present: Any = np.array(True)
    for name in names(cond):
        layer, _, field = name.partition(".")
        if layer in outcomes:
            values = family.layer_by_name[layer].values
            table = [_number(family, v, i, field) for i, v in enumerate(values)]
            env[name] = np.array([*table, 0], np.int64)[outcomes[layer].codes]
            present = present & (outcomes[layer].codes != ABSENT)
    right = np.array(cond.right.code) if isinstance(cond.right, EnumWord) else evaluate_arrays(cond.right, env)
    return present & COMPARE[cond.op](evaluate_arrays(cond.left, env), right)


def _number(family: Family, value: Any, index: int, field: str) -> int:
    if field:
        return int(family.tile_by_id[str(value)].fields[field])
    return value if isinstance(value, int) else index


def _problems_at(goal: Goal, arrays: Arrays, shape: tuple[int, ...], index: tuple[int, ...]) -> Problemset:
    if not isinstance(goal, MonotoneGoal):
        return (_problem(goal.head.family, arrays, shape, index),)
    rows = np.unique(np.asarray(arrays["M"]))
    lifted = {n: np.asarray(a)[..., None] for n, a in arrays.items()}
    high = _problem(goal.head.family, {**lifted, "M": rows}, shape, index)
    for below in range(index[-1]):
        low = {**high, "M": int(rows[below])}
        if goal.check((low, high)):
            return low, high
    return high, high


def _problem(family: Family, arrays: Arrays, shape: tuple[int, ...], index: tuple[int, ...]) -> Problem:
    found: Problem = {}
    for item in family.inputs:
        number = int(np.broadcast_to(np.asarray(arrays.get(item.name, 0)), shape)[index])
        found[item.name] = item.words[number] if item.is_enum else number
    return found
