// The ops of torch.ops.tilewright that run on CUDA: schemas, boxed kernels, registration.
//
// A boxed kernel owns the handles on its stack: it releases every one before it returns or raises.
#include "binding_control.h"
#include "binding_device.h"
#include "binding_fp8.h"
#include "binding_gemm_4bit.h"

// The kernels' dispatch key. tests/python/test_binding.py drives the same code with CPU tensors.
#ifndef TILEWRIGHT_DISPATCH_KEY
#define TILEWRIGHT_DISPATCH_KEY "CUDA"
#endif

namespace tilewright::binding {

namespace {

#define TILEWRIGHT_GEMM_4BIT_ARGS                                                                                     \
  "(Tensor a, Tensor b, Tensor absmax, int n, int k, int blocksize, int quant_type, Tensor? bias=None, "              \
  "Tensor? nested_absmax=None, Tensor? nested_code=None, Tensor? offset=None, bool static_weights=False) "            \
  "-> Tensor"

#define TILEWRIGHT_DEQUANTIZE_4BIT_ARGS                                                                               \
  "(Tensor b, Tensor absmax, int n, int k, int blocksize, int quant_type, int dtype, "                                \
  "Tensor? nested_absmax=None, Tensor? nested_code=None, Tensor? offset=None) -> Tensor"

#define TILEWRIGHT_QUANTIZE_4BIT_ARGS "(Tensor weight, int blocksize, int quant_type) -> (Tensor, Tensor, Tensor)"

#define TILEWRIGHT_GEMM_FP8_ARGS                                                                                      \
  "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias=None, int out_dtype=1, "                         \
  "bool fast_accum=False, bool static_weights=False) -> Tensor"

#define TILEWRIGHT_GEMM_FP8_GROUPED_ARGS                                                                              \
  "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? group_ends=None, Tensor? group_rows=None, "           \
  "Tensor? bias=None, int out_dtype=1, bool fast_accum=False, bool static_weights=False) -> Tensor"

#define TILEWRIGHT_QUANTIZE_FP8_ARGS \
  "(Tensor x, int granularity, int fp8_type=0, Tensor? scale=None) -> (Tensor, Tensor)"

#define TILEWRIGHT_GEMM_NVFP4_ARGS                                                                                    \
  "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor global_a, Tensor global_b, Tensor? bias=None, "        \
  "int out_dtype=1, bool static_weights=False) -> Tensor"

#define TILEWRIGHT_QUANTIZE_NVFP4_ARGS "(Tensor x, Tensor? global_scale=None) -> (Tensor, Tensor, Tensor)"

constexpr const char* kSchemas[] = {
    "gemm_4bit" TILEWRIGHT_GEMM_4BIT_ARGS,
    "_noop_gemm_4bit" TILEWRIGHT_GEMM_4BIT_ARGS,
    "dequantize_4bit" TILEWRIGHT_DEQUANTIZE_4BIT_ARGS,
    "quantize_4bit" TILEWRIGHT_QUANTIZE_4BIT_ARGS,
    // In plain torch: for devices that no kernel of this library runs on, and what no kernel does.
    "_gemm_4bit_torch" TILEWRIGHT_GEMM_4BIT_ARGS,
    "_dequantize_4bit_torch" TILEWRIGHT_DEQUANTIZE_4BIT_ARGS,
    "_quantize_4bit_torch" TILEWRIGHT_QUANTIZE_4BIT_ARGS,
    "gemm_fp8" TILEWRIGHT_GEMM_FP8_ARGS,
    "gemm_fp8_grouped" TILEWRIGHT_GEMM_FP8_GROUPED_ARGS,
    "quantize_fp8" TILEWRIGHT_QUANTIZE_FP8_ARGS,
    "gemm_nvfp4" TILEWRIGHT_GEMM_NVFP4_ARGS,
    "quantize_nvfp4" TILEWRIGHT_QUANTIZE_NVFP4_ARGS,
    "_gemm_fp8_torch" TILEWRIGHT_GEMM_FP8_ARGS,
    "_gemm_fp8_grouped_torch" TILEWRIGHT_GEMM_FP8_GROUPED_ARGS,
    "_quantize_fp8_torch" TILEWRIGHT_QUANTIZE_FP8_ARGS,
    "_gemm_nvfp4_torch" TILEWRIGHT_GEMM_NVFP4_ARGS,
    "_quantize_nvfp4_torch" TILEWRIGHT_QUANTIZE_NVFP4_ARGS,
};

// The handles of one call; released at the end of the scope, before any raise.
template <int kTensors>
struct Arguments {
  Handle handles[kTensors] = {};
  ~Arguments() {
    for (Handle handle : handles) {
      if (handle != nullptr) shim.delete_tensor(handle);
    }
  }
};

Handle as_handle(StableIValue value) { return reinterpret_cast<Handle>(value); }

bool as_bool(StableIValue value) { return (value & 0xff) != 0; }

bool inspect_weight(Handle b, Handle absmax, Handle nested_absmax, Handle nested_code, Handle offset, Weight& out) {
  return inspect("b", b, out.b) && inspect("absmax", absmax, out.absmax) &&
         inspect("nested_absmax", nested_absmax, out.nested_absmax) &&
         inspect("nested_code", nested_code, out.nested_code) && inspect("offset", offset, out.offset);
}

struct Gemm4bitCall {
  Arguments<7> arguments;
  Gemm4bitInputs in;

