#include "binding_quantize.h"

#include <cuda_runtime_api.h>

#include <cinttypes>

#include "binding_device.h"
#include "binding_gemm_4bit.h"

namespace tilewright::binding {

namespace {

bool check_quantize(const View& weight, int64_t blocksize, int64_t quant_type) {
  if (quant_type < 0 || quant_type > 1) {
    return fail("quantize_4bit: quant_type=%" PRId64 "; allowed: 0 (nf4), 1 (fp4), 2 (e2m1)", quant_type);
  }
  if (blocksize < 32 || blocksize > 4096 || (blocksize & (blocksize - 1)) != 0) {
    return fail("quantize_4bit: blocksize=%" PRId64
                "; allowed: 32, 64, 128, 256, 512, 1024, 2048, 4096 for nf4 and fp4",
                blocksize);
  }
  DType dtype;
  return element_type("quantize_4bit", weight, dtype);
}

bool allocate_quantized(const View& weight, int64_t blocksize, Quantized& out, Quantize4bitArgs& args) {
  const int64_t bytes = (weight.numel + 1) / 2;
  const int64_t blocks = (weight.numel + blocksize - 1) / blocksize;
  const int64_t none = 0;
  View packed{"packed"};
  View absmax{"absmax"};
  if (!allocate(weight, shim.dtype_u8, &bytes, 1, out.packed) || !inspect("packed", out.packed.get(), packed) ||
      !allocate(weight, shim.dtype_f32, &blocks, 1, out.absmax) || !inspect("absmax", out.absmax.get(), absmax) ||
      !allocate(weight, shim.dtype_f32, &none, 1, out.offset)) {
    return false;
  }
  args.packed = static_cast<uint8_t*>(packed.data);
  args.absmax = static_cast<float*>(absmax.data);
  return true;
}

}  // namespace

bool run_quantize_4bit(View& weight, int64_t blocksize, int64_t quant_type, Quantized& out) {
  Quantize4bitArgs args{};
  Owned copy;
  if (!check_quantize(weight, blocksize, quant_type) || !make_dense(weight, 16, copy) ||
      !allocate_quantized(weight, blocksize, out, args)) {
    return false;
  }
  if (weight.numel == 0) return true;
  Device device;
  void* stream = nullptr;
  if (!prepare_device("quantize_4bit", weight, device, stream)) return false;
  args.values = weight.data;
  args.numel = weight.numel;
  args.blocksize = static_cast<int32_t>(blocksize);
  args.quant_type = static_cast<QuantType>(quant_type);
  element_type("quantize_4bit", weight, args.dtype);
  const DeviceGuard guard(weight.device);
  const cudaError_t error = enqueue_quantize_4bit(args, static_cast<cudaStream_t>(stream));
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return fail("quantize_4bit: the launch failed: %s (%" PRId64 " elements, blocksize=%" PRId64 ")",
              cudaGetErrorString(error), weight.numel, blocksize);
}

bool launch_dequantize_4bit(const Weight& w, DType dtype, void* out, void* stream) {
  Dequantize4bitArgs args{};
  args.b = static_cast<const uint8_t*>(w.b.data);
  args.scales = w.absmax.data;
  args.nested_absmax = static_cast<const float*>(w.nested_absmax.data);
  args.nested_code = static_cast<const float*>(w.nested_code.data);
  args.offset = static_cast<const float*>(w.offset.data);
  args.out = out;
  args.numel = w.n * w.k;
  args.k = w.k;
  args.blocksize = static_cast<int32_t>(w.blocksize);
  args.dtype = dtype;
  args.quant_type = static_cast<QuantType>(w.quant_type);
  args.layout = w.layout();
  const cudaError_t error = enqueue_dequantize_4bit(args, static_cast<cudaStream_t>(stream));
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return fail("dequantize_4bit: the launch failed: %s (n=%" PRId64 ", k=%" PRId64 ", blocksize=%" PRId64 ")",
              cudaGetErrorString(error), w.n, w.k, w.blocksize);
}

bool run_dequantize_4bit(Weight& w, int64_t dtype, Owned& out) {
  if (!check_weight("dequantize_4bit", w)) return false;
  if (dtype < 0 || dtype > 2) {
    return fail("dequantize_4bit: dtype=%" PRId64 "; allowed: 0 (float16), 1 (bfloat16), 2 (float32)", dtype);
  }
  const int32_t codes[3] = {shim.dtype_f16, shim.dtype_bf16, shim.dtype_f32};
  const int64_t sizes[2] = {w.n, w.k};
  View view{"out"};
  if (!allocate(w.b, codes[dtype], sizes, 2, out) || !inspect("out", out.get(), view)) return false;
  if (view.numel == 0) return true;
  Device device;
  void* stream = nullptr;
  WeightCopies copies;
  if (!prepare_device("dequantize_4bit", w.b, device, stream)) return false;
  const DeviceGuard guard(w.b.device);
  return make_dense_weight(w, copies) &&
         launch_dequantize_4bit(w, static_cast<DType>(dtype), view.data, stream);
}

}  // namespace tilewright::binding
