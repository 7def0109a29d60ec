"""The proven choices of a campaign as a table that `tilewright.load_tuned` takes: no rule is needed for it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from .judge import Judged
from .records import Cell, Device

SCHEMA = "tuned/1"
DEFAULTS = {"quant_type": "nf4", "layout": "packed"}
"""Words of a weight that cells may leave out."""
FAMILY = "gemm_4bit"
"""The family whose binding looks into a table."""


class TableError(ValueError):
    """The records do not say what a table is keyed by; the text names what is missing."""


def tuned_table(family: str, device: Device, cells: Sequence[Judged], source: str) -> dict[str, Any]:
    """Every cell with a proven faster choice. TableError when the card, its driver or its build were not recorded.

    An entry reaches from one measured M to the next of the same weight only if both prove the same choice; it never
    reaches past what was measured.
    """
    driver = (device.driver or "").split(".")[0]
    if device.synthetic:
        raise TableError("the card of the records is synthetic")
    missing = [
        n for n, v in (("driver", driver.isdigit()), ("build", device.build), ("version", device.version)) if not v
    ]
    if missing:
        raise TableError(f"the records state no {', no '.join(missing)}, and a table is keyed by it")
    return {
        "schema": SCHEMA,
        "family": family,
        "arch": device.arch,
        "num_sms": device.num_sms,
        "driver_major": int(driver),
        "version": device.version,
        "spec_digest": device.build,
        "product": device.product,
        "source": source,
        "entries": list(_entries(cells)),
    }


def text(table: dict[str, Any]) -> str:
    """The table as it is written: one line an entry."""
    head = {k: v for k, v in table.items() if k != "entries"}
    lines = ",\n".join("  " + json.dumps(e) for e in table["entries"])
    return json.dumps(head, indent=1)[:-2] + f',\n "entries": [\n{lines}\n ]\n}}\n'


def _entries(cells: Sequence[Judged]) -> Iterable[dict[str, Any]]:
    weights: dict[tuple[Any, ...], list[Judged]] = defaultdict(list)
    for judged in cells:
        weights[_weight(judged.choices.cell)].append(judged)
    for (N, K, dtype, quant, layout, blocksize), measured in sorted(weights.items()):
        for first, last, choice in _runs(sorted(measured, key=lambda j: j.choices.cell.M)):
            yield {
                "M": [first, last], "N": N, "K": K, "dtype": dtype, "quant_type": quant, "layout": layout,
                "blocksize": blocksize, "choice": choice,
            }  # fmt: skip


def _weight(cell: Cell) -> tuple[Any, ...]:
    words = (cell.words.get(name, word) for name, word in DEFAULTS.items())
    return cell.N, cell.K, cell.dtype, *words, cell.blocksize


def _runs(measured: Sequence[Judged]) -> Iterable[tuple[int, int, str]]:
    """Stretches of neighbouring measured M with one proven winner."""
    run: list[Any] | None = None
    for judged in measured:
        name, gain = judged.best
        M = judged.choices.cell.M
        if run is not None and gain > 0 and run[2] == name:
            run[1] = M
            continue
        if run is not None:
            yield run[0], run[1], run[2]
        run = [M, M, name] if gain > 0 else None
    if run is not None:
        yield run[0], run[1], run[2]
