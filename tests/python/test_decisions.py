"""The record of decisions, and forcing one, over the C interface of a library made of Python."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright import _decisions, _library


class FakeLibrary:
    """Three tiles; remembers the force, and answers with the record it is given."""

    def __init__(self) -> None:
        self.forced = _library.FORCE_NOTHING
        self.record = (0,) * 12

    def tilewright_tile_count(self) -> int:
        return 3

    def tilewright_tile_name(self, number: int) -> bytes:
        return (b"simt-1", b"simt-2", b"64x64-64")[number]

    def tilewright_arch_name(self, number: int) -> bytes:
        return (b"sm80", b"sm90")[number]

    def tilewright_family_tile_count(self, family: int) -> int:
        return family

    def tilewright_family_tile_name(self, family: int, number: int) -> bytes:
        return f"f{family}-{number}".encode()

    def tilewright_force_family_tile(self, family: int, number: int) -> int:
        assert family == 0
        before, self.forced = self.forced, number
        return before

    def tilewright_last_decision(self, out: Any) -> None:
        record = out._obj
        for (name, _), value in zip(record._fields_, self.record, strict=True):
            setattr(record, name, value)


@pytest.fixture
def native() -> _library.Native:
    return _library.Native(Path("_native.so"), FakeLibrary(), "")


MISSING = _library.Native(None, None, "this install has no native library")


PLAIN = {"forced": False, "tuned": False, "family": "gemm_4bit", "layout": "packed"}
RECORDS = [
    (
        (7, 5, 40, 128, 1, 1, 1, 2, 0, 1, 0, 1),
        (7, 5, 40, 128, torch.bfloat16, "cuda:1", "sm90", "custom", "64x64-64"),
        PLAIN | {"layout": "prepacked"},
    ),
    (
        (1, 1, 2, 3, 0, 0, 0, -1, 1, 0, 0, 0),
        (1, 1, 2, 3, torch.float16, "cuda:0", "sm80", "fallback", None),
        PLAIN | {"forced": True},
    ),
    (
        (2, 9, 2, 3, 0, 0, 1, 1, 2, 2, 2, 0),
        (2, 9, 2, 3, torch.float32, "cuda:0", "sm80", "custom", "f2-1"),
        PLAIN | {"tuned": True, "family": "gemm_nvfp4", "layout": None},
    ),
]


@pytest.mark.parametrize(("record", "expected", "by"), RECORDS)
def test_records_are_read_field_by_field(record: Any, expected: Any, by: Any, native: _library.Native) -> None:
    native.library.record = record
    assert _decisions.last_decision(native) == _decisions.Decision(*expected, **by)


def test_before_the_first_call_there_is_none(native: _library.Native) -> None:
    assert _decisions.last_decision(native) is None


def test_plain_torch_counts_for_each_thread(native: _library.Native) -> None:
    found: list[Any] = []

    def work(calls: int) -> None:
        assert _decisions.last_decision(native, "cpu") is None
        for M in range(1, calls + 1):
            _decisions.record_plain_torch(torch.zeros(2, M, 8), 4, 8)
        found.append(_decisions.last_decision(native, "cpu"))

    threads = [threading.Thread(target=work, args=(calls,)) for calls in (3, 5)]
    for thread in threads:
        thread.start()
        thread.join()
    for calls, decision in zip((3, 5), found, strict=True):
        assert decision == _decisions.Decision(
            calls, 2 * calls, 4, 8, torch.float32, "cpu", None, "torch", None, False, False
        )
        assert decision == _decisions.Decision(calls, 2 * calls, 4, 8, torch.float32, "cpu", None, "torch", None, False)


def test_without_the_library_cuda_calls_are_plain_torch() -> None:
    _decisions.record_plain_torch(torch.zeros(3, 8), 4, 8)
    for device in ("cpu", "cuda"):
        found = _decisions.last_decision(MISSING, device)
        assert found is not None and (found.M, found.path) == (3, "torch")


def test_forces_nest_and_are_taken_back_also_after_an_error(native: _library.Native) -> None:
    with _decisions.force_tile(native, "simt-2"):
        assert native.library.forced == 1
        with _decisions.force_tile(native, "fallback"):
            assert native.library.forced == _library.FORCE_FALLBACK
            with _decisions.force_tile(native, None):
                assert native.library.forced == _library.FORCE_NOTHING
        assert native.library.forced == 1
        with contextlib.suppress(KeyError), _decisions.force_tile(native, "64x64-64"):
            assert native.library.forced == 2
            raise KeyError
        assert native.library.forced == 1
    assert native.library.forced == _library.FORCE_NOTHING


def test_wrong_names_say_what_is_near_or_allowed(native: _library.Native) -> None:
    with pytest.raises(ValueError, match=r"tile='simt-3' is not in this build; did you mean simt-[12], simt-[12]\?"):
        _decisions.force_number(native, "simt-3")
    with pytest.raises(ValueError, match="is not in this build; allowed: fallback, simt-1, simt-2, 64x64-64"):
        _decisions.force_number(native, "wgmma")
    with pytest.raises(ValueError, match="no tile can be forced: this install has no native library"):
        _decisions.force_number(MISSING, "simt-1")
    for known in (native, MISSING):
        with (
            pytest.raises(ValueError, match="family='gemm_8bit'; allowed: gemm_4bit, gemm_fp8, gemm_nvfp4"),
            _decisions.force_tile(known, "fallback", "gemm_8bit"),
        ):
            pass
    assert _decisions.force_number(MISSING, "fallback") == _library.FORCE_FALLBACK
    with _decisions.force_tile(MISSING, "fallback"):
        pass


def test_the_variable_forces_from_the_start(native: _library.Native, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, number in (("64x64-64", 2), ("fallback", _library.FORCE_FALLBACK)):
        monkeypatch.setenv(_decisions.FORCE_VARIABLE, value)
        _decisions.apply_environment(native)
        assert native.library.forced == number
    native.library.forced = _library.FORCE_NOTHING
    monkeypatch.setenv(_decisions.FORCE_VARIABLE, "")
    _decisions.apply_environment(native)
    assert native.library.forced == _library.FORCE_NOTHING
    monkeypatch.setenv(_decisions.FORCE_VARIABLE, "simt-9")
    with pytest.raises(ValueError, match="TILEWRIGHT_FORCE_TILE: tile='simt-9'"):
        _decisions.apply_environment(native)
    monkeypatch.setenv(_decisions.FORCE_VARIABLE, "fallback")
    _decisions.apply_environment(MISSING)
