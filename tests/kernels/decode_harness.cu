// A plain C interface to the decode engine alone, one translation unit per group of shapes (-DTILEWRIGHT_GROUP=0..3); the
// cluster size and the ring are chosen per call. Built by decode_build.sh, used by
// benchmarks/decode_sweep.py.
#include "decode_harness.h"
#include "decode_shapes.h"
#include "tilewright/gemm_4bit/decode.cuh"

namespace tilewright::test {
namespace {

template <class Shape>
int ring_limit() {
  constexpr int kBytes = (Shape::kOccupancy == 2 ? 113 : 227) * 1024;
  return (kBytes - DecodeSmem<Shape>::bytes(0)) / 1024;
}

#define TILEWRIGHT_DECODE_ENTRY(id, mb, kb, warps_k, warps_n, lut, occupancy)                \
  {#id,                                                                                      \
   {mb, kb, warps_k, warps_n, lut, occupancy,                                                \
    ring_limit<DecodeShape<__half, mb, kb, warps_k, warps_n, lut, occupancy>>()},            \
   {TILEWRIGHT_HALF(mb, kb, warps_k, warps_n, lut, occupancy),                               \
    &launch_decode_shape<DecodeShape<__nv_bfloat16, mb, kb, warps_k, warps_n, lut, occupancy>>}},

// -DTILEWRIGHT_BF16_ONLY builds half as much, for sweeps.
#ifdef TILEWRIGHT_BF16_ONLY
#define TILEWRIGHT_HALF(mb, kb, warps_k, warps_n, lut, occupancy) nullptr
#else
#define TILEWRIGHT_HALF(mb, kb, warps_k, warps_n, lut, occupancy) \
  &launch_decode_shape<DecodeShape<__half, mb, kb, warps_k, warps_n, lut, occupancy>>
#endif

#define TILEWRIGHT_JOIN_(a, b) a##b
#define TILEWRIGHT_JOIN(a, b) TILEWRIGHT_JOIN_(a, b)

}  // namespace

DecodeGroup TILEWRIGHT_JOIN(decode_group_, TILEWRIGHT_GROUP)() {
  static const DecodeEntry entries[] = {
      TILEWRIGHT_JOIN(TILEWRIGHT_DECODE_SHAPES_, TILEWRIGHT_GROUP)(TILEWRIGHT_DECODE_ENTRY)};
  return {entries, static_cast<int>(sizeof(entries) / sizeof(entries[0]))};
}

}  // namespace tilewright::test
