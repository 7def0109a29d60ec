"""The course of a campaign: screen every cell once, then re-run the contested ones in fresh processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import process
from .candidates import Choices
from .judge import campaign_noise, contested
from .records import Cell, Device, Header, Method, Pass, RecordError, Store


class MeasureError(RuntimeError):
    """The campaign cannot go on; the text says why."""


@dataclass(frozen=True)
class Item:
    """One cell to be measured: what runs today, and what might run instead."""

    cell: Cell
    incumbent: str
    challengers: tuple[str, ...]


@dataclass
class Campaign:
    """What is measured, where, and what happened to it. `say` gets a line of progress now and then."""

    family: str
    layer: str
    plan: Sequence[Choices]
    method: Method
    backend: dict[str, Any]
    store: Store
    arch: str
    through: bool = False
    runner: Callable[[dict[str, Any]], Iterator[dict[str, Any]]] = field(default_factory=lambda: patient)
    screen_only: bool = False
    """Whether one pass over every cell is all: a cost table is fitted to all of them together."""
    pooled: bool = False
    """Whether several cards of one kind share the work: then no single one is named."""
    say: Callable[[str], None] = lambda _: None
    failed: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Measure what the store lacks. MeasureError when the card, the build or the file do not fit."""
        if self.store.header is not None:
            self._meet(self.store.header.device)
        items = [Item(c.cell, c.incumbent, c.challengers) for c in self.plan]
        for mode in self.method.modes:
            self._batch(items, "screen", 0, mode)
        if self.screen_only:
            return
        again = self.contested()
        self.say(f"{len(again)} of {len(items)} cells are contested")
        for index in range(self.method.passes):
            order = again if index % 2 == 0 else again[::-1]
            for mode in self.method.modes:
                self._batch(order, "recheck", index, mode)

    def contested(self) -> list[Item]:
        """Cells in which the screening pass does not show every challenger to be slower."""
        screens = [p for p in self.store.passes if p.stage == "screen" and p.mode == "rotated"]
        noise = campaign_noise(screens, self.method)
        found = {p.cell.key(): contested(p, noise, self.method) for p in screens}
        cells = [(c, found.get(c.cell.key(), [])) for c in self.plan]
        return [Item(c.cell, c.incumbent, tuple(names)) for c, names in cells if names]

    def _batch(self, items: Sequence[Item], stage: str, index: int, mode: str) -> None:
        done = self.store.done()
        left = [i for i in items if (i.cell.key(), stage, index, mode) not in done]
        if not left:
            return
        job = {"backend": self.backend, "stage": stage, "index": index, "mode": mode}
        clock, finished = time.monotonic(), 0
        for answer in self.runner({**job, "method": self.method.model_dump(), "items": [_item(i) for i in left]}):
            if "device" in answer:
                self._meet(Device.model_validate(answer["device"]))
                continue
            self._take(answer)
            finished += 1
            if finished % 20 == 0 or finished == len(left):
                rest = (time.monotonic() - clock) / finished * (len(left) - finished)
                self.say(f"{stage} {mode} pass {index + 1}: {finished} of {len(left)} cells, {rest:.0f} s left")

    def _meet(self, device: Device) -> None:
        if self.pooled:
            device = device.model_copy(update={"uuid": None})
        if device.arch != self.arch:
            raise MeasureError(f"the campaign is for {self.arch}; the card is served by the rules of {device.arch}")
        if self.plan and device.num_sms != self.plan[0].cell.num_sms:
            raise MeasureError(
                f"the campaign is for {self.plan[0].cell.num_sms} SMs; this card has {device.num_sms}; "
                f"give --sms {device.num_sms}"
            )
        header = Header(
            family=self.family, layer=self.layer, device=device, method=self.method, through=self.through,
            source=_source(device),
        )  # fmt: skip
        try:
            self.store.start(header)
        except RecordError as error:
            raise MeasureError(str(error)) from None

    def _take(self, answer: dict[str, Any]) -> None:
        if "failure" in answer:
            raise MeasureError(str(answer["failure"]))
        if "error" in answer:
            self.failed[str(answer["cell"])] = str(answer["error"])
            return
        self.store.add(Pass.model_validate(answer["pass"]))


def ask_device(backend: dict[str, Any]) -> Device:
    """The card a backend would measure on. MeasureError when there is none."""
    job = {"backend": backend, "stage": "screen", "index": 0, "mode": "rotated", "method": Method().model_dump()}
    for answer in answers({**job, "items": []}):
        if "device" in answer:
            return Device.model_validate(answer["device"])
        raise MeasureError(str(answer.get("failure", "the measuring process says nothing of its card")))
    raise MeasureError("the measuring process says nothing of its card")


def _source(device: Device) -> str:
    return "synthetic times, no measurement" if device.synthetic else "measured here"


def _item(item: Item) -> dict[str, Any]:
    return {"cell": item.cell.model_dump(), "incumbent": item.incumbent, "challengers": list(item.challengers)}


def patient(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run a job to its end: when a process dies, the cell it died in is given up and another goes on behind it."""
    left = list(job["items"])
    while left:
        answered = 0
        for answer in answers({**job, "items": left}):
            yield answer
            answered += "device" not in answer
        if answered < len(left):
            key = Cell.model_validate(left[answered]["cell"]).key()
            yield {"error": "the process died in this cell", "cell": key}
            answered += 1
        left = left[answered:]


def answers(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run a job in a process of its own and yield its lines. MeasureError when it does not even start."""
    worker, count = process.take(job["backend"]["kind"]), 0
    for line in worker.lines(job):
        count += 1
        yield json.loads(line)
    if count == 0:
        raise MeasureError(f"the measuring process did not start: {worker.complaint()}")
