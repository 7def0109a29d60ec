#include "binding_tensor.h"

#include <cstdarg>
#include <cstdio>

namespace tilewright::binding {

namespace {

thread_local char error_text[1024];

constexpr int64_t kMaxDims = 64;

}  // namespace

bool fail(const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::vsnprintf(error_text, sizeof error_text, format, values);
  va_end(values);
  return false;
}

const char* last_error() { return error_text; }

void raise() {
  shim.check(false, "tilewright", "tilewright", 0, error_text);
  __builtin_unreachable();
}

bool inspect(const char* name, Handle handle, View& out) {
  out.name = name;
  out.handle = handle;
  if (handle == nullptr) return true;
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
  const int32_t status = shim.get_dim(handle, &out.dim) | shim.get_numel(handle, &out.numel) |
                         shim.get_sizes(handle, &sizes) | shim.get_strides(handle, &strides) |
                         shim.get_dtype(handle, &out.dtype) | shim.get_device_type(handle, &out.device_type) |
                         shim.get_device_index(handle, &out.device) | shim.get_data_ptr(handle, &out.data);
  if (status != 0) return fail("%s: not a plain strided tensor", name);
  if (out.dim > kMaxDims) {
    return fail("%s has %lld dimensions; at most %lld are allowed", name, static_cast<long long>(out.dim),
                static_cast<long long>(kMaxDims));
  }
  out.sizes = sizes;
  out.strides = strides;
  return true;
}

const char* dtype_name(int32_t dtype) {
  if (dtype == shim.dtype_f16) return "float16";
  if (dtype == shim.dtype_bf16) return "bfloat16";
  if (dtype == shim.dtype_f32) return "float32";
  if (dtype == shim.dtype_f64) return "float64";
  if (dtype == shim.dtype_u8) return "uint8";
  if (dtype == shim.dtype_i8) return "int8";
  if (dtype == shim.dtype_i32) return "int32";
  if (dtype == shim.dtype_i64) return "int64";
  if (dtype == shim.dtype_e4m3) return "float8_e4m3fn";
  if (dtype == shim.dtype_e5m2) return "float8_e5m2";
  return "another dtype";
}

bool allocate(const View& like, int32_t dtype, const int64_t* sizes, int64_t dim, Owned& out) {
  int64_t strides[kMaxDims];
  int64_t stride = 1;
  for (int64_t d = dim - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= sizes[d] > 0 ? sizes[d] : 1;
  }
  if (shim.empty_strided(dim, sizes, strides, dtype, like.device_type, like.device, out.out()) == 0) return true;
  return fail("allocating %lld elements failed%s%s", static_cast<long long>(stride),
              shim.exception_what != nullptr ? ": " : "",
              shim.exception_what != nullptr ? shim.exception_what() : "");
}

bool copy_dense(View& view, Owned& copy) {
  if (!allocate(view, view.dtype, view.sizes, view.dim, copy)) return false;
  if (shim.copy_(copy.get(), view.handle, 0) != 0) return fail("%s: copying it failed", view.name);
  return inspect(view.name, copy.get(), view);
}

bool make_dense(View& view, int64_t alignment, Owned& copy) {
  if (!view.present() || view.numel == 0) return true;
  bool contiguous = false;
  if (shim.is_contiguous(view.handle, &contiguous) != 0) return fail("%s: not a plain strided tensor", view.name);
  if (contiguous && reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(alignment) == 0) return true;
  return copy_dense(view, copy);
}

bool reference(const char* op, std::initializer_list<const View*> views, Handle* handles) {
  int made = 0;
  for (const View* view : views) {
    Handle& handle = handles[made++];
    handle = nullptr;
    if (!view->present() || shim.new_tensor_handle(view->handle, &handle) == 0) continue;
    while (--made > 0) {
      if (handles[made - 1] != nullptr) shim.delete_tensor(handles[made - 1]);
    }
    return fail("%s: %s could not be referenced", op, view->name);
  }
  return true;
}

Handle take_optional(StableIValue cell) {
  if (cell == 0) return nullptr;
  auto* heap = reinterpret_cast<StableIValue*>(cell);
  Handle handle = reinterpret_cast<Handle>(*heap);
  shim.operator_delete(heap);
  return handle;
}

StableIValue wrap_optional(Handle handle) {
  if (handle == nullptr) return 0;
  auto* heap = static_cast<StableIValue*>(shim.operator_new(sizeof(StableIValue)));
  *heap = reinterpret_cast<StableIValue>(handle);
  return reinterpret_cast<StableIValue>(heap);
}

bool call(const char* name, StableIValue* stack) {
  if (shim.call_dispatcher(name, "", stack, kTargetVersion) == 0) return true;
  return fail("%s failed%s%s", name, shim.exception_what != nullptr ? ": " : "",
              shim.exception_what != nullptr ? shim.exception_what() : "");
}

}  // namespace tilewright::binding
