#include <cuda_runtime_api.h>

#include <cinttypes>
#include <cstdio>

#include "binding_checks.h"
#include "binding_family.h"
#include "binding_fp8.h"
#include "binding_fresh.h"

namespace tilewright::binding {

namespace {

constexpr int64_t kAlignment = 16;

struct Fp8Family {
  using Arch = gemm_fp8::Arch;
  using Problem = gemm_fp8::Problem;
  using Tile = gemm_fp8::Tile;
  using Decision = gemm_fp8::Decision;
  static constexpr int kNumber = kGemmFp8;
  static constexpr const char* kName = "gemm_fp8";

  static Arch arch(int image) { return gemm_fp8::kImages[image].arch; }

  static void text(const Problem& p, char* out, size_t size) {
    constexpr const char* kScalings[] = {"tensor", "row", "block"};
    constexpr const char* kGroupings[] = {"none", "contiguous", "masked"};
    std::snprintf(out, size, "M=%" PRId64 ", N=%" PRId64 ", K=%" PRId64 ", scaling=%s, accumulation=%s, grouping=%s",
                  p.M, p.N, p.K, kScalings[static_cast<int>(p.scaling)],
                  p.accumulation == gemm_fp8::Accumulation::kFast ? "fast" : "accurate",
                  kGroupings[static_cast<int>(p.grouping)]);
  }
};

// Copies that make an argument walkable; they live as long as the launch.
struct Copies {
  Owned a, b, scale_a, scale_b, bias, limits;
};

// Bytes from one row to the next. Rows are counted over the groups where those have a row each.
int64_t row_stride(const View& view, int64_t k) {
  for (int64_t d = view.dim - 2; d >= 0; --d) {
    if (view.sizes[d] > 1) return view.strides[d];
  }
  return k;
}

bool walkable(const View& view) {
  const int64_t inner = view.dim - 1;
  if (reinterpret_cast<uintptr_t>(view.data) % kAlignment != 0 || view.strides[inner] != 1) return false;
  for (int64_t d = 0; d < inner; ++d) {
    if (view.sizes[d] > 1 && view.strides[d] % kAlignment != 0) return false;
  }
  return row_stride(view, view.sizes[inner]) >= view.sizes[inner];
}

// Makes the rows of an operand bytes side by side, each row and matrix 16 bytes aligned; a copy where they are not.
bool prepare_operand(View& view, Owned& copy) { return walkable(view) || copy_dense(view, copy); }

// Rows of masked groups must follow each other at one distance, over the groups too.
bool prepare_masked(View& view, Owned& copy) {
  const bool even = view.dim < 2 || view.sizes[0] <= 1 || view.strides[0] == view.sizes[1] * view.strides[1];
  return even || copy_dense(view, copy);
}

void set_scales(const GemmFp8Inputs& in, const GemmFp8Shape& s, GemmFp8Args& args) {
  const View& a = in.scale_a;
  const View& b = in.scale_b;
  const int64_t first = s.grouping == Grouping::kNone ? 0 : 1;  // of b, past its groups
  args.scale_a = static_cast<const float*>(a.data);
  args.scale_b = static_cast<const float*>(b.data);
  if (first == 1) args.scale_b_group = b.strides[0];
  if (s.scaling == Scaling::kTensor) return;
  const int64_t row = s.grouping == Grouping::kMasked ? 1 : 0;  // of a, past its groups
  args.scale_a_m = a.strides[row];
  if (s.scaling == Scaling::kRow) {
    // [N], [N, 1] or [1, N]
    args.scale_b_n = b.dim > first + 1 && b.sizes[first] != s.n ? b.strides[first + 1] : b.strides[first];
    return;
  }
  args.scale_a_k = a.strides[row + 1];
  args.scale_b_n = b.strides[first];
  args.scale_b_k = b.strides[first + 1];
}

GemmFp8Args kernel_args(const GemmFp8Inputs& in, const GemmFp8Shape& s, const FamilyCall<Fp8Family>& call,
                        bool fresh, void* out) {
  GemmFp8Args args{};
  args.a = in.a.data;
  args.b = in.b.data;
  args.bias = in.bias.data;
  args.out = out;
  args.m = s.m;
  args.n = s.n;
  args.k = s.k;
  args.lda = row_stride(in.a, s.k);
  args.ldb = s.n > 1 ? row_stride(in.b, s.k) : s.k;
  args.ldo = s.n;
  set_scales(in, s, args);
  args.b_group_stride = s.groups > 1 ? in.b.strides[0] : 0;
  args.bias_group = s.grouping == Grouping::kNone ? 0 : s.n;
  args.group_ends = static_cast<const int32_t*>(in.group_ends.data);
  args.group_rows = static_cast<const int32_t*>(in.group_rows.data);
  args.groups = static_cast<int32_t>(s.groups);
  args.grouping = s.grouping;
  args.scaling = s.scaling;
  args.a_type = in.a.dtype == shim.dtype_e5m2 ? Fp8Type::kE5m2 : Fp8Type::kE4m3;
  args.dtype = call.problem.dtype;
  args.fast_accum = in.fast_accum;
  args.fresh_weights = fresh;
  args.num_sms = call.device.num_sms;
  return args;
}

bool allocate_output(const GemmFp8Inputs& in, const GemmFp8Shape& s, Owned& out) {
  int64_t sizes[3] = {in.a.sizes[0], s.n, s.n};
  if (in.a.dim == 3) sizes[1] = in.a.sizes[1];
  return allocate(in.a, result_dtype(in.out_dtype), sizes, in.a.dim, out);
}

bool prepare(GemmFp8Inputs& in, const GemmFp8Shape& s, Copies& copies) {
  if (!prepare_operand(in.a, copies.a) || !prepare_operand(in.b, copies.b) || !make_dense(in.bias, 4, copies.bias)) {
    return false;
  }
  View& limits = in.group_ends.present() ? in.group_ends : in.group_rows;
  if (!make_dense(limits, 4, copies.limits)) return false;
  if (s.grouping != Grouping::kMasked) return true;
  // The rows of A are counted over all groups.
  return prepare_masked(in.a, copies.a) &&
         (s.scaling == Scaling::kTensor || prepare_masked(in.scale_a, copies.scale_a));
}

bool run_custom(GemmFp8Inputs& in, const GemmFp8Shape& s, FamilyCall<Fp8Family>& call, Owned& out) {
  Copies copies;
  View result{"out"};
  if (!prepare(in, s, copies) || !allocate_output(in, s, out) || !inspect("out", out.get(), result)) return false;
  const bool fresh = fresh_weights(in.static_weights, copies.b.get() != nullptr);
  const GemmFp8Args args = kernel_args(in, s, call, fresh, result.data);
  const cudaError_t error =
      launch(call.decision.tile, call.problem.dtype, args, static_cast<cudaStream_t>(call.stream));
  return error == cudaSuccess || recover(error, call, in.a, s.rows);
}

bool run_fallback(const GemmFp8Inputs& in, const GemmFp8Shape& s, Owned& out) {
  Handle own[7];
  if (!reference("gemm_fp8", {&in.a, &in.b, &in.scale_a, &in.scale_b, &in.group_ends, &in.group_rows, &in.bias}, own)) {
    return false;
  }
  StableIValue stack[10];
  int used = 0;
  for (; used < 4; ++used) stack[used] = reinterpret_cast<StableIValue>(own[used]);
  if (s.grouping != Grouping::kNone) {
    stack[used++] = wrap_optional(own[4]);
    stack[used++] = wrap_optional(own[5]);
  }
  stack[used++] = wrap_optional(own[6]);
  stack[used++] = static_cast<StableIValue>(in.out_dtype);
  stack[used++] = in.fast_accum ? 1 : 0;
  stack[used++] = in.static_weights ? 1 : 0;
  const bool grouped = s.grouping != Grouping::kNone;
  if (!call(grouped ? "tilewright::_gemm_fp8_grouped_torch" : "tilewright::_gemm_fp8_torch", stack)) return false;
  *out.out() = reinterpret_cast<Handle>(stack[0]);
  return true;
}

bool run(const GemmFp8Inputs& in, const GemmFp8Shape& s, Owned& out) {
  if (s.rows == 0 || s.n == 0) return allocate_output(in, s, out);
  FamilyCall<Fp8Family> call;
  call.problem.M = s.grouping == Grouping::kContiguous ? (s.m + s.groups - 1) / s.groups : s.m;
  call.problem.N = s.n;
  call.problem.K = s.k;
  call.problem.scaling = s.scaling;
  call.problem.accumulation = in.fast_accum ? gemm_fp8::Accumulation::kFast : gemm_fp8::Accumulation::kAccurate;
  call.problem.grouping = s.grouping;
  call.problem.dtype = static_cast<DType>(in.out_dtype);
  return answer(
      call, in, s.rows, out, [&](GemmFp8Inputs& own, Owned& result) { return run_custom(own, s, call, result); },
      [&](Owned& result) { return run_fallback(in, s, result); });
}

}  // namespace

bool run_gemm_fp8(GemmFp8Inputs& in, Owned& out) {
  GemmFp8Shape shape;
  return check_gemm_fp8(in, shape) && run(in, shape, out);
}

bool run_gemm_fp8_grouped(GemmFp8Inputs& in, Owned& out) {
  GemmFp8Shape shape;
  return check_gemm_fp8_grouped(in, shape) && run(in, shape, out);
}

}  // namespace tilewright::binding
