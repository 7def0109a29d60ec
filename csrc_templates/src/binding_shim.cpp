#include "binding_shim.h"

#include <dlfcn.h>

#include <cstdio>

namespace tilewright::binding {

Shim shim{};

namespace {

char reason[256];

template <class Function>
bool bind(void* library, const char* symbol, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, symbol));
  if (out != nullptr) return true;
  std::snprintf(reason, sizeof reason, "torch has no symbol %s; torch 2.10 or newer is needed", symbol);
  return false;
}

bool bind_library(void* cpu) {
  return bind(cpu, "aoti_torch_library_init_def", shim.library_init_def) &&
         bind(cpu, "aoti_torch_library_init_impl", shim.library_init_impl) &&
         bind(cpu, "aoti_torch_library_def", shim.library_def) &&
         bind(cpu, "torch_library_impl", shim.library_impl) &&
         bind(cpu, "torch_call_dispatcher", shim.call_dispatcher) &&
         bind(cpu, "aoti_torch_check", shim.check) &&
         bind(cpu, "aoti_torch_abi_version", shim.abi_version);
}

bool bind_tensor(void* cpu) {
  return bind(cpu, "aoti_torch_get_dim", shim.get_dim) &&
         bind(cpu, "aoti_torch_get_numel", shim.get_numel) &&
         bind(cpu, "aoti_torch_get_sizes", shim.get_sizes) &&
         bind(cpu, "aoti_torch_get_strides", shim.get_strides) &&
         bind(cpu, "aoti_torch_get_dtype", shim.get_dtype) &&
         bind(cpu, "aoti_torch_get_device_type", shim.get_device_type) &&
         bind(cpu, "aoti_torch_get_device_index", shim.get_device_index) &&
         bind(cpu, "aoti_torch_get_data_ptr", shim.get_data_ptr) &&
         bind(cpu, "aoti_torch_is_contiguous", shim.is_contiguous) &&
         bind(cpu, "aoti_torch_empty_strided", shim.empty_strided) &&
         bind(cpu, "aoti_torch_copy_", shim.copy_) &&
         bind(cpu, "aoti_torch__reinterpret_tensor", shim.reinterpret_tensor) &&
         bind(cpu, "aoti_torch_new_tensor_handle", shim.new_tensor_handle) &&
         bind(cpu, "aoti_torch_delete_tensor_object", shim.delete_tensor) &&
         bind(cpu, "aoti_torch_get_current_device_index", shim.get_current_device_index);
}

bool bind_constant(void* cpu, const char* symbol, int32_t& out) {
  int32_t (*getter)() = nullptr;
  if (!bind(cpu, symbol, getter)) return false;
  out = getter();
  return true;
}

bool bind_constants(void* cpu) {
  return bind_constant(cpu, "aoti_torch_dtype_float16", shim.dtype_f16) &&
         bind_constant(cpu, "aoti_torch_dtype_bfloat16", shim.dtype_bf16) &&
         bind_constant(cpu, "aoti_torch_dtype_float32", shim.dtype_f32) &&
         bind_constant(cpu, "aoti_torch_dtype_float64", shim.dtype_f64) &&
         bind_constant(cpu, "aoti_torch_dtype_uint8", shim.dtype_u8) &&
         bind_constant(cpu, "aoti_torch_dtype_int8", shim.dtype_i8) &&
         bind_constant(cpu, "aoti_torch_dtype_int32", shim.dtype_i32) &&
         bind_constant(cpu, "aoti_torch_dtype_int64", shim.dtype_i64) &&
         bind_constant(cpu, "aoti_torch_dtype_float8_e4m3fn", shim.dtype_e4m3) &&
         bind_constant(cpu, "aoti_torch_dtype_float8_e5m2", shim.dtype_e5m2) &&
         bind_constant(cpu, "aoti_torch_device_type_cpu", shim.device_cpu) &&
         bind_constant(cpu, "aoti_torch_device_type_cuda", shim.device_cuda);
}

// A preloaded allocator (tcmalloc, jemalloc) replaces operator new for torch too, so the global scope
// comes before libtorch's own dependencies.
bool bind_allocator(void* cpu) {
  void* make = dlsym(RTLD_DEFAULT, "_Znwm");
  void* destroy = dlsym(RTLD_DEFAULT, "_ZdlPv");
  if (make == nullptr || destroy == nullptr) {
    make = dlsym(cpu, "_Znwm");
    destroy = dlsym(cpu, "_ZdlPv");
  }
  shim.operator_new = reinterpret_cast<void* (*)(size_t)>(make);
  shim.operator_delete = reinterpret_cast<void (*)(void*)>(destroy);
  if (make != nullptr && destroy != nullptr) return true;
  std::snprintf(reason, sizeof reason, "operator new and delete were not found in the process");
  return false;
}

// A strong or weak link to libtorch_cuda would fail or stay null depending on the torch build; a lookup
// in the copy that is already loaded works with both.
void bind_cuda() {
  void* cuda = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  if (cuda == nullptr) return;
  bind(cuda, "aoti_torch_get_current_cuda_stream", shim.get_current_cuda_stream);
  bind(cuda, "aoti_torch_create_cuda_guard", shim.create_cuda_guard);
  bind(cuda, "aoti_torch_delete_cuda_guard", shim.delete_cuda_guard);
}

}  // namespace

const char* resolve_shim() {
  void* cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  if (cpu == nullptr) return "libtorch_cpu.so is not loaded; import torch first";
  if (!bind_library(cpu) || !bind_tensor(cpu) || !bind_constants(cpu) || !bind_allocator(cpu)) return reason;
  bind_cuda();
  shim.exception_what =
      reinterpret_cast<const char* (*)()>(dlsym(cpu, "torch_exception_get_what_without_backtrace"));
  return nullptr;
}

}  // namespace tilewright::binding
