// Checked launches of kernels that form clusters and may overlap the end of the kernel before them.
#pragma once

#include <cuda_runtime.h>

#include "tilewright/host/kernel_launch.cuh"

namespace tilewright::host {

struct ClusterLaunch {
  dim3 grid, block;
  int smem_bytes;
  unsigned cluster;  // blocks per cluster, along x
  bool dependent;    // the kernel waits for its predecessors itself (griddepcontrol.wait)
};

// `attributes` has room for two and outlives `config`.
inline cudaLaunchConfig_t launch_config(const ClusterLaunch& launch, cudaStream_t stream,
                                        cudaLaunchAttribute* attributes) {
  cudaLaunchConfig_t config{};
  config.gridDim = launch.grid;
  config.blockDim = launch.block;
  config.dynamicSmemBytes = static_cast<size_t>(launch.smem_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (launch.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {launch.cluster, 1, 1};
  }
  if (launch.dependent) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  return config;
}

template <class... Params>
cudaError_t launch_cluster_kernel(void (*kernel)(Params...), const ClusterLaunch& launch, cudaStream_t stream,
                                  Params... args) {
  cudaLaunchAttribute attributes[2];
  const cudaLaunchConfig_t config = launch_config(launch, stream, attributes);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, args...);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

// How many clusters of `launch` the current device holds at once.
inline cudaError_t max_active_clusters(const void* kernel, const ClusterLaunch& launch, int device, int& clusters) {
  if (launch.cluster == 1) {
    int sms = 0, per_sm = 0;
    cudaError_t error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess) {
      error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, static_cast<int>(launch.block.x),
                                                            static_cast<size_t>(launch.smem_bytes));
    }
    if (error != cudaSuccess) (void)cudaGetLastError();
    clusters = sms * per_sm;
    return error;
  }
  cudaLaunchAttribute attributes[2];
  const cudaLaunchConfig_t config = launch_config(launch, nullptr, attributes);
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

}  // namespace tilewright::host
