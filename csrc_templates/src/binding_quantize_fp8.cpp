#include <cuda_runtime_api.h>

#include <cinttypes>

#include "binding_checks.h"
#include "binding_device.h"
#include "binding_fp8.h"
#include "binding_quantize.h"
#include "tilewright/nvfp4/scale_layout.h"

namespace tilewright::binding {

namespace {

constexpr int64_t kAlignment = 16;
constexpr int64_t kBlock = 128;

int64_t blocks(int64_t size) { return (size + kBlock - 1) / kBlock; }

// Scales as they are returned; those of 1 x 128 lie outer dimension first.
bool allocate_scales(const View& x, Granularity granularity, Owned& out, QuantizeFp8Args& args) {
  const int64_t rows = x.sizes[0];
  const int64_t across = blocks(x.sizes[1]);
  View view{"scales"};
  if (granularity != Granularity::kBlock1x128) {
    const int64_t down = granularity == Granularity::kRow ? rows : blocks(rows);
    const int64_t sizes[2] = {down, granularity == Granularity::kRow ? 1 : across};
    args.scale_row = sizes[1];
    args.scale_column = 1;
    if (!allocate(x, shim.dtype_f32, sizes, granularity == Granularity::kTensor ? 0 : 2, out)) return false;
  } else {
    const int64_t sizes[2] = {rows, across};
    const int64_t strides[2] = {1, rows};
    args.scale_row = 1;
    args.scale_column = rows;
    if (shim.empty_strided(2, sizes, strides, shim.dtype_f32, x.device_type, x.device, out.out()) != 0) {
      return fail("quantize_fp8: allocating %" PRId64 " scales failed", rows * across);
    }
  }
  if (!inspect("scales", out.get(), view)) return false;
  args.scales = static_cast<float*>(view.data);
  return true;
}

bool allocate_scratch(const View& like, Owned& out, float*& data) {
  View view{"scratch"};
  const int64_t one = 1;
  if (!allocate(like, shim.dtype_f32, &one, 1, out) || !inspect("scratch", out.get(), view)) return false;
  data = static_cast<float*>(view.data);
  return true;
}

bool report(const char* op, cudaError_t error, const View& x) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return fail("%s: the launch failed: %s (x is [%" PRId64 ", %" PRId64 "])", op, cudaGetErrorString(error), x.sizes[0],
              x.sizes[1]);
}

}  // namespace

bool run_quantize_fp8(View& x, int64_t granularity, int64_t fp8_type, View& scale, Owned& codes, Owned& scales) {
  QuantizeFp8Args args{};
  Owned copy, scale_copy, scratch;
  View view{"codes"};
  const int32_t dtype = fp8_type == 0 ? shim.dtype_e4m3 : shim.dtype_e5m2;
  args.granularity = static_cast<Granularity>(granularity);
  if (!make_dense(x, kAlignment, copy) || !make_dense(scale, 4, scale_copy) || !allocate(x, dtype, x.sizes, 2, codes) ||
      !inspect("codes", codes.get(), view) || !allocate_scales(x, args.granularity, scales, args)) {
    return false;
  }
  args.values = x.data;
  args.codes = static_cast<uint8_t*>(view.data);
  args.given = static_cast<const float*>(scale.data);
  args.rows = x.sizes[0];
  args.columns = x.sizes[1];
  args.type = static_cast<Fp8Type>(fp8_type);
  element_type("quantize_fp8", x, args.dtype);
  const bool measured = args.granularity == Granularity::kTensor && args.given == nullptr;
  if (measured && !allocate_scratch(x, scratch, args.amax)) return false;
  Device device;
  void* stream = nullptr;
  if (!prepare_device("quantize_fp8", x, device, stream)) return false;
  const DeviceGuard guard(x.device);
  return report("quantize_fp8", enqueue_quantize_fp8(args, static_cast<cudaStream_t>(stream)), x);
}

bool run_quantize_nvfp4(View& x, View& global_scale, QuantizedNvfp4& out) {
  QuantizeNvfp4Args args{};
  Owned copy, scale_copy, scratch;
  View codes{"codes"}, scales{"scales"}, global{"global_scale"};
  const int64_t sizes[2] = {x.sizes[0], x.sizes[1] / 2};
  const int64_t bytes = nvfp4::scale_bytes(x.sizes[0], x.sizes[1]);
  if (!make_dense(x, kAlignment, copy) || !make_dense(global_scale, 4, scale_copy) ||
      !allocate(x, shim.dtype_u8, sizes, 2, out.codes) || !inspect("codes", out.codes.get(), codes) ||
      !allocate(x, shim.dtype_u8, &bytes, 1, out.scales) || !inspect("scales", out.scales.get(), scales) ||
      !allocate(x, shim.dtype_f32, nullptr, 0, out.global_scale) ||
      !inspect("global_scale", out.global_scale.get(), global)) {
    return false;
  }
  args.values = x.data;
  args.codes = static_cast<uint8_t*>(codes.data);
  args.scales = static_cast<uint8_t*>(scales.data);
  args.global_scale = static_cast<float*>(global.data);
  args.given = static_cast<const float*>(global_scale.data);
  args.rows = x.sizes[0];
  args.columns = x.sizes[1];
  element_type("quantize_nvfp4", x, args.dtype);
  if (args.given == nullptr && !allocate_scratch(x, scratch, args.amax)) return false;
  Device device;
  void* stream = nullptr;
  if (!prepare_device("quantize_nvfp4", x, device, stream)) return false;
  const DeviceGuard guard(x.device);
  return report("quantize_nvfp4", enqueue_quantize_nvfp4(args, static_cast<cudaStream_t>(stream)), x);
}

}  // namespace tilewright::binding
