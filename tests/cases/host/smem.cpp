// One kernel on three injected devices: what each one was told about shared memory.
#include "tilewright/host/kernel_launch.cuh"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <thread>

namespace {

thread_local int current = 0;
std::atomic<int> granted[8];
bool refusing = false;
int kernel = 0;

}  // namespace

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  if (refusing) return cudaErrorInvalidValue;
  granted[current] = value;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

int main() {
  static tilewright::host::SmemOptIn opt_in;
  for (current = 0; current < 2; ++current) {
    for (const int bytes : {1024, 65536, 50000, 65536}) {
      if (opt_in.ensure(&kernel, bytes) != cudaSuccess) return 1;
    }
    std::printf("%d: %d\n", current, granted[current].load());
  }
  current = 2;
  refusing = true;
  const bool refused = opt_in.ensure(&kernel, 65536) == cudaErrorInvalidValue;
  const int before = granted[2];
  refusing = false;
  if (opt_in.ensure(&kernel, 65536) != cudaSuccess) return 1;
  std::printf("2: %d %s, asked again: %d\n", before, refused ? "refused" : "taken", granted[2].load());

  // Every thread has its own current device; what a launch needs is granted when `ensure` has returned.
  std::atomic<int> wrong{0};
  std::thread threads[4];
  for (int t = 0; t < 4; ++t) {
    threads[t] = std::thread([&, t] {
      current = 3 + t % 2;
      for (int i = 0; i < 20000; ++i) {
        const int bytes = i % 2 == 0 ? 4096 : 65536;
        if (opt_in.ensure(&kernel, bytes) != cudaSuccess) ++wrong;
        if (bytes > tilewright::host::kDefaultSmemBytes && granted[current] < bytes) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("threads: %d below what was asked for\n", wrong.load());
}
