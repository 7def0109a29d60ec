// gemm_nvfp4 on the fifth-generation tensor cores (sm_100f, sm_103a, sm_107a): block-scaled instructions of CTA pairs.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_nvfp4/args.h"
#include "tilewright/gemm_nvfp4/engine_launcher.h"
#include "tilewright/tcgen05/launch.cuh"

namespace tilewright::gemm_nvfp4 {

// Returns, having launched nothing:
//   cudaErrorInvalidValue       a size, dtype or pointer that no kernel of the family takes
//   cudaErrorNotSupported       K == 0 or K % 64 != 0 (four scales lie together, and one of the padding would count
//                               even where it multiplies zeros: NaN * 0), a device or toolkit without the oversized
//                               shared memory that the tile needs
//   cudaErrorMisalignedAddress  A, B or their scales do not start on 16 bytes; out or bias not on an element
//   cudaErrorInvalidConfiguration  more tiles than a grid can count
template <>
struct EngineLauncher<Engine::kTcgen05> {
  template <class Config>
  static cudaError_t launch(const GemmNvfp4Args& args, cudaStream_t stream) {
    if (const cudaError_t error = check<Config>(args); error != cudaSuccess) return error;
    if (args.m == 0 || args.n == 0) return cudaSuccess;
    if (args.k == 0 || args.k % 64 != 0) return cudaErrorNotSupported;
    const tcgen05::EpilogueScales scales{args.global_a, args.global_b, 0, 0, 0, 0, false};
    const tcgen05::PairProblem problem{args.a, args.b, args.scale_a, args.scale_b, args.bias, args.out, args.m,
                                       args.n, args.k, args.k / 2,   args.k / 2,   args.ldo,  scales,   0,
                                       {}};
    return tcgen05::PairLauncher<Config, tcgen05::Nvfp4Operands, false>::launch(problem, stream);
  }

 private:
  template <class Config>
  static cudaError_t check(const GemmNvfp4Args& args) {
    if (args.dtype != ElementTraits<typename Config::Element>::kDType) return cudaErrorInvalidValue;
    if (args.m < 0 || args.n < 0 || args.k < 0 || args.k % 16 != 0) return cudaErrorInvalidValue;
    if (args.m == 0 || args.n == 0) return cudaSuccess;
    if (args.ldo < args.n || args.out == nullptr) return cudaErrorInvalidValue;
    if (args.global_a == nullptr || args.global_b == nullptr) return cudaErrorInvalidValue;
    const bool whole = args.a != nullptr && args.b != nullptr && args.scale_a != nullptr && args.scale_b != nullptr;
    return whole || args.k == 0 ? cudaSuccess : cudaErrorInvalidValue;
  }
};

}  // namespace tilewright::gemm_nvfp4
