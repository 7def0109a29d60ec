// smem_bytes<Tile>() for every engine of the family. Mirrored by the generator's resource model; a generated
// static_assert compares the two.
#pragma once

#include "tilewright/gemm_nvfp4/mma_plan.h"
#include "tilewright/tcgen05/plan.h"
#include "tilewright/types.h"

namespace tilewright::gemm_nvfp4 {

// Dynamic shared memory of one block of `Tile`, in bytes.
template <class Tile>
constexpr int smem_bytes() {
  if constexpr (Tile::kEngine == Engine::kMmaBlockScaled) {
    return MmaLayout<Tile>::kBytes;
  } else {
    static_assert(Tile::kEngine == Engine::kTcgen05, "an engine of gemm_nvfp4");
    return tcgen05::Plan<Tile, tcgen05::Nvfp4Operands>::kBytes;
  }
}

}  // namespace tilewright::gemm_nvfp4
