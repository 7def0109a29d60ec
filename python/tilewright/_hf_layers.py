"""What tilewright.hf loads and makes: layers from the tensors of a checkpoint, and transformers' operations on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers.core_model_loading import ConversionOps

from . import _bitsandbytes, _fp8, _nvfp4
from ._dense import Quantised, dense_weight
from ._errors import CheckpointError
from .linear import Linear4bit
from .linear_fp8 import LinearFP8, LinearNVFP4

OWN = "tilewright"
SOURCES: dict[str, tuple[str, ...]] = {
    OWN: (),
    "bitsandbytes": (
        "weight",
        "weight.absmax",
        "weight.quant_map",
        "weight.nested_absmax",
        "weight.nested_quant_map",
        "weight.quant_state.bitsandbytes__nf4",
        "weight.quant_state.bitsandbytes__fp4",
    ),
    "compressed-tensors": ("weight", *_nvfp4.COMPRESSED_TENSORS.keys[:-1], "input_scale"),
    "modelopt": _nvfp4.MODELOPT.keys[:-1],
    "fp8": _fp8.KEYS[:-1],
}
"""Format of a checkpoint -> the keys that make up one weight. OWN is what save_pretrained writes."""


def read(source: str, tensors: Mapping[str, torch.Tensor]) -> Linear4bit | LinearFP8:
    """The layer that the tensors of one weight make. CheckpointError names the key that does not fit."""
    if source == "bitsandbytes":
        return _bitsandbytes.read(tensors, "")
    weight = tensors.get("weight")
    if weight is not None and weight.dtype == torch.float8_e4m3fn:
        return _fp8.read(tensors, "")
    if source in _nvfp4.NAMINGS:
        return _nvfp4.read(tensors, "", _nvfp4.NAMINGS[source])
    found = "missing" if weight is None else str(weight.dtype).removeprefix("torch.")
    raise CheckpointError(f"weight: {found}; expected float8_e4m3fn beside {', '.join(sorted(tensors))}")


def requantised(layer: Quantised, weight: torch.Tensor) -> Quantised:
    """A layer like `layer` that holds another weight, without its bias."""
    dense = torch.nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
    dense.weight = torch.nn.Parameter(weight, requires_grad=False)
    if isinstance(layer, LinearFP8):
        return LinearFP8.from_linear(dense, scaling=layer.scaling)
    if isinstance(layer, LinearNVFP4):
        return LinearNVFP4.from_linear(dense)
    options: dict[str, Any] = {"blocksize": layer.blocksize, "nested": layer.state.nested}
    return Linear4bit.from_linear(dense, quant_type=layer.quant_type, **options)


class Quantize(ConversionOps):  # type: ignore[misc]  # transformers has no types here
    """A dense weight to the buffers of its layer."""

    def convert(self, input_dict: dict[str, Any], model: Any = None, **_: Any) -> dict[str, torch.Tensor]:
        """The buffers, by their full names."""
        out: dict[str, torch.Tensor] = {}
        for key, value in input_dict.items():
            head = key.rpartition(".")[0]
            layer = requantised(model.get_submodule(head), value[0] if isinstance(value, list) else value)
            out |= {f"{head}.{name}": buffer for name, buffer in layer.named_buffers(recurse=False)}
        return out


class _FromCheckpoint(ConversionOps):  # type: ignore[misc]  # transformers has no types here
    """An operation on what another library left; transformers leaves dtypes alone where `hf_quantizer` is there."""

    def __init__(self, hf_quantizer: Any) -> None:
        self.hf_quantizer = hf_quantizer
        self.source: str = hf_quantizer.quantization_config.source


class Deserialize(_FromCheckpoint):
    """The keys of one layer of a foreign checkpoint to a quantised layer, which takes the dense layer's place."""

    def convert(
        self, input_dict: dict[str, Any], model: Any = None, full_layer_name: str = "", **_: Any
    ) -> dict[str, torch.Tensor]:
        """The layer's buffers, by their full names."""
        tensors = {key: value[0] if isinstance(value, list) else value for key, value in input_dict.items()}
        head = full_layer_name.rpartition(".")[0]
        old = model.get_submodule(head)
        if len(tensors) == 1:  # a dense layer, an embedding or a norm of the same checkpoint
            (value,) = tensors.values()
            dtype = old.weight.dtype
            return {full_layer_name: value.to(dtype) if value.is_floating_point() else value}
        layer = read(self.source, tensors)
        found, wanted = [layer.out_features, layer.in_features], [old.out_features, old.in_features]
        if found != wanted:
            raise ValueError(f"{full_layer_name}: the checkpoint has {found}, the model {wanted}")
        layer.register_parameter("bias", old.bias)
        layer.train(old.training)
        model.set_submodule(head, layer)
        return {f"{head}.{name}": buffer for name, buffer in layer.named_buffers(recurse=False)}


class Expand(_FromCheckpoint):
    """The keys of weights that the model stacks, as those of experts, to dense weights, which transformers stacks."""

    def convert(
        self, input_dict: dict[str, Any], model: Any = None, full_layer_name: str = "", **_: Any
    ) -> dict[str, list[torch.Tensor]]:
        """Lists of dense weights, by the pattern of their key."""
        names = sorted(SOURCES[self.source], key=len, reverse=True)
        groups: dict[str, dict[str, list[torch.Tensor]]] = {}
        for pattern, values in input_dict.items():
            name = next(name for name in names if pattern.endswith(f".{name}"))
            groups.setdefault(pattern.removesuffix(name), {})[name] = values
        dtype = model.get_parameter(full_layer_name).dtype
        return {f"{head}weight": self._expand(head, group, dtype) for head, group in groups.items()}

    def _expand(self, head: str, group: dict[str, list[torch.Tensor]], dtype: torch.dtype) -> list[torch.Tensor]:
        if len(group) == 1:
            (weights,) = group.values()
            return [weight.to(dtype) for weight in weights]
        counts = {name: len(values) for name, values in group.items()}
        if len(set(counts.values())) != 1:
            raise CheckpointError(f"{head}*: {counts}; expected as many of each")
        parts = [dict(zip(group, values, strict=True)) for values in zip(*group.values(), strict=True)]
        return [dense_weight(read(self.source, tensors), dtype) for tensors in parts]


def is_ours(conversion: Any) -> bool:
    """Whether a conversion of transformers reads what another library left."""
    return any(isinstance(operation, _FromCheckpoint) for operation in getattr(conversion, "operations", ()))
