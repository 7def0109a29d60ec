// Words every family shares. Needs no CUDA header.
#pragma once

namespace tilewright {

// Element types of activations (gemm_4bit) and of results (gemm_fp8, gemm_nvfp4).
enum class DType : int { kF16 = 0, kBf16 = 1, kF32 = 2 };

// The kernel family member a tile belongs to; a Config carries it as `kEngine`.
enum class Engine : int {
  kSimt = 0,
  kMmaM16n8k16 = 1,
  kWgmma = 2,
  kTcgen05 = 3,
  kDecode = 4,
  kMmaM16n8k32 = 5,
  kMmaBlockScaled = 6,
};

}  // namespace tilewright
