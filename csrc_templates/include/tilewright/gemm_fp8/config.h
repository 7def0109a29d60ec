// The one template parameter of a gemm_fp8 kernel: a tile of the spec with the element type of the result.
#pragma once

namespace tilewright {

template <class Tile, class T>
struct GemmFp8Config : Tile {
  using Element = T;
};

}  // namespace tilewright
