// Expands a 4-bit weight to f16, bf16 or f32.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/dequant/codebooks.cuh"
#include "tilewright/dequant/scales.cuh"
#include "tilewright/dequant/words.cuh"
#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_4bit/check.h"
#include "tilewright/host/kernel_launch.cuh"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/quantize/args.h"

namespace tilewright {
namespace kernels {

constexpr int kDequantizeThreads = 256;

template <class Element>
__device__ __forceinline__ void store_eight(Element* target, const float2 (&weights)[4]) {
  uint4 words;
  words.x = ElementTraits<Element>::pack(weights[0].x, weights[0].y);
  words.y = ElementTraits<Element>::pack(weights[1].x, weights[1].y);
  words.z = ElementTraits<Element>::pack(weights[2].x, weights[2].y);
  words.w = ElementTraits<Element>::pack(weights[3].x, weights[3].y);
  *reinterpret_cast<uint4*>(target) = words;
}

template <>
__device__ __forceinline__ void store_eight<float>(float* target, const float2 (&weights)[4]) {
  reinterpret_cast<float4*>(target)[0] = {weights[0].x, weights[0].y, weights[1].x, weights[1].y};
  reinterpret_cast<float4*>(target)[1] = {weights[2].x, weights[2].y, weights[3].x, weights[3].y};
}

// The four bytes of the eight neighbours from flattened element `first` on, of prepacked codes.
__device__ __forceinline__ uint32_t prepacked_word(const uint8_t* packed, int64_t first, int64_t k) {
  const int64_t row = first / k;
  const int64_t column = first - row * k;
  const int64_t block = row / kPrepackedRows * (k / kPrepackedK) + column / kPrepackedK;
  const int in_group = static_cast<int>(row % kPrepackedRows);
  const uint8_t* bytes =
      packed + block * kPrepackedBlockBytes + in_group % 8 * 64 + in_group / 8 * 8 + column % kPrepackedK / 8;
  return uint32_t{__ldg(bytes)} | uint32_t{__ldg(bytes + 16)} << 8 | uint32_t{__ldg(bytes + 32)} << 16 |
         uint32_t{__ldg(bytes + 48)} << 24;
}

// Each thread takes eight neighbours, all under one scale, until the grid has covered the weight. `words`: the pointers
// allow a 4-byte load and 16-byte stores.
template <class Element>
__global__ void __launch_bounds__(kDequantizeThreads)
    dequantize_4bit_kernel(const __grid_constant__ Dequantize4bitArgs args,
                           const __grid_constant__ dequant::ScaleSource source, bool words) {
  __shared__ float codebook[dequant::kCodebookSize];
  dequant::fill_codebook(codebook, args.quant_type);
  __syncthreads();
  const uint32_t table = ptx::shared_address(codebook);
  const float offset = dequant::load_offset(source);
  const uint32_t rotation = dequant::even_rotation(args.quant_type);
  Element* out = static_cast<Element*>(args.out);
  const int64_t step = int64_t{gridDim.x} * kDequantizeThreads * 8;
  int64_t first = (int64_t{blockIdx.x} * kDequantizeThreads + threadIdx.x) * 8;
  for (; first < args.numel; first += step) {
    const float scale = dequant::read_scale(source, first >> source.block_shift, offset);
    if (words && first + 8 <= args.numel) {
      const uint32_t word = args.layout == WeightLayout::kPrepacked
                                ? prepacked_word(args.b, first, args.k)
                                : __ldg(reinterpret_cast<const uint32_t*>(args.b) + first / 8);
      const dequant::WordOffsets offsets = dequant::split_word(word, rotation);
      store_eight<Element>(out + first, {dequant::byte_weights<0>(offsets, scale, table),
                                         dequant::byte_weights<1>(offsets, scale, table),
                                         dequant::byte_weights<2>(offsets, scale, table),
                                         dequant::byte_weights<3>(offsets, scale, table)});
      continue;
    }
    for (int64_t i = first; i < args.numel && i < first + 8; ++i) {
      const int code = dequant::code_at(args.b, i, args.quant_type);
      out[i] = ElementTraits<Element>::from_float(__fmul_rn(codebook[code], scale));
    }
  }
}

}  // namespace kernels

namespace host {

template <class Element>
inline cudaError_t launch_dequantize_4bit(const Dequantize4bitArgs& args, cudaStream_t stream) {
  constexpr int64_t kMaxBlocks = 132 * 64;  // enough to fill any GPU; the kernel loops over the rest
  const int64_t blocks = ceil_div(ceil_div(args.numel, 8), kernels::kDequantizeThreads);
  const bool words = is_aligned(args.b, 4) && is_aligned(args.out, 16);
  const dequant::ScaleSource source = dequant::make_scale_source(args.scales, args.nested_absmax, args.nested_code,
                                                                 args.offset, args.blocksize, args.quant_type);
  return launch_kernel(&kernels::dequantize_4bit_kernel<Element>,
                       dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)),
                       dim3(kernels::kDequantizeThreads), 0, stream, args, source, words);
}

}  // namespace host

// Runs on `stream` of the current device without waiting. cudaErrorInvalidValue for a size, pointer or format that is
// none of the family's; otherwise what the CUDA runtime says of the launch.
inline cudaError_t dequantize_4bit(const Dequantize4bitArgs& args, cudaStream_t stream) {
  if (args.numel < 0 || (args.quant_type == QuantType::kE2m1 && args.numel % 16 != 0)) return cudaErrorInvalidValue;
  if (args.numel == 0) return cudaSuccess;
  if (args.b == nullptr || args.out == nullptr) return cudaErrorInvalidValue;
  if (args.layout == WeightLayout::kPrepacked) {
    if (args.k <= 0 || args.k % kPrepackedK != 0 || args.numel % (args.k * kPrepackedRows) != 0)
      return cudaErrorInvalidValue;
    if (!host::is_aligned(args.b, 4) || !host::is_aligned(args.out, 16)) return cudaErrorMisalignedAddress;
  }
  const cudaError_t checked = host::check_scales(args.scales, args.nested_absmax, args.nested_code, args.offset,
                                                 args.blocksize, args.quant_type);
  if (checked != cudaSuccess) return checked;
  switch (args.dtype) {
    case DType::kF16:
      return host::launch_dequantize_4bit<__half>(args, stream);
    case DType::kBf16:
      return host::launch_dequantize_4bit<__nv_bfloat16>(args, stream);
    case DType::kF32:
      return host::launch_dequantize_4bit<float>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tilewright
