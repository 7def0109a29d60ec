#include "binding_device.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "binding_quantize.h"
#include "binding_tensor.h"

namespace tilewright::binding {

namespace {

constexpr int kMaxDevices = 64;  // devices past this are asked every time

// Every thread that fills a slot writes the same values, so the flag is all the ordering needed.
struct Slot {
  std::atomic<bool> ready{false};
  Device device;
};

Slot slots[kMaxDevices];

bool read_attribute(int index, cudaDeviceAttr attribute, int& out) {
  const cudaError_t error = cudaDeviceGetAttribute(&out, attribute, index);
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return fail("cuda:%d: reading device properties failed: %s", index, cudaGetErrorString(error));
}

// Whether the driver will never run the code. Other errors (a stream that is being captured, no memory) may pass.
bool is_refusal(cudaError_t error) {
  switch (error) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilationDisabled:
      return true;
    default:
      return false;
  }
}

// The driver translates PTX when a kernel is first loaded, and refuses PTX of a toolkit newer than itself.
void check_translation(int index, Device& device) {
  const DeviceGuard guard(index);
  const cudaError_t error = load_a_kernel();
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  if (!is_refusal(error)) return;
  device.image = -1;
  device.error = static_cast<int>(error);
}

bool read_device(int index, Device& out) {
  if (!read_attribute(index, cudaDevAttrComputeCapabilityMajor, out.cc_major) ||
      !read_attribute(index, cudaDevAttrComputeCapabilityMinor, out.cc_minor) ||
      !read_attribute(index, cudaDevAttrMultiProcessorCount, out.num_sms) ||
      !read_attribute(index, cudaDevAttrMaxSharedMemoryPerBlockOptin, out.smem_optin_bytes)) {
    return false;
  }
  out.image = best_image(out.cc_major, out.cc_minor);
  if (out.image >= 0 && kImages[out.image].ptx) check_translation(index, out);
  return true;
}

}  // namespace

int best_image(int cc_major, int cc_minor) { return gemm_4bit::best_image(cc_major, cc_minor); }

bool device_properties(int index, Device& out) {
  if (index < 0 || index >= kMaxDevices) return read_device(index, out);
  Slot& slot = slots[index];
  if (!slot.ready.load(std::memory_order_acquire)) {
    if (!read_device(index, out)) return false;
    slot.device = out;
    slot.ready.store(true, std::memory_order_release);
    return true;
  }
  out = slot.device;
  return true;
}

void describe_images(char* out, size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (int i = 0; i < kImageCount && used < size; ++i) {
    const char suffix[2] = {kImages[i].suffix, '\0'};
    used += static_cast<size_t>(std::snprintf(out + used, size - used, "%s%s_%d%d%s", i == 0 ? "" : ", ",
                                              kImages[i].ptx ? "compute" : "sm", kImages[i].cc_major,
                                              kImages[i].cc_minor, suffix));
  }
}

bool kernels_run_on(int index) {
  Device device;
  return !device_properties(index, device) || device.image >= 0;
}

void describe_refusal(int index, const Device& device, char* out, size_t size) {
  char images[256];
  describe_images(images, sizeof images);
  const int used = std::snprintf(
      out, size, "cuda:%d has compute capability %d.%d, and this build of tilewright has code only for %s", index,
      device.cc_major, device.cc_minor, images);
  if (used < 0 || static_cast<size_t>(used) >= size) return;
  if (device.error == 0) {
    std::snprintf(out + used, size - used, "; build it with TILEWRIGHT_ARCHS set for this device");
    return;
  }
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  const cudaError_t error = static_cast<cudaError_t>(device.error);
  std::snprintf(out + used, size - used,
                "; its PTX was made with CUDA %d.%d and the driver, of CUDA %d.%d, does not translate it (%s)%s",
                CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000, driver % 1000 / 10,
                cudaGetErrorString(error), error == cudaErrorUnsupportedPtxVersion ? "; a newer driver does" : "");
}

bool current_stream(int32_t device, void*& stream) {
  if (shim.get_current_cuda_stream != nullptr && shim.get_current_cuda_stream(device, &stream) == 0) return true;
  return fail("cuda:%d: torch's current stream could not be read", device);
}

bool prepare_device(const char* op, const View& tensor, Device& device, void*& stream) {
  if (!device_properties(tensor.device, device) || !current_stream(tensor.device, stream)) return false;
  if (device.image >= 0) return true;
  char text[640];
  describe_refusal(tensor.device, device, text, sizeof text);
  return fail("%s: %s", op, text);
}

// torch's own guard is used because it does not create a context on the device it leaves.
DeviceGuard::DeviceGuard(int index) {
  int32_t current = -1;
  if (shim.get_current_device_index(&current) == 0 && current == index) return;
  if (shim.create_cuda_guard != nullptr) shim.create_cuda_guard(index, &guard_);
}

DeviceGuard::~DeviceGuard() {
  if (guard_ != nullptr) shim.delete_cuda_guard(guard_);
}

}  // namespace tilewright::binding
