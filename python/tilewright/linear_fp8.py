"""LinearFP8 and LinearNVFP4: torch.nn.Linear with weight and activations in 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .fp8 import linear_fp8, quantize_fp8
from .nvfp4 import NVFP4Tensor, dequantize_nvfp4, linear_nvfp4, quantize_nvfp4
from .reference_fp8 import SCALINGS, blocks

WEIGHT_GRANULARITY = {"tensor": "tensor", "row": "row", "block": "block128x128"}
"""What one scale of a weight covers, by the kind of scaling, in the words of `quantize_fp8`."""


class _Quantized(torch.nn.Module):
    """A linear layer whose buffers keep their dtypes: half(), bfloat16() and to(dtype) change the bias only.

    static_weights: what the layer tells the product. None: True outside of training. Between whatever wrote the weight
    and the product stands the kernel that quantises the input, an ordinary launch: when it starts, all before it is
    there. A graph of torch.compile that writes to the weight itself may do so between the two: there such a layer is
    told False, or left in training mode.
    """

    static_weights: bool | None = None
    in_features: int
    out_features: int
    weight: torch.Tensor
    bias: torch.nn.Parameter | None

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():
            moved = getattr(self, name)
            if moved.dtype != buffer.dtype:
                setattr(self, name, buffer.to(moved.device))
        return self

    @property
    def _weights_are_static(self) -> bool:
        return not self.training if self.static_weights is None else self.static_weights

    def _set_bias(self, bias: torch.Tensor | None) -> None:
        if bias is not None and tuple(bias.shape) != (self.out_features,):
            raise ValueError(f"bias is {list(bias.shape)}; expected [{self.out_features}]")
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias.detach().clone()))

    def extra_repr(self) -> str:
        """Shape, for print()."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class LinearFP8(_Quantized):
    """y = x W^T + bias with W [out_features, in_features] in e4m3; x is quantised to e4m3 on the way in.

    Make one with `LinearFP8.from_linear`. weight, weight_scale and input_scale are buffers; the weight is not trained,
    gradients flow to x as if it had not been rounded. scaling: "tensor", "row" (a scale per row of x and of W) or
    "block" (1 x 128 of x by 128 x 128 of W). input_scale: one fp32 value for every x, with "tensor" or "row"; None
    measures x each time.
    """

    weight_scale: torch.Tensor
    input_scale: torch.Tensor | None

    def __init__(
        self,
        weight: torch.Tensor,
        weight_scale: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        input_scale: torch.Tensor | None = None,
        fast_accum: bool = False,
        scaling: str | None = None,
    ) -> None:
        """weight: e4m3 [N, K]. weight_scale: fp32, one value, [N, 1], or [ceil(N / 128), ceil(K / 128)].

        scaling: what the scale's shape stands for; needed only where it stands for several, as [1, 1] can.
        """
        super().__init__()
        if weight.dtype != torch.float8_e4m3fn or weight.dim() != 2:
            raise ValueError(f"weight is {weight.dtype} {list(weight.shape)}; expected float8_e4m3fn [N, K]")
        self.out_features, self.in_features = weight.shape
        self.scaling = _scaling(weight, weight_scale, scaling, input_scale is not None)
        if input_scale is not None and self.scaling == "block":
            raise ValueError(f"input_scale is given; it must be None for scaling={self.scaling!r}")
        if input_scale is not None and (input_scale.dtype != torch.float32 or input_scale.numel() != 1):
            found = f"{input_scale.dtype} {list(input_scale.shape)}"
            raise ValueError(f"input_scale is {found}; expected one value, torch.float32")
        self.fast_accum = fast_accum
        self.register_buffer("weight", weight)
        self.register_buffer("weight_scale", weight_scale)
        self.register_buffer("input_scale", input_scale)
        self._set_bias(bias)

    @classmethod
    def from_linear(
        cls, linear: torch.nn.Linear, *, scaling: str = "row", input_scale: torch.Tensor | None = None
    ) -> LinearFP8:
        """Quantises the weight of `linear`; its bias is copied."""
        if scaling not in SCALINGS:
            raise ValueError(f"scaling={scaling!r}; allowed: {', '.join(SCALINGS)}")
        weight, scale = quantize_fp8(linear.weight.detach(), WEIGHT_GRANULARITY[scaling])
        layer = cls(weight, scale, linear.bias, input_scale=input_scale, scaling=scaling)
        return layer.train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features], in x's dtype."""
        options = (self.scaling, self.input_scale, self.fast_accum, self._weights_are_static)
        return linear_fp8(x, self.weight, self.weight_scale, self.bias, *options)

    def extra_repr(self) -> str:
        """Shape and scaling, for print()."""
        return f"{super().extra_repr()}, scaling={self.scaling}"


def _scaling(weight: torch.Tensor, scale: torch.Tensor, wanted: str | None, given_input: bool) -> str:
    """The kind of scaling, which is `wanted` if the scale has a shape of that kind."""
    N, K = weight.shape
    if wanted is not None and wanted not in SCALINGS:
        raise ValueError(f"scaling={wanted!r}; allowed: {', '.join(SCALINGS)}")
    if scale.dtype != torch.float32:
        raise ValueError(f"weight_scale is {scale.dtype}; expected float32")
    shape = tuple(scale.shape)
    fitting = {
        "block": shape == (blocks(N), blocks(K)),
        "tensor": scale.numel() == 1,
        "row": shape in ((N,), (N, 1)),
    }
    if wanted is not None and fitting[wanted]:
        return wanted
    if wanted is None and scale.numel() == 1 and (N == 1 or given_input):
        return "tensor"  # [1, 1] of one row, or beside an input scale
    if wanted is None and any(fitting.values()):
        return next(kind for kind, fits in fitting.items() if fits)
    raise ValueError(
        f"weight_scale is {list(scale.shape)} for a weight [{N}, {K}]; expected one value, [{N}, 1] or "
        f"[{blocks(N)}, {blocks(K)}]" + ("" if wanted is None else f", as scaling={wanted!r} says")
    )


class LinearNVFP4(_Quantized):
    """y = x W^T + bias with W [out_features, in_features] in NVFP4; x is quantised to NVFP4 on the way in.

    Make one with `LinearNVFP4.from_linear`; in_features is a multiple of 16. weight, weight_scales, weight_global and
    input_global are buffers. input_global: the global scale of every x; None measures x each time. The weight is not
    trained, gradients flow to x as if it had not been rounded.
    """

    weight_scales: torch.Tensor
    weight_global: torch.Tensor
    input_global: torch.Tensor | None

    def __init__(
        self, weight: NVFP4Tensor, bias: torch.Tensor | None = None, *, input_global: torch.Tensor | None = None
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", weight.codes)
        self.register_buffer("weight_scales", weight.scales)
        self.register_buffer("weight_global", weight.global_scale)
        self.register_buffer("input_global", input_global)
        self._set_bias(bias)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, *, input_global: torch.Tensor | None = None) -> LinearNVFP4:
        """Quantises the weight of `linear`; its bias is copied."""
        layer = cls(quantize_nvfp4(linear.weight.detach()), linear.bias, input_global=input_global)
        return layer.train(linear.training)

    @property
    def tensor(self) -> NVFP4Tensor:
        """The weight."""
        return NVFP4Tensor(self.weight, self.weight_scales, self.weight_global)

    def dequantized(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The weight [out_features, in_features] as it is multiplied."""
        return dequantize_nvfp4(self.tensor, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features], in x's dtype."""
        return linear_nvfp4(x, self.tensor, self.bias, self.input_global, self._weights_are_static)
