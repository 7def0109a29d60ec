// A plain C interface to the mma_block_scaled engine of gemm_nvfp4, for a GPU that has it (sm_120, sm_121). Built by
// nvfp4_mma_build.sh.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tilewright/gemm_nvfp4/mma_block_scaled.cuh"

namespace {

using namespace tilewright;

template <int mt, int nt, int stages, int warps_m, int warps_n>
struct Tile {
  static constexpr Engine kEngine = Engine::kMmaBlockScaled;
  static constexpr int kMt = mt, kNt = nt, kKc = 256, kStages = stages, kWarpsM = warps_m, kWarpsN = warps_n;
};

struct Entry {
  const char* name;
  cudaError_t (*launch[2])(const GemmNvfp4Args&, cudaStream_t);  // by DType
};

template <class T, class Element>
cudaError_t launch(const GemmNvfp4Args& args, cudaStream_t stream) {
  return gemm_nvfp4::EngineLauncher<T::kEngine>::template launch<GemmNvfp4Config<T, Element>>(args, stream);
}

template <class T>
constexpr Entry entry(const char* name) {
  return {name, {&launch<T, __half>, &launch<T, __nv_bfloat16>}};
}

constexpr Entry kEntries[] = {
    entry<Tile<128, 128, 2, 2, 4>>("m128x128_s2"), entry<Tile<64, 128, 3, 2, 4>>("m64x128_s3"),
    entry<Tile<64, 64, 4, 2, 2>>("m64x64_s4"),     entry<Tile<32, 128, 3, 1, 4>>("m32x128_s3"),
    entry<Tile<16, 64, 4, 1, 4>>("m16x64_s4"),
};
constexpr int kCount = sizeof(kEntries) / sizeof(kEntries[0]);

}  // namespace

extern "C" {

int tw_nvfp4_count() { return kCount; }

const char* tw_nvfp4_name(int tile) { return kEntries[tile].name; }

// A cudaError_t.
int tw_nvfp4_launch(int tile, const GemmNvfp4Args* args, void* stream) {
  if (tile < 0 || tile >= kCount || args->dtype == DType::kF32) return cudaErrorInvalidValue;
  return kEntries[tile].launch[static_cast<int>(args->dtype)](*args, static_cast<cudaStream_t>(stream));
}

}  // extern "C"
