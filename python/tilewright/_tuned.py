"""Tables of choices measured on one kind of card: read, checked, and handed to the native library.

A table is JSON, schema "tuned/1". It is keyed by arch, SM count, driver major version and the build that was measured;
a table of another build, driver or card is refused, with the reason. Nothing is measured here.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import _library, _machine, formats
from ._version import __version__
from .layout import LAYOUTS

VARIABLE = "TILEWRIGHT_TUNED"
SCHEMA = "tuned/1"
FAMILY = "gemm_4bit"
MAX_BYTES = 8 << 20
MAX_ENTRIES = 20_000
DTYPES = ("f16", "bf16", "f32")
_LARGEST = (1 << 31) - 1
_HEAD: Mapping[str, type] = {
    "schema": str, "family": str, "arch": str, "num_sms": int, "driver_major": int, "version": str,
    "spec_digest": str, "entries": list,
}  # fmt: skip
_NOTES = ("product", "source")
_ENTRY: Mapping[str, type] = {
    "M": list, "N": int, "K": int, "dtype": str, "quant_type": str, "blocksize": int, "choice": str,
}  # fmt: skip
_LAYOUT = "layout"
"""Key of an entry that may be left out: the weight is packed then, as everywhere."""


class TunedTableError(ValueError):
    """A tuned table cannot be used here; the text says why. The rules go on deciding."""


class _Entry(ctypes.Structure):
    """Mirror of `TunedEntry` in csrc_templates/src/binding_tuned.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n", "k", "m_min", "m_max")),
        *((name, ctypes.c_int32) for name in ("dtype", "quant_type", "layout", "blocksize", "choice")),
    )


@dataclass(frozen=True)
class TunedTable:
    """A table that is loaded: where from, for which card, and how many buckets it decides."""

    path: str
    arch: str
    num_sms: int
    driver_major: int
    entries: int


@dataclass(frozen=True)
class _Bucket:
    """One entry: values of M from `first` to `last`, of one weight and types."""

    N: int
    K: int
    dtype: int
    quant_type: int
    layout: int
    blocksize: int
    first: int
    last: int
    choice: str

    def key(self) -> tuple[int, ...]:
        return self.N, self.K, self.dtype, self.quant_type, self.layout, self.blocksize, self.first


class _State:
    loaded: TunedTable | None = None


def loaded_table() -> TunedTable | None:
    """The table in use, or None."""
    return _State.loaded


def load(
    native: _library.Native, path: str | os.PathLike[str] | None, *, ask_devices: bool = True
) -> TunedTable | None:
    """Put a table in front of the rules; None takes it away. TunedTableError when it does not fit: nothing changes.

    With `ask_devices` a card of the table's kind must be visible to torch, which initialises CUDA.
    """
    if ask_devices and _capturing():
        raise TunedTableError("a CUDA graph is being captured on this stream; load tables outside of captures")
    if path is None:
        _clear(native)
        return None
    head, buckets = read(path)
    if not native.loaded:
        raise TunedTableError(f"{path}: no table can be used: {native.reason}")
    _check_build(native, str(path), head)
    if ask_devices:
        _check_devices(native, str(path), head)
    _hand_over(native, str(path), head, buckets)
    _State.loaded = TunedTable(str(path), head["arch"], head["num_sms"], head["driver_major"], len(buckets))
    return _State.loaded


