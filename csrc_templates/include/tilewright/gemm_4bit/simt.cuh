// gemm_4bit on ordinary fp32 arithmetic: few rows, fp32 activations, or a K or an alignment that no other engine takes.
//
// One warp computes `mb` rows of one column; the lanes share out k. The weight is codebook * scale in fp32 and is not
// rounded further.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/dequant/codebooks.cuh"
#include "tilewright/dequant/scales.cuh"
#include "tilewright/dequant/words.cuh"
#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/check.h"
#include "tilewright/gemm_4bit/engine_launcher.h"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/host/kernel_launch.cuh"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright {
namespace kernels {

// Eight neighbouring activations as fp32, by 16-byte loads.
template <class Element>
__device__ __forceinline__ void load_eight(const Element* source, float (&values)[8]) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(source));
  const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = ElementTraits<Element>::unpack(pairs[i]);
    values[2 * i] = pair.x;
    values[2 * i + 1] = pair.y;
  }
}

template <>
__device__ __forceinline__ void load_eight<float>(const float* source, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(source) + i);
    values[4 * i] = four.x;
    values[4 * i + 1] = four.y;
    values[4 * i + 2] = four.z;
    values[4 * i + 3] = four.w;
  }
}

// One column of the weight against `mb` rows of A: the work of one warp.
template <class Config>
class SimtColumn {
 public:
  using Element = typename Config::Element;

  __device__ __forceinline__ SimtColumn(const Gemm4bitArgs& args, const dequant::ScaleSource& source, int64_t row,
                                        int64_t column, uint32_t codebook)
      : args_(args),
        source_(source),
        row_(row),
        first_element_(column * args.k),
        codebook_(codebook),
        lane_(static_cast<int>(threadIdx.x) % 32),
        offset_(dequant::load_offset(source)) {}

  // K % 8 == 0, B on 4 bytes and rows of A on 16: a lane takes eight neighbours in k, under one scale, at a time.
  __device__ __forceinline__ void accumulate_words() {
    constexpr int kStep = 32 * 8;
    int64_t k = int64_t{lane_} * 8;
    for (; k + (kWordsInFlight - 1) * kStep < args_.k; k += kWordsInFlight * kStep) add_words<kWordsInFlight>(k);
    for (; k < args_.k; k += kStep) add_words<1>(k);
  }

  // Any K and any alignment: a lane takes one element at a time.
  __device__ __forceinline__ void accumulate_elements() {
    const dequant::ScaleSource& source = source_;
    for (int64_t k = lane_; k < args_.k; k += 32) {
      const int64_t index = first_element_ + k;
      const float scale = dequant::read_scale(source, index >> source.block_shift, offset_);
      const int code = dequant::code_at(args_.b, index, args_.quant_type);
      const float weight = __fmul_rn(ptx::lds_constant_float(codebook_ + code * 4), scale);
#pragma unroll
      for (int r = 0; r < Config::kMb; ++r) {
        acc_[r] = fmaf(ElementTraits<Element>::to_float(row_of_a(r)[k]), weight, acc_[r]);
      }
    }
  }

  // Sums over the lanes, in a fixed order, and writes one element of each row.
  __device__ __forceinline__ void store(int64_t column) {
    const float bias = epilogue::bias_at<Element>(args_.bias, column, args_.n);
#pragma unroll
    for (int r = 0; r < Config::kMb; ++r) {
      float sum = acc_[r];
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      if (lane_ == r && row_ + r < args_.m) {
        static_cast<Element*>(args_.out)[(row_ + r) * args_.n + column] =
            ElementTraits<Element>::from_float(sum + bias);
      }
    }
  }

 private:
  static constexpr int kWordsInFlight = 4;

  // Rows past the last one read the last one; their sums are not stored.
  __device__ __forceinline__ const Element* row_of_a(int r) const {
    const int64_t row = row_ + r < args_.m ? row_ + r : args_.m - 1;
    return static_cast<const Element*>(args_.a) + row * args_.lda;
  }

  template <int kCount>
  __device__ __forceinline__ void add_words(int64_t k) {
    uint32_t words[kCount];
    dequant::RawScale raw[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int64_t index = first_element_ + k + i * 256;
      words[i] = __ldg(reinterpret_cast<const uint32_t*>(args_.b) + index / 8);
      raw[i] = dequant::load_scale(source_, index >> source_.block_shift);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      add_word(k + i * 256, words[i], dequant::finish_scale(source_, raw[i], offset_, source_.nested_code));
    }
  }

