#include <cinttypes>
#include <cstdio>

#include "binding_checks.h"
#include "binding_fp8.h"
#include "tilewright/nvfp4/scale_layout.h"

namespace tilewright::binding {

namespace {

constexpr int64_t kBlock = 128;

int64_t blocks(int64_t size) { return (size + kBlock - 1) / kBlock; }

// "[3, 4]", for messages.
struct ShapeText {
  char text[96];
  explicit ShapeText(const View& view) {
    int used = std::snprintf(text, sizeof text, "[");
    for (int64_t d = 0; d < view.dim && used < 70; ++d) {
      used += std::snprintf(text + used, sizeof text - used, d == 0 ? "%" PRId64 : ", %" PRId64, view.sizes[d]);
    }
    std::snprintf(text + used, sizeof text - used, "]");
  }
};

bool has_shape(const View& view, int64_t dim, int64_t first, int64_t second = 0, int64_t third = 0) {
  const int64_t wanted[3] = {first, second, third};
  if (view.dim != dim) return false;
  for (int64_t d = 0; d < dim; ++d) {
    if (view.sizes[d] != wanted[d]) return false;
  }
  return true;
}

bool all_ones(const View& view) {
  for (int64_t d = 0; d < view.dim; ++d) {
    if (view.sizes[d] != 1) return false;
  }
  return true;
}

bool expect_dim(const char* op, const View& view, int64_t dim) {
  if (view.dim == dim) return true;
  return fail("%s: %s has %" PRId64 " dimensions; expected %" PRId64, op, view.name, view.dim, dim);
}

bool check_result(const char* op, int64_t out_dtype) {
  if (out_dtype >= 0 && out_dtype <= 2) return true;
  return fail("%s: out_dtype=%" PRId64 "; allowed: 0 (float16), 1 (bfloat16), 2 (float32)", op, out_dtype);
}

bool check_operands(const char* op, const GemmFp8Inputs& in, int64_t dim_a, int64_t dim_b) {
  if (in.a.dtype != shim.dtype_e4m3 && in.a.dtype != shim.dtype_e5m2) {
    return fail("%s: a has dtype %s; allowed: float8_e4m3fn, float8_e5m2", op, dtype_name(in.a.dtype));
  }
  if (!expect_dtype(op, in.b, shim.dtype_e4m3) || !expect_dim(op, in.a, dim_a) || !expect_dim(op, in.b, dim_b))
    return false;
  const int64_t k = in.b.last_size();
  if (in.a.last_size() != k) {
    return fail("%s: a has K=%" PRId64 " and b has K=%" PRId64 "; b is %s", op, in.a.last_size(), k,
                dim_b == 2 ? "[N, K]" : "[G, N, K]");
  }
  if (k < 1) return fail("%s: K=%" PRId64 "; allowed: at least 1", op, k);
  return expect_dtype(op, in.scale_a, shim.dtype_f32) && expect_dtype(op, in.scale_b, shim.dtype_f32);
}

bool wrong_scales(const char* op, const GemmFp8Inputs& in, const char* sizes, const char* allowed) {
  const ShapeText a(in.scale_a);
  const ShapeText b(in.scale_b);
  return fail("%s: scale_a is %s and scale_b is %s for %s; allowed: %s", op, a.text, b.text, sizes, allowed);
}

bool check_rest(const char* op, const GemmFp8Inputs& in) {
  return same_device(op, in.a, in.b) && same_device(op, in.a, in.scale_a) && same_device(op, in.a, in.scale_b) &&
         same_device(op, in.a, in.bias) && same_device(op, in.a, in.group_ends) && same_device(op, in.a, in.group_rows);
}

bool check_bias(const char* op, const View& bias, int64_t out_dtype, int64_t dim, int64_t first, int64_t second = 0) {
  if (!bias.present()) return true;
  if (!expect_dtype(op, bias, result_dtype(out_dtype))) return false;
  if (has_shape(bias, dim, first, second)) return true;
  const ShapeText found(bias);
  char wanted[64];
  if (dim == 1) {
    std::snprintf(wanted, sizeof wanted, "[%" PRId64 "]", first);
  } else {
    std::snprintf(wanted, sizeof wanted, "[%" PRId64 ", %" PRId64 "]", first, second);
  }
  return fail("%s: bias is %s; expected %s", op, found.text, wanted);
}

// The kind of scaling of one product; false if the shapes stand for none.
bool find_scaling(const GemmFp8Inputs& in, GemmFp8Shape& s) {
  const View& a = in.scale_a;
  const View& b = in.scale_b;
  if (all_ones(a) && all_ones(b)) {
    s.scaling = Scaling::kTensor;
    return true;
  }
  const bool per_row = has_shape(a, 1, s.m) || has_shape(a, 2, s.m, 1);
  if (per_row && (has_shape(b, 1, s.n) || has_shape(b, 2, s.n, 1) || has_shape(b, 2, 1, s.n))) {
    s.scaling = Scaling::kRow;
    return true;
  }
  s.scaling = Scaling::kBlock;
  return has_shape(a, 2, s.m, blocks(s.k)) && has_shape(b, 2, blocks(s.n), blocks(s.k));
}

bool has_rows(const View& scale, const View& a, int64_t columns, bool may_drop) {
  if (may_drop && scale.dim == a.dim - 1) {
    return a.dim == 2 ? has_shape(scale, 1, a.sizes[0]) : has_shape(scale, 2, a.sizes[0], a.sizes[1]);
  }
  return a.dim == 2 ? has_shape(scale, 2, a.sizes[0], columns) : has_shape(scale, 3, a.sizes[0], a.sizes[1], columns);
}

bool find_grouped_scaling(const GemmFp8Inputs& in, GemmFp8Shape& s) {
  const View& b = in.scale_b;
  if (all_ones(in.scale_a) &&
      (has_shape(b, 1, s.groups) || has_shape(b, 2, s.groups, 1) || has_shape(b, 3, s.groups, 1, 1))) {
    s.scaling = Scaling::kTensor;
    return true;
  }
  if (has_rows(in.scale_a, in.a, 1, true) && (has_shape(b, 2, s.groups, s.n) || has_shape(b, 3, s.groups, s.n, 1) ||
                                              has_shape(b, 3, s.groups, 1, s.n))) {
    s.scaling = Scaling::kRow;
    return true;
  }
  s.scaling = Scaling::kBlock;
  return has_rows(in.scale_a, in.a, blocks(s.k), false) && has_shape(b, 3, s.groups, blocks(s.n), blocks(s.k));
}

bool check_values(const char* op, const View& x) {
  DType dtype;
  return element_type(op, x, dtype) && expect_dim(op, x, 2);
}

}  // namespace

int32_t result_dtype(int64_t number) {
  return number == 0 ? shim.dtype_f16 : number == 1 ? shim.dtype_bf16 : shim.dtype_f32;
}

bool check_gemm_fp8(const GemmFp8Inputs& in, GemmFp8Shape& shape) {
  const char* op = "gemm_fp8";
  if (!check_result(op, in.out_dtype) || !check_operands(op, in, 2, 2)) return false;
  shape.rows = shape.m = in.a.sizes[0];
  shape.n = in.b.sizes[0];
  shape.k = in.b.sizes[1];
  if (!find_scaling(in, shape)) {
    char sizes[96];
    std::snprintf(sizes, sizeof sizes, "M=%" PRId64 ", N=%" PRId64 ", K=%" PRId64, shape.m, shape.n, shape.k);
    return wrong_scales(op, in, sizes,
                        "one value each (per tensor), [M, 1] and [1, N] (per row), or [M, ceil(K / 128)] and "
                        "[ceil(N / 128), ceil(K / 128)] (per block)");
  }
  return check_bias(op, in.bias, in.out_dtype, 1, shape.n) && check_rest(op, in);
}

bool check_gemm_fp8_grouped(const GemmFp8Inputs& in, GemmFp8Shape& shape) {
  const char* op = "gemm_fp8_grouped";
  if (!check_result(op, in.out_dtype)) return false;
  if (in.group_ends.present() == in.group_rows.present()) {
    return fail("%s: give either group_ends (contiguous) or group_rows (masked)", op);
  }
  const bool masked = in.group_rows.present();
  if (!check_operands(op, in, masked ? 3 : 2, 3)) return false;
  shape.grouping = masked ? Grouping::kMasked : Grouping::kContiguous;
  shape.groups = in.b.sizes[0];
  shape.n = in.b.sizes[1];
  shape.k = in.b.sizes[2];
  shape.m = in.a.sizes[masked ? 1 : 0];
  shape.rows = masked ? in.a.sizes[0] * shape.m : shape.m;
  if (masked && in.a.sizes[0] != shape.groups) {
    return fail("%s: a has %" PRId64 " groups and b has %" PRId64, op, in.a.sizes[0], shape.groups);
  }
  if (shape.groups < 1) return fail("%s: b has 0 groups; allowed: at least 1", op);
  const View& limits = masked ? in.group_rows : in.group_ends;
  if (!expect_dtype(op, limits, shim.dtype_i32) || !expect_numel(op, limits, shape.groups, "one a group")) return false;
  if (!find_grouped_scaling(in, shape)) {
    char sizes[96];
    std::snprintf(sizes, sizeof sizes, "G=%" PRId64 ", N=%" PRId64 ", K=%" PRId64, shape.groups, shape.n, shape.k);
    return wrong_scales(op, in, sizes,
                        "one value and one a group, [..., M, 1] and [G, N], or [..., M, ceil(K / 128)] and "
                        "[G, ceil(N / 128), ceil(K / 128)]");
  }
  return check_bias(op, in.bias, in.out_dtype, 2, shape.groups, shape.n) && check_rest(op, in);
}

bool check_gemm_nvfp4(const GemmNvfp4Inputs& in) {
  const char* op = "gemm_nvfp4";
  if (!check_result(op, in.out_dtype) || !expect_dtype(op, in.a, shim.dtype_u8) || !expect_dim(op, in.a, 2) ||
      !expect_dtype(op, in.b, shim.dtype_u8) || !expect_dim(op, in.b, 2)) {
    return false;
  }
  const int64_t k = 2 * in.a.sizes[1];
  if (2 * in.b.sizes[1] != k) {
    return fail("%s: a has K=%" PRId64 " and b has K=%" PRId64 "; b is [N, K / 2]", op, k, 2 * in.b.sizes[1]);
  }
  if (k < nvfp4::kScaleGroup || k % nvfp4::kScaleGroup != 0) {
    return fail("%s: K=%" PRId64 "; expected a multiple of 16, at least 16", op, k);
  }
  const View* scales[2] = {&in.scale_a, &in.scale_b};
  const int64_t rows[2] = {in.a.sizes[0], in.b.sizes[0]};
  for (int i = 0; i < 2; ++i) {
    if (scales[i]->dtype != shim.dtype_u8 && scales[i]->dtype != shim.dtype_e4m3) {
      return fail("%s: %s has dtype %s; allowed: uint8, float8_e4m3fn", op, scales[i]->name,
                  dtype_name(scales[i]->dtype));
    }
    char meaning[96];
    std::snprintf(meaning, sizeof meaning, "%" PRId64 " rows by %" PRId64 " scales, padded to 128 by 4 and swizzled",
                  rows[i], k / nvfp4::kScaleGroup);
    if (!expect_numel(op, *scales[i], nvfp4::scale_bytes(rows[i], k), meaning)) return false;
  }
  const View* globals[2] = {&in.global_a, &in.global_b};
  for (const View* global : globals) {
    if (!expect_dtype(op, *global, shim.dtype_f32) || !expect_numel(op, *global, 1, "one value")) return false;
  }
  return check_bias(op, in.bias, in.out_dtype, 1, in.b.sizes[0]) && same_device(op, in.a, in.b) &&
         same_device(op, in.a, in.scale_a) && same_device(op, in.a, in.scale_b) && same_device(op, in.a, in.global_a) &&
         same_device(op, in.a, in.global_b) && same_device(op, in.a, in.bias);
}

bool check_quantize_fp8(const View& x, int64_t granularity, int64_t fp8_type, const View& scale) {
  const char* op = "quantize_fp8";
  if (!check_values(op, x)) return false;
  if (granularity < 0 || granularity > 3) {
    return fail("%s: granularity=%" PRId64 "; allowed: 0 (tensor), 1 (row), 2 (block), 3 (block128x128)", op,
                granularity);
  }
  if (fp8_type < 0 || fp8_type > 1) {
    return fail("%s: fp8_type=%" PRId64 "; allowed: 0 (e4m3), 1 (e5m2)", op, fp8_type);
  }
  if (!scale.present()) return true;
  if (granularity != 0) return fail("%s: scale is given; it must be None unless granularity is 0 (tensor)", op);
  return expect_dtype(op, scale, shim.dtype_f32) && expect_numel(op, scale, 1, "one value") &&
         same_device(op, x, scale);
}

bool check_quantize_nvfp4(const View& x, const View& global_scale) {
  const char* op = "quantize_nvfp4";
  if (!check_values(op, x)) return false;
  if (x.sizes[1] % nvfp4::kScaleGroup != 0) {
    return fail("%s: K=%" PRId64 "; expected a multiple of 16", op, x.sizes[1]);
  }
  return !global_scale.present() ||
         (expect_dtype(op, global_scale, shim.dtype_f32) && expect_numel(op, global_scale, 1, "one value") &&
          same_device(op, x, global_scale));
}

}  // namespace tilewright::binding
