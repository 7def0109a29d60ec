// smem_bytes<Tile>() for every engine of the family. Mirrored by the generator's resource model; a generated
// static_assert compares the two.
#pragma once

#include "tilewright/gemm_fp8/decode_bulk_plan.h"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/mma_plan.h"
#include "tilewright/gemm_fp8/wgmma_plan.h"
#include "tilewright/tcgen05/plan.h"

namespace tilewright::gemm_fp8 {

// Dynamic shared memory of one block of `Tile`, in bytes.
template <class Tile>
constexpr int smem_bytes() {
  if constexpr (Tile::kEngine == Engine::kWgmma) {
    return WgmmaGeometry<Tile>::kBytes;
  } else if constexpr (Tile::kEngine == Engine::kDecode) {
    if constexpr (Tile::kCluster > 0) {
      return DecodeBulkLayout<Tile>::kBytes;
    } else {
      return DecodeLayout<Tile>::kBytes;
    }
  } else if constexpr (Tile::kEngine == Engine::kMmaM16n8k32) {
    return MmaLayout<Tile>::kBytes;
  } else {
    static_assert(Tile::kEngine == Engine::kTcgen05, "an engine of gemm_fp8");
    return tcgen05::Plan<Tile, tcgen05::Fp8Operands>::kBytes;
  }
}

}  // namespace tilewright::gemm_fp8
