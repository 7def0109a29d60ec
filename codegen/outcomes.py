"""Whole decisions as single numbers: the outcomes of all layers of a problem, named so that two trees compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .ir import CUSTOM, FALLBACK, Family, Layer, Value
from .vector import ABSENT, Codes, Ints, Outcomes

Values: TypeAlias = "tuple[Value | None, ...]"
"""One value a layer, None where the layer has no outcome."""


@dataclass(frozen=True)
class Named:
    """What a problem gets: each layer's value, and the launched tile if any."""

    values: Mapping[str, Value | None]
    tile: str | None

    @property
    def label(self) -> str:
        """The shortest name: the tile, else `fallback`, else the last word chosen (an engine without tiles)."""
        if self.tile is not None:
            return self.tile
        words = [v for v in self.values.values() if isinstance(v, str)]
        return FALLBACK if FALLBACK in words else next((w for w in reversed(words) if w != CUSTOM), CUSTOM)


class Catalogue:
    """Numbers for whole decisions, shared between arrays, archs and trees."""

    def __init__(self, layers: Sequence[str]) -> None:
        self.layers = tuple(layers)
        self.named: list[Named] = []
        self._ids: dict[tuple[Values, str | None], int] = {}

    def encode(self, family: Family, outcomes: Outcomes) -> npt.NDArray[np.int32]:
        """The number of each problem's decision, in the shape of the outcomes."""
        keys, tables = mixed_radix(family.layers, outcomes)
        present = np.flatnonzero(np.bincount(keys.reshape(-1), minlength=1))
        numbers = np.zeros(int(present[-1]) + 1 if present.size else 1, np.int32)
        for key in present:
            numbers[key] = self._number(family, _unpack(int(key), tables))
        result: npt.NDArray[np.int32] = numbers[keys]
        return result

    def _number(self, family: Family, values: Values) -> int:
        by_layer = {layer.name: value for layer, value in zip(family.layers, values, strict=True)}
        tiles = [by_layer[layer.name] for layer in family.layers if layer.kind == "tile"]
        tile = next((str(t) for t in reversed(tiles) if t is not None), None)
        wanted = {name: by_layer.get(name) for name in self.layers}
        key = (tuple(wanted.values()), tile)
        if key not in self._ids:
            self._ids[key] = len(self.named)
            self.named.append(Named(wanted, tile))
        return self._ids[key]


def mixed_radix(layers: Sequence[Layer], outcomes: Outcomes) -> tuple[Ints, list[Sequence[Value]]]:
    """All layers' codes of a problem as one number, and what is needed to take it apart again."""
    keys: Any = np.zeros((), np.int64)
    for layer in layers:
        keys = keys * (len(layer.values) + 1) + (outcomes[layer.name].codes + 1)
    return keys, [layer.values for layer in layers]


def _unpack(key: int, tables: Sequence[Sequence[Value]]) -> Values:
    values: list[Value | None] = []
    for table in reversed(tables):
        key, code = divmod(key, len(table) + 1)
        values.append(None if code == 0 else table[code - 1])
    return tuple(reversed(values))


def rule_numbers(layer: Layer, arch: str, rules: Codes, known: dict[str, int]) -> Ints:
    """Rule indices as numbers that stand for rule ids, shared through `known`; -1 where there is no outcome."""
    table = [known.setdefault(rule.id, len(known)) for rule in layer.effective(arch)]
    result: Ints = np.array([*table, ABSENT], np.int64)[rules]
    return result
