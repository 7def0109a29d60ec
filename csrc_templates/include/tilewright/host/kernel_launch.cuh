// Checked kernel launches: every error code is returned, none is left behind for a later call to find.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

namespace tilewright::host {

// A block gets this much dynamic shared memory without asking.
constexpr int kDefaultSmemBytes = 48 * 1024;

// Remembers, for one kernel, how much dynamic shared memory it was allowed on each device. Keep one static instance per
// kernel instantiation; it is constant-initialised, so it needs no guard.
class SmemOptIn {
 public:
  // Raises the limit of `kernel` on the current device to `bytes`; never lowers it.
  cudaError_t ensure(const void* kernel, int bytes) {
    if (bytes <= kDefaultSmemBytes) return cudaSuccess;
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    const bool remembered = device < kMaxDevices;
    if (remembered && granted_[device].load(std::memory_order_acquire) >= bytes) return cudaSuccess;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();  // the code is returned; do not leave it for an unrelated check to report
      return error;
    }
    if (remembered) granted_[device].store(bytes, std::memory_order_release);
    return cudaSuccess;
  }

 private:
  static constexpr int kMaxDevices = 64;  // devices past this ask every time
  std::atomic<int> granted_[kMaxDevices]{};
};

// Launches and returns the launch's own error code.
template <class... Params, class... Args>
cudaError_t launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, int smem_bytes, cudaStream_t stream,
                          Args... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = static_cast<size_t>(smem_bytes);
  config.stream = stream;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

}  // namespace tilewright::host
