// What a launch of the decode engine decides on the host: shared memory, the ring of stages, the share of each block.
#pragma once

#include <cstdint>

#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/smem.h"

namespace tilewright {

// The part of a decode tile that is compiled in. A warp multiplies 16 rows of the weight by up to kMb rows of A over
// kKb blocks of 64 in k; a block has kWarpsK warps along k and kWarpsN along n.
template <class T, int mb, int kb, int warps_k, int warps_n, int lut, int occupancy>
struct DecodeShape {
  using Element = T;
  static constexpr int kMb = mb;
  static constexpr int kKb = kb;
  static constexpr int kWarpsK = warps_k;
  static constexpr int kWarpsN = warps_n;
  static constexpr int kLut = lut < 4 ? lut : 4;  // quarters of the codes that a table in shared memory expands; permutes do the rest
  // 5: rows of the table 256 bytes apart, half of each unused, so that one permute of a code byte makes an address.
  static constexpr bool kWideLut = lut == 5;
  static constexpr int kOccupancy = occupancy;
  static constexpr bool kPrepacked = false;

  static constexpr int kColumnTiles = kMb / 8;
  static constexpr int kWarps = kWarpsK * kWarpsN;
  static constexpr int kAdders = 2;
  static constexpr int kThreads = (kWarps + 2 + kAdders) * 32;  // two warps load, kAdders add up
  static constexpr int kStageRows = 16 * kWarpsN;
  static constexpr int kQuads = kWarpsN * kColumnTiles * 32;  // float4 of results of a stage
  static constexpr int kPartialSlots = kColumnTiles == 1 ? 4 : 3;  // stages whose sums may wait to be added up
  static_assert(kAdders <= kPartialSlots, "a warp that adds may wait for a slot only when it has gone round once");
  static_assert(kMb % 8 == 0, "columns of A come eight at a time");
  static_assert(kWarps % 4 == 0, "registers move between groups of four warps");

  // A comes through shared memory, in chunks of all its rows by kChunkBlocks blocks of a warp's part of k: each row of a plain
  // load is a cache line of its own. Of few rows there is little to load, and of two blocks to a multiprocessor one
  // multiplies while the other loads.
  static constexpr bool kStaged = kMb >= 16 && kOccupancy == 1;
  static constexpr int kChunkBlocks = kKb % 4 == 0 ? 4 : kKb;
  static constexpr int kChunks = kKb / kChunkBlocks;  // of a warp
  static constexpr int kChunkBytes = kChunkBlocks * kMb * 128;

  // Registers of a thread at entry (512 lots of 32 to a quarter of a multiprocessor), then by role.
  static constexpr int kResidentWarps = (kThreads / 32 * kOccupancy + 3) / 4;
  static constexpr int kEntryRegisters = 512 / kResidentWarps / 8 * 8;
  static constexpr int kServiceRegisters = kEntryRegisters < 128 ? 48 : 56;
  static constexpr int kSpareRegisters = (kEntryRegisters - kServiceRegisters) * 4 / kWarps;
  static constexpr int kWorkRegisters = (kEntryRegisters + kSpareRegisters) / 8 * 8;
};

// The same for prepacked weights.
template <class Shape>
struct DecodePrepacked : Shape {
  static constexpr bool kPrepacked = true;
};

// The part that is chosen at launch.
struct DecodeTuning {
  int cluster;  // blocks that share the rows and split k
  int ring_kb;  // shared memory for weights and scales in flight
  int per_sm;   // blocks of the grid to a multiprocessor
};

constexpr int kDecodeMaxStages = 32;

// Dynamic shared memory, in this order: barriers, nested code, sums received, sums of the warps, table, ring, slack that
// idle lanes may read. Chunks of A lie from the sums of the warps on: these and the table are made once A is in registers,
// and stages of the ring that are in the way wait for that.
template <class Shape>
struct DecodeSmem {
  static constexpr int kChunkBarriers = 640;  // before these full and empty of each stage and of each slot of partial sums, and
                                              // those of the sums received
  static constexpr int kBarrierBytes = 1024;
  static constexpr int kNestedOffset = kBarrierBytes;
  static constexpr int kReceivedOffset = kNestedOffset + 1024;
  static constexpr int kReceivedBytes = 2 * Shape::kAdders * Shape::kQuads * 16;
  static constexpr int kPartialOffset = kReceivedOffset + kReceivedBytes;
  static constexpr int kPartialBytes = Shape::kPartialSlots * Shape::kWarpsK * Shape::kQuads * 16;
  static constexpr int kLutOffset = kPartialOffset + kPartialBytes;
  static constexpr int kLutPitch = Shape::kWideLut ? 256 : 128;
  static constexpr int kLutBytes = Shape::kLut > 0 ? 256 * kLutPitch : 0;
  static constexpr int kRingOffset = kLutOffset + kLutBytes;
  static constexpr int kSlackBytes = 512;
  static constexpr int kAllChunks = Shape::kStaged ? Shape::kChunks * Shape::kWarpsK : 0;
  static constexpr int kChunksEnd = kPartialOffset + kAllChunks * Shape::kChunkBytes;
  static_assert(kPartialOffset % 1024 == 0, "the swizzle of a chunk depends on its address");
  static_assert(kAllChunks <= 32, "a lane each initialises their barriers");
  static constexpr int bytes(int ring_kb) { return kRingOffset + ring_kb * 1024 + kSlackBytes; }
};

template <class Tile>
struct EngineSmem<Engine::kDecode, Tile> {
  using Shape = DecodeShape<void, Tile::kMb, Tile::kKb, Tile::kWarpsK, Tile::kWarpsN, Tile::kLut, Tile::kOccupancy>;
  static constexpr int kBytes = DecodeSmem<Shape>::bytes(Tile::kRingKb);
};

struct DecodeParams {
  const void* a;
  const uint8_t* b;
  const uint8_t* scales;
  const float* nested_absmax;
  const float* nested_code;
  const float* offset;
  const void* bias;
  void* out;
  int64_t lda;
  int64_t scale_bytes;     // of the whole array
  int m, n;
  int blocks;              // k / 64
  int scales_per_row;
  int scale_size;          // bytes of one scale
  int block_shift;         // log2(blocksize / 64), for blocksizes from 64 on
  int clusters;            // in the grid
  int cluster_shift;       // log2 of the blocks of one
  uint64_t units_each;     // groups of rows to a cluster, in 2^-32, rounded up
  int stages;
  int ring_end;            // the stages lie from this offset downwards
  int first_lent;          // stages from this one on lie where A comes through
  int stage_bytes;
  int weight_stride;       // bytes between rows of a stage: 32 more than a multiple of 128, so that the 32-byte pieces of
                           // four rows lie in different banks
  int scale_stride;        // likewise an odd multiple of 16
  QuantType quant_type;
};

}  // namespace tilewright
