// gemm_fp8 on the fifth-generation tensor cores (sm_100f, sm_103a, sm_107a): instructions of CTA pairs, scales in the
// epilogue. A tile with kPromote adds up 128 of K at a time in fp32 and takes every kind of scale; the others take one
// scale per operand or per row.
#pragma once

#include <cuda_runtime.h>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_fp8/args.h"
#include "tilewright/gemm_fp8/engine_launcher.h"
#include "tilewright/tcgen05/launch.cuh"

namespace tilewright::gemm_fp8 {

// Returns, having launched nothing:
//   cudaErrorInvalidValue       a size, stride, type or pointer that no kernel of the family takes
//   cudaErrorNotSupported       K == 0, block scales without kPromote, weights of groups that do not lie a whole number
//   of rows
//                               apart, a device or toolkit without the oversized shared memory that the tile needs
//   cudaErrorMisalignedAddress  A or B, or their rows, do not start on 16 bytes; out or bias not on an element
//   cudaErrorInvalidConfiguration  more tiles than a grid can count
template <>
struct EngineLauncher<Engine::kTcgen05> {
  template <class Config>
  static cudaError_t launch(const GemmFp8Args& args, cudaStream_t stream) {
    static_assert(!Config::kPromote || (Config::kPair[0] == '1' && Config::kNt == 128 && Config::kAccumulators == 2),
                  "sums in registers are those of one tile of 128 columns, and alternate");
    if (const cudaError_t error = check<Config>(args); error != cudaSuccess) return error;
    if (args.m == 0 || args.n == 0) return cudaSuccess;
    if (args.k == 0 || !takes_groups(args)) return cudaErrorNotSupported;
    if (args.scaling == Scaling::kBlock && !Config::kPromote) return cudaErrorNotSupported;
    const auto a_format = args.a_type == Fp8Type::kE5m2 ? tcgen05::Fp8Format::kE5m2 : tcgen05::Fp8Format::kE4m3;
    const tcgen05::PairProblem problem{
        args.a,           args.b, nullptr,  nullptr,  args.bias, args.out,          args.m,
        args.n,           args.k, args.lda, args.ldb, args.ldo,  make_scales(args), static_cast<uint32_t>(a_format),
        make_groups(args)};
    return tcgen05::PairLauncher<Config, tcgen05::Fp8Operands, Config::kPromote>::launch(problem, stream);
  }

 private:
  template <class Config>
  static cudaError_t check(const GemmFp8Args& args) {
    if (args.dtype != ElementTraits<typename Config::Element>::kDType) return cudaErrorInvalidValue;
    if (args.a_type != Fp8Type::kE4m3 && args.a_type != Fp8Type::kE5m2) return cudaErrorInvalidValue;
    if (args.m < 0 || args.n < 0 || args.k < 0) return cudaErrorInvalidValue;
    if (args.m == 0 || args.n == 0) return cudaSuccess;
    if (args.lda < args.k || args.ldb < args.k || args.ldo < args.n) return cudaErrorInvalidValue;
    if (args.out == nullptr || args.scale_a == nullptr || args.scale_b == nullptr) return cudaErrorInvalidValue;
    if (args.grouping != Grouping::kNone) {
      const void* bounds = args.grouping == Grouping::kContiguous ? args.group_ends : args.group_rows;
      if (bounds == nullptr || args.groups < 1 || args.b_group_stride < 0) return cudaErrorInvalidValue;
    }
    return args.k == 0 || (args.a != nullptr && args.b != nullptr) ? cudaSuccess : cudaErrorInvalidValue;
  }

  // The weights of all groups are read as one matrix: each starts a whole number of rows, at least n, behind the last.
  static bool takes_groups(const GemmFp8Args& args) {
    if (args.grouping == Grouping::kNone || args.groups == 1) return true;
    const int64_t rows = args.b_group_stride / args.ldb;
    return args.b_group_stride % args.ldb == 0 && rows >= args.n && rows <= tcgen05::kMaxRows && args.groups <= 1 << 16;
  }

  static tcgen05::PairGroups make_groups(const GemmFp8Args& args) {
    if (args.grouping == Grouping::kNone) return {};
    const bool contiguous = args.grouping == Grouping::kContiguous;
    return {contiguous ? args.group_ends : nullptr,
            contiguous ? nullptr : args.group_rows,
            args.groups,
            args.groups == 1 ? 0 : static_cast<int>(args.b_group_stride / args.ldb),
            args.scale_b_group,
            args.bias_group};
  }

  static tcgen05::EpilogueScales make_scales(const GemmFp8Args& args) {
    switch (args.scaling) {
      case Scaling::kRow:
        return {args.scale_a, args.scale_b, args.scale_a_m, 0, args.scale_b_n, 0, false};
      case Scaling::kBlock:
        return {args.scale_a, args.scale_b, args.scale_a_m, args.scale_a_k, args.scale_b_n, args.scale_b_k, true};
      case Scaling::kTensor:
        break;
    }
    return {args.scale_a, args.scale_b, 0, 0, 0, 0, false};
  }
};

}  // namespace tilewright::gemm_fp8
