// A CUDA device made of scalar host code: the launch functions and the runtime calls that the binding makes.
//
// `setup` chooses the compute capability and the SM count before the first call.
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>

#include "binding_quantize.h"
#include "binding_shim.h"
#include "tilewright/generated/gemm_4bit.h"
#include "tilewright/generated/gemm_fp8.h"
#include "tilewright/generated/gemm_nvfp4.h"

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
bool last_fresh = false;
cudaError_t translation = cudaSuccess;

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

float fp8(uint8_t code, tilewright::Fp8Type type) {
  const int mantissa_bits = type == tilewright::Fp8Type::kE4m3 ? 3 : 2;
  const int bias = type == tilewright::Fp8Type::kE4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const float mantissa = static_cast<float>(code & ((1 << mantissa_bits) - 1)) / static_cast<float>(1 << mantissa_bits);
  const float magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1.0f + mantissa, exponent - bias);
  return code & 0x80 ? -magnitude : magnitude;
}

// One output of a product: row i of A, counted over all groups, and column j of group g.
float fp8_output(const tilewright::GemmFp8Args& args, int64_t i, int64_t j, int64_t g) {
  const bool blocks = args.scaling == tilewright::Scaling::kBlock;
  const uint8_t* a = static_cast<const uint8_t*>(args.a) + i * args.lda;
  const uint8_t* b = static_cast<const uint8_t*>(args.b) + g * args.b_group_stride + j * args.ldb;
  double sum = args.bias == nullptr ? 0.0 : static_cast<const float*>(args.bias)[g * args.bias_group + j];
  for (int64_t k = 0; k < args.k; ++k) {
    const int64_t q = blocks ? k / 128 : 0;
    const double scale_a = args.scale_a[i * args.scale_a_m + q * args.scale_a_k];
    const double scale_b = args.scale_b[g * args.scale_b_group + (blocks ? j / 128 : j) * args.scale_b_n + q * args.scale_b_k];
    sum += scale_a * scale_b * fp8(a[k], args.a_type) * fp8(b[k], tilewright::Fp8Type::kE4m3);
  }
  return static_cast<float>(sum);
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

__attribute__((visibility("default"))) void setup_driver(int error) { translation = static_cast<cudaError_t>(error); }

__attribute__((visibility("default"))) void setup(int major, int minor, int sms) {
  cc_major = major;
  cc_minor = minor;
  num_sms = sms;
  tilewright::binding::shim.get_current_cuda_stream = no_stream;
}

__attribute__((visibility("default"))) int64_t lda_of_last_launch() { return last_lda; }

// Whether the last launch was one that waits before it reads its weight.
__attribute__((visibility("default"))) int fresh_weights_of_last_launch() { return last_fresh; }

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
  last_fresh = args.fresh_weights;
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

namespace gemm_fp8 {

const char* const kSpecDigest = "host";

// Single precision only; float16 is what its engine does not take, bfloat16 what the build does not hold.
cudaError_t launch(Tile, DType dtype, const GemmFp8Args& args, cudaStream_t) {
  if (dtype == DType::kBf16) return cudaErrorSymbolNotFound;
  if (dtype != DType::kF32) return cudaErrorNotSupported;
  const int64_t places[] = {reinterpret_cast<int64_t>(args.a), reinterpret_cast<int64_t>(args.b), args.lda, args.ldb,
                            args.b_group_stride};
  for (int64_t place : places) {
    if (place % 16 != 0) return cudaErrorInvalidValue;
  }
  last_lda = args.lda;
  last_fresh = args.fresh_weights;
  for (int64_t g = 0; g < args.groups; ++g) {
    int64_t first = 0;
    int64_t end = args.m;
    if (args.grouping == Grouping::kContiguous) {
      first = g == 0 ? 0 : args.group_ends[g - 1];
      end = args.group_ends[g];
    } else if (args.grouping == Grouping::kMasked) {
      first = g * args.m;
      end = first + args.group_rows[g];
    }
    for (int64_t i = first; i < end; ++i) {
      for (int64_t j = 0; j < args.n; ++j) static_cast<float*>(args.out)[i * args.ldo + j] = fp8_output(args, i, j, g);
    }
  }
  return cudaSuccess;
}

void describe_unbuilt(Tile tile, Arch, const Problem&, char* text, size_t size) {
  std::snprintf(text, size, "tile %s is not built.", tile_name(tile));
}

}  // namespace gemm_fp8

namespace gemm_nvfp4 {

const char* const kSpecDigest = "host";

// Every output is the number of the tile.
cudaError_t launch(Tile tile, DType dtype, const GemmNvfp4Args& args, cudaStream_t) {
  if (dtype != DType::kF32) return cudaErrorNotSupported;
  for (int64_t i = 0; i < args.m * args.n; ++i) static_cast<float*>(args.out)[i] = static_cast<float>(tile);
  return cudaSuccess;
}

void describe_unbuilt(Tile tile, Arch, const Problem&, char* text, size_t size) {
  std::snprintf(text, size, "tile %s is not built.", tile_name(tile));
}

}  // namespace gemm_nvfp4

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

// Codes 0x38 (1.0); scales count up in the order of rows and columns.
cudaError_t enqueue_quantize_fp8(const QuantizeFp8Args& args, cudaStream_t) {
  if (args.dtype != DType::kF32) return cudaErrorNotSupported;
  for (int64_t i = 0; i < args.rows * args.columns; ++i) args.codes[i] = 0x38;
  const int64_t height = args.granularity == Granularity::kTensor ? args.rows
                         : args.granularity == Granularity::kBlock128x128 ? 128 : 1;
  const int64_t width = args.granularity <= Granularity::kRow ? args.columns : 128;
  const int64_t across = (args.columns + width - 1) / width;
  for (int64_t i = 0; i < (args.rows + height - 1) / height; ++i) {
    for (int64_t j = 0; j < across; ++j) {
      const float counted = args.given != nullptr ? *args.given : static_cast<float>(i * across + j);
      args.scales[i * args.scale_row + j * args.scale_column] = counted;
    }
  }
  return cudaSuccess;
}

cudaError_t enqueue_quantize_nvfp4(const QuantizeNvfp4Args& args, cudaStream_t) {
  if (args.dtype != DType::kF32) return cudaErrorNotSupported;
  for (int64_t i = 0; i < args.rows * args.columns / 2; ++i) args.codes[i] = 0x22;
  *args.global_scale = args.given != nullptr ? *args.given : 3.0f;
  return cudaSuccess;
}

cudaError_t load_a_kernel() { return translation; }

}  // namespace binding

}  // namespace tilewright
