// Properties of several devices in one process: `devices INDEX...`, where 0 is an H200, 1 a GB10 and 2 an H20.
// Each is asked from four threads at once.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "binding_device.cpp"
#include "binding_shim.cpp"
#include "binding_tensor.cpp"

namespace {

struct Profile {
  int major, minor, sms;
};

constexpr Profile kProfiles[] = {{9, 0, 132}, {12, 1, 48}, {9, 0, 78}};

}  // namespace

extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Profile& profile = kProfiles[device];
  *value = attribute == cudaDevAttrComputeCapabilityMajor   ? profile.major
           : attribute == cudaDevAttrComputeCapabilityMinor ? profile.minor
           : attribute == cudaDevAttrMultiProcessorCount    ? profile.sms
                                                            : 232448;
  return cudaSuccess;
}

extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" const char* cudaGetErrorString(cudaError_t) { return "failed"; }
extern "C" cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

namespace tilewright::binding {

cudaError_t load_a_kernel() { return cudaSuccess; }

}  // namespace tilewright::binding

int main(int count, char** words) {
  using namespace tilewright::binding;
  for (int i = 1; i < count; ++i) {
    const int index = std::atoi(words[i]);
    Device found[4];
    std::thread threads[4];
    for (int t = 0; t < 4; ++t) threads[t] = std::thread([&, t] { device_properties(index, found[t]); });
    for (std::thread& thread : threads) thread.join();
    for (const Device& device : found) {
      if (device.num_sms != found[0].num_sms || device.image != found[0].image) return 1;
    }
    const char* arch = found[0].image < 0 ? "none" : arch_name(kImages[found[0].image].arch);
    std::printf("%d.%d %d %s\n", found[0].cc_major, found[0].cc_minor, found[0].num_sms, arch);
  }
}
