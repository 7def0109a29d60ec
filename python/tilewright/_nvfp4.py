"""One NVFP4 linear layer as compressed-tensors and NVIDIA ModelOpt write it, to and from Linear4bit (e2m1).

|                | compressed-tensors                    | ModelOpt                    |
| codes          | weight_packed uint8 [N, K/2]          | weight uint8 [N, K/2]       |
| block scales   | weight_scale float8_e4m3fn [N, K/16]  | the same                    |
| global scale   | weight_global_scale fp32, divides     | weight_scale_2 fp32, multiplies |
| activations    | input_global_scale                    | input_scale                 |

Both hold the even k in the low nibble, as e2m1 does. The activation scales are kept for saving and not used: the
kernels leave the activations in 16 or 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from . import layout
from ._errors import CheckpointError, unknown_keys
from .linear import Linear4bit
from .state import QuantState

_RECORD = "_nvfp4_record"


@dataclass(frozen=True)
class Naming:
    """The keys of one layer in one naming. `divides`: the weight is code * scale / global, not times it."""

    name: str
    codes: str
    global_scale: str
    activation_scale: str
    divides: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that a layer may have."""
        return (self.codes, "weight_scale", self.global_scale, self.activation_scale, "bias")


COMPRESSED_TENSORS = Naming("compressed-tensors", "weight_packed", "weight_global_scale", "input_global_scale", True)
MODELOPT = Naming("modelopt", "weight", "weight_scale_2", "input_scale", False)
NAMINGS = {naming.name: naming for naming in (COMPRESSED_TENSORS, MODELOPT)}


@dataclass(frozen=True)
class Record:
    """What the checkpoint holds beside a Linear4bit."""

    naming: Naming
    global_scale: torch.Tensor
    activation_scale: torch.Tensor | None


def prefixes(tensors: Mapping[str, torch.Tensor]) -> dict[str, Naming]:
    """The prefixes ("" or "model.layers.0.mlp.up_proj.") of the NVFP4 layers of a checkpoint, and their naming."""
    found = {}
    for key in tensors:
        for naming in NAMINGS.values():
            head, dot, last = key.rpartition(".")
            # A mixture of experts may have other tensors called weight_packed: the global scale tells.
            if last == naming.global_scale:
                found[head + dot] = naming
    return found


def read(tensors: Mapping[str, torch.Tensor], prefix: str, naming: Naming) -> Linear4bit:
    """The layer below `prefix`. CheckpointError names the key that is missing, unknown or does not fit."""
    own = {key[len(prefix) :]: tensor for key, tensor in tensors.items() if key.startswith(prefix)}
    unknown = sorted(own.keys() - set(naming.keys))
    if unknown:
        raise unknown_keys(f"an NVFP4 layer ({naming.name})", [prefix + key for key in unknown], naming.keys)
    codes = _tensor(own, prefix, naming.codes, torch.uint8)
    if codes.dim() != 2 or codes.shape[1] % 8:
        raise CheckpointError(
            f"{prefix}{naming.codes}: {_describe(codes)}; expected [N, K / 2] with K a multiple of 16"
        )
    N, K = codes.shape[0], codes.shape[1] * 2
    scales = _tensor(own, prefix, "weight_scale", torch.float8_e4m3fn)
    if tuple(scales.shape) != (N, K // 16):
        raise CheckpointError(f"{prefix}weight_scale: {_describe(scales)}; expected [{N}, {K // 16}], row by row")
    if "bias" in own and tuple(own["bias"].shape) != (N,):
        raise CheckpointError(f"{prefix}bias: {_describe(own['bias'])}; expected [{N}]")
    stored = _tensor(own, prefix, naming.global_scale, torch.float32)
    offset = _multiplier(stored, prefix, naming)
    flat = scales.contiguous().view(torch.uint8).reshape(-1)
    state = QuantState((N, K), "e2m1", 16, flat, offset=offset)
    layer = Linear4bit(codes.contiguous().reshape(-1), state, own.get("bias"))
    object.__setattr__(layer, _RECORD, Record(naming, stored, own.get(naming.activation_scale)))
    return layer


def write(layer: Linear4bit, prefix: str, naming: Naming | None) -> dict[str, torch.Tensor]:
    """The layer in `naming`, or in the one that it was read in (else compressed-tensors).

    A layer that `read` made gives the bytes that it was made from. ValueError for another format than e2m1.
    """
    if layer.quant_type != "e2m1" or layer.offset is None:
        raise ValueError(f"quant_type={layer.quant_type!r}; NVFP4 is e2m1, save this layer as bitsandbytes")
    record: Record | None = getattr(layer, _RECORD, None)
    if naming is None:
        naming = COMPRESSED_TENSORS if record is None else record.naming
    N, K = layer.out_features, layer.in_features
    out = {
        naming.codes: layout.unpack(layer.weight).reshape(N, K // 2),
        "weight_scale": layer.absmax.view(torch.float8_e4m3fn).reshape(N, K // 16),
        naming.global_scale: _stored(layer.offset, record, naming),
    }
    # The two namings define the activation scale differently, so it is only kept where it came from.
    if record is not None and record.naming == naming and record.activation_scale is not None:
        out[naming.activation_scale] = record.activation_scale
    if layer.bias is not None:
        out["bias"] = layer.bias.detach()
    return {prefix + key: tensor for key, tensor in out.items()}


def _multiplier(stored: torch.Tensor, prefix: str, naming: Naming) -> torch.Tensor:
    """The global scale as the ops take it: a factor."""
    if stored.numel() != 1:
        raise CheckpointError(f"{prefix}{naming.global_scale}: {_describe(stored)}; expected one value")
    factor = stored.reshape(()).reciprocal() if naming.divides else stored.reshape(())
    if not stored.is_meta and not (bool(factor > 0) and bool(torch.isfinite(factor))):
        role = "divisor" if naming.divides else "factor"
        raise CheckpointError(f"{prefix}{naming.global_scale}: {stored.item()}; expected a positive finite {role}")
    return factor.clone()


def _stored(offset: torch.Tensor, record: Record | None, naming: Naming) -> torch.Tensor:
    """The global scale as the naming stores it. 1 / (1 / x) is not always x, so a recorded value goes first."""
    if record is not None and record.naming == naming:
        recorded = record.global_scale.to(offset.device).reshape(())
        if torch.equal(recorded.reciprocal() if naming.divides else recorded, offset.reshape(())):
            return record.global_scale
    return offset.reshape(1).reciprocal() if naming.divides else offset.reshape(())


def _tensor(own: Mapping[str, torch.Tensor], prefix: str, key: str, dtype: torch.dtype) -> torch.Tensor:
    if key not in own:
        raise CheckpointError(f"{prefix}{key}: missing; an NVFP4 layer needs it")
    if own[key].dtype != dtype:
        name = str(dtype).removeprefix("torch.")
        raise CheckpointError(f"{prefix}{key}: {_describe(own[key])}; expected {name}")
    return own[key]


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