def apply_environment(native: _library.Native) -> None:
    """Loads the table named by TILEWRIGHT_TUNED. One that does not fit is a warning: the rules decide.

    No CUDA context is created: whether the card is of the table's kind is compared at every call.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        load(native, path, ask_devices=False)
    except TunedTableError as error:
        warnings.warn(f"{VARIABLE}: {error}; the rules decide", RuntimeWarning, stacklevel=2)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[_Bucket]]:
    """The head and the sorted buckets of a file. TunedTableError names what does not fit the schema, and where."""
    try:
        if Path(path).exists() and not Path(path).is_file():  # a pipe would be waited for
            raise TunedTableError(f"{path}: it is no file")
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise TunedTableError(f"{path}: {error.strerror or error}") from None
    except TunedTableError:
        raise
    except ValueError as error:  # a NUL, or what no file system encodes
        raise TunedTableError(f"{path!r}: {error}") from None
    if len(data) > MAX_BYTES:
        raise TunedTableError(f"{path}: more than {MAX_BYTES} bytes")
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise TunedTableError(f"{path}: this is no JSON of a table: {error}") from None
    try:
        return _check(value)
    except TunedTableError as error:
        raise TunedTableError(f"{path}: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _check(value: Any) -> tuple[dict[str, Any], list[_Bucket]]:
    head = _fields(value, _HEAD, _NOTES, "table")
    for name, wanted in (("schema", SCHEMA), ("family", FAMILY)):
        if head[name] != wanted:
            raise TunedTableError(f"{name}={head[name]!r}; expected {wanted!r}")
    for name in ("num_sms", "driver_major"):
        _size(f"table: {name}", head[name])
    entries = head["entries"]
    if len(entries) > MAX_ENTRIES:
        raise TunedTableError(f"entries: {len(entries)}; at most {MAX_ENTRIES} are allowed")
    buckets = sorted((_bucket(entry, f"entries[{i}]") for i, entry in enumerate(entries)), key=_Bucket.key)
    for one, other in itertools.pairwise(buckets):
        if one.key()[:-1] == other.key()[:-1] and other.first <= one.last:
            raise TunedTableError(f"two entries hold M={other.first}, N={other.N}, K={other.K}")
    return head, buckets


def _fields(value: Any, wanted: Mapping[str, type], notes: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TunedTableError(f"{where}: an object is expected")
    unknown = [k for k in value if k not in wanted and k not in notes]
    if unknown:
        raise TunedTableError(f"{where}: unknown key {unknown[0]!r}; expected {', '.join((*wanted, *notes))}")
    for name, kind in wanted.items():
        if name not in value:
            raise TunedTableError(f"{where}: key {name!r} is missing")
        if type(value[name]) is not kind:
            raise TunedTableError(f"{where}: {name} is no {_KINDS[kind]}")
    return value


_KINDS: Mapping[type, str] = {str: "text", int: "integer", list: "list"}


def _size(what: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _LARGEST:
        raise TunedTableError(f"{what} is {value!r}; allowed: 1 to {_LARGEST}")
    return value


def _bucket(value: Any, where: str) -> _Bucket:
    entry = _fields(value, _ENTRY, (_LAYOUT,), where)
    for name in ("N", "K"):
        _size(f"{where}: {name}", entry[name])
    if len(entry["M"]) != 2:
        raise TunedTableError(f"{where}: M holds {len(entry['M'])} numbers; the first and the last value are expected")
    first, last = (_size(f"{where}: M", m) for m in entry["M"])
    if first > last:
        raise TunedTableError(f"{where}: M goes from {first} down to {last}")
    if entry["dtype"] not in DTYPES:
        raise TunedTableError(f"{where}: dtype={entry['dtype']!r}; allowed: {', '.join(DTYPES)}")
    known = {fmt.name: fmt for fmt in formats.FORMATS}
    if entry["quant_type"] not in known:
        raise TunedTableError(f"{where}: quant_type={entry['quant_type']!r}; allowed: {', '.join(known)}")
    fmt = known[entry["quant_type"]]
    if entry["blocksize"] not in fmt.blocksizes:
        raise TunedTableError(
            f"{where}: blocksize={entry['blocksize']}; allowed: {', '.join(map(str, fmt.blocksizes))}"
        )
    order = entry.get(_LAYOUT, LAYOUTS[0])
    if order not in LAYOUTS:
        raise TunedTableError(f"{where}: layout={order!r}; allowed: {', '.join(LAYOUTS)}")
    return _Bucket(
        entry["N"], entry["K"], DTYPES.index(entry["dtype"]), fmt.code, LAYOUTS.index(order), entry["blocksize"],
        first, last, entry["choice"],
    )  # fmt: skip


def _check_build(native: _library.Native, path: str, head: Mapping[str, Any]) -> None:
    digest = native.library.tilewright_spec_digest().decode()
    if (head["version"], head["spec_digest"]) != (__version__, digest):
        raise TunedTableError(
            f"{path} is stale: measured with tilewright {head['version']} of specs {head['spec_digest'][:16]}, "
            f"this is {__version__} of {digest[:16]}; calibrate again"
        )
    driver = _machine.driver_version()
    major = None if driver is None else driver.split(".")[0]
    if major != str(head["driver_major"]):
        raise TunedTableError(
            f"{path} is foreign: measured with driver {head['driver_major']}, this machine has {driver or 'none'}"
        )


def _check_devices(native: _library.Native, path: str, head: Mapping[str, Any]) -> None:
    found = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(index)
        found.append((native.arch_for(facts.major, facts.minor), facts.multi_processor_count))
    if (head["arch"], head["num_sms"]) not in found:
        have = ", ".join(f"{arch or 'a card without kernels'} with {sms} SMs" for arch, sms in found) or "no card"
        raise TunedTableError(
            f"{path} is foreign: measured on {head['arch']} with {head['num_sms']} SMs, here is {have}"
        )


def _hand_over(native: _library.Native, path: str, head: Mapping[str, Any], buckets: list[_Bucket]) -> None:
    names = {name: number for number, name in enumerate(native.tile_names())} | {"fallback": _library.FORCE_FALLBACK}
    unknown = next((b.choice for b in buckets if b.choice not in names), None)
    if unknown is not None:
        raise TunedTableError(f"{path}: choice {unknown!r} is no tile of this build")
    array = (_Entry * len(buckets))(
        *(
            _Entry(b.N, b.K, b.first, b.last, b.dtype, b.quant_type, b.layout, b.blocksize, names[b.choice])
            for b in buckets
        )
    )
    if not buckets:
        _clear(native)
        return
    code = native.library.tilewright_set_tuned(
        head["arch"].encode(errors="replace"), head["num_sms"], array, len(buckets)
    )
    if code >= 0:
        bad = buckets[code]
        raise TunedTableError(
            f"{path}: {bad.choice} cannot run M={bad.first} to {bad.last}, N={bad.N}, K={bad.K}, "
            f"dtype={DTYPES[bad.dtype]}, blocksize={bad.blocksize}, {LAYOUTS[bad.layout]}, on {head['arch']}"
        )
    if code != -1:
        reason = "out of memory" if code == -3 else f"this build has no machine code for {head['arch']}"
        raise TunedTableError(f"{path}: {reason}")


def _clear(native: _library.Native) -> None:
    if native.loaded:
        native.library.tilewright_set_tuned(b"", 1, None, 0)
    _State.loaded = None


def _capturing() -> bool:
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return False
    try:
        return bool(torch.cuda.is_current_stream_capturing())
    except RuntimeError:
        return True  # an invalidated capture is one
