// Joins a generated tile with an element type: the one template parameter of every gemm_4bit kernel.
#pragma once

#include "tilewright/gemm_4bit/args.h"

namespace tilewright {

// `Tile` is a generated struct with `static constexpr` members: kEngine and one per tile field.
// `T` is __half, __nv_bfloat16 or float.
template <class Tile, class T>
struct Gemm4bitConfig : Tile {
  using Element = T;
};

}  // namespace tilewright
