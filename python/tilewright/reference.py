"""Quantisation, dequantisation and the product in plain torch: the CPU path, and the reference of every kernel.

All arithmetic is fp32. Weights are worked on in chunks, so that the temporaries stay small next to the weight.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import formats, layout

_CHUNK_ELEMENTS = 1 << 22


def quantize(weight: torch.Tensor, blocksize: int, quant_type: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Packs `weight` (any float dtype, flattened row-major) into 4-bit codes.

    Returns (uint8 [ceil(numel / 2)], scales, offset). nf4 and fp4: fp32 absmax per block, a last short block taken
    over its own elements, and an empty offset. e2m1: uint8 e4m3 scales per 16 elements and the fp32 global scale.
    """
    fmt = formats.FORMATS[quant_type]
    flat = weight.detach().reshape(-1)
    if quant_type == 2:
        codes, scales, offset = quantize_e2m1(flat, None)
    else:
        codes, scales = _quantize_absmax(flat, blocksize, quant_type)
        codes = codes[: flat.numel() + flat.numel() % 2]  # the last nibble past an odd end is the code of zero
        offset = torch.empty(0, dtype=torch.float32, device=weight.device)
    return _pack(codes, fmt.high_nibble_first), scales, offset


def dequantize(
    packed: torch.Tensor,
    scales: torch.Tensor,
    shape: tuple[int, int],
    blocksize: int,
    quant_type: int,
    dtype: torch.dtype,
    nested: tuple[torch.Tensor, torch.Tensor] | None = None,
    offset: torch.Tensor | None = None,
) -> torch.Tensor:
    """The [N, K] weight in `dtype`, from codes in either layout. `nested`: (nested_absmax, nested_code [256]), fp32."""
    fmt = formats.FORMATS[quant_type]
    values = formats.table(fmt.values, packed.device)
    block_scales = _block_scales(scales, quant_type, nested, offset)
    numel = shape[0] * shape[1]
    out = torch.empty(numel, dtype=dtype, device=packed.device)
    packed = layout.unpack(packed).reshape(-1)
    step = max(_CHUNK_ELEMENTS // blocksize, 1) * blocksize
    for start in range(0, numel, step):
        stop = min(start + step, numel)
        codes = _unpack(packed[start // 2 : (stop + 1) // 2], fmt.high_nibble_first)[: stop - start]
        part = block_scales[start // blocksize : -(-stop // blocksize)]
        expanded = part.repeat_interleave(blocksize)[: stop - start]
        out[start:stop] = values.index_select(0, codes.int()) * expanded
    return out.view(shape)


def gemm(a: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """a [..., K] times the fp32 weight [N, K] transposed, plus bias; accumulated in fp32, rounded once to a's dtype."""
    return F.linear(a.float(), weight, None if bias is None else bias.float()).to(a.dtype)


def quantize_nested(absmax: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Second quantisation of an fp32 absmax: (uint8 codes, nested_absmax per 256, nested_code [256], offset scalar).

    ValueError if absmax is not finite: an 8-bit code has no NaN, so it would turn into a number.
    """
    if not absmax.is_meta and not bool(torch.isfinite(absmax).all()):
        raise ValueError(
            "nested=True; the weight has a block whose absmax is not finite, which nested scales cannot hold"
        )
    # Not the cached table: this also runs while torch traces, and a traced tensor must not outlive its trace.
    code = torch.tensor(formats.nested_code_values(), dtype=torch.float32, device=absmax.device)
    offset = absmax.mean() if absmax.numel() else absmax.new_zeros(())
    rows = _padded_rows(absmax - offset, formats.NESTED_BLOCKSIZE)
    nested_absmax = rows.abs().amax(dim=1)
    scaled = rows / _nonzero(nested_absmax)[:, None]
    codes = torch.bucketize(scaled, (code[1:] + code[:-1]) / 2, out_int32=True).to(torch.uint8)
    # A copy: a slice would keep, and save, the padding of the last group.
    return codes.reshape(-1)[: absmax.numel()].clone(), nested_absmax, code, offset


def _quantize_absmax(flat: torch.Tensor, blocksize: int, quant_type: int) -> tuple[torch.Tensor, torch.Tensor]:
    blocks = -(-flat.numel() // blocksize)
    codes = torch.empty(blocks * blocksize, dtype=torch.uint8, device=flat.device)
    absmax = torch.empty(blocks, dtype=torch.float32, device=flat.device)
    encode = _encode_nf4 if quant_type == 0 else _encode_fp4
    step = max(_CHUNK_ELEMENTS // blocksize, 1)
    for start in range(0, blocks, step):
        stop = min(start + step, blocks)
        rows = _padded_rows(flat[start * blocksize : stop * blocksize].float(), blocksize)
        absmax[start:stop] = rows.abs().amax(dim=1)
        # As the kernels: a block that holds NaN is not scaled, and what is NaN after that has the code 0.
        divisor = torch.where(absmax[start:stop] > 0, absmax[start:stop], 1.0)
        scaled = rows / divisor[:, None]
        codes[start * blocksize : stop * blocksize] = encode(scaled).reshape(-1)
    return codes, absmax


def quantize_e2m1(
    flat: torch.Tensor, global_scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """e2m1 codes (uint8, one each, padded to whole groups of 16), e4m3 scales as bytes, and the global fp32 scale.

    The global scale, unless given, takes the greatest finite magnitude to the greatest scale; 1 if that is zero. A
    group that holds NaN or an infinity has the scale NaN. One whose scale rounds to zero has zero codes.
    """
    rows = _padded_rows(flat.float(), 16)
    # Tensors, not numbers: by a number CUDA divides through a product with its rounded reciprocal.
    greatest = torch.full((), formats.E2M1_MAX, device=flat.device)
    amax = rows.abs().amax(dim=1) if rows.numel() else rows.new_zeros(0)
    if global_scale is None:
        finite = torch.where(torch.isfinite(rows), rows.abs(), 0.0)
        largest = finite.amax() if rows.numel() else flat.new_zeros((), dtype=torch.float32)
        smallest_normal = torch.finfo(torch.float32).tiny
        offset = (largest / (greatest * formats.E4M3_MAX)).clamp_min(smallest_normal)
        offset = torch.where(largest == 0, torch.ones_like(offset), offset)
    else:
        offset = global_scale.reshape(())
    # e4m3 has no infinity and torch's cast turns overflow into NaN: saturate finite scales, keep NaN for the rest.
    wanted = (amax / greatest / offset).clamp(-formats.E4M3_MAX, formats.E4M3_MAX)
    # One NaN for all: what division makes of 0 / 0 has a sign that depends on the machine.
    wanted = torch.where(torch.isfinite(amax) & ~wanted.isnan(), wanted, float("nan"))
    scales = wanted.to(torch.float8_e4m3fn)
    effective = scales.float() * offset
    codes = _encode_e2m1(rows / _nonzero(effective)[:, None], effective)
    return codes.reshape(-1), scales.view(torch.uint8), offset


def _encode_nf4(scaled: torch.Tensor) -> torch.Tensor:
    thresholds = formats.table(formats.NF4_THRESHOLDS, scaled.device)
    codes = torch.bucketize(scaled, thresholds, out_int32=True).to(torch.uint8)
    return torch.where(scaled.isnan(), 0, codes)


def _encode_fp4(scaled: torch.Tensor) -> torch.Tensor:
    thresholds = formats.table(formats.FP4_THRESHOLDS, scaled.device)
    order = formats.table(tuple(map(float, formats.FP4_CODES_BY_MAGNITUDE)), scaled.device).to(torch.uint8)
    magnitude = order[torch.bucketize(scaled.abs(), thresholds, out_int32=True)]
    magnitude = torch.where(scaled.isnan(), 0, magnitude)
    return magnitude + (scaled < 0).to(torch.uint8) * 8


def _encode_e2m1(scaled: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    midpoints = formats.table(formats.E2M1_MIDPOINTS, scaled.device)
    magnitude = scaled.abs()
    below = torch.bucketize(magnitude, midpoints, out_int32=True)
    above = torch.bucketize(magnitude, midpoints, out_int32=True, right=True)
    nearest_even = torch.where(below % 2 == 0, below, above)
    codes = nearest_even.to(torch.uint8) + (scaled < 0).to(torch.uint8) * 8
    return torch.where(scale[:, None] == 0, torch.zeros_like(codes), codes)


def _block_scales(
    scales: torch.Tensor,
    quant_type: int,
    nested: tuple[torch.Tensor, torch.Tensor] | None,
    offset: torch.Tensor | None,
) -> torch.Tensor:
    scales = scales.reshape(-1)
    if quant_type == 2:
        assert offset is not None
        return scales.view(torch.float8_e4m3fn).float() * offset.reshape(())
    if nested is None:
        return scales
    nested_absmax, code = nested
    assert offset is not None
    expanded = nested_absmax.repeat_interleave(formats.NESTED_BLOCKSIZE)[: scales.numel()]
    return code[scales.int()] * expanded + offset.reshape(())


def _padded_rows(flat: torch.Tensor, length: int) -> torch.Tensor:
    missing = -flat.numel() % length
    return F.pad(flat, (0, missing)).view(-1, length)


def _nonzero(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale == 0, torch.ones_like(scale), scale)


def _pack(codes: torch.Tensor, high_first: bool) -> torch.Tensor:
    codes = F.pad(codes, (0, codes.numel() % 2))
    even, odd = codes[0::2], codes[1::2]
    return (even << 4 | odd) if high_first else (odd << 4 | even)


def _unpack(packed: torch.Tensor, high_first: bool) -> torch.Tensor:
    high, low = packed >> 4, packed & 15
    pair = (high, low) if high_first else (low, high)
    return torch.stack(pair, dim=1).reshape(-1)
