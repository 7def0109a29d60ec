"""Linear4bit: torch.nn.Linear with a 4-bit weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import layout
from ._settled import NOTHING, Pending, Settled
from .gemm import gemm_packed, quantize_4bit
from .state import QuantState

_SCALES = ("absmax", "nested_absmax", "nested_code", "offset")


class Linear4bit(torch.nn.Module):
    """y = x W^T + bias with W [out_features, in_features] held in 4 bits.

    Make one with `Linear4bit.from_linear`. The packed codes and the scales are buffers: they move with the module
    and are part of its state_dict, and `half()`, `bfloat16()` or `to(dtype)` change the bias only. The weight is
    not trained.

    prepack: keep the codes in the order that Hopper's kernels read fastest, where the shape allows it (see
    `tilewright.prepack`). A state_dict holds them as `quantize_4bit` packs them either way.

    static_weights: what the layer tells `gemm_4bit`. None: outside of training, and of torch.compile and export, True
    from the second call with weights that have not been written to since. True or False: that. Weights written through
    `tensor.data` or by a kernel that torch does not know are told by `torch.autograd.graph.increment_version(weight)`.
    """

    static_weights: bool | None = None

    weight: torch.Tensor
    absmax: torch.Tensor
    nested_absmax: torch.Tensor | None
    nested_code: torch.Tensor | None
    offset: torch.Tensor | None
    bias: torch.nn.Parameter | None

    def __init__(
        self, packed: torch.Tensor, state: QuantState, bias: torch.Tensor | None = None, *, prepack: bool = False
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = state.shape
        self.quant_type = state.quant_type
        self.quant_code = state.quant_code
        self.blocksize = state.blocksize
        self._settled = Settled(("weight", *_SCALES))
        self.register_buffer("weight", packed)
        for name in _SCALES:
            self.register_buffer(name, getattr(state, name))
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias.detach().clone()))
        if prepack:
            self.prepack()

    @classmethod
    def from_linear(
        cls,
        linear: torch.nn.Linear,
        *,
        quant_type: str = "nf4",
        blocksize: int | None = None,
        nested: bool = False,
        prepack: bool = False,
    ) -> Linear4bit:
        """Quantises the weight of `linear`; its bias is copied, on the same device and in the same dtype."""
        packed, state = quantize_4bit(linear.weight.detach(), quant_type=quant_type, blocksize=blocksize, nested=nested)
        return cls(packed, state, linear.bias, prepack=prepack).train(linear.training)

    def prepack(self) -> Linear4bit:
        """Puts the codes in the order that Hopper's kernels read fastest, where the shape allows it; returns self."""
        if layout.can_prepack(self.out_features, self.in_features):
            self.weight = layout.prepack(self.weight, self.out_features, self.in_features)
        return self

    @property
    def state(self) -> QuantState:
        """The scales and shape of the weight."""
        return QuantState(
            (self.out_features, self.in_features),
            self.quant_type,
            self.blocksize,
            self.absmax,
            self.nested_absmax,
            self.nested_code,
            self.offset,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features]."""
        # The dictionaries are read directly: attribute look-up and a QuantState would cost more than the op itself.
        own = self._buffers
        pending = self._look(own)
        result = gemm_packed(
            x,
            own["weight"],  # type: ignore[arg-type]
            own["absmax"],  # type: ignore[arg-type]
            self.out_features,
            self.in_features,
            self.blocksize,
            self.quant_code,
            self._parameters["bias"],
            own["nested_absmax"],
            own["nested_code"],
            own["offset"],
            pending is None,
        )
        if pending is not None:
            self._settled.remember(pending)
        return result

    def _look(self, own: dict[str, torch.Tensor | None]) -> Pending | None:
        """None where nothing that may be in flight writes to the weight or its scales."""
        if self.static_weights is not None:
            return None if self.static_weights else NOTHING
        # A compiled graph would keep what was true when it was traced.
        if self.training or torch.compiler.is_compiling():
            return NOTHING
        return self._settled.look(own)

    def train(self, mode: bool = True) -> Linear4bit:
        """As torch.nn.Module.train; the next call waits for the weights."""
        self._settled.forget()
        return super().train(mode)

    def extra_repr(self) -> str:
        """Shape and format, for print()."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"quant_type={self.quant_type}, blocksize={self.blocksize}, nested={self.nested_absmax is not None}"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = layout.unpack(destination[prefix + "weight"])

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        name = prefix + "weight"
        given = state_dict.get(name)
        wanted = layout.is_prepacked(self.weight)
        if given is not None and wanted and given.numel() == self.weight.numel():
            state_dict = {**state_dict, name: layout.prepack(given, self.out_features, self.in_features)}
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        # half() and to(dtype) would round the scales: after the move they are put back in their own dtype.
        before = {name: getattr(self, name) for name in _SCALES}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, scale in before.items():
            moved = getattr(self, name)
            if scale is not None and moved.dtype != scale.dtype:
                setattr(self, name, scale.to(moved.device))
        return self
