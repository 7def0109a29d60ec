"""Tuned tables: what is taken, what is refused and why, and that a refusal changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright import _library, _machine, _tuned

HEAD = {
    "schema": "tuned/1", "family": "gemm_4bit", "arch": "sm90", "num_sms": 132, "driver_major": 580,
    "version": tilewright.__version__, "spec_digest": "d" * 64, "product": "NVIDIA H200", "source": "measured here",
}  # fmt: skip
ENTRY = {"M": [1, 4], "N": 4096, "K": 4096, "dtype": "bf16", "quant_type": "nf4", "blocksize": 64, "choice": "a"}


class FakeLibrary:
    """The C interface with two tiles; keeps what it is given, refuses tile `b` from M = 100 on."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, ...]] | None = None

    def tilewright_spec_digest(self) -> bytes:
        return b"d" * 64

    def tilewright_tile_count(self) -> int:
        return 2

    def tilewright_tile_name(self, number: int) -> bytes:
        return b"ab"[number : number + 1]

    def tilewright_set_tuned(self, arch: bytes, num_sms: int, array: Any, count: int) -> int:
        if count == 0:
            self.entries = None
            return -1
        if arch != b"sm90":
            return -2
        for index, entry in enumerate(array):
            if entry.choice == 1 and entry.m_max >= 100:
                return index
        fields = [name for name, _ in _tuned._Entry._fields_]
        self.entries = [tuple(getattr(e, f) for f in fields) for e in array]
        return -1


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> _library.Native:
    monkeypatch.setattr(_machine, "driver_version", lambda: "580.95.05")
    monkeypatch.setattr(_tuned._State, "loaded", None)
    return _library.Native(Path("_native.so"), FakeLibrary(), "")


def table(folder: Path, *entries: dict[str, Any], **head: Any) -> Path:
    path = folder / "tuned.json"
    path.write_text(json.dumps({**HEAD, **head, "entries": list(entries or (ENTRY,))}))
    return path


def test_entries_arrive_sorted_and_a_second_table_replaces_the_first(native: _library.Native, tmp_path: Path) -> None:
    later = {**ENTRY, "M": [5, 5], "choice": "fallback"}
    other = {**ENTRY, "N": 1024, "dtype": "f32", "quant_type": "e2m1", "blocksize": 16, "choice": "b"}
    prepacked = {**ENTRY, "layout": "prepacked", "M": [2, 3], "choice": "b"}
    found = _tuned.load(native, table(tmp_path, prepacked, later, ENTRY, other), ask_devices=False)
    assert found == _tuned.TunedTable(str(tmp_path / "tuned.json"), "sm90", 132, 580, 4)
    assert native.library.entries == [
        (1024, 4096, 1, 4, 2, 2, 0, 16, 1),
        (4096, 4096, 1, 4, 1, 0, 0, 64, 0),
        (4096, 4096, 5, 5, 1, 0, 0, 64, -2),
        (4096, 4096, 2, 3, 1, 0, 1, 64, 1),
    ]
    _tuned.load(native, table(tmp_path), ask_devices=False)
    assert native.library.entries == [(4096, 4096, 1, 4, 1, 0, 0, 64, 0)]
    assert _tuned.load(native, None, ask_devices=False) is None
    assert (native.library.entries, _tuned.loaded_table()) == (None, None)


