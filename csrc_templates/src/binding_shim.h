// The part of libtorch's C shim that the binding uses, resolved at run time (torch 2.10 and later).
// Nothing of torch is needed at build time, and the binary links neither libtorch nor libstdc++.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::binding {

using Handle = void*;          // AtenTensorHandle
using StableIValue = uint64_t;
using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);

// The stable interface this file was written against: 2.10.0 in torch's TORCH_ABI_VERSION encoding.
inline constexpr uint64_t kTargetVersion = (uint64_t{2} << 56) | (uint64_t{10} << 48);

// Function pointers; every name is the symbol less its `aoti_torch_` or `torch_` prefix.
struct Shim {
  int32_t (*library_init_def)(const char*, const char*, uint32_t, Handle*);
  int32_t (*library_init_impl)(const char*, const char*, const char*, uint32_t, Handle*);
  int32_t (*library_def)(Handle, const char*);
  int32_t (*library_impl)(Handle, const char*, Boxed, uint64_t);
  int32_t (*call_dispatcher)(const char*, const char*, StableIValue*, uint64_t);
  void (*check)(bool, const char*, const char*, uint32_t, const char*);
  uint64_t (*abi_version)();

  int32_t (*get_dim)(Handle, int64_t*);
  int32_t (*get_numel)(Handle, int64_t*);
  int32_t (*get_sizes)(Handle, int64_t**);
  int32_t (*get_strides)(Handle, int64_t**);
  int32_t (*get_dtype)(Handle, int32_t*);
  int32_t (*get_device_type)(Handle, int32_t*);
  int32_t (*get_device_index)(Handle, int32_t*);
  int32_t (*get_data_ptr)(Handle, void**);
  int32_t (*is_contiguous)(Handle, bool*);
  int32_t (*empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Handle*);
  int32_t (*copy_)(Handle, Handle, int32_t);
  int32_t (*reinterpret_tensor)(Handle, int64_t, const int64_t*, const int64_t*, int64_t, Handle*);
  int32_t (*new_tensor_handle)(Handle, Handle*);
  int32_t (*delete_tensor)(Handle);
  int32_t (*get_current_device_index)(int32_t*);

  // Only in libtorch_cuda: null with a CPU-only torch, where no CUDA tensor can reach us.
  int32_t (*get_current_cuda_stream)(int32_t, void**);
  int32_t (*create_cuda_guard)(int32_t, Handle*);
  int32_t (*delete_cuda_guard)(Handle);

  // Optional (2.13 and later).
  const char* (*exception_what)();

  // The process's own operator new and delete: optional values cross the shim as heap cells.
  void* (*operator_new)(size_t);
  void (*operator_delete)(void*);

  int32_t dtype_f16, dtype_bf16, dtype_f32, dtype_f64, dtype_u8, dtype_i8, dtype_i32, dtype_i64, dtype_e4m3,
      dtype_e5m2;
  int32_t device_cpu, device_cuda;
};

extern Shim shim;

// Fills `shim`. Returns null, or the reason why torch's shim cannot be used.
const char* resolve_shim();

}  // namespace tilewright::binding
