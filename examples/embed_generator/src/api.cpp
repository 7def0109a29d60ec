// The C interface of the library: what is built, what is chosen, and the op.
#include <cuda_runtime_api.h>

#include <cinttypes>
#include <cstdio>

#include "embedded/generated/dense_gemm.h"

#define EMBEDDED_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace embedded::dense_gemm;

thread_local char error_text[512];

Problem problem_of(int64_t m, int64_t n, int64_t k, int num_sms, int dtype) {
  Problem problem{};
  problem.M = m;
  problem.N = n;
  problem.K = k;
  problem.num_sms = num_sms;
  problem.dtype = static_cast<embedded::DType>(dtype);
  return problem;
}

const char* fail(const char* what, cudaError_t error) {
  std::snprintf(error_text, sizeof error_text, "dense_gemm: %s: %s", what, cudaGetErrorString(error));
  return error_text;
}

}  // namespace

EMBEDDED_EXPORT int embedded_image_count() { return kImageCount; }

EMBEDDED_EXPORT const char* embedded_spec_digest() { return kSpecDigest; }

// Name of the tile for a problem on a card, or null when nothing is built for the card.
EMBEDDED_EXPORT const char* embedded_choose(int cc_major, int cc_minor, int num_sms, int64_t m, int64_t n, int64_t k,
                                            int dtype) {
  const int image = best_image(cc_major, cc_minor);
  if (image < 0) return nullptr;
  return tile_name(select(kImages[image].arch, problem_of(m, n, k, num_sms, dtype)).tile);
}

// Pointers to device memory of the current device. Null on success, else what went wrong.
EMBEDDED_EXPORT const char* embedded_dense_gemm(const void* a, const void* b, void* out, int64_t m, int64_t n,
                                                int64_t k, int dtype, void* stream) {
  int device = 0, major = 0, minor = 0, num_sms = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return fail("there is no CUDA device to run on", error);
  if ((error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) != cudaSuccess ||
      (error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)) != cudaSuccess ||
      (error = cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device)) != cudaSuccess) {
    return fail("the device does not say what it is", error);
  }
  const int image = best_image(major, minor);
  if (image < 0) {
    std::snprintf(error_text, sizeof error_text, "dense_gemm: nothing is built for compute capability %d.%d", major,
                  minor);
    return error_text;
  }
  const Arch arch = kImages[image].arch;
  const Problem problem = problem_of(m, n, k, num_sms, dtype);
  if (!within_limits(problem)) {
    std::snprintf(error_text, sizeof error_text, "dense_gemm: M=%" PRId64 ", N=%" PRId64 ", K=%" PRId64 " is not taken",
                  m, n, k);
    return error_text;
  }
  const Decision decision = select(arch, problem);
  const DenseGemmArgs args{a, b, out, m, n, k};
  error = launch(decision.tile, problem.dtype, args, static_cast<cudaStream_t>(stream));
  if (error == cudaSuccess) return nullptr;
  if (error != cudaErrorSymbolNotFound) return fail("the launch failed", error);
  describe_unbuilt(decision.tile, arch, problem, error_text, sizeof error_text);
  return error_text;
}