REFUSED = {
    "another build": ({"spec_digest": "e" * 64}, {}, "is stale: measured with tilewright .* of specs eeee"),
    "another version": ({"version": "0.0.1"}, {}, "is stale: measured with tilewright 0.0.1"),
    "another driver": ({"driver_major": 570}, {}, "is foreign: measured with driver 570, this machine has 580.95.05"),
    "another arch": ({"arch": "sm121"}, {}, "this build has no machine code for sm121"),
    "another schema": ({"schema": "tuned/2"}, {}, "schema='tuned/2'; expected 'tuned/1'"),
    "another family": ({"family": "gemm_8bit"}, {}, "family='gemm_8bit'; expected 'gemm_4bit'"),
    "unknown key": ({"clock": 1}, {}, "table: unknown key 'clock'; expected schema, family, arch"),
    "a flag for a number": ({"num_sms": True}, {}, "table: num_sms is no integer"),
    "no SMs": ({"num_sms": 0}, {}, "table: num_sms is 0; allowed: 1 to"),
    "unknown tile": ({}, {"choice": "c"}, "choice 'c' is no tile of this build"),
    "a tile that cannot": ({}, {"choice": "b", "M": [1, 100]}, "b cannot run M=1 to 100, N=4096, K=4096, dtype=bf16"),
    "one M": ({}, {"M": [1]}, r"entries\[0\]: M holds 1 numbers"),
    "backwards": ({}, {"M": [4, 1]}, r"entries\[0\]: M goes from 4 down to 1"),
    "M of text": ({}, {"M": ["1", 4]}, r"entries\[0\]: M is '1'; allowed: 1 to"),
    "too large": ({}, {"N": 1 << 31}, r"entries\[0\]: N is 2147483648; allowed: 1 to"),
    "a float": ({}, {"K": 4096.0}, r"entries\[0\]: K is no integer"),
    "dtype": ({}, {"dtype": "fp16"}, "dtype='fp16'; allowed: f16, bf16, f32"),
    "quant_type": ({}, {"quant_type": "int4"}, "quant_type='int4'; allowed: nf4, fp4, e2m1"),
    "layout": ({}, {"layout": "plain"}, "layout='plain'; allowed: packed, prepacked"),
    "blocksize": ({}, {"blocksize": 16}, "blocksize=16; allowed: 32, 64"),
    "entry key": ({}, {"time": 1}, r"entries\[0\]: unknown key 'time'"),
}


