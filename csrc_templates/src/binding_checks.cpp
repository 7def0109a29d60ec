#include <cinttypes>
#include <cstdio>

#include "binding_checks.h"

#include "binding_gemm_4bit.h"

namespace tilewright::binding {

namespace {

constexpr int64_t kNestedBlock = 256;
constexpr int64_t kMaxElements = int64_t{1} << 40;

int64_t ceil_div(int64_t value, int64_t by) { return (value + by - 1) / by; }

void write_device(const View& view, char (&text)[24]) {
  if (view.device_type == shim.device_cuda) {
    std::snprintf(text, sizeof text, "cuda:%d", view.device);
  } else {
    std::snprintf(text, sizeof text, "%s", view.device_type == shim.device_cpu ? "cpu" : "another device");
  }
}

bool expect_present(const char* op, const View& view, const char* when) {
  if (view.present()) return true;
  return fail("%s: %s is missing; it is required %s", op, view.name, when);
}

bool expect_absent(const char* op, const View& view, const char* when) {
  if (!view.present()) return true;
  return fail("%s: %s is given; it must be None %s", op, view.name, when);
}

bool check_shape(const char* op, const Weight& w) {
  if (w.n < 0 || w.k < 1 || (w.n > 0 && w.k > kMaxElements / w.n)) {
    return fail("%s: n=%" PRId64 ", k=%" PRId64 "; allowed: n >= 0, k >= 1, n * k <= 2**40", op, w.n, w.k);
  }
  if (w.quant_type < 0 || w.quant_type > 2) {
    return fail("%s: quant_type=%" PRId64 "; allowed: 0 (nf4), 1 (fp4), 2 (e2m1)", op, w.quant_type);
  }
  const bool power_of_two = w.blocksize > 0 && (w.blocksize & (w.blocksize - 1)) == 0;
  if (w.quant_type == 2 ? w.blocksize != 16 : !(power_of_two && w.blocksize >= 32 && w.blocksize <= 4096)) {
    return fail("%s: blocksize=%" PRId64 "; allowed: %s", op, w.blocksize,
                w.quant_type == 2 ? "16 for e2m1" : "32, 64, 128, 256, 512, 1024, 2048, 4096 for nf4 and fp4");
  }
  if (w.quant_type == 2 && w.k % 16 != 0) {
    return fail("%s: k=%" PRId64 "; e2m1 needs a multiple of 16", op, w.k);
  }
  return true;
}

bool check_e2m1_scales(const char* op, const Weight& w) {
  if (w.absmax.dtype != shim.dtype_u8 && w.absmax.dtype != shim.dtype_e4m3) {
    return fail("%s: absmax has dtype %s; expected uint8 or float8_e4m3fn for e2m1", op, dtype_name(w.absmax.dtype));
  }
  return expect_numel(op, w.absmax, w.n * (w.k / 16), "n * k / 16") &&
         expect_present(op, w.offset, "for e2m1 (the global scale)") &&
         expect_dtype(op, w.offset, shim.dtype_f32) && expect_numel(op, w.offset, 1, "one global scale") &&
         expect_absent(op, w.nested_absmax, "for e2m1") && expect_absent(op, w.nested_code, "for e2m1");
}

bool check_nested(const char* op, const Weight& w, int64_t blocks) {
  return expect_dtype(op, w.absmax, shim.dtype_u8) && expect_dtype(op, w.nested_absmax, shim.dtype_f32) &&
         expect_numel(op, w.nested_absmax, ceil_div(blocks, kNestedBlock), "one per 256 blocks") &&
         expect_present(op, w.nested_code, "with nested_absmax") &&
         expect_dtype(op, w.nested_code, shim.dtype_f32) && expect_numel(op, w.nested_code, 256, "256 codes") &&
         expect_present(op, w.offset, "with nested_absmax") && expect_dtype(op, w.offset, shim.dtype_f32) &&
         expect_numel(op, w.offset, 1, "one offset");
}

bool check_scales(const char* op, const Weight& w) {
  if (w.quant_type == 2) return check_e2m1_scales(op, w);
  const int64_t blocks = ceil_div(w.n * w.k, w.blocksize);
  if (!expect_numel(op, w.absmax, blocks, "ceil(n * k / blocksize)")) return false;
  if (w.nested_absmax.present()) return check_nested(op, w, blocks);
  return expect_dtype(op, w.absmax, shim.dtype_f32) &&
         expect_absent(op, w.nested_code, "without nested_absmax") &&
         expect_absent(op, w.offset, "without nested_absmax");
}

bool check_layout(const char* op, const Weight& w) {
  if (w.b.dim != 3 || (w.b.sizes[0] * 16 == w.n && w.b.sizes[1] * 64 == w.k && w.b.sizes[2] == 512)) return true;
  return fail("%s: b has shape [%" PRId64 ", %" PRId64 ", %" PRId64
              "]; in three dimensions it is prepacked, [n / 16, k / 64, "
              "512] with n a multiple of 16 and k of 64, and n=%" PRId64 ", k=%" PRId64,
              op, w.b.sizes[0], w.b.sizes[1], w.b.sizes[2], w.n, w.k);
}

}  // namespace

bool same_device(const char* op, const View& anchor, const View& view) {
  if (!view.present()) return true;
  if (view.device_type == anchor.device_type && view.device == anchor.device) return true;
  char first[24];
  char second[24];
  write_device(anchor, first);
  write_device(view, second);
  return fail("%s: %s is on %s and %s is on %s; all tensors must be on one device", op, anchor.name, first, view.name,
              second);
}

bool expect_dtype(const char* op, const View& view, int32_t dtype) {
  if (view.dtype == dtype) return true;
  return fail("%s: %s has dtype %s; expected %s", op, view.name, dtype_name(view.dtype), dtype_name(dtype));
}

bool expect_numel(const char* op, const View& view, int64_t numel, const char* meaning) {
  if (view.numel == numel) return true;
  return fail("%s: %s has %" PRId64 " elements; expected %" PRId64 " (%s)", op, view.name, view.numel, numel, meaning);
}

bool check_weight(const char* op, const Weight& w) {
  return check_shape(op, w) && expect_dtype(op, w.b, shim.dtype_u8) &&
         expect_numel(op, w.b, (w.n * w.k + 1) / 2, "ceil(n * k / 2) bytes, two codes each") &&
         check_layout(op, w) && check_scales(op, w) &&
         same_device(op, w.b, w.absmax) && same_device(op, w.b, w.nested_absmax) &&
         same_device(op, w.b, w.nested_code) && same_device(op, w.b, w.offset);
}

bool element_type(const char* op, const View& view, DType& out) {
  if (view.dtype == shim.dtype_f16) {
    out = DType::kF16;
  } else if (view.dtype == shim.dtype_bf16) {
    out = DType::kBf16;
  } else if (view.dtype == shim.dtype_f32) {
    out = DType::kF32;
  } else {
    return fail("%s: %s has dtype %s; allowed: float16, bfloat16, float32", op, view.name, dtype_name(view.dtype));
  }
  return true;
}

bool check_gemm_4bit(const Gemm4bitInputs& in) {
  const char* op = "gemm_4bit";
  DType dtype;
  if (!element_type(op, in.a, dtype)) return false;
  if (in.a.dim < 1 || in.a.last_size() != in.weight.k) {
    return fail("gemm_4bit: the last dimension of a is %" PRId64 "; expected k=%" PRId64, in.a.last_size(),
                in.weight.k);
  }
  if (!same_device(op, in.a, in.weight.b) || !check_weight(op, in.weight)) return false;
  if (!in.bias.present()) return true;
  return expect_dtype(op, in.bias, in.a.dtype) && expect_numel(op, in.bias, in.weight.n, "n") &&
         same_device(op, in.a, in.bias);
}

bool make_dense_weight(Weight& w, WeightCopies& copies) {
  return make_dense(w.b, 16, copies.b) && make_dense(w.absmax, 16, copies.absmax) &&
         make_dense(w.nested_absmax, 4, copies.nested_absmax) && make_dense(w.nested_code, 16, copies.nested_code) &&
         make_dense(w.offset, 4, copies.offset);
}

}  // namespace tilewright::binding
