#include "binding_gemm_4bit.h"

#include <cuda_runtime_api.h>

#include <cinttypes>
#include <cstdio>

#include "binding_control.h"
#include "binding_device.h"
#include "binding_fresh.h"
#include "binding_tuned.h"

namespace tilewright::binding {

namespace {

constexpr int64_t kAlignment = 16;

int64_t element_size(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Activations as the kernels take them: unit stride in a row, rows and base aligned to 16 bytes.
struct Rows {
  const void* data = nullptr;
  int64_t lda = 0;
};

// Row stride of `a` if its rows can be walked with one, else -1.
int64_t row_stride(const View& a, int64_t k) {
  if (a.dim == 1) return a.strides[0] == 1 || k == 1 ? k : -1;
  if (a.strides[a.dim - 1] != 1 && k != 1) return -1;
  int64_t lda = -1;
  int64_t expected = 0;
  for (int64_t d = a.dim - 2; d >= 0; --d) {
    if (a.sizes[d] == 1) continue;
    if (lda < 0) {
      lda = a.strides[d];
    } else if (a.strides[d] != expected) {
      return -1;
    }
    expected = a.strides[d] * a.sizes[d];
  }
  if (lda < 0) return k;
  return lda >= k ? lda : -1;
}

bool copy_rows(const View& a, int64_t m, int64_t lda, Owned& copy, Rows& rows) {
  const int64_t sizes[2] = {m, lda};
  if (!allocate(a, a.dtype, sizes, 2, copy)) return false;
  int64_t strides[64];
  int64_t stride = lda;
  strides[a.dim - 1] = 1;
  for (int64_t d = a.dim - 2; d >= 0; --d) {
    strides[d] = stride;
    stride *= a.sizes[d];
  }
  Owned target;
  if (shim.reinterpret_tensor(copy.get(), a.dim, a.sizes, strides, 0, target.out()) != 0 ||
      shim.copy_(target.get(), a.handle, 0) != 0) {
    return fail("gemm_4bit: making an aligned copy of a failed");
  }
  View view;
  if (!inspect("a", copy.get(), view)) return false;
  rows = {view.data, lda};
  return true;
}

bool prepare_rows(const View& a, int64_t m, int64_t k, DType dtype, Owned& copy, Rows& rows) {
  const int64_t size = element_size(dtype);
  rows = {a.data, row_stride(a, k)};
  const bool aligned = reinterpret_cast<uintptr_t>(a.data) % kAlignment == 0 && rows.lda * size % kAlignment == 0;
  if (rows.lda >= 0 && aligned) return true;
  return copy_rows(a, m, round_up(k, kAlignment / size), copy, rows);
}

bool allocate_output(const View& a, int64_t n, Owned& out) {
  int64_t sizes[64];
  for (int64_t d = 0; d + 1 < a.dim; ++d) sizes[d] = a.sizes[d];
  sizes[a.dim - 1] = n;
  return allocate(a, a.dtype, sizes, a.dim, out);
}

constexpr const char* kReport = "This is a dispatch-table bug; attach the output of: tilewright explain";

bool apply_force(int forced, Arch arch, const Problem& problem, Decision& decision) {
  if (forced == kForceFallback) {
    decision.path = Path::kFallback;
    return true;
  }
  const Tile tile = static_cast<Tile>(forced);
  if (!tile_legal(tile, arch, problem)) {
    Problem packed = problem;
    packed.layout = WeightLayout::kPacked;
    if (tile_legal(tile, arch, packed)) {
      return fail("gemm_4bit: the forced tile %s does not take prepacked weights", tile_name(tile));
    }
    return fail("gemm_4bit: the forced tile %s cannot run M=%" PRId64 ", N=%" PRId64 ", K=%" PRId64
                ", blocksize=%" PRId64 " on %s: it is not built for this arch, does not take the dtype, or K is not a"
                " multiple of what it needs",
                tile_name(tile), problem.M, problem.N, problem.K, problem.blocksize, arch_name(arch));
  }
  decision.path = Path::kCustom;
  decision.tile = tile;
  return true;
}

struct Call {
  Device device;
  Problem problem{};
  Decision decision{};
  int forced = kForceNothing;
};

bool fail_launch(cudaError_t error, const Call& call) {
  (void)cudaGetLastError();
  const Problem& p = call.problem;
  char text[640];
  if (error == cudaErrorSymbolNotFound) {
    describe_unbuilt(call.decision.tile, kImages[call.device.image].arch, p, text, sizeof text);
  } else if (error == cudaErrorNotSupported) {
    std::snprintf(text, sizeof text, "gemm_4bit: the tile %s cannot run M=%" PRId64 ", N=%" PRId64 ", K=%" PRId64
                  ", blocksize=%" PRId64 ": its engine does not take this problem.",
                  tile_name(call.decision.tile), p.M, p.N, p.K, p.blocksize);
  } else {
    std::snprintf(text, sizeof text, "gemm_4bit: the launch of tile %s failed: %s (M=%" PRId64 ", N=%" PRId64
                  ", K=%" PRId64 ", blocksize=%" PRId64 ").",
                  tile_name(call.decision.tile), cudaGetErrorString(error), p.M, p.N, p.K, p.blocksize);
  }
  return fail("%s %s %" PRId64 " %" PRId64 " %" PRId64, text, kReport, p.M, p.N, p.K);
}

bool decide(const Gemm4bitInputs& in, int64_t m, DType dtype, Call& call) {
  const Weight& w = in.weight;
  const Arch arch = kImages[call.device.image].arch;
  call.problem.M = m;
  call.problem.N = w.n;
  call.problem.K = w.k;
  call.problem.blocksize = w.blocksize;
  call.problem.num_sms = call.device.num_sms;
  call.problem.dtype = dtype;
  call.problem.quant_type = static_cast<QuantType>(w.quant_type);
  call.problem.layout = w.layout();
  call.decision.path = Path::kFallback;
  bool tuned = false;
  if (within_limits(call.problem)) {
    call.decision = select(arch, call.problem);
    tuned = tuned_decision(arch, call.problem, call.decision);
  }
  call.forced = forced_tile();
  if (call.forced != kForceNothing && !apply_force(call.forced, arch, call.problem, call.decision)) return false;
  const bool custom = call.decision.path == Path::kCustom;
  record_decision({0, m, w.n, w.k, in.a.device, static_cast<int32_t>(arch), custom ? 1 : 0,
                   custom ? static_cast<int32_t>(call.decision.tile) : -1,
                   call.forced != kForceNothing ? kByForce : tuned ? kByTable : kByRules,
                   static_cast<int32_t>(dtype), kGemm4bit, static_cast<int32_t>(call.problem.layout)});
  return true;
}

bool any_copied(const WeightCopies& copies) {
  for (const Owned* copy : {&copies.b, &copies.absmax, &copies.nested_absmax, &copies.nested_code, &copies.offset}) {
    if (copy->get() != nullptr) return true;
  }
  return false;
}

Gemm4bitArgs kernel_args(const Gemm4bitInputs& in, const Rows& rows, const Call& call, bool fresh, void* out) {
  const Weight& w = in.weight;
  Gemm4bitArgs args{};
  args.a = rows.data;
  args.b = static_cast<const uint8_t*>(w.b.data);
  args.scales = w.absmax.data;
  args.nested_absmax = static_cast<const float*>(w.nested_absmax.data);
  args.nested_code = static_cast<const float*>(w.nested_code.data);
  args.offset = static_cast<const float*>(w.offset.data);
  args.bias = in.bias.data;
  args.out = out;
  args.m = call.problem.M;
  args.n = call.problem.N;
  args.k = call.problem.K;
  args.lda = rows.lda;
  args.blocksize = static_cast<int32_t>(w.blocksize);
  args.dtype = call.problem.dtype;
  args.quant_type = call.problem.quant_type;
  args.num_sms = call.device.num_sms;
  args.layout = w.layout();
  args.fresh_weights = fresh;
  return args;
}

bool run_custom(Gemm4bitInputs& in, const Call& call, void* stream, Owned& out) {
  Owned rows_copy, bias_copy;
  WeightCopies copies;
  Rows rows;
  View result{"out"};
  if (!prepare_rows(in.a, call.problem.M, call.problem.K, call.problem.dtype, rows_copy, rows) ||
      !make_dense_weight(in.weight, copies) || !make_dense(in.bias, kAlignment, bias_copy) ||
      !allocate_output(in.a, call.problem.N, out) || !inspect("out", out.get(), result)) {
    return false;
  }
  const bool fresh = fresh_weights(in.static_weights, any_copied(copies));
  const Gemm4bitArgs args = kernel_args(in, rows, call, fresh, result.data);
  const cudaError_t error =
      launch(call.decision.tile, call.problem.dtype, args, static_cast<cudaStream_t>(stream));
  return error == cudaSuccess || fail_launch(error, call);
}

bool run_fallback(Gemm4bitInputs& in, const Call& call, void* stream, Owned& out) {
  WeightCopies copies;
  Owned weight;
  View view{"weight"};
  const int64_t sizes[2] = {in.weight.n, in.weight.k};
  if (!make_dense_weight(in.weight, copies) || !allocate(in.a, in.a.dtype, sizes, 2, weight) ||
      !inspect("weight", weight.get(), view) ||
      !launch_dequantize_4bit(in.weight, call.problem.dtype, view.data, stream)) {
    return false;
  }
  Handle own[2];
  if (!reference("gemm_4bit", {&in.a, &in.bias}, own)) return false;
  StableIValue stack[3] = {reinterpret_cast<StableIValue>(own[0]), reinterpret_cast<StableIValue>(weight.release()),
                           wrap_optional(own[1])};
  if (!tilewright::binding::call("aten::linear", stack)) return false;
  *out.out() = reinterpret_cast<Handle>(stack[0]);
  return true;
}

}  // namespace

bool run_gemm_4bit(Gemm4bitInputs& in, Owned& out) {
  if (!check_gemm_4bit(in)) return false;
  const int64_t m = in.a.numel / in.weight.k;
  if (m == 0 || in.weight.n == 0) return allocate_output(in.a, in.weight.n, out);
  Call call;
  void* stream = nullptr;
  DType dtype = DType::kF16;
  element_type("gemm_4bit", in.a, dtype);
  if (!prepare_device("gemm_4bit", in.a, call.device, stream) || !decide(in, m, dtype, call)) return false;
  const DeviceGuard guard(in.a.device);
  if (call.decision.path == Path::kCustom) return run_custom(in, call, stream, out);
  return run_fallback(in, call, stream, out);
}

}  // namespace tilewright::binding