@pytest.mark.parametrize(("head", "entry", "text"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_reason_and_nothing_changes(
    head: Any, entry: Any, text: str, native: _library.Native, tmp_path: Path
) -> None:
    before = _tuned.load(native, table(tmp_path), ask_devices=False)
    entries = native.library.entries
    with pytest.raises(tilewright.TunedTableError, match=text):
        _tuned.load(native, table(tmp_path, {**ENTRY, **entry}, **head), ask_devices=False)
    assert (native.library.entries, _tuned.loaded_table()) == (entries, before)


BYTES = {
    "no JSON": (b"{", "this is no JSON of a table"),
    "no object": (b"[]", "table: an object is expected"),
    "a key twice": (b'{"schema": "tuned/1", "schema": "tuned/1"}', "a key is given twice"),
    "NaN": (b'{"schema": NaN}', "NaN is no number of JSON"),
    "nested": (b"[" * 100_000, "this is no JSON of a table"),
    "no UTF-8": (b"\xff\xfe", "this is no JSON of a table"),
    "pickle": (b"\x80\x04N.", "this is no JSON of a table"),
    "missing key": (b'{"schema": "tuned/1"}', "table: key 'family' is missing"),
    "large": (b" " * (_tuned.MAX_BYTES + 1), "more than 8388608 bytes"),
}


@pytest.mark.parametrize(("data", "text"), BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_table(data: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "tuned.json").write_bytes(data)
    with pytest.raises(tilewright.TunedTableError, match=text):
        _tuned.read(tmp_path / "tuned.json")


def test_an_entry_without_a_layout_is_for_packed_weights(tmp_path: Path) -> None:
    _, named = _tuned.read(table(tmp_path, {**ENTRY, "layout": "packed"}))
    _, plain = _tuned.read(table(tmp_path, ENTRY))
    assert plain == named
    with pytest.raises(tilewright.TunedTableError, match="two entries hold M=1, N=4096, K=4096"):
        _tuned.read(table(tmp_path, ENTRY, {**ENTRY, "layout": "packed"}))
    assert len(_tuned.read(table(tmp_path, ENTRY, {**ENTRY, "layout": "prepacked"}))[1]) == 2


def test_overlap_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(tilewright.TunedTableError, match="two entries hold M=4, N=4096, K=4096"):
        _tuned.read(table(tmp_path, ENTRY, {**ENTRY, "M": [4, 9]}))
    with pytest.raises(tilewright.TunedTableError, match="No such file"):
        _tuned.read(tmp_path / "none.json")
    with pytest.raises(tilewright.TunedTableError, match="entries: 20001; at most 20000"):
        _tuned.read(table(tmp_path, *[{**ENTRY, "M": [m, m]} for m in range(1, 20_002)]))


class Card:
    """What torch says of a card."""

    def __init__(self, major: int, minor: int, sms: int) -> None:
        self.major, self.minor, self.multi_processor_count = major, minor, sms


@pytest.mark.parametrize(
    ("cards", "text"),
    [
        ([], "is foreign: measured on sm90 with 132 SMs, here is no card"),
        ([Card(9, 0, 78)], "here is sm90 with 78 SMs"),
        ([Card(12, 1, 48), Card(9, 0, 114)], "here is a card without kernels with 48 SMs, sm90 with 114 SMs"),
    ],
)
def test_a_table_of_another_card(
    cards: list[Card], text: str, native: _library.Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    native.library.tilewright_arch_for = lambda major, minor: b"sm90" if (major, minor) == (9, 0) else None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(cards))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: cards[index])
    with pytest.raises(tilewright.TunedTableError, match=text):
        _tuned.load(native, table(tmp_path))
    cards.append(Card(9, 0, 132))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert _tuned.load(native, table(tmp_path)) is not None


@pytest.mark.parametrize("answer", [True, RuntimeError("capture invalidated")])
def test_never_inside_a_capture(
    answer: Any, native: _library.Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def capturing() -> bool:
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    for name in ("is_available", "is_initialized"):
        monkeypatch.setattr(torch.cuda, name, lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", capturing)
    for path in (table(tmp_path), None):
        with pytest.raises(tilewright.TunedTableError, match="a CUDA graph is being captured"):
            _tuned.load(native, path)


def test_the_variable_warns_and_the_rules_decide(tmp_path: Path) -> None:
    """Here there is no native library, or the table is of another build: either way the import goes on."""
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as found:\n"
        "    warnings.simplefilter('always')\n"
        "    import torch, tilewright\n"
        "print([str(w.message) for w in found if 'TILEWRIGHT_TUNED' in str(w.message)])\n"
        "print(tilewright.build_info()['tuned'], torch.cuda.is_initialized())\n"
    )
    environment = {**os.environ, "TILEWRIGHT_TUNED": str(table(tmp_path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    first, second = done.stdout.splitlines()
    assert "tuned.json" in first and "; the rules decide" in first, done.stderr
    assert second == "None False"


def test_without_the_library_a_table_is_refused(tmp_path: Path) -> None:
    missing = _library.Native(None, None, "this install has no native library")
    with pytest.raises(tilewright.TunedTableError, match="no table can be used: this install has no native library"):
        _tuned.load(missing, table(tmp_path), ask_devices=False)


@pytest.mark.gpu
def test_on_a_card(tmp_path: Path) -> None:
    """Loaded, used inside and outside of captures, refused for another card, and taken away."""
    import torch

    from tilewright import _ops

    if not torch.cuda.is_available() or not _ops.NATIVE.loaded:
        pytest.skip("needs a CUDA device and the native library")
    facts, driver = torch.cuda.get_device_properties(0), _machine.driver_version()
    assert driver is not None
    head = {
        "arch": _ops.NATIVE.arch_for(facts.major, facts.minor), "num_sms": facts.multi_processor_count,
        "driver_major": int(driver.split(".")[0]), "spec_digest": tilewright.build_info()["spec_digest"],
    }  # fmt: skip
    packed, state = tilewright.quantize_4bit(torch.randn(256, 512, device="cuda"))
    x = torch.randn(5, 512, device="cuda", dtype=torch.bfloat16)
    ruled = tilewright.gemm_4bit(x, packed, state)
    entry = {**ENTRY, "M": [4, 5], "N": 256, "K": 512, "choice": "simt-4"}
    try:
        found = tilewright.load_tuned(table(tmp_path, entry, {**entry, "M": [6, 6], "choice": "fallback"}, **head))
        assert found is not None and tilewright.build_info()["tuned"] == found
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = tilewright.gemm_4bit(x, packed, state)
            with pytest.raises(tilewright.TunedTableError, match="being captured"):
                tilewright.load_tuned(None)
        captured = tilewright.last_decision()
        assert captured is not None and (captured.tile, captured.tuned) == ("simt-4", True)
        graph.replay()
        assert (out - ruled).float().norm() < 1e-2 * ruled.float().norm()
        tilewright.gemm_4bit(x[:3], packed, state)
        outside = tilewright.last_decision()
        assert outside is not None and not outside.tuned
        with pytest.raises(tilewright.TunedTableError, match="is foreign: measured on"):
            tilewright.load_tuned(table(tmp_path, entry, **{**head, "num_sms": 1}))
        assert tilewright.build_info()["tuned"] == found
    finally:
        tilewright.load_tuned(None)
    tilewright.gemm_4bit(x, packed, state)
    last = tilewright.last_decision()
    assert last is not None and not last.tuned
