// What the binding knows about a CUDA device: its limits and the image of this binary that it runs.
#pragma once

#include <cstdint>

#include "binding_generated.h"
#include "binding_tensor.h"

namespace tilewright::binding {

struct Device {
  int cc_major = 0;
  int cc_minor = 0;
  int num_sms = 0;
  int smem_optin_bytes = 0;
  int image = -1;  // index into kImages; -1 when no image of this binary runs on the device
  int error = 0;   // what the driver answered where it could not translate PTX
};

// Index of the image that a device of this compute capability loads, or -1. Every family has the same images.
int best_image(int cc_major, int cc_minor);

// Properties of one device, read once. False, with the error text recorded, if CUDA cannot say.
bool device_properties(int index, Device& out);

// Writes the built images as text ("sm_80, sm_90a, compute_89").
void describe_images(char* out, size_t size);

// Whether kernels of this binary run on the device, which plain torch serves otherwise. True where CUDA cannot say:
// the op reports that.
bool kernels_run_on(int index);

// The sentence for a device on which no kernel runs.
void describe_refusal(int index, const Device& device, char* out, size_t size);

// The device and torch's current stream for an op on `tensor`; refuses a device that no image loads on.
bool prepare_device(const char* op, const View& tensor, Device& device, void*& stream);

// Makes `index` torch's current device for a scope. Does nothing, and costs one call, when it is already.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void* guard_ = nullptr;
};

}  // namespace tilewright::binding
