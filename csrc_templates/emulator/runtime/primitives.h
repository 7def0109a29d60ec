// What the emulated ptx/ headers call. Every function takes the place of its caller in the kernel.
#pragma once

#include <cstdint>

#include "report.h"

namespace tilewright::emulator {

// Memory of the running block.
uint32_t shared_address(const void* pointer, Place place);
void* dynamic_shared(uint32_t alignment);
void* static_shared(const void* key, uint32_t bytes, uint32_t alignment);
void shared_load(uint32_t address, void* value, uint32_t bytes, uint32_t alignment, Place place);
void shared_store(uint32_t address, const void* value, uint32_t bytes, uint32_t alignment, Place place);
void global_load(const void* source, void* value, uint32_t bytes, Place place);
void global_store(void* target, const void* value, uint32_t bytes, Place place);
void global_prefetch(const void* source, uint32_t bytes, Place place);

// Barriers of the block and of the cluster.
void block_barrier(int id, int threads, bool waits, Place place);  // threads 0: all of the block
void cluster_arrive(Place place);
void cluster_arrive_relaxed(Place place);
void cluster_wait(Place place);
uint32_t cluster_rank();
uint32_t cluster_size();
uint32_t map_shared(uint32_t address, uint32_t rank, Place place);
void store_async(uint32_t address, uint32_t barrier, const void* value, uint32_t bytes, Place place);
void wait_for_dependencies(Place place);
void release_dependents();

void mbarrier_init(uint32_t address, uint32_t count, Place place);
void mbarrier_invalidate(uint32_t address, Place place);
void fence_barrier_init(Place place);
void mbarrier_arrive(uint32_t address, uint32_t count, Place place);
void mbarrier_expect(uint32_t address, uint32_t bytes, Place place);
void mbarrier_arrive_expect(uint32_t address, uint32_t bytes, Place place);
void mbarrier_wait(uint32_t address, uint32_t parity, Place place);
bool mbarrier_try_wait(uint32_t address, uint32_t parity, Place place);

// Copies of a lane (cp.async).
void copy_async(uint32_t destination, const void* source, uint32_t bytes, uint32_t valid, Place place);
void copy_commit();
void copy_wait(int pending);
void copy_arrive(uint32_t barrier, bool counted, Place place);

// The copy engine.
void fence_proxy_async(Place place);
void bulk_load(uint32_t destination, const void* source, uint32_t bytes, uint32_t barrier, Place place);
struct TensorCoordinates {
  int at[5];
};
// mask 0: the issuing block's memory at `destination`; else the same offset in every block of the mask.
// `pair` (cta_group::2): the bytes count at the same barrier offset in the block of the target's pair whose rank is odd
// or even as that of the block `barrier` lies in.
void tensor_load(uint32_t destination, const void* map, uint32_t barrier, TensorCoordinates at, int rank, uint32_t mask,
                 bool pair, Place place);
void tensor_store(const void* map, uint32_t source, TensorCoordinates at, int rank, Place place);
void tensor_prefetch(const void* map, TensorCoordinates at, int rank, Place place);
void map_prefetch(const void* map, Place place);
void bulk_store(void* target, uint32_t source, uint32_t bytes, Place place);
void bulk_commit();
void bulk_wait(int pending, bool read_only);

// The whole warp.
void warp_sync(uint32_t mask, Place place);
uint32_t warp_shuffle(uint32_t mask, uint32_t value, int source, Place place);  // source: lane whose value is wanted
uint32_t warp_vote(uint32_t mask, bool value, Place place);                     // the lanes that voted yes
bool warp_elect(Place place);
uint32_t matrix_transpose(uint32_t pair, Place place);
void matrix_load(uint32_t* values, int count, uint32_t address, bool transposed, Place place);
void matrix_store(uint32_t address, const uint32_t* values, int count, bool transposed, Place place);
void set_registers(int count, bool more, Place place);

enum class Format : int { kF16, kBf16, kE4m3, kE5m2, kE2m1 };
// acc[16 x 8] += a[16 x k] b[8 x k]^T; k is what four registers of a hold.
void warp_mma(float* acc, const uint32_t* a, uint32_t b0, uint32_t b1, Format a_format, Format b_format, Place place);
// As warp_mma with e2m1 operands of k 64 (four ue4m3 scales of 16) or fp8 operands of k 32 (one ue8m0 scale).
void warp_mma_scaled(float* acc, const uint32_t* a, uint32_t b0, uint32_t b1, Format format, uint32_t scale_a,
                     int byte_a, int thread_a, uint32_t scale_b, int byte_b, int thread_b, Place place);

// Warpgroup multiplication.
void wgmma_fence(Place place);
void wgmma_commit(Place place);
void wgmma_wait(int pending, Place place);
void wgmma_registers(float* acc, int n, const uint32_t* a, uint64_t b, Format format, Place place);
void wgmma_shared(float* acc, int n, uint64_t a, uint64_t b, Format a_format, Format b_format, bool keep, Place place);

// Tensor memory and matrix instructions of a pair of blocks (tcgen05, cta_group::2).
void tensor_allocate(uint32_t destination, int columns, bool exclusive, Place place);
void tensor_relinquish(Place place);
void tensor_free(uint32_t address, int columns, bool exclusive, Place place);
void tensor_read(uint32_t* values, int columns, uint32_t address, Place place);
void tensor_read_wait(Place place);
void tensor_fence_before(Place place);
void tensor_fence_after(Place place);
void tensor_copy_scales(uint32_t address, uint64_t descriptor, Place place);
enum class CollectorUse : int { kNone, kFillB, kLastUseB };
struct TensorScales {
  bool used;
  uint32_t a, b;
};
void tensor_multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, TensorScales scales, bool accumulate,
                     CollectorUse use, Place place);
// Mask 0: the barrier itself. `a_read`: once A has been read.
void tensor_commit(uint32_t barrier, uint32_t mask, bool wide_mask, bool a_read, Place place);

[[noreturn]] void trap(const char* what, Place place);

}  // namespace tilewright::emulator
