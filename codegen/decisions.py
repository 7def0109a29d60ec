"""Decisions as a reviewer reads them: bands of M for each shape, exact and run-length coded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from .grid import ArchGrid, Point, expand, grid_archs
from .ir import Arch, Family, SpecTree
from .models import GridFile
from .outcomes import Catalogue
from .vector import Evaluator

DENSE_M = 4096
"""Every M up to here is decided; beyond, `tail` samples each octave."""
TAIL_SAMPLES = 16


@dataclass(frozen=True)
class Band:
    """A run of M with one decision; `last` is None where the run has no end."""

    first: int
    last: int | None
    label: str

    def __str__(self) -> str:
        span = str(self.first) if self.first == self.last else f"{self.first}-{self.last or ''}"
        return f"{span} {self.label}"


@dataclass(frozen=True)
class Table:
    """Bands of one arch and SM count; the words are those of every enumeration that share the table."""

    arch: str
    num_sms: int
    words: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[Point, tuple[Band, ...]], ...]


def m_values(family: Family, grid: GridFile) -> tuple[int, ...]:
    """Every M up to DENSE_M or past the grid's greatest, then some of every octave up to the family's limit."""
    limit = family.input_by_name["M"].limit
    dense = min(limit, max(DENSE_M, max(grid.M) + 1))
    values = set(range(1, dense + 1)) | {limit}
    start = dense
    while start < limit:
        values.update(min(limit, start + 1 + start * i // TAIL_SAMPLES) for i in range(TAIL_SAMPLES))
        values.update(min(limit, start + d) for d in (1, 31, 32, 33, 63, 64, 65, 127, 128, 129))
        start *= 2
    return tuple(sorted(values))


def arch_tables(family: Family, arch: Arch, grid: GridFile) -> list[Table]:
    """The bands of an arch. Tables that are equal for several words (dtypes) are given once."""
    cells = replace(expand(family, arch, grid), M=m_values(family, grid))
    catalogue = Catalogue([layer.name for layer in family.layers])
    numbers = catalogue.encode(family, Evaluator(family, arch.name).decide(cells.problems(family)))
    labels = [named.label for named in catalogue.named]
    tables: list[Table] = []
    for index, count in enumerate(cells.num_sms):
        found: dict[tuple[tuple[Point, tuple[Band, ...]], ...], list[tuple[str, ...]]] = {}
        for words in product(*(range(len(w)) for _, w in cells.enums)):
            rows = []
            for p, point in enumerate(cells.points):
                at = (index, *words, p)
                rows.append((point, tuple(_bands(cells.M, numbers[at], labels))))
            names = tuple(w[i] for (_, w), i in zip(cells.enums, words, strict=True))
            found.setdefault(tuple(rows), []).append(names)
        tables += [Table(arch.name, count, tuple(words), rows) for rows, words in found.items()]
    return tables


def _bands(m: Sequence[int], numbers: np.ndarray[tuple[int, ...], np.dtype[np.int32]], labels: list[str]) -> list[Band]:
    starts: list[int] = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    bands: list[Band] = []
    for start in starts:
        label = labels[int(numbers[start])]
        if not bands or bands[-1].label != label:
            if bands:
                bands[-1] = replace(bands[-1], last=m[start] - 1)
            bands.append(Band(m[start], None, label))
    return bands


def render_tables(family: Family, tables: Sequence[Table]) -> str:
    """Plain text, one block a table; columns aligned so that a changed band stands out in a diff."""
    blocks = []
    for table in tables:
        words = ", ".join(_group_words(table.words))
        lines = [f"# {family.name}  {table.arch}  num_sms={table.num_sms}  {words}", f"{'N':>7} {'K':>6}"]
        depth = max(len(bands) for _, bands in table.rows)
        columns = [[str(bands[i]) if i < len(bands) else "" for _, bands in table.rows] for i in range(depth)]
        widths = [max(map(len, column)) for column in columns]
        for row, (point, _) in enumerate(table.rows):
            cells = "  ".join(column[row].ljust(width) for column, width in zip(columns, widths, strict=True))
            lines.append(f"{point.N:>7} {point.K:>6}  {cells}".rstrip())
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _group_words(words: Sequence[tuple[str, ...]]) -> list[str]:
    """Words without repetition: (nf4, f16), (nf4, bf16) become `nf4`, `f16|bf16` when all pairs are there."""
    axes = [list(dict.fromkeys(column)) for column in zip(*words, strict=True)]
    if len(list(product(*axes))) == len(words):
        return ["|".join(axis) for axis in axes]
    return ["|".join("+".join(w) for w in words)]


def golden_files(tree: SpecTree, family: Family, grid: GridFile) -> dict[str, str]:
    """`<family>/<arch>.txt` and its text, for every arch of the grid."""
    title = f"# @generated by `tilewright decisions` (grid {grid.name}). Bands of M; no right end means no limit.\n"
    return {
        f"{family.name}/{arch.name}.txt": title + render_tables(family, arch_tables(family, arch, grid))
        for arch in grid_archs(tree, grid)
    }


def stale_goldens(folder: Path, files: dict[str, str]) -> list[str]:
    """Names that differ from the folder's files, are missing there, or stand there without being wanted."""
    wrong = [n for n, text in files.items() if not _same(folder / n, text)]
    families = {n.split("/")[0] for n in files}
    present = {p.relative_to(folder).as_posix() for f in families for p in (folder / f).glob("*.txt")}
    return sorted({*wrong, *(present - set(files))})


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def write_goldens(folder: Path, files: dict[str, str]) -> list[str]:
    """Bring the folder up to date; returns the names that changed."""
    stale = stale_goldens(folder, files)
    for name in stale:
        path = folder / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name], encoding="utf-8")
        else:
            path.unlink()
    return stale


def digests(family: Family, cells: ArchGrid) -> dict[str, str]:
    """SHA-256 of each layer's outcomes on the whole grid; it depends on values and the grid, not on their codes."""
    outcomes = Evaluator(family, cells.arch).decide(cells.problems(family))
    result = {}
    for layer in family.layers:
        order = sorted(str(v) for v in layer.values)
        table = np.array([*(order.index(str(v)) for v in layer.values), -1], "<i2")
        text = f"{cells.shape} {cells.num_sms} {cells.M} {cells.points} {order}\n".encode()
        result[layer.name] = hashlib.sha256(text + table[outcomes[layer.name].codes].tobytes()).hexdigest()
    return result
