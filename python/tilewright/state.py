"""QuantState: everything but the packed codes of a quantised weight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from . import formats


@dataclass(frozen=True)
class QuantState:
    """Scales and shape of a weight that `quantize_4bit` packed.

    shape: (N, K) of the weight. blocksize: weights per scale, over the flattened row-major weight.
    absmax: nf4 and fp4: fp32, one per block, or uint8 codes when `nested_absmax` is set; e2m1: uint8 e4m3 scales.
    nested_absmax, nested_code: fp32 per 256 blocks and fp32[256]; only for nested scales.
    offset: fp32 scalar: the mean of the absmax (nested) or the global scale (e2m1); otherwise None.
    """

    shape: tuple[int, int]
    quant_type: str
    blocksize: int
    absmax: torch.Tensor
    nested_absmax: torch.Tensor | None = None
    nested_code: torch.Tensor | None = None
    offset: torch.Tensor | None = None

    @property
    def nested(self) -> bool:
        """True when the absmax itself is quantised to 8 bits."""
        return self.nested_absmax is not None

    @property
    def quant_code(self) -> int:
        """The number by which the ops know the format."""
        return formats.get_format(self.quant_type).code

    def to(self, device: torch.device | str) -> QuantState:
        """The same state with its tensors on `device`; dtypes never change."""

        def move(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else tensor.to(device)

        return replace(
            self,
            absmax=self.absmax.to(device),
            nested_absmax=move(self.nested_absmax),
            nested_code=move(self.nested_code),
            offset=move(self.offset),
        )
