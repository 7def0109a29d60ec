"""One linear layer in bitsandbytes' 4-bit checkpoint format, to and from Linear4bit.

Keys, below the layer's prefix: `weight` (packed codes in any storage dtype), `weight.absmax`, `weight.quant_map`,
`weight.quant_state.bitsandbytes__nf4` or `__fp4` (UTF-8 JSON as a uint8 tensor), `bias`, and for nested scales
`weight.nested_absmax` and `weight.nested_quant_map`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from . import formats, layout
from ._errors import CheckpointError, unknown_keys
from .linear import Linear4bit
from .state import QuantState

_MARK = "weight.quant_state.bitsandbytes__"
_TENSORS = ("weight", "bias", "weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map")
_FIELDS = {"quant_type", "blocksize", "dtype", "shape"}
_NESTED_FIELDS = {"nested_blocksize", "nested_dtype", "nested_offset"}
_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_STORAGES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
# bitsandbytes has written its fp4 table with four decimals; any other table is another format.
_TABLE_TOLERANCE = 1e-4
_RECORD = "_bitsandbytes_record"


@dataclass(frozen=True)
class Record:
    """What a bitsandbytes checkpoint holds beside a Linear4bit: needed only to write the same bytes again."""

    dtype: str
    storage: torch.dtype
    quant_map: torch.Tensor
    fields: dict[str, Any]
    blob: torch.Tensor


def prefixes(keys: Mapping[str, torch.Tensor]) -> list[str]:
    """The prefixes ("" or "model.layers.0.mlp.up_proj.") of the bitsandbytes layers among the keys of a checkpoint."""
    return sorted({key.partition(_MARK)[0] for key in keys if _MARK in key})


def read(tensors: Mapping[str, torch.Tensor], prefix: str) -> Linear4bit:
    """The layer below `prefix`. CheckpointError names the key that is missing, unknown or does not fit."""
    own = {key[len(prefix) :]: tensor for key, tensor in tensors.items() if key.startswith(prefix)}
    mark = _mark(own, prefix)
    unknown = sorted(own.keys() - {*_TENSORS, mark})
    if unknown:
        raise unknown_keys("a bitsandbytes 4-bit layer", [prefix + key for key in unknown], (*_TENSORS, mark))
    fields = _read_fields(own[mark], prefix + mark)
    if fields["quant_type"] != mark.removeprefix(_MARK):
        raise CheckpointError(f"{prefix}{mark}: the text says quant_type={fields['quant_type']!r}; expected the key's")
    packed = _packed(own, prefix, fields)
    state = _state(own, prefix, fields, packed.device)
    layer = Linear4bit(packed, state, own.get("bias"))
    quant_map = _quant_map(own, prefix, fields["quant_type"])
    # What `write` would put there now; compared then, so that a later load_state_dict is not answered with old text.
    record = Record(fields["dtype"], own["weight"].dtype, quant_map, _fields(layer, fields["dtype"]), own[mark])
    object.__setattr__(layer, _RECORD, record)
    return layer


def write(layer: Linear4bit, prefix: str = "", dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """The layer as bitsandbytes writes it. A layer that `read` made gives the bytes that it was made from.

    dtype: of the weight before it was quantised, which the format records; otherwise the recorded one, else the
    bias's, else bfloat16. ValueError for e2m1, which the format does not have.
    """
    if layer.quant_type == "e2m1":
        raise ValueError("quant_type='e2m1'; bitsandbytes has nf4 and fp4 only, save this layer as NVFP4")
    record: Record | None = getattr(layer, _RECORD, None)
    storage = torch.uint8 if record is None else record.storage
    fields = _fields(layer, _dtype_name(layer, record, dtype))
    values = formats.get_format(layer.quant_type).values
    out = {"weight": layout.unpack(layer.weight).reshape(-1).view(storage).reshape(-1, 1)}
    if layer.bias is not None:
        out["bias"] = layer.bias.detach()
    out["weight.absmax"] = layer.absmax
    out["weight.quant_map"] = torch.tensor(values) if record is None else record.quant_map
    if layer.nested_absmax is not None and layer.nested_code is not None:
        out["weight.nested_absmax"] = layer.nested_absmax
        out["weight.nested_quant_map"] = layer.nested_code
    unchanged = record is not None and record.fields == fields
    out[_MARK + layer.quant_type] = record.blob if record is not None and unchanged else _encode(fields)
    return {prefix + key: tensor for key, tensor in out.items()}


def _mark(own: Mapping[str, torch.Tensor], prefix: str) -> str:
    found = [key for key in own if key.startswith(_MARK)]
    allowed = [_MARK + name for name in ("nf4", "fp4")]
    if len(found) != 1 or found[0] not in allowed:
        names = ", ".join(prefix + key for key in found) or "none"
        raise CheckpointError(f"{prefix}{_MARK}*: found {names}; expected exactly one of {', '.join(allowed)}")
    return found[0]


def _read_fields(blob: torch.Tensor, key: str) -> dict[str, Any]:
    if blob.dtype != torch.uint8 or blob.dim() != 1:
        raise CheckpointError(f"{key}: {_describe(blob)}; expected a row of uint8 holding JSON")
    try:
        fields = json.loads(bytes(blob.tolist()))
    except ValueError as error:
        raise CheckpointError(f"{key}: not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise CheckpointError(f"{key}: the JSON is {type(fields).__name__}; expected an object")
    expected = _FIELDS | (_NESTED_FIELDS if "nested_offset" in fields else set())
    wrong = sorted(fields.keys() ^ expected)
    if wrong:
        raise CheckpointError(
            f"{key}: the fields {', '.join(wrong)} are missing or unknown; expected {sorted(expected)}"
        )
    _check_fields(fields, key)
    return fields


def _check_fields(fields: dict[str, Any], key: str) -> None:
    def check(name: str, fits: bool, allowed: str) -> None:
        if not fits:
            raise CheckpointError(f"{key}: {name}={fields[name]!r}; allowed: {allowed}")

    check("quant_type", fields["quant_type"] in ("nf4", "fp4"), "nf4, fp4")
    sizes = formats.BY_NAME[fields["quant_type"]].blocksizes
    check("blocksize", type(fields["blocksize"]) is int and fields["blocksize"] in sizes, ", ".join(map(str, sizes)))
    check("dtype", isinstance(fields["dtype"], str) and fields["dtype"] in _DTYPES, ", ".join(_DTYPES))
    shape = fields["shape"]
    pair = isinstance(shape, list) and len(shape) == 2 and all(type(size) is int and size > 0 for size in shape)
    check("shape", pair, "[N, K], both positive")
    if "nested_offset" in fields:
        check("nested_blocksize", fields["nested_blocksize"] == formats.NESTED_BLOCKSIZE, str(formats.NESTED_BLOCKSIZE))
        check("nested_dtype", fields["nested_dtype"] == "float32", "float32")
        check("nested_offset", isinstance(fields["nested_offset"], int | float), "a number")


def _packed(own: Mapping[str, torch.Tensor], prefix: str, fields: dict[str, Any]) -> torch.Tensor:
    weight = _tensor(own, prefix, "weight", _STORAGES)
    packed = weight.contiguous().reshape(-1).view(torch.uint8)
    N, K = fields["shape"]
    if packed.numel() != (N * K + 1) // 2:
        raise CheckpointError(f"{prefix}weight: {packed.numel()} bytes; expected {(N * K + 1) // 2} for [{N}, {K}]")
    if "bias" in own and tuple(own["bias"].shape) != (N,):
        raise CheckpointError(f"{prefix}bias: {_describe(own['bias'])}; expected [{N}]")
    return packed


def _state(own: Mapping[str, torch.Tensor], prefix: str, fields: dict[str, Any], device: torch.device) -> QuantState:
    N, K = fields["shape"]
    blocks = -(-N * K // fields["blocksize"])
    state = QuantState((N, K), fields["quant_type"], fields["blocksize"], torch.empty(0))
    if "nested_offset" not in fields:
        for key in ("weight.nested_absmax", "weight.nested_quant_map"):
            if key in own:
                raise CheckpointError(f"{prefix}{key}: the layer's text has no nested_offset; expected no such key")
        absmax = _tensor(own, prefix, "weight.absmax", (torch.float32,), blocks)
        return QuantState(state.shape, state.quant_type, state.blocksize, absmax)
    groups = -(-blocks // formats.NESTED_BLOCKSIZE)
    return QuantState(
        state.shape,
        state.quant_type,
        state.blocksize,
        _tensor(own, prefix, "weight.absmax", (torch.uint8,), blocks),
        _tensor(own, prefix, "weight.nested_absmax", (torch.float32,), groups),
        _tensor(own, prefix, "weight.nested_quant_map", (torch.float32,), 256),
        torch.tensor(float(fields["nested_offset"]), dtype=torch.float32, device=device),
    )


def _quant_map(own: Mapping[str, torch.Tensor], prefix: str, quant_type: str) -> torch.Tensor:
    quant_map = _tensor(own, prefix, "weight.quant_map", (torch.float32,), 16)
    values = torch.tensor(formats.get_format(quant_type).values, device=quant_map.device)
    if not torch.allclose(quant_map, values, rtol=0, atol=_TABLE_TOLERANCE):
        raise CheckpointError(f"{prefix}weight.quant_map: not the {quant_type} table; the kernels have no other")
    return quant_map


def _tensor(
    own: Mapping[str, torch.Tensor], prefix: str, key: str, dtypes: tuple[torch.dtype, ...], numel: int | None = None
) -> torch.Tensor:
    if key not in own:
        raise CheckpointError(f"{prefix}{key}: missing; a bitsandbytes 4-bit layer needs it")
    tensor = own[key]
    if tensor.dtype not in dtypes or (numel is not None and tensor.numel() != numel):
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        size = "" if numel is None else f", {numel} elements"
        raise CheckpointError(f"{prefix}{key}: {_describe(tensor)}; expected {names}{size}")
    return tensor


def _dtype_name(layer: Linear4bit, record: Record | None, dtype: torch.dtype | None) -> str:
    if dtype is None and record is not None:
        return record.dtype
    if dtype is None:
        dtype = torch.bfloat16 if layer.bias is None else layer.bias.dtype
    formats.dtype_code(dtype)
    return str(dtype).removeprefix("torch.")


def _fields(layer: Linear4bit, dtype: str) -> dict[str, Any]:
    # The order of bitsandbytes, so that the text is the same too.
    fields: dict[str, Any] = {
        "quant_type": layer.quant_type,
        "blocksize": layer.blocksize,
        "dtype": dtype,
        "shape": [layer.out_features, layer.in_features],
    }
    if layer.offset is not None:
        fields["nested_blocksize"] = formats.NESTED_BLOCKSIZE
        fields["nested_dtype"] = "float32"
        fields["nested_offset"] = layer.offset.item()
    return fields


def _encode(fields: dict[str, Any]) -> torch.Tensor:
    return torch.tensor(list(json.dumps(fields).encode()), dtype=torch.uint8)


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
