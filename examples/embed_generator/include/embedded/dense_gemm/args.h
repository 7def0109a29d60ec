// What the kernels of the family take. Host and device; needs no CUDA header.
#pragma once

#include <cstdint>

namespace embedded {

// In the order of `dtypes` in specs/families/dense_gemm/family.yaml; the generated selector checks that.
enum class DType : int { kF16 = 0, kF32 = 1 };

// One value an engine of the tile tables.
enum class Engine : int { kBlocked = 0 };

namespace dense_gemm {

// out[m, n] = a[m, k] times b[n, k] transposed; row-major, dense.
struct DenseGemmArgs {
  const void* a;
  const void* b;
  void* out;
  int64_t m, n, k;
};

// What a kernel is instantiated with: the fields of a tile (kMt, kNt, kKc) and the element type.
template <class Tile, class T>
struct DenseGemmConfig : Tile {
  using Element = T;
};

}  // namespace dense_gemm
}  // namespace embedded
