// Tensors as the ops see them, and the per-thread error text.
#pragma once

#include <initializer_list>

#include "binding_shim.h"

namespace tilewright::binding {

// Records the text that the op will raise, and returns false. One text per thread.
bool fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
const char* last_error();

// Raises the recorded text as a Python RuntimeError. Must be called with nothing left to release: the
// exception is torch's and unwinds straight through this library's frames.
[[noreturn]] void raise();

// What one tensor argument looks like. Sizes and strides are borrowed from the tensor.
struct View {
  const char* name = nullptr;
  Handle handle = nullptr;
  void* data = nullptr;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  int64_t dim = 0;
  int64_t numel = 0;
  int32_t dtype = 0;
  int32_t device_type = 0;
  int32_t device = 0;

  bool present() const { return handle != nullptr; }
  int64_t last_size() const { return dim == 0 ? 1 : sizes[dim - 1]; }
};

bool inspect(const char* name, Handle handle, View& out);

const char* dtype_name(int32_t dtype);

// A tensor that is released at the end of the scope.
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ != nullptr) shim.delete_tensor(handle_);
  }
  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }
  Handle release() {
    Handle handle = handle_;
    handle_ = nullptr;
    return handle;
  }

 private:
  Handle handle_ = nullptr;
};

// A new contiguous tensor on the device of `like`.
bool allocate(const View& like, int32_t dtype, const int64_t* sizes, int64_t dim, Owned& out);

// Makes `view` a contiguous copy, which `copy` owns.
bool copy_dense(View& view, Owned& copy);

// Makes `view` contiguous with its data at a multiple of `alignment` bytes, copying into `copy` if it is not.
bool make_dense(View& view, int64_t alignment, Owned& copy);

// Reads an optional tensor from its stack cell and frees the heap cell; null when absent.
Handle take_optional(StableIValue cell);

// Wraps a tensor handle as an optional argument for call_dispatcher, which frees it.
StableIValue wrap_optional(Handle handle);

// A handle of its own for each of `views`, null for one that is absent: an operator that is called releases its
// arguments. On failure none is left over.
bool reference(const char* op, std::initializer_list<const View*> views, Handle* handles);

// Calls an operator through torch's dispatcher; false, with the text recorded, if it raised.
bool call(const char* name, StableIValue* stack);

}  // namespace tilewright::binding
