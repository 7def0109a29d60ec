"""What a campaign writes down: JSON lines, checked as they are read, appended as they come."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ..models.base import Count, Flag, Positive, SpecModel, Text, Word

Finite = Annotated[float, Field(gt=0, allow_inf_nan=False)]
FALLBACK_FORCE = "fallback"
"""Name by which the path without a fused kernel is forced."""


class RecordError(ValueError):
    """The file of records cannot be used; the text says where and why."""


class Cell(SpecModel):
    """One problem on one card."""

    arch: Word
    num_sms: Positive
    dtype: Word
    M: Positive
    N: Positive
    K: Positive
    blocksize: Positive = 64
    words: dict[Word, Word] = {}
    """Further enumerated inputs, such as quant_type."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.N, self.K

    def problem(self) -> dict[str, int | str]:
        """As `evaluate.decide` takes it."""
        sizes: dict[str, int | str] = {"M": self.M, "N": self.N, "K": self.K, "num_sms": self.num_sms}
        return {**sizes, "blocksize": self.blocksize, "dtype": self.dtype, **self.words}

    def key(self) -> str:
        """A text that names the cell and nothing else."""
        words = ",".join(f"{k}={v}" for k, v in sorted(self.words.items()))
        return f"{self.arch}/{self.num_sms}/{self.dtype}/{self.M}x{self.N}x{self.K}/{self.blocksize}/{words}"

    def __str__(self) -> str:
        return f"M={self.M} {self.N}x{self.K} {self.dtype}"


class Method(SpecModel):
    """How times are taken. Changing it makes another campaign."""

    warmup: Count = 8
    rounds: Positive = 25
    """Interleaved rounds of a pass."""
    passes: Positive = 7
    """Fresh processes that re-run a contested cell."""
    rotate_bytes: Positive = 200_000_000
    """Copies of the weight fill at least this much, several times the L2 cache."""
    replay_us: Positive = 250
    """Calls are captured in a graph until a replay takes about this long."""
    nrmse_limit: Finite = 0.02
    noise_floor: Finite = 0.005
    """Relative differences below this count as noise, however quiet the card was."""
    max_challengers: Positive = 3
    """Challengers of a cell that are re-run."""
    modes: tuple[Literal["rotated", "hot"], ...] = ("rotated",)
    seed: Count = 1


class Device(SpecModel):
    """The card and the software of a campaign."""

    arch: Word
    num_sms: Positive
    product: Text = "unknown"
    uuid: Text | None = None
    driver: Text | None = None
    cuda: Text | None = None
    torch: Text | None = None
    build: Text | None = None
    """Digest of the specs the kernels were built from."""
    version: Text | None = None
    """Version of tilewright that ran them."""
    synthetic: Flag = False


class State(SpecModel):
    """The card around a pass: observed, never set."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    utilisation: float | None = None
    other_processes: Count | None = None


class Times(SpecModel):
    """Microseconds of one candidate in one pass."""

    median: Finite
    min: Finite
    max: Finite


class Header(SpecModel):
    """First line of a campaign."""

    kind: Literal["campaign"] = "campaign"
    schema_: Literal["calibration/1"] = Field(default="calibration/1", alias="schema")
    family: Word
    layer: Word
    device: Device
    method: Method
    through: Flag = False
    """Whether earlier layers were made to yield what the layer's gate asks for."""
    source: Text = "measured here"
    """Where the numbers come from."""


class Pass(SpecModel):
    """One pass over one cell: every candidate against the incumbent, in one interleaved loop."""

    kind: Literal["pass"] = "pass"
    stage: Literal["screen", "recheck"]
    index: Count
    mode: Literal["rotated", "hot"] = "rotated"
    cell: Cell
    incumbent: Text
    """What runs today, as it is forced: a tile, or `fallback`."""
    ratios: dict[Text, Finite]
    """Incumbent's time over the candidate's, median of the rounds' ratios; above 1 the candidate is faster."""
    null: Finite | None = None
    """The same of the incumbent against itself: how far apart equals are."""
    times: dict[Text, Times] = {}
    rejected: dict[Text, Text] = {}
    """Candidates that were not timed, or whose times do not count, with the reason."""
    nrmse: dict[Text, float] = {}
    before: State = State()
    after: State = State()
    source: Text | None = None
    """Where this pass differs from the campaign's source."""

    def slot(self) -> tuple[str, str, int, str]:
        """What a resumed campaign need not measure again."""
        return self.cell.key(), self.stage, self.index, self.mode


class Store:
    """A campaign's file. Lines are appended whole and flushed; a torn last line is dropped when it is read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: Header | None = None
        self.passes: list[Pass] = []
        if path.is_file():
            self._read()

    def start(self, header: Header) -> None:
        """Begin, or go on with what is there. RecordError when the file is of another campaign."""
        if self.header is None:
            self._append(header)
            self.header = header
            return
        differing = [k for k, v in _flat(header).items() if _flat(self.header).get(k) != v]
        if differing:
            raise RecordError(
                f"{self.path} holds another campaign: {', '.join(differing)} differ; use another folder or remove it"
            )

    def add(self, record: Pass) -> None:
        self._append(record)
        self.passes.append(record)

    def done(self) -> set[tuple[str, str, int, str]]:
        return {p.slot() for p in self.passes}

    def _append(self, record: SpecModel) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(record.model_dump(by_alias=True, exclude_defaults=False), allow_nan=False) + "\n"
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) != len(data):
            with self.path.open("r+b") as stream:
                stream.truncate(len(whole))
        for number, line in enumerate(whole.decode("utf-8", errors="replace").splitlines(), 1):
            record = parse_line(line, f"{self.path}:{number}")
            if number == 1 and isinstance(record, Header):
                self.header = record
            elif number > 1 and isinstance(record, Pass):
                self.passes.append(record)
            else:
                raise RecordError(f"{self.path}:{number}: a campaign stands on the first line, passes on the others")


def parse_line(line: str, place: str) -> Header | Pass:
    """One line of a campaign. RecordError names the place and the field that does not fit."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{place}: this is not a line of JSON: {error}") from None
    if not isinstance(value, dict) or value.get("kind") not in ("campaign", "pass"):
        raise RecordError(f"{place}: an object whose kind is campaign or pass is expected")
    model: type[Header] | type[Pass] = Header if value["kind"] == "campaign" else Pass
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordError(f"{place}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _flat(header: Header) -> Mapping[str, Any]:
    return dict(_items(header.model_dump(by_alias=True), ""))


def _items(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _items(item, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value


def usable(value: float) -> bool:
    """Whether a time can be one."""
    return math.isfinite(value) and value > 0
