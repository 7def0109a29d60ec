"""FP8 linear layers of compressed-tensors, ModelOpt and fine-grained FP8 checkpoints, to and from LinearFP8.

The weight is float8_e4m3fn [N, K] times `weight_scale` (or `weight_scale_inv`, which is multiplied too): one value, one
per row, or one per block of 128 by 128. `input_scale` (or `activation_scale`), one value, is the scale of every input;
without it inputs are measured, row by row (by 1 x 128 under block scales).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ._errors import CheckpointError, unknown_keys
from .linear_fp8 import LinearFP8
from .reference_fp8 import blocks

_SCALES = ("weight_scale", "weight_scale_inv")
_INPUT_SCALES = ("input_scale", "activation_scale")
KEYS = ("weight", *_SCALES, *_INPUT_SCALES, "bias")
"""All keys that a layer may have."""
_RECORD = "_fp8_record"


@dataclass(frozen=True)
class Record:
    """What the checkpoint holds beside a LinearFP8: the keys of the scales, and the tensors as they were."""

    key: str
    scale: torch.Tensor
    input_key: str
    input_scale: torch.Tensor | None


def prefixes(tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """The prefixes of the FP8 layers of a checkpoint."""
    return sorted(
        key.removesuffix("weight")
        for key, tensor in tensors.items()
        if tensor.dtype == torch.float8_e4m3fn and (key == "weight" or key.endswith(".weight"))
    )


def read(tensors: Mapping[str, torch.Tensor], prefix: str) -> LinearFP8:
    """The layer below `prefix`. CheckpointError names the key that does not fit."""
    own = {key[len(prefix) :]: tensor for key, tensor in tensors.items() if key.startswith(prefix)}
    unknown = sorted(own.keys() - set(KEYS))
    if unknown:
        raise unknown_keys("an FP8 layer", [prefix + key for key in unknown], KEYS)
    found = [key for key in _SCALES if key in own]
    if len(found) != 1:
        raise CheckpointError(f"{prefix}weight_scale: found {found or 'none'}; expected exactly one of {_SCALES}")
    inputs = [key for key in _INPUT_SCALES if key in own]
    if len(inputs) > 1:
        raise CheckpointError(f"{prefix}input_scale: found {inputs}; expected at most one of {_INPUT_SCALES}")
    weight = own["weight"]
    if weight.dim() != 2:
        raise CheckpointError(f"{prefix}weight: {list(weight.shape)}; expected [N, K]")
    shape = (weight.shape[0], weight.shape[1])
    if "bias" in own and tuple(own["bias"].shape) != shape[:1]:
        raise CheckpointError(f"{prefix}bias: {list(own['bias'].shape)}; expected [{shape[0]}]")
    scale = _weight_scale(own[found[0]], shape, prefix + found[0])
    input_key = inputs[0] if inputs else _INPUT_SCALES[0]
    given = _input_scale(own.get(input_key), scale.dim() == 2 and scale.shape != (shape[0], 1), prefix + input_key)
    if scale.numel() == 1 and given is None:  # inputs are measured by row, so the weight's scale is one per row too
        scale = scale.reshape(1, 1).expand(shape[0], 1).contiguous()
    kind = "tensor" if scale.dim() == 0 else "row" if tuple(scale.shape) == (shape[0], 1) else "block"
    layer = LinearFP8(weight, scale, own.get("bias"), input_scale=given, scaling=kind)
    object.__setattr__(layer, _RECORD, Record(found[0], own[found[0]], input_key, own.get(input_key)))
    return layer


def write(layer: LinearFP8, prefix: str) -> dict[str, torch.Tensor]:
    """The layer with the keys that it was read with, or `weight_scale` (block scales: `weight_scale_inv`)."""
    record: Record | None = getattr(layer, _RECORD, None)
    key = "weight_scale_inv" if layer.scaling == "block" else "weight_scale"
    out = {"weight": layer.weight, key if record is None else record.key: layer.weight_scale}
    given = layer.input_scale
    # What was read goes out again as it was, unless the layer has changed since.
    if record is not None and _same(_weight_scale(record.scale, _shape(layer), record.key), layer.weight_scale):
        out[record.key] = record.scale
    if record is not None and record.input_scale is not None and given is not None and _same(record.input_scale, given):
        given = record.input_scale
    if given is not None:
        out[_INPUT_SCALES[0] if record is None else record.input_key] = given
    if layer.bias is not None:
        out["bias"] = layer.bias.detach()
    return {prefix + key: tensor for key, tensor in out.items()}


def _shape(layer: LinearFP8) -> tuple[int, int]:
    return layer.out_features, layer.in_features


def _same(stored: torch.Tensor, own: torch.Tensor) -> bool:
    """Whether a scale of the layer still has the value that was stored, which may be one for all rows."""
    if stored.is_meta or own.is_meta:
        return stored.is_meta == own.is_meta
    wanted = stored.to(own.device, torch.float32)
    wanted = wanted.reshape(1).expand(own.numel()).reshape(own.shape) if wanted.numel() == 1 else wanted
    return torch.equal(wanted.nan_to_num(), own.nan_to_num()) and torch.equal(wanted.isnan(), own.isnan())


def _weight_scale(scale: torch.Tensor, shape: tuple[int, int], key: str) -> torch.Tensor:
    """The scale in fp32 as LinearFP8 takes it."""
    N, K = shape
    if not scale.is_floating_point():
        raise CheckpointError(f"{key}: {str(scale.dtype).removeprefix('torch.')}; expected a type of floating point")
    scale = scale.float()
    if scale.numel() == 1:
        return scale.reshape(())
    if scale.dim() == 4 and scale.shape[1] == scale.shape[3] == 1:  # ModelOpt writes [N / 128, 1, K / 128, 1]
        scale = scale[:, 0, :, 0]
    if tuple(scale.shape) in ((N,), (N, 1)):
        return scale.reshape(N, 1)
    if tuple(scale.shape) == (blocks(N), blocks(K)):
        return scale.contiguous()
    raise CheckpointError(
        f"{key}: {list(scale.shape)} for a weight [{N}, {K}]; expected one value, [{N}, 1] or one per 128 by 128 block"
    )


def _input_scale(scale: torch.Tensor | None, in_blocks: bool, key: str) -> torch.Tensor | None:
    """The scale of every input, or None where each is measured."""
    if scale is None:
        return None
    if scale.numel() != 1 or in_blocks:
        expected = "none with block scales" if in_blocks else "one value"
        raise CheckpointError(f"{key}: {list(scale.shape)}; expected {expected}")
    return scale.float().reshape(())
