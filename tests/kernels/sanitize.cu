// Launches every test tile on edge shapes from buffers of exactly the size the contract names, for compute-sanitizer.
// Prints the launches made and returns 1 on any error or on an output element that was not written.
//
// usage: sanitize [memcheck|racecheck]   racecheck takes fewer shapes and only the engines with a shared-memory ring
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "harness.h"

namespace {

using namespace tilewright;

uint32_t random_state = 12345u;
uint32_t next_random() {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

bool report(cudaError_t error, const char* what) {
  if (error != cudaSuccess) std::printf("%s: %s\n", what, cudaGetErrorName(error));
  return error == cudaSuccess;
}

class Buffer {
 public:
  explicit Buffer(const std::vector<uint8_t>& bytes) : size_(bytes.size()) {
    ok_ = report(cudaMalloc(&pointer_, size_ == 0 ? 1 : size_), "cudaMalloc") &&
          report(cudaMemcpy(pointer_, bytes.data(), size_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~Buffer() { (void)cudaFree(pointer_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(pointer_);
  }
  bool ok() const { return ok_; }
  std::vector<uint8_t> read() const {
    std::vector<uint8_t> bytes(size_);
    (void)report(cudaMemcpy(bytes.data(), pointer_, size_, cudaMemcpyDeviceToHost), "read back");
    return bytes;
  }

 private:
  void* pointer_ = nullptr;
  size_t size_;
  bool ok_ = false;
};

std::vector<uint8_t> random_bytes(int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(next_random());
  return bytes;
}

std::vector<uint8_t> random_floats(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = 0.5f + static_cast<float>(next_random() % 1000u) * 0.001f;
  std::vector<uint8_t> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Finite 16-bit or 32-bit elements near one: the top bits of a half, a bfloat16 or a float in [0.5, 2).
std::vector<uint8_t> random_elements(int64_t count, DType dtype) {
  if (dtype == DType::kF32) return random_floats(count);
  std::vector<uint16_t> values(static_cast<size_t>(count));
  const uint32_t base = dtype == DType::kF16 ? 0x3800u : 0x3f00u;
  for (uint16_t& value : values) value = static_cast<uint16_t>(base + next_random() % 128u);
  std::vector<uint8_t> bytes(values.size() * 2);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct Case {
  int64_t m, n, k;
  int blocksize;
  QuantType quant_type;
  bool nested;
};

bool run(int tile, DType dtype, const Case& c) {
  const int64_t element = dtype == DType::kF32 ? 4 : 2;
  const int64_t blocks = (c.n * c.k + c.blocksize - 1) / c.blocksize;
  const bool bytes = c.nested || c.quant_type == QuantType::kE2m1;
  Buffer a(random_elements(c.m * c.k, dtype));
  Buffer b(random_bytes((c.n * c.k + 1) / 2));
  // e4m3 codes stay below NaN
  std::vector<uint8_t> scale_bytes = bytes ? random_bytes(blocks) : random_floats(blocks);
  if (bytes) for (uint8_t& code : scale_bytes) code &= 0x3fu;
  Buffer scales(scale_bytes);
  Buffer nested_absmax(random_floats((blocks + 255) / 256));
  Buffer nested_code(random_floats(256));
  Buffer offset(random_floats(1));
  Buffer bias(random_elements(c.n, dtype));
  Buffer out(std::vector<uint8_t>(static_cast<size_t>(c.m * c.n * element), 0xff));  // every element NaN
  if (!(a.ok() && b.ok() && scales.ok() && nested_absmax.ok() && nested_code.ok() && bias.ok() && out.ok())) return false;
  const Gemm4bitArgs args{a.as<void>(), b.as<uint8_t>(), scales.as<void>(),
                          c.nested ? nested_absmax.as<float>() : nullptr, c.nested ? nested_code.as<float>() : nullptr,
                          bytes ? offset.as<float>() : nullptr, bias.as<void>(), out.as<void>(), c.m, c.n, c.k, c.k,
                          c.blocksize, dtype, c.quant_type, 132, nullptr, 0};
  const auto error = static_cast<cudaError_t>(tw_gemm_4bit(tile, &args, nullptr));
  if (!report(error, tw_tile_name(tile)) || !report(cudaDeviceSynchronize(), tw_tile_name(tile))) return false;
  const std::vector<uint8_t> result = out.read();
  for (size_t i = 0; i + 1 < result.size(); i += static_cast<size_t>(element)) {
    if (result[i] == 0xff && result[i + 1] == 0xff && (element == 2 || result[i + 3] == 0xff)) {
      std::printf("%s: element %zu of m %lld n %lld k %lld was not written\n", tw_tile_name(tile), i / element,
                  static_cast<long long>(c.m), static_cast<long long>(c.n), static_cast<long long>(c.k));
      return false;
    }
  }
  return true;
}

std::vector<Case> cases_of(const test::TileInfo& info, bool quick) {
  using Q = QuantType;
  if (info.engine == 0) {
    return {{1, 1, 1, 32, Q::kNf4, false},        {info.m + 1, info.n + 1, 263, 64, Q::kFp4, true},
            {info.m, info.n - 1, 1288, 64, Q::kNf4, false}, {2 * info.m + 1, 5, 272, 16, Q::kE2m1, false}};
  }
  const int64_t ring = static_cast<int64_t>(info.k) * info.stages;
  std::vector<Case> cases = {{info.m + 1, info.n + 1, ring + info.k + 32, 32, Q::kNf4, true},
                             {info.m - 1, info.n - 1, ring + 64, 16, Q::kE2m1, false}};
  if (quick) return cases;
  cases.push_back({1, 1, 32, 4096, Q::kFp4, false});
  cases.push_back({2 * info.m, 2 * info.n + 8, ring * 2, 64, Q::kNf4, false});
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "racecheck") == 0;
  int launches = 0;
  int failures = 0;
  for (int tile = 0; tile < tw_tile_count(); ++tile) {
    tilewright::test::TileInfo info;
    if (tw_tile_info(tile, &info) != 0) return 1;
    if (quick && info.engine == 0) continue;
    for (int dtype = 0; dtype < (info.engine == 0 ? 3 : 2); ++dtype) {
      if (quick && dtype != tile % 2) continue;
      for (const Case& c : cases_of(info, quick)) {
        ++launches;
        failures += run(tile, static_cast<tilewright::DType>(dtype), c) ? 0 : 1;
      }
    }
  }
  std::printf("launches %d failures %d\n", launches, failures);
  return failures == 0 && launches > 0 ? 0 : 1;
}
