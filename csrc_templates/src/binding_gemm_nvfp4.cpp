#include <cuda_runtime_api.h>

#include <cinttypes>
#include <cstdio>

#include "binding_checks.h"
#include "binding_family.h"
#include "binding_fp8.h"

namespace tilewright::binding {

namespace {

constexpr int64_t kAlignment = 16;

struct Nvfp4Family {
  using Arch = gemm_nvfp4::Arch;
  using Problem = gemm_nvfp4::Problem;
  using Tile = gemm_nvfp4::Tile;
  using Decision = gemm_nvfp4::Decision;
  static constexpr int kNumber = kGemmNvfp4;
  static constexpr const char* kName = "gemm_nvfp4";

  static Arch arch(int image) { return gemm_nvfp4::kImages[image].arch; }

  static void text(const Problem& p, char* out, size_t size) {
    std::snprintf(out, size, "M=%" PRId64 ", N=%" PRId64 ", K=%" PRId64, p.M, p.N, p.K);
  }
};

struct Copies {
  Owned a, b, scale_a, scale_b, global_a, global_b, bias;
};

bool prepare(GemmNvfp4Inputs& in, Copies& copies) {
  return make_dense(in.a, kAlignment, copies.a) && make_dense(in.b, kAlignment, copies.b) &&
         make_dense(in.scale_a, kAlignment, copies.scale_a) && make_dense(in.scale_b, kAlignment, copies.scale_b) &&
         make_dense(in.global_a, 4, copies.global_a) && make_dense(in.global_b, 4, copies.global_b) &&
         make_dense(in.bias, 4, copies.bias);
}

GemmNvfp4Args kernel_args(const GemmNvfp4Inputs& in, const FamilyCall<Nvfp4Family>& call, void* out) {
  GemmNvfp4Args args{};
  args.a = static_cast<const uint8_t*>(in.a.data);
  args.b = static_cast<const uint8_t*>(in.b.data);
  args.scale_a = static_cast<const uint8_t*>(in.scale_a.data);
  args.scale_b = static_cast<const uint8_t*>(in.scale_b.data);
  args.global_a = static_cast<const float*>(in.global_a.data);
  args.global_b = static_cast<const float*>(in.global_b.data);
  args.bias = in.bias.data;
  args.out = out;
  args.m = call.problem.M;
  args.n = call.problem.N;
  args.k = call.problem.K;
  args.ldo = call.problem.N;
  args.dtype = call.problem.dtype;
  args.num_sms = call.device.num_sms;
  return args;
}

bool allocate_output(const GemmNvfp4Inputs& in, Owned& out) {
  const int64_t sizes[2] = {in.a.sizes[0], in.b.sizes[0]};
  return allocate(in.a, result_dtype(in.out_dtype), sizes, 2, out);
}

bool run_custom(GemmNvfp4Inputs& in, FamilyCall<Nvfp4Family>& call, Owned& out) {
  Copies copies;
  View result{"out"};
  if (!prepare(in, copies) || !allocate_output(in, out) || !inspect("out", out.get(), result)) return false;
  const GemmNvfp4Args args = kernel_args(in, call, result.data);
  const cudaError_t error =
      launch(call.decision.tile, call.problem.dtype, args, static_cast<cudaStream_t>(call.stream));
  return error == cudaSuccess || recover(error, call, in.a, call.problem.M);
}

bool run_fallback(const GemmNvfp4Inputs& in, Owned& out) {
  Handle own[7];
  if (!reference("gemm_nvfp4", {&in.a, &in.b, &in.scale_a, &in.scale_b, &in.global_a, &in.global_b, &in.bias}, own)) {
    return false;
  }
  StableIValue stack[9];
  for (int i = 0; i < 6; ++i) stack[i] = reinterpret_cast<StableIValue>(own[i]);
  stack[6] = wrap_optional(own[6]);
  stack[7] = static_cast<StableIValue>(in.out_dtype);
  stack[8] = in.static_weights ? 1 : 0;
  if (!call("tilewright::_gemm_nvfp4_torch", stack)) return false;
  *out.out() = reinterpret_cast<Handle>(stack[0]);
  return true;
}

}  // namespace

bool run_gemm_nvfp4(GemmNvfp4Inputs& in, Owned& out) {
  if (!check_gemm_nvfp4(in)) return false;
  if (in.a.sizes[0] == 0 || in.b.sizes[0] == 0) return allocate_output(in, out);
  FamilyCall<Nvfp4Family> call;
  call.problem.M = in.a.sizes[0];
  call.problem.N = in.b.sizes[0];
  call.problem.K = 2 * in.a.sizes[1];
  call.problem.dtype = static_cast<DType>(in.out_dtype);
  return answer(
      call, in, call.problem.M, out, [&](GemmNvfp4Inputs& own, Owned& result) { return run_custom(own, call, result); },
      [&](Owned& result) { return run_fallback(in, result); });
}

}  // namespace tilewright::binding
