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
  int image = -1;  // index into kImages; -1 when no image of this binary loads on the device
};

// Index of the best image for a compute capability, or -1: the exact one, then one of its family ('f'),
// then a plain image of the same major and a lower minor. An 'a' image serves its own capability only.
int best_image(int cc_major, int cc_minor);

// Properties of one device, read once. False, with the error text recorded, if CUDA cannot say.
bool device_properties(int index, Device& out);

// Writes the built images as text ("sm_80, sm_90a").
void describe_images(char* out, size_t size);

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
