"""Records: checked, appended whole, read again after a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright_codegen.calibrate.records import Header, Method, Pass, RecordError, Store, parse_line

from .conftest import cell, header


def record(M: int, index: int = 0) -> Pass:
    return Pass(stage="screen", index=index, cell=cell(M, 64, 64), incumbent="a", ratios={"b": 1.25})


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "r.jsonl")
    store.start(header("tile"))
    store.add(record(1))
    store.add(record(2))
    again = Store(store.path)
    assert again.header == store.header
    assert again.passes == [record(1), record(2)]
    assert again.done() == {record(1).slot(), record(2).slot()}


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_last_line_is_dropped_and_the_file_goes_on(tmp_path: Path, cut: int) -> None:
    store = Store(tmp_path / "r.jsonl")
    store.start(header("tile"))
    store.add(record(1))
    store.add(record(2))
    data = store.path.read_bytes()
    store.path.write_bytes(data[:-cut])
    again = Store(store.path)
    assert again.passes == [record(1)]
    again.add(record(3))
    assert Store(store.path).passes == [record(1), record(3)]


def test_another_campaign_is_refused_with_what_differs(tmp_path: Path) -> None:
    store = Store(tmp_path / "r.jsonl")
    store.start(header("tile"))
    Store(store.path).start(header("tile"))
    with pytest.raises(RecordError, match=r"another campaign: method\.rounds differ"):
        Store(store.path).start(header("tile", method=Method(rounds=9)))
    with pytest.raises(RecordError, match="layer differ"):
        Store(store.path).start(header("engine"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratios": {"b": 0.0}}, r"ratios\.b"),
        ({"ratios": {"b": float("nan")}}, "JSON|ratios"),
        ({"kind": "other"}, "kind is campaign or pass"),
        ({"surprise": 1}, "surprise"),
        ({"index": -1}, "index"),
        ({"cell": {}}, "cell"),
        ({"stage": "maybe"}, "stage"),
    ],
)
def test_a_line_that_does_not_fit_names_its_place(change: dict[str, object], message: str) -> None:
    value = {**record(1).model_dump(), **change}
    with pytest.raises(RecordError, match=message) as caught:
        parse_line(json.dumps(value), "r.jsonl:7")
    assert str(caught.value).startswith("r.jsonl:7: ")


@pytest.mark.parametrize("line", ["", "{", "[]", "3", '{"kind": {}}', "[" * 100_000])
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(RecordError):
        parse_line(line, "r.jsonl:1")


def test_passes_without_a_campaign_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(record(1).model_dump_json() + "\n")
    with pytest.raises(RecordError, match="first line"):
        Store(path)


def test_schema_is_part_of_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "r.jsonl")
    store.start(header("tile"))
    first = json.loads(store.path.read_text().splitlines()[0])
    assert first["schema"] == "calibration/1"
    with pytest.raises(RecordError, match="schema"):
        parse_line(json.dumps({**first, "schema": "calibration/2"}), "r.jsonl:1")
    assert isinstance(parse_line(json.dumps(first), "r.jsonl:1"), Header)
