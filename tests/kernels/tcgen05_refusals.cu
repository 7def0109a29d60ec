// What the launchers of the tcgen05 engine say to problems they do not take. Needs no device: every refusal comes
// before the first call to one. Prints each case whose code is another and returns their number.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <functional>

#include "tcgen05_refusals_tiles.h"
#include "tilewright/gemm_fp8/config.h"
#include "tilewright/gemm_fp8/tcgen05.cuh"
#include "tilewright/gemm_nvfp4/config.h"
#include "tilewright/gemm_nvfp4/tcgen05.cuh"

namespace {

using namespace tilewright;
using Element = __nv_bfloat16;

alignas(1024) uint8_t memory[4096];  // addresses that nothing reads
int wrong = 0;

void expect(const char* what, cudaError_t expected, cudaError_t found) {
  if (found == expected) return;
  ++wrong;
  std::printf("%s: %s, expected %s\n", what, cudaGetErrorName(found), cudaGetErrorName(expected));
}

GemmNvfp4Args good_nvfp4() {
  GemmNvfp4Args args{};
  args.a = args.b = args.scale_a = args.scale_b = memory;
  args.global_a = args.global_b = reinterpret_cast<const float*>(memory);
  args.out = memory;
  args.m = 100, args.n = 200, args.k = 320, args.ldo = 200;
  args.dtype = DType::kBf16;
  return args;
}

void nvfp4(const char* what, cudaError_t expected, const std::function<void(GemmNvfp4Args&)>& change) {
  GemmNvfp4Args args = good_nvfp4();
  change(args);
  using Launcher = gemm_nvfp4::EngineLauncher<Engine::kTcgen05>;
  expect(what, expected, Launcher::launch<GemmNvfp4Config<TileNvfp4, Element>>(args, nullptr));
}

GemmFp8Args good_fp8() {
  GemmFp8Args args{};
  args.a = args.b = args.out = memory;
  args.scale_a = args.scale_b = reinterpret_cast<const float*>(memory);
  args.m = 100, args.n = 200, args.k = 333, args.lda = 336, args.ldb = 352, args.ldo = 200;
  args.dtype = DType::kBf16;
  return args;
}

template <class Tile>
void fp8(const char* what, cudaError_t expected, const std::function<void(GemmFp8Args&)>& change) {
  GemmFp8Args args = good_fp8();
  change(args);
  using Launcher = gemm_fp8::EngineLauncher<Engine::kTcgen05>;
  expect(what, expected, Launcher::launch<GemmFp8Config<Tile, Element>>(args, nullptr));
}

void check_nvfp4() {
  nvfp4("another dtype", cudaErrorInvalidValue, [](auto& args) { args.dtype = DType::kF16; });
  nvfp4("negative m", cudaErrorInvalidValue, [](auto& args) { args.m = -1; });
  nvfp4("k 24", cudaErrorInvalidValue, [](auto& args) { args.k = 24; });
  nvfp4("k 48", cudaErrorNotSupported, [](auto& args) { args.k = 48; });
  nvfp4("k 96: scales in one piece with padding", cudaErrorNotSupported, [](auto& args) { args.k = 96; });
  nvfp4("k 0", cudaErrorNotSupported, [](auto& args) { args.k = 0; });
  nvfp4("no rows", cudaSuccess, [](auto& args) { args.m = 0, args.a = nullptr; });
  nvfp4("no columns", cudaSuccess, [](auto& args) { args.n = 0, args.b = nullptr; });
  nvfp4("short rows of output", cudaErrorInvalidValue, [](auto& args) { args.ldo = 199; });
  nvfp4("no output", cudaErrorInvalidValue, [](auto& args) { args.out = nullptr; });
  nvfp4("no scales", cudaErrorInvalidValue, [](auto& args) { args.scale_b = nullptr; });
  nvfp4("no global scale", cudaErrorInvalidValue, [](auto& args) { args.global_a = nullptr; });
  nvfp4("A off 16 bytes", cudaErrorMisalignedAddress, [](auto& args) { args.a += 8; });
  nvfp4("scales off 16 bytes", cudaErrorMisalignedAddress, [](auto& args) { args.scale_a += 4; });
  nvfp4("output off an element", cudaErrorMisalignedAddress, [](auto& args) { args.out = memory + 1; });
  nvfp4("bias off an element", cudaErrorMisalignedAddress, [](auto& args) { args.bias = memory + 1; });
  nvfp4("rows past 2^30", cudaErrorNotSupported, [](auto& args) { args.m = (int64_t{1} << 30) + 1; });
  nvfp4("too many tiles", cudaErrorInvalidConfiguration,
        [](auto& args) { args.m = args.n = args.ldo = int64_t{1} << 30; });
}

void check_fp8() {
  fp8<TileFp8>("another dtype", cudaErrorInvalidValue, [](auto& args) { args.dtype = DType::kF32; });
  fp8<TileFp8>("another fp8", cudaErrorInvalidValue, [](auto& args) { args.a_type = static_cast<Fp8Type>(2); });
  fp8<TileFp8>("short rows of A", cudaErrorInvalidValue, [](auto& args) { args.lda = 320; });
  fp8<TileFp8>("short rows of B", cudaErrorInvalidValue, [](auto& args) { args.ldb = 320; });
  fp8<TileFp8>("no scale", cudaErrorInvalidValue, [](auto& args) { args.scale_a = nullptr; });
  fp8<TileFp8>("no B", cudaErrorInvalidValue, [](auto& args) { args.b = nullptr; });
  fp8<TileFp8>("no rows", cudaSuccess, [](auto& args) { args.m = 0; });
  fp8<TileFp8>("k 0", cudaErrorNotSupported, [](auto& args) { args.k = 0; });
  fp8<TileFp8>("groups without ends", cudaErrorInvalidValue, [](auto& args) {
    args.grouping = Grouping::kContiguous;
    args.groups = 2;
  });
  fp8<TileFp8>("weights part of a row apart", cudaErrorNotSupported, [](auto& args) {
    args.grouping = Grouping::kMasked;
    args.groups = 2;
    args.group_rows = reinterpret_cast<const int32_t*>(memory);
    args.b_group_stride = args.n * args.ldb + 16;
  });
  fp8<TileFp8>("weights that overlap", cudaErrorNotSupported, [](auto& args) {
    args.grouping = Grouping::kMasked;
    args.groups = 2;
    args.group_rows = reinterpret_cast<const int32_t*>(memory);
    args.b_group_stride = (args.n - 1) * args.ldb;
  });
  fp8<TileFp8>("rows of all groups past 2^30", cudaErrorNotSupported, [](auto& args) {
    args.grouping = Grouping::kMasked;
    args.groups = 1 << 12;
    args.group_rows = reinterpret_cast<const int32_t*>(memory);
    args.b_group_stride = args.n * args.ldb;
    args.m = 1 << 20;
  });
  fp8<TileFp8>("block scales without promote", cudaErrorNotSupported,
               [](auto& args) { args.scaling = Scaling::kBlock; });
  fp8<TileFp8Promote>("rows of A off 16 bytes", cudaErrorMisalignedAddress, [](auto& args) { args.lda = 344; });
  fp8<TileFp8Promote>("B off 16 bytes", cudaErrorMisalignedAddress, [](auto& args) {
    args.scaling = Scaling::kBlock;
    args.b = memory + 8;
  });
}

}  // namespace

int main() {
  check_nvfp4();
  check_fp8();
  return wrong;
}