  __device__ __forceinline__ void add_word(int64_t k, uint32_t word, float scale) {
    const dequant::WordOffsets offsets = dequant::split_word(word, dequant::even_rotation(args_.quant_type));
    const float2 weights[4] = {dequant::byte_weights<0>(offsets, scale, codebook_),
                               dequant::byte_weights<1>(offsets, scale, codebook_),
                               dequant::byte_weights<2>(offsets, scale, codebook_),
                               dequant::byte_weights<3>(offsets, scale, codebook_)};
#pragma unroll
    for (int r = 0; r < Config::kMb; ++r) {
      float values[8];
      load_eight<Element>(row_of_a(r) + k, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        acc_[r] = fmaf(values[2 * i], weights[i].x, acc_[r]);
        acc_[r] = fmaf(values[2 * i + 1], weights[i].y, acc_[r]);
      }
    }
  }

  const Gemm4bitArgs& args_;
  const dequant::ScaleSource& source_;
  int64_t row_;
  int64_t first_element_;
  uint32_t codebook_;
  int lane_;
  float offset_;
  float acc_[Config::kMb] = {};
};

// Blocks run over the row blocks first, so that neighbours share their columns of B.
template <class Config, bool kWords>
__global__ void __launch_bounds__(32 * Config::kWarps)
    gemm_4bit_simt_kernel(const __grid_constant__ Gemm4bitArgs args,
                          const __grid_constant__ dequant::ScaleSource source, int row_blocks) {
  __shared__ float codebook[dequant::kCodebookSize];
  dequant::fill_codebook(codebook, args.quant_type);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = int64_t{static_cast<int>(blockIdx.x) % row_blocks} * Config::kMb;
  const int64_t column = int64_t{static_cast<int>(blockIdx.x) / row_blocks} * Config::kWarps + warp;
  if (column >= args.n) return;
  SimtColumn<Config> work(args, source, row, column, ptx::shared_address(codebook));
  if constexpr (kWords) {
    work.accumulate_words();
  } else {
    work.accumulate_elements();
  }
  work.store(column);
}

}  // namespace kernels

// Takes every dtype, M, N, K and alignment. A K that is a multiple of 8 with B on 4 bytes and rows of A on 16 runs
// several times faster than anything else.
template <>
struct EngineLauncher<Engine::kSimt> {
  template <class Config>
  static cudaError_t launch(const Gemm4bitArgs& args, cudaStream_t stream) {
    using Element = typename Config::Element;
    static_assert(Config::kMb >= 1 && Config::kMb <= 32, "each row of a block is stored by its own lane");
    static_assert(Config::kWarps >= 1 && Config::kWarps <= 32, "a block has at most 1024 threads");
    const cudaError_t checked = host::check_gemm_4bit(args, ElementTraits<Element>::kDType);
    if (checked != cudaSuccess || args.m == 0 || args.n == 0) return checked;
    if (args.layout != WeightLayout::kPacked) return cudaErrorNotSupported;
    const int64_t row_blocks = host::ceil_div(args.m, Config::kMb);
    const int64_t column_blocks = host::ceil_div(args.n, Config::kWarps);
    if (row_blocks > host::kMaxGridX || column_blocks > host::kMaxGridX / row_blocks)
      return cudaErrorInvalidConfiguration;
    const bool words = args.k % 8 == 0 && host::is_aligned(args.b, 4) && host::is_aligned(args.a, 16) &&
                       args.lda * static_cast<int64_t>(sizeof(Element)) % 16 == 0;
    const auto kernel =
        words ? &kernels::gemm_4bit_simt_kernel<Config, true> : &kernels::gemm_4bit_simt_kernel<Config, false>;
    const dequant::ScaleSource source = dequant::make_scale_source(args.scales, args.nested_absmax, args.nested_code,
                                                                   args.offset, args.blocksize, args.quant_type);
    return host::launch_kernel(kernel, dim3(static_cast<unsigned>(row_blocks * column_blocks)),
                               dim3(32 * Config::kWarps), smem_bytes<Config>(), stream, args, source,
                               static_cast<int>(row_blocks));
  }
};

}  // namespace tilewright
