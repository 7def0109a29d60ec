"""prepack and unpack: the order of the bytes of a packed weight."""

from __future__ import annotations

import torch

ROWS = 16
K = 64
BLOCK_BYTES = ROWS * K // 2
LAYOUTS = ("packed", "prepacked")
"""The orders by name: as `quantize_4bit` packs, and as `prepack` gives. In the numbers of the native library."""


def is_prepacked(packed: torch.Tensor) -> bool:
    """Whether the codes are prepacked: a tensor of three dimensions, [N / 16, K / 64, 512], says so."""
    return packed.dim() == 3


def layout_of(packed: torch.Tensor) -> str:
    """The order of the codes by name."""
    return LAYOUTS[is_prepacked(packed)]


def can_prepack(n: int, k: int) -> bool:
    """Whether a weight [n, k] can be prepacked: n is a multiple of 16 and k of 64."""
    return n > 0 and k > 0 and n % ROWS == 0 and k % K == 0


def prepack(packed: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """The codes of a weight [n, k] in the order that Hopper's kernels read them, uint8 [n / 16, k / 64, 512].

    As many bytes, the same bytes: `unpack` gives back what was there. `gemm_4bit`, `dequantize_4bit` and `Linear4bit`
    take either order, and the scales stay as they are. n is a multiple of 16 and k of 64; ValueError otherwise, or if
    `packed` does not hold n * k codes. Codes that are prepacked already are returned as they are.
    """
    if not can_prepack(n, k):
        raise ValueError(f"n={n}, k={k}; prepacked weights have n a multiple of {ROWS} and k a multiple of {K}")
    if packed.dtype != torch.uint8 or packed.numel() != n * k // 2:
        raise ValueError(f"packed is {packed.dtype} of {packed.numel()} elements; expected uint8 of {n * k // 2}")
    if is_prepacked(packed):
        if tuple(packed.shape) != (n // ROWS, k // K, BLOCK_BYTES):
            wanted = [n // ROWS, k // K, BLOCK_BYTES]
            raise ValueError(f"packed is {list(packed.shape)}, prepacked for another weight; expected {wanted}")
        return packed
    # A block is 16 rows x 32 bytes. Lane 4 g + t of a warp multiplies the bytes 4 w + t of the rows g and g + 8.
    blocks = packed.reshape(n // ROWS, 2, 8, k // K, 8, 4)  # [group, half, g, block, w, t]
    return blocks.permute(0, 3, 2, 5, 1, 4).reshape(n // ROWS, k // K, BLOCK_BYTES)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """The codes as `quantize_4bit` packs them, uint8 [n * k / 2]; codes packed so already are returned as they are."""
    if not is_prepacked(packed):
        return packed
    groups, blocks = packed.shape[:2]
    if packed.dtype != torch.uint8 or packed.shape[2] != BLOCK_BYTES:
        raise ValueError(
            f"packed is {packed.dtype} {list(packed.shape)}; expected uint8 [n / 16, k / 64, {BLOCK_BYTES}]"
        )
    lanes = packed.reshape(groups, blocks, 8, 4, 2, 8)  # [group, block, g, t, half, w]
    return lanes.permute(0, 4, 2, 1, 5, 3).reshape(-1)