  bool read(const StableIValue* stack) {
    Handle* h = arguments.handles;
    for (int i = 0; i < 3; ++i) h[i] = as_handle(stack[i]);
    for (int i = 3; i < 7; ++i) h[i] = take_optional(stack[i + 4]);
    in.weight.n = static_cast<int64_t>(stack[3]);
    in.weight.k = static_cast<int64_t>(stack[4]);
    in.weight.blocksize = static_cast<int64_t>(stack[5]);
    in.weight.quant_type = static_cast<int64_t>(stack[6]);
    in.static_weights = as_bool(stack[11]);
    return inspect("a", h[0], in.a) && inspect("bias", h[3], in.bias) &&
           inspect_weight(h[1], h[2], h[4], h[5], h[6], in.weight);
  }
};

Handle gemm_4bit(const StableIValue* stack) {
  Gemm4bitCall call;
  Owned out;
  if (!call.read(stack) || !run_gemm_4bit(call.in, out)) return nullptr;
  return out.release();
}

// Same signature and output allocation as gemm_4bit, no checks, no decision and no launch: the floor that
// benchmarks/host_overhead.py compares with.
Handle noop_gemm_4bit(const StableIValue* stack) {
  Arguments<7> arguments;
  Handle* h = arguments.handles;
  for (int i = 0; i < 3; ++i) h[i] = as_handle(stack[i]);
  for (int i = 3; i < 7; ++i) h[i] = take_optional(stack[i + 4]);
  View a;
  Owned out;
  if (!inspect("a", h[0], a)) return nullptr;
  const int64_t k = static_cast<int64_t>(stack[4]);
  const int64_t sizes[2] = {k > 0 ? a.numel / k : 0, static_cast<int64_t>(stack[3])};
  if (!allocate(a, a.dtype, sizes, 2, out)) return nullptr;
  return out.release();
}

Handle dequantize_4bit(const StableIValue* stack) {
  Arguments<5> arguments;
  Handle* h = arguments.handles;
  for (int i = 0; i < 2; ++i) h[i] = as_handle(stack[i]);
  for (int i = 2; i < 5; ++i) h[i] = take_optional(stack[i + 5]);
  Weight weight;
  weight.n = static_cast<int64_t>(stack[2]);
  weight.k = static_cast<int64_t>(stack[3]);
  weight.blocksize = static_cast<int64_t>(stack[4]);
  weight.quant_type = static_cast<int64_t>(stack[5]);
  Owned out;
  if (!inspect_weight(h[0], h[1], h[2], h[3], h[4], weight)) return nullptr;
  if (!run_dequantize_4bit(weight, static_cast<int64_t>(stack[6]), out)) return nullptr;
  return out.release();
}

bool inspect_gemm_fp8(const Handle* h, GemmFp8Inputs& in) {
  return inspect("a", h[0], in.a) && inspect("b", h[1], in.b) && inspect("scale_a", h[2], in.scale_a) &&
         inspect("scale_b", h[3], in.scale_b) && inspect("bias", h[4], in.bias);
}

Handle gemm_fp8(const StableIValue* stack) {
  Arguments<5> arguments;
  Handle* h = arguments.handles;
  for (int i = 0; i < 4; ++i) h[i] = as_handle(stack[i]);
  h[4] = take_optional(stack[4]);
  GemmFp8Inputs in;
  in.out_dtype = static_cast<int64_t>(stack[5]);
  in.fast_accum = as_bool(stack[6]);
  in.static_weights = as_bool(stack[7]);
  Owned out;
  if (!inspect_gemm_fp8(h, in) || !run_gemm_fp8(in, out)) return nullptr;
  return out.release();
}

Handle gemm_fp8_grouped(const StableIValue* stack) {
  Arguments<7> arguments;
  Handle* h = arguments.handles;
  for (int i = 0; i < 4; ++i) h[i] = as_handle(stack[i]);
  h[4] = take_optional(stack[6]);
  h[5] = take_optional(stack[4]);
  h[6] = take_optional(stack[5]);
  GemmFp8Inputs in;
  in.out_dtype = static_cast<int64_t>(stack[7]);
  in.fast_accum = as_bool(stack[8]);
  in.static_weights = as_bool(stack[9]);
  Owned out;
  if (!inspect_gemm_fp8(h, in) || !inspect("group_ends", h[5], in.group_ends) ||
      !inspect("group_rows", h[6], in.group_rows) || !run_gemm_fp8_grouped(in, out)) {
    return nullptr;
  }
  return out.release();
}

Handle gemm_nvfp4(const StableIValue* stack) {
  Arguments<7> arguments;
  Handle* h = arguments.handles;
  for (int i = 0; i < 6; ++i) h[i] = as_handle(stack[i]);
  h[6] = take_optional(stack[6]);
  GemmNvfp4Inputs in;
  in.out_dtype = static_cast<int64_t>(stack[7]);
  in.static_weights = as_bool(stack[8]);
  Owned out;
  if (!inspect("a", h[0], in.a) || !inspect("b", h[1], in.b) || !inspect("scale_a", h[2], in.scale_a) ||
      !inspect("scale_b", h[3], in.scale_b) || !inspect("global_a", h[4], in.global_a) ||
      !inspect("global_b", h[5], in.global_b) || !inspect("bias", h[6], in.bias) || !run_gemm_nvfp4(in, out)) {
    return nullptr;
  }
  return out.release();
}

// Whether kernels run on the device of the first tensor of a stack.
bool served(StableIValue tensor) {
  int32_t device = 0;
  return shim.get_device_index(as_handle(tensor), &device) != 0 || kernels_run_on(device);
}

bool quantize_by_kernel(StableIValue* stack) {
  Arguments<1> arguments{{as_handle(stack[0])}};
  View weight;
  Quantized out;
  if (!inspect("weight", arguments.handles[0], weight) ||
      !run_quantize_4bit(weight, static_cast<int64_t>(stack[1]), static_cast<int64_t>(stack[2]), out)) {
    return false;
  }
  stack[0] = reinterpret_cast<StableIValue>(out.packed.release());
  stack[1] = reinterpret_cast<StableIValue>(out.absmax.release());
  stack[2] = reinterpret_cast<StableIValue>(out.offset.release());
  return true;
}

// e2m1 needs the largest value of the whole tensor first: that is left to torch.
void quantize_4bit(StableIValue* stack, uint64_t, uint64_t) {
  const bool in_torch = static_cast<int64_t>(stack[2]) == static_cast<int64_t>(QuantType::kE2m1) || !served(stack[0]);
  const bool done = in_torch
                        ? call("tilewright::_quantize_4bit_torch", stack)
                        : quantize_by_kernel(stack);
  if (!done) raise();
}

// Whether the first tensor of a stack holds nothing, which torch answers.
bool holds_nothing(StableIValue tensor) {
  int64_t numel = 0;
  return shim.get_numel(as_handle(tensor), &numel) == 0 && numel == 0;
}

bool quantize_fp8_by_kernel(StableIValue* stack) {
  Arguments<2> arguments{{as_handle(stack[0]), take_optional(stack[3])}};
  const int64_t granularity = static_cast<int64_t>(stack[1]);
  const int64_t fp8_type = static_cast<int64_t>(stack[2]);
  View x, scale;
  Owned codes, scales;
  if (!inspect("x", arguments.handles[0], x) || !inspect("scale", arguments.handles[1], scale) ||
      !check_quantize_fp8(x, granularity, fp8_type, scale) ||
      !run_quantize_fp8(x, granularity, fp8_type, scale, codes, scales)) {
    return false;
  }
  stack[0] = reinterpret_cast<StableIValue>(codes.release());
  stack[1] = reinterpret_cast<StableIValue>(scales.release());
  return true;
}

bool quantize_nvfp4_by_kernel(StableIValue* stack) {
  Arguments<2> arguments{{as_handle(stack[0]), take_optional(stack[1])}};
  View x, global_scale;
  QuantizedNvfp4 out;
  if (!inspect("x", arguments.handles[0], x) || !inspect("global_scale", arguments.handles[1], global_scale) ||
      !check_quantize_nvfp4(x, global_scale) || !run_quantize_nvfp4(x, global_scale, out)) {
    return false;
  }
  stack[0] = reinterpret_cast<StableIValue>(out.codes.release());
  stack[1] = reinterpret_cast<StableIValue>(out.scales.release());
  stack[2] = reinterpret_cast<StableIValue>(out.global_scale.release());
  return true;
}

// `kByKernel` takes the handles of the stack and leaves the results there.
template <bool (*kByKernel)(StableIValue*), const char* kInTorch>
void quantize(StableIValue* stack, uint64_t, uint64_t) {
  const bool in_torch = !served(stack[0]) || holds_nothing(stack[0]);
  if (!(in_torch ? call(kInTorch, stack) : kByKernel(stack))) raise();
}

// Every object of `Op` is gone when the exception is raised, so that nothing leaks. kInTorch names the op that answers
// where no kernel runs; the handles are its own from then on.
template <Handle (*Op)(const StableIValue*), const char* kInTorch>
void boxed(StableIValue* stack, uint64_t, uint64_t) {
  if (!served(stack[0])) {
    if (!call(kInTorch, stack)) raise();
    return;
  }
  const Handle result = Op(stack);
  if (result == nullptr) raise();
  stack[0] = reinterpret_cast<StableIValue>(result);
}

struct Kernel {
  const char* name;
  Boxed function;
};

constexpr char kGemm4bitInTorch[] = "tilewright::_gemm_4bit_torch";
constexpr char kDequantize4bitInTorch[] = "tilewright::_dequantize_4bit_torch";
constexpr char kGemmFp8InTorch[] = "tilewright::_gemm_fp8_torch";
constexpr char kGemmFp8GroupedInTorch[] = "tilewright::_gemm_fp8_grouped_torch";
constexpr char kQuantizeFp8InTorch[] = "tilewright::_quantize_fp8_torch";
constexpr char kGemmNvfp4InTorch[] = "tilewright::_gemm_nvfp4_torch";
constexpr char kQuantizeNvfp4InTorch[] = "tilewright::_quantize_nvfp4_torch";

constexpr Kernel kCudaKernels[] = {
    {"gemm_4bit", boxed<gemm_4bit, kGemm4bitInTorch>},
    {"_noop_gemm_4bit", boxed<noop_gemm_4bit, kGemm4bitInTorch>},
    {"dequantize_4bit", boxed<dequantize_4bit, kDequantize4bitInTorch>},
    {"quantize_4bit", quantize_4bit},
    {"gemm_fp8", boxed<gemm_fp8, kGemmFp8InTorch>},
    {"gemm_fp8_grouped", boxed<gemm_fp8_grouped, kGemmFp8GroupedInTorch>},
    {"quantize_fp8", quantize<quantize_fp8_by_kernel, kQuantizeFp8InTorch>},
    {"gemm_nvfp4", boxed<gemm_nvfp4, kGemmNvfp4InTorch>},
    {"quantize_nvfp4", quantize<quantize_nvfp4_by_kernel, kQuantizeNvfp4InTorch>},
};

// The library objects live as long as the process: deleting one would unregister its ops.
const char* register_ops() {
  Handle definitions = nullptr;
  Handle cuda = nullptr;
  if (shim.library_init_def("tilewright", __FILE__, __LINE__, &definitions) != 0) {
    return "the torch.library namespace tilewright is already taken";
  }
  for (const char* schema : kSchemas) {
    if (shim.library_def(definitions, schema) != 0) return "a schema was refused by torch";
  }
  if (shim.library_init_impl("tilewright", TILEWRIGHT_DISPATCH_KEY, __FILE__, __LINE__, &cuda) != 0) {
    return "the CUDA kernels were refused by torch";
  }
  for (const Kernel& kernel : kCudaKernels) {
    if (shim.library_impl(cuda, kernel.name, kernel.function, kTargetVersion) != 0) {
      return "a CUDA kernel was refused by torch";
    }
  }
  return nullptr;
}

}  // namespace

const char* register_with_torch() {
  static bool registered = false;
  if (registered) return nullptr;
  if (const char* reason = resolve_shim()) return reason;
  if (const char* reason = register_ops()) return reason;
  registered = true;
  return nullptr;
}

}  // namespace tilewright::binding
