// A CUDA device made of scalar host code: the launch functions and the runtime calls that the binding makes.
//
// `setup` chooses the compute capability and the SM count before the first call.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "binding_quantize.h"
#include "binding_shim.h"
#include "tilewright/generated/gemm_4bit.h"

namespace {

constexpr float kNf4[16] = {
    -1.0f,               -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f,  0.7229568362236023f,  1.0f,
};

int cc_major = 9;
int cc_minor = 0;
int num_sms = 132;
int64_t last_lda = 0;
bool translates = true;

template <class Args>
float scale(const Args& args, int64_t block) {
  if (args.nested_absmax == nullptr) return static_cast<const float*>(args.scales)[block];
  const uint8_t code = static_cast<const uint8_t*>(args.scales)[block];
  return args.nested_code[code] * args.nested_absmax[block >> 8] + *args.offset;
}

template <class Args>
float weight(const Args& args, int64_t index) {
  const int byte = args.b[index / 2];
  return kNf4[index % 2 == 0 ? byte >> 4 : byte & 15] * scale(args, index / args.blocksize);
}

int32_t no_stream(int32_t, void** stream) {
  *stream = nullptr;
  return 0;
}

}  // namespace

extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = cc_major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = cc_minor;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = num_sms;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 232448;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorUnsupportedPtxVersion) return "the provided PTX was compiled with an unsupported toolchain.";
  return error == cudaErrorNotSupported ? "not supported" : "failed";
}

__attribute__((visibility("default"))) void setup_driver(bool translates_ptx) { translates = translates_ptx; }

__attribute__((visibility("default"))) void setup(int major, int minor, int sms) {
  cc_major = major;
  cc_minor = minor;
  num_sms = sms;
  tilewright::binding::shim.get_current_cuda_stream = no_stream;
}

__attribute__((visibility("default"))) int64_t lda_of_last_launch() { return last_lda; }

}  // extern "C"

namespace tilewright {

namespace gemm_4bit {

const char* const kSpecDigest = "host";

// Single precision and nf4 only; anything else is an error that the binding must report.
cudaError_t launch(Tile, DType dtype, const Gemm4bitArgs& args, cudaStream_t) {
  if (dtype == DType::kBf16) return cudaErrorSymbolNotFound;
  if (dtype != DType::kF32) return cudaErrorNotSupported;
  if (reinterpret_cast<uintptr_t>(args.a) % 16 != 0 || args.lda * 4 % 16 != 0) return cudaErrorInvalidValue;
  if (reinterpret_cast<uintptr_t>(args.b) % 16 != 0) return cudaErrorInvalidValue;
  last_lda = args.lda;
  for (int64_t m = 0; m < args.m; ++m) {
    for (int64_t n = 0; n < args.n; ++n) {
      double sum = args.bias == nullptr ? 0.0 : static_cast<const float*>(args.bias)[n];
      for (int64_t k = 0; k < args.k; ++k) {
        sum += static_cast<double>(static_cast<const float*>(args.a)[m * args.lda + k]) * weight(args, n * args.k + k);
      }
      static_cast<float*>(args.out)[m * args.n + n] = static_cast<float>(sum);
    }
  }
  return cudaSuccess;
}

void describe_unbuilt(Tile tile, Arch, const Problem&, char* text, size_t size) {
  std::snprintf(text, size, "tile %s is not built.", tile_name(tile));
}

}  // namespace gemm_4bit

namespace binding {

// Every value becomes code 7 with absmax 1: the kernel has tests of its own, here the plumbing counts.
cudaError_t enqueue_quantize_4bit(const Quantize4bitArgs& args, cudaStream_t) {
  if (args.dtype != DType::kF32) return cudaErrorNotSupported;
  for (int64_t i = 0; i < (args.numel + 1) / 2; ++i) args.packed[i] = 0x77;
  for (int64_t i = 0; i < (args.numel + args.blocksize - 1) / args.blocksize; ++i) args.absmax[i] = 1.0f;
  return cudaSuccess;
}

cudaError_t enqueue_dequantize_4bit(const Dequantize4bitArgs& args, cudaStream_t) {
  if (args.dtype != DType::kF32) return cudaErrorNotSupported;
  for (int64_t i = 0; i < args.numel; ++i) static_cast<float*>(args.out)[i] = weight(args, i);
  return cudaSuccess;
}

cudaError_t load_a_kernel() { return translates ? cudaSuccess : cudaErrorUnsupportedPtxVersion; }

}  // namespace binding

}  // namespace tilewright
