// A plain C interface to the mma.sync and decode engines of gemm_fp8, one translation unit per group of tiles
// (-DTILEWRIGHT_GROUP=0..3). Built by fp8_mma_build.sh, used by benchmarks/fp8_decode_sweep.py.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fp8_mma_harness.h"
#include "fp8_mma_tiles.h"
#include "tilewright/gemm_fp8/decode.cuh"
#include "tilewright/gemm_fp8/mma_m16n8k32.cuh"

namespace tilewright::test {
namespace {

template <int mb, int warps, int warps_k, int depth, int occupancy, int per_sm, int a_kb>
struct DecodeTile {
  static constexpr Engine kEngine = Engine::kDecode;
  static constexpr int kMb = mb, kWarps = warps, kWarpsK = warps_k, kDepth = depth;
  static constexpr int kOccupancy = occupancy, kPerSm = per_sm, kAKb = a_kb, kCluster = 0;
};

template <int mb, int warps, int depth, int cluster, int occupancy, int per_sm, int a_kb>
struct BulkTile {
  static constexpr Engine kEngine = Engine::kDecode;
  static constexpr int kMb = mb, kWarps = warps, kDepth = depth, kCluster = cluster;
  static constexpr int kOccupancy = occupancy, kPerSm = per_sm, kAKb = a_kb;
};

template <int mt, int nt, int stages, int warps_m, int warps_n>
struct MmaTile {
  static constexpr Engine kEngine = Engine::kMmaM16n8k32;
  static constexpr int kMt = mt, kNt = nt, kKc = 128, kStages = stages, kWarpsM = warps_m, kWarpsN = warps_n;
};

template <class Tile, class T>
cudaError_t launch(const GemmFp8Args& args, cudaStream_t stream) {
  return gemm_fp8::EngineLauncher<Tile::kEngine>::template launch<GemmFp8Config<Tile, T>>(args, stream);
}

template <class Tile, bool kAll>
constexpr Fp8Entry entry(const char* name, Fp8TileInfo info) {
  if constexpr (kAll) {
    return {name, info, {&launch<Tile, __half>, &launch<Tile, __nv_bfloat16>, &launch<Tile, float>}};
  } else {
    return {name, info, {nullptr, &launch<Tile, __nv_bfloat16>, nullptr}};
  }
}

template <class Tile, bool kAll>
constexpr Fp8Entry decode_entry(const char* name) {
  return entry<Tile, kAll>(name, {Tile::kMb, gemm_fp8::DecodeLayout<Tile>::kBytes, 1});
}

template <class Tile, bool kAll>
constexpr Fp8Entry bulk_entry(const char* name) {
  return entry<Tile, kAll>(name, {Tile::kMb, gemm_fp8::DecodeBulkLayout<Tile>::kBytes, 1});
}

template <class Tile, bool kAll>
constexpr Fp8Entry mma_entry(const char* name) {
  return entry<Tile, kAll>(name, {0, gemm_fp8::MmaLayout<Tile>::kBytes, 0});
}

#define TILEWRIGHT_MMA_BF16(id, ...) mma_entry<MmaTile<__VA_ARGS__>, false>(#id),
#define TILEWRIGHT_MMA_ALL(id, ...) mma_entry<MmaTile<__VA_ARGS__>, true>(#id),
#define TILEWRIGHT_DECODE_BF16(id, ...) decode_entry<DecodeTile<__VA_ARGS__>, false>(#id),
#define TILEWRIGHT_DECODE_ALL(id, ...) decode_entry<DecodeTile<__VA_ARGS__>, true>(#id),
#define TILEWRIGHT_BULK_BF16(id, ...) bulk_entry<BulkTile<__VA_ARGS__>, false>(#id),
#define TILEWRIGHT_BULK_ALL(id, ...) bulk_entry<BulkTile<__VA_ARGS__>, true>(#id),

#define TILEWRIGHT_JOIN_(a, b) a##b
#define TILEWRIGHT_JOIN(a, b) TILEWRIGHT_JOIN_(a, b)

}  // namespace

Fp8Group TILEWRIGHT_JOIN(fp8_group_, TILEWRIGHT_GROUP)() {
  static const Fp8Entry entries[] = {
      TILEWRIGHT_JOIN(TILEWRIGHT_FP8_DECODE_, TILEWRIGHT_GROUP)(TILEWRIGHT_DECODE_BF16, TILEWRIGHT_DECODE_ALL)
          TILEWRIGHT_JOIN(TILEWRIGHT_FP8_BULK_, TILEWRIGHT_GROUP)(TILEWRIGHT_BULK_BF16, TILEWRIGHT_BULK_ALL)
          TILEWRIGHT_JOIN(TILEWRIGHT_FP8_MMA_, TILEWRIGHT_GROUP)(TILEWRIGHT_MMA_BF16, TILEWRIGHT_MMA_ALL)};
  return {entries, static_cast<int>(sizeof(entries) / sizeof(entries[0]))};
}

}  // namespace tilewright::test
