// The CUDA runtime's part of a launch: attributes are checked, the grid runs to its end.
#include <cuda_runtime.h>

#include <cstring>
#include <map>

#include "global_memory.h"
#include "tensor_map.h"
#include "world.h"

namespace tilewright::emulator {

namespace {

// What functions have been allowed.
struct FunctionLimits {
  int dynamic_bytes = 48 * 1024;
  bool oversized = false;
};

std::map<const void*, FunctionLimits>& limits() {
  static std::map<const void*, FunctionLimits> known;
  return known;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* function, std::function<void()> body) {
  World& all = world();
  Launch work;
  work.grid = config.gridDim;
  work.block = config.blockDim;
  work.shared_bytes = static_cast<uint32_t>(config.dynamicSmemBytes);
  work.body = std::move(body);
  FunctionLimits limit = limits()[function];
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      work.cluster = attribute.val.clusterDim.x * attribute.val.clusterDim.y * attribute.val.clusterDim.z;
      if (attribute.val.clusterDim.y != 1 || attribute.val.clusterDim.z != 1) return cudaErrorNotSupported;
    }
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      work.dependent = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
    if (attribute.id == cudaLaunchAttributeSharedMemoryMode)
      limit.oversized |= attribute.val.sharedMemoryMode != cudaSharedMemoryModeDefault;
  }
  const unsigned threads = work.block.x * work.block.y * work.block.z;
  if (threads == 0 || threads > 1024 || work.cluster == 0 || work.cluster > 16) return cudaErrorInvalidConfiguration;
  if (work.grid.x == 0 || work.grid.x % work.cluster != 0) return cudaErrorInvalidConfiguration;
  const int most =
      limit.oversized && all.device.shared_oversized > 0 ? all.device.shared_oversized : limit.dynamic_bytes;
  if (static_cast<int>(work.shared_bytes) > most) return cudaErrorInvalidValue;
  return all.run(work) ? cudaSuccess : cudaErrorLaunchFailure;
}

}  // namespace tilewright::emulator

using tilewright::emulator::limits;
using tilewright::emulator::world;

cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const auto& device = world().device;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = device.multiprocessors; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = device.major; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = device.minor; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = device.shared_optin; return cudaSuccess;
    case cudaDevAttrOversizedSharedMemoryPerBlock: *value = device.shared_oversized; return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const auto& device = world().device;
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value > device.shared_optin) return cudaErrorInvalidValue;
      limits()[function].dynamic_bytes = value;
      return cudaSuccess;
    case cudaFuncAttributeSharedMemoryMode:
      if (device.shared_oversized == 0 && value == cudaSharedMemoryModeAllowOversizedSharedMemory)
        return cudaErrorInvalidValue;
      limits()[function].oversized = value != cudaSharedMemoryModeDefault;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
    case cudaFuncAttributeNonPortableClusterSizeAllowed: return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  *clusters = world().device.resident_clusters;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *entry = known ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t) {
  tilewright::emulator::global_memory().check_write(target, bytes, {});
  std::memset(target, value, bytes);
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t) { return "a CUDA error"; }
