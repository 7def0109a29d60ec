// The loading side of the decode engine's Hopper kernel, and what a block has to do.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/decode_bulk_plan.h"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tma.cuh"

namespace tilewright::gemm_fp8::kernels {

// A cluster takes every `clusters`-th tile; each of its blocks a piece of k. All clusters begin at the same place of
// it: what they ask for of A at about the same time is brought out of L2 once for several.
template <class Config>
struct DecodeBulkShare {
  int rank, cluster, clusters, tiles;
  int first_unit, units;

  __device__ __forceinline__ explicit DecodeBulkShare(const DecodeBulkParams& params) {
    rank = Config::kCluster > 1 ? static_cast<int>(ptx::cluster_block_rank()) : 0;
    cluster = static_cast<int>(blockIdx.x) / Config::kCluster;
    clusters = static_cast<int>(gridDim.x) / Config::kCluster;
    tiles = (params.tiles - cluster + clusters - 1) / clusters;
    first_unit = static_cast<int>(int64_t{params.units} * rank / Config::kCluster);
    units = static_cast<int>(int64_t{params.units} * (rank + 1) / Config::kCluster) - first_unit;
  }

  __device__ __forceinline__ int tile(int index) const { return cluster + index * clusters; }
};

// Shared memory of a block.
template <class Config>
struct DecodeBulkShared {
  using Layout = DecodeBulkLayout<Config>;
  uint32_t base;

  __device__ __forceinline__ uint32_t weights(int slot) const { return base + slot * Layout::kWeightBytes; }
  __device__ __forceinline__ uint32_t a(int slot) const { return base + Layout::kAOffset + slot * Layout::kABytes; }
  __device__ __forceinline__ uint32_t exchange() const { return base + Layout::kExchangeOffset; }
  __device__ __forceinline__ uint32_t full(int slot) const { return base + Layout::kBarrierOffset + slot * 16; }
  __device__ __forceinline__ uint32_t empty(int slot) const { return full(slot) + 8; }
  __device__ __forceinline__ uint32_t sums() const { return full(Config::kDepth); }
  __device__ __forceinline__ uint32_t scales() const { return base + Layout::kScalesOffset; }
};

// A place in the order of a block's stages.
struct DecodeBulkCursor {
  int tile = 0, step = 0;

  __device__ __forceinline__ void advance(int units) {
    if (++step == units) {
      step = 0;
      ++tile;
    }
  }
};

// Fills the ring. One thread. Weights are constants, so they are asked for before the kernels this one depends on have
// finished.
template <class Config>
class DecodeBulkProducer {
 public:
  using Layout = DecodeBulkLayout<Config>;

  __device__ __forceinline__ DecodeBulkProducer(const void* map_a, const void* map_b, const DecodeBulkParams& params,
                                                const DecodeBulkShare<Config>& share,
                                                const DecodeBulkShared<Config>& shared)
      : map_a_(map_a), map_b_(map_b), params_(params), share_(share), shared_(shared) {}

  __device__ __forceinline__ void initialise() const {
    for (int slot = 0; slot < Config::kDepth; ++slot) {
      ptx::mbarrier_init(shared_.full(slot), 1);
      ptx::mbarrier_init(shared_.empty(slot), Config::kWarps);
    }
    if constexpr (Config::kCluster > 1) {
      ptx::mbarrier_init(shared_.sums(), 1);
      ptx::mbarrier_init_fence();
      ptx::mbarrier_arrive_expect(shared_.sums(), Layout::kExchangeBytes);
    } else {
      ptx::mbarrier_init_fence();
    }
  }

  // Weights of the first stages.
  __device__ __forceinline__ void start() {
    total_ = share_.tiles * share_.units;
    ahead_ = min(total_, Config::kDepth);
    if (total_ - ahead_ <= kReleaseAt) ptx::release_dependents();
    for (int slot = 0; slot < ahead_; ++slot) load_weights(slot);
  }

  __device__ __forceinline__ void run() {
    ptx::wait_for_dependencies();
    for (int slot = 0; slot < ahead_; ++slot) load_a(slot);
    uint32_t parity = 0;
    int slot = 0;
    for (int left = total_ - ahead_; left > 0; --left) {
      ptx::mbarrier_wait(shared_.empty(slot), parity);
      load_weights(slot);
      load_a(slot);
      if (left - 1 == kReleaseAt) ptx::release_dependents();
      if (++slot == Config::kDepth) {
        slot = 0;
        parity ^= 1;
      }
    }
  }

 private:
  // Stages left to ask for when the next launch may start. Its blocks come in beside those of this one and fill their
  // rings, best as this one's loads run out. Where two blocks of this one share a multiprocessor there is no room
  // before they leave.
  static constexpr int kReleaseAt = Config::kPerSm > 1 ? INT32_MAX : Config::kDepth;

  __device__ __forceinline__ int place(const DecodeBulkCursor& cursor) const {
    return (share_.first_unit + cursor.step) * 128;
  }

  __device__ __forceinline__ void load_weights(int slot) {
    ptx::mbarrier_arrive_expect(shared_.full(slot), static_cast<uint32_t>((params_.tile_rows + params_.m) * 128));
    ptx::tma_load_2d(shared_.weights(slot), map_b_, shared_.full(slot), place(weights_),
                     share_.tile(weights_.tile) * params_.tile_rows);
    weights_.advance(share_.units);
  }

  __device__ __forceinline__ void load_a(int slot) {
    ptx::tma_load_2d(shared_.a(slot), map_a_, shared_.full(slot), place(a_), 0);
    a_.advance(share_.units);
  }

  const void* map_a_;
  const void* map_b_;
  const DecodeBulkParams& params_;
  const DecodeBulkShare<Config>& share_;
  const DecodeBulkShared<Config>& shared_;
  DecodeBulkCursor weights_, a_;
  int total_ = 0, ahead_ = 0;
};

}  // namespace tilewright::gemm_fp8::kernels
