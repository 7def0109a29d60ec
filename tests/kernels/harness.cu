// A plain C interface to every test tile, for benchmarks/gpu_check.py and the sanitizer program. No torch needed.
#include "tilewright/gemm_4bit/launch.cuh"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/quantize/dequantize_4bit.cuh"
#include "tilewright/quantize/quantize_4bit.cuh"

#include "harness.h"
#include "tiles.h"

namespace tilewright::test {
namespace {

using Launch = cudaError_t (*)(const Gemm4bitArgs&, cudaStream_t);

struct Entry {
  const char* name;
  TileInfo info;
  Launch launch[3];  // by DType; null where the engine has no such kernel
};

#define TILEWRIGHT_ENTRY(tile, mt, nt, kc, stages, warps_m, warps_n, warps_k)            \
  {#tile,                                                                                \
   {1, mt, nt, kc, stages, smem_bytes<Tile_##tile>()},                                   \
   {&launch_gemm_4bit<Gemm4bitConfig<Tile_##tile, __half>>,                              \
    &launch_gemm_4bit<Gemm4bitConfig<Tile_##tile, __nv_bfloat16>>, nullptr}},
#define TILEWRIGHT_SIMT_ENTRY(tile, mb, warps)                                           \
  {#tile,                                                                                \
   {0, mb, warps, 0, 0, smem_bytes<Tile_##tile>()},                                      \
   {&launch_gemm_4bit<Gemm4bitConfig<Tile_##tile, __half>>,                              \
    &launch_gemm_4bit<Gemm4bitConfig<Tile_##tile, __nv_bfloat16>>,                       \
    &launch_gemm_4bit<Gemm4bitConfig<Tile_##tile, float>>}},

constexpr Entry kEntries[] = {TILEWRIGHT_TEST_MMA_TILES(TILEWRIGHT_ENTRY)
                                  TILEWRIGHT_TEST_SIMT_TILES(TILEWRIGHT_SIMT_ENTRY)};
constexpr int kEntryCount = static_cast<int>(sizeof(kEntries) / sizeof(kEntries[0]));

}  // namespace
}  // namespace tilewright::test

using namespace tilewright;

extern "C" {

int tw_tile_count() { return test::kEntryCount; }

const char* tw_tile_name(int tile) {
  return tile >= 0 && tile < test::kEntryCount ? test::kEntries[tile].name : nullptr;
}

int tw_tile_info(int tile, test::TileInfo* info) {
  if (tile < 0 || tile >= test::kEntryCount) return cudaErrorInvalidValue;
  *info = test::kEntries[tile].info;
  return cudaSuccess;
}

int tw_gemm_4bit(int tile, const Gemm4bitArgs* args, void* stream) {
  const int dtype = static_cast<int>(args->dtype);
  if (tile < 0 || tile >= test::kEntryCount || dtype < 0 || dtype > 2) return cudaErrorInvalidValue;
  const test::Launch launch = test::kEntries[tile].launch[dtype];
  return launch == nullptr ? cudaErrorNotSupported : launch(*args, static_cast<cudaStream_t>(stream));
}

int tw_dequantize_4bit(const Dequantize4bitArgs* args, void* stream) {
  return dequantize_4bit(*args, static_cast<cudaStream_t>(stream));
}

int tw_quantize_4bit(const Quantize4bitArgs* args, void* stream) {
  return quantize_4bit(*args, static_cast<cudaStream_t>(stream));
}

const char* tw_error_name(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }

}  // extern "C"
