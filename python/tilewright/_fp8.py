"""FP8 linear layers of compressed-tensors, ModelOpt and fine-grained FP8 checkpoints, expanded to torch.nn.Linear.

There is no FP8 kernel here: the layer is read so that a mixed checkpoint opens, and runs as a dense one. The weight is
float8_e4m3fn [N, K] times `weight_scale` (or `weight_scale_inv`, which is multiplied too): one value, one per row, or
one per block of 128 by 128.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ._errors import CheckpointError, unknown_keys

_BLOCK = 128
_SCALES = ("weight_scale", "weight_scale_inv")
_KEYS = ("weight", *_SCALES, "input_scale", "bias")


def prefixes(tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """The prefixes of the FP8 layers of a checkpoint."""
    return sorted(
        key.removesuffix("weight")
        for key, tensor in tensors.items()
        if tensor.dtype == torch.float8_e4m3fn and (key == "weight" or key.endswith(".weight"))
    )


def read(tensors: Mapping[str, torch.Tensor], prefix: str, dtype: torch.dtype) -> torch.nn.Linear:
    """The layer below `prefix` as a dense layer in `dtype`. CheckpointError names the key that does not fit."""
    own = {key[len(prefix) :]: tensor for key, tensor in tensors.items() if key.startswith(prefix)}
    unknown = sorted(own.keys() - set(_KEYS))
    if unknown:
        raise unknown_keys("an FP8 layer", [prefix + key for key in unknown], _KEYS)
    found = [key for key in _SCALES if key in own]
    if len(found) != 1:
        raise CheckpointError(f"{prefix}weight_scale: found {found or 'none'}; expected exactly one of {_SCALES}")
    weight = own["weight"]
    if weight.dim() != 2:
        raise CheckpointError(f"{prefix}weight: {list(weight.shape)}; expected [N, K]")
    scale = _expand(own[found[0]], (weight.shape[0], weight.shape[1]), prefix + found[0])
    bias = own.get("bias")
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    layer.weight = torch.nn.Parameter((weight.float() * scale).to(dtype), requires_grad=False)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias.to(dtype), requires_grad=False)
    return layer


def _expand(scale: torch.Tensor, shape: tuple[int, int], key: str) -> torch.Tensor:
    """The scale in fp32, in a shape that multiplies [N, K]."""
    N, K = shape
    scale = scale.float()
    if scale.numel() == 1:
        return scale.reshape(())
    if scale.dim() == 4 and scale.shape[1] == scale.shape[3] == 1:  # ModelOpt writes [N / 128, 1, K / 128, 1]
        scale = scale[:, 0, :, 0]
    if tuple(scale.shape) in ((N,), (N, 1)):
        return scale.reshape(N, 1)
    if tuple(scale.shape) == (-(-N // _BLOCK), -(-K // _BLOCK)):
        return scale.repeat_interleave(_BLOCK, 0)[:N].repeat_interleave(_BLOCK, 1)[:, :K]
    raise CheckpointError(
        f"{key}: {list(scale.shape)} for a weight [{N}, {K}]; expected one value, [{N}, 1] or one per 128 by 128 block"
    )
