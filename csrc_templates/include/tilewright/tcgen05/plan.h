// Geometry of the tcgen05 engine, usable from host code without CUDA headers.
//
// A pair of CTAs works on kStacked tiles of 256 x kNt, one above the other: each CTA holds 128 rows of each in its own
// tensor memory, and half of the columns of B in its shared memory. A stage is 128 bytes of K of every operand.
//
// Tile fields:
//   kPair            "1x1" or "2x1": tiles that a pair stacks along M; the two of 2x1 share B
//   kNt              columns of a pair: 64, 128 or 256
//   kCluster         CTAs of a cluster: 2, 4 or 8. Its pairs lie side by side along N and share A
//   kStages          depth of the ring
//   kKBytes          bytes of K that one instruction consumes: 32; 48 on sm_103 (96 fp4); 64 on sm_107
//   kRings           "joint", or "split": A has a ring and a producer warp of its own
//   kCollectorB      B stays in the collector from the upper tile's instruction to the lower tile's (2x1, sm_107)
//   kEarlyARelease   A's slots are free once shared memory has been read, before the instruction has finished (split,
//   sm_107) kMulticast32b    CTA masks of 32 bits (sm_107) kAccumulators    accumulators in tensor memory: with 2, one
//   tile is stored while the next is multiplied kOverlap         the two accumulators share 64 columns, which are
//   stored first (1x1, nt 256: 448 columns instead of 512) kSupergroup      tiles along M that are visited for one
//   column of tiles before the next
#pragma once

#include <cstdint>

namespace tilewright::tcgen05 {

// What a pair multiplies: sizes of a stage, and how the shared memory around the ring is laid out.
struct Fp8Operands {
  static constexpr bool kScaled = false;  // whether the instruction applies block scales
  static constexpr bool kGroups = true;   // whether rows may be shared out among several weights
  static constexpr int kStageK = 128;
  static constexpr int kOutputBuffers = 1;
  static constexpr int kHeaderBytes = 1024;
};

struct Nvfp4Operands {
  static constexpr bool kScaled = true;
  static constexpr bool kGroups = false;
  static constexpr int kStageK = 256;
  static constexpr int kOutputBuffers = 2;
  static constexpr int kHeaderBytes = 2048;
};

constexpr int kRowBytes = 128;           // of K, of a row of A or B in a stage
constexpr int kCtaRows = 128;            // rows of A of one tile in one CTA: the lanes of tensor memory
constexpr int kScaleAtomBytes = 512;     // 128 rows x 4 scales
constexpr int kOutputBoxBytes = 64;      // of a row in one bulk store
constexpr int kOptInBytes = 227 * 1024;  // what a block may have outside the oversized mode
constexpr int kReservedBytes = 1024;     // of shared memory, below a block's own
constexpr int kPlainColumns = 512;       // of tensor memory, outside an exclusive allocation
constexpr int kExclusiveColumns = 576;
constexpr int kOverlapColumns = 64;  // that two overlapping accumulators share

constexpr int next_power_of_two(int value) {
  int power = 32;
  while (power < value) power *= 2;
  return power;
}

template <class Tile, class Operands>
struct Plan {
  static constexpr bool kScaled = Operands::kScaled;
  static constexpr bool kGroups = Operands::kGroups;
  static constexpr int kStageK = Operands::kStageK;
  static constexpr int kStacked = Tile::kPair[0] - '0';
  static constexpr int kPairs = Tile::kCluster / 2;
  static constexpr bool kSplitRings = Tile::kRings[0] == 's';
  static constexpr int kTileM = 256 * kStacked;
  static constexpr int kClusterN = Tile::kNt * kPairs;

  static_assert(kStacked == 1 || kStacked == 2, "pair is 1x1 or 2x1");
  static_assert(Tile::kNt == 64 || Tile::kNt == 128 || Tile::kNt == 256, "nt is 64, 128 or 256");
  static_assert(Tile::kNt != 64 || !kScaled || Tile::kKBytes == 32,
                "the scales of 64 columns stand apart from those of the next 64 elements of K");
  static_assert(Tile::kCluster == 2 || Tile::kCluster == 4 || Tile::kCluster == 8, "cluster is 2, 4 or 8");
  static_assert(Tile::kStages >= 2, "a ring has at least 2 stages");
  static_assert(Tile::kKBytes == 32 || Tile::kKBytes == 64 || (Tile::kKBytes == 48 && kScaled),
                "k_bytes is 32, 48 or 64");
  static_assert(!Tile::kCollectorB || kStacked == 2, "what the collector keeps is the B of two stacked tiles");
  static_assert(!Tile::kEarlyARelease || kSplitRings, "A's slots are freed before B's");
  static_assert(Tile::kAccumulators == 1 || Tile::kAccumulators == 2, "one or two accumulators");
  static_assert(!Tile::kOverlap || (Tile::kAccumulators == 2 && kStacked == 1 && Tile::kNt == 256),
                "what overlaps is two accumulators of one tile of 256 columns");
  static_assert(Tile::kSupergroup >= 1, "a group has at least one tile");

  // Warps: kStacked warpgroups that store, then the one that multiplies, then one or two producers.
  static constexpr int kEpilogueWarps = 4 * kStacked;
  static constexpr int kMultiplyWarp = kEpilogueWarps;
  static constexpr int kProducerWarp = kEpilogueWarps + 1;
  static constexpr int kProducerAWarp = kProducerWarp + (kSplitRings ? 1 : 0);
  static constexpr int kThreads = 32 * (kProducerAWarp + 1);

  // Instructions. With 32 or 64 bytes of K a stage is two chunks of 64 bytes, each with scales in tensor memory of its
  // own. With 48 bytes, eight instructions consume three stages, a turn.
  static constexpr bool kTurns = Tile::kKBytes == 48;
  static constexpr int kTurnStages = 3;
  static constexpr int kTurnSteps = kTurnStages * kRowBytes / 48;
  static constexpr int kSteps = kRowBytes / Tile::kKBytes;
  static constexpr int kChunks = 2;
  static constexpr int kChunkSteps = kSteps / kChunks;
  static constexpr int kChunkAtoms = 2;  // scale atoms along K in a chunk
  static constexpr int kStageAtoms = kScaled ? 4 : 0;

  // Bytes in one stage of one CTA. B's scales are those of all kNt columns in both CTAs.
  static constexpr int kATileBytes = kCtaRows * kRowBytes;
  static constexpr int kABytes = kStacked * kATileBytes;
  static constexpr int kBRows = Tile::kNt / 2;
  static constexpr int kBBytes = kBRows * kRowBytes;
  static constexpr int kScaleATileBytes = kStageAtoms * kScaleAtomBytes;
  static constexpr int kScaleABytes = kStacked * kScaleATileBytes;
  static constexpr int kScaleRowsB = Tile::kNt < 128 ? 128 : Tile::kNt;  // whole atoms
  static constexpr int kScaleBBytes = kScaleRowsB / 128 * kStageAtoms * kScaleAtomBytes;
  static constexpr int kScaleBytes = kScaleABytes + kScaleBBytes;
  static constexpr int kStageBytes = kABytes + kBBytes + kScaleBytes;

  // Dynamic shared memory, which starts on 1024 bytes:
  //   header    the address of tensor memory, then barriers
  //   A, B      every stage of A, then every stage of B: rows of 128 swizzled bytes
  //   scales    every stage: of A, tile after tile, then of B
  //   output    per storing warpgroup and buffer 128 rows of 64 swizzled bytes, 32 to each warp
  static constexpr int kAOffset = Operands::kHeaderBytes;
  static constexpr int kBOffset = kAOffset + Tile::kStages * kABytes;
  static constexpr int kScaleOffset = kBOffset + Tile::kStages * kBBytes;
  static constexpr int kOutputOffset = kScaleOffset + Tile::kStages * kScaleBytes;
  static constexpr int kWarpBoxBytes = 32 * kOutputBoxBytes;
  static constexpr int kWarpOutputBytes = Operands::kOutputBuffers * kWarpBoxBytes;
  static constexpr int kBytes = kOutputOffset + kEpilogueWarps * kWarpOutputBytes;
  static constexpr bool kOversized = kBytes > kOptInBytes;

  // Descriptors reach 256 KiB; beyond that they need the wider start address of sm_107.
  static constexpr bool kWideStart = kReservedBytes + kOutputOffset > 256 * 1024;

  // Barriers, in this order from kBarrierOffset on. A joint ring uses the slots of B alone.
  static constexpr int kASlots = kSplitRings ? Tile::kStages * kStacked : 0;
  static constexpr int kSums = Tile::kAccumulators * kStacked;    // accumulators in tensor memory, kNt columns each
  static constexpr int kScaleBuffers = kTurns ? kTurnStages : 2;  // of scales in tensor memory
  static constexpr int kBarrierOffset = 16;
  static constexpr int kFull = 0;
  static constexpr int kEmpty = kFull + Tile::kStages;
  static constexpr int kFullA = kEmpty + Tile::kStages;
  static constexpr int kEmptyA = kFullA + kASlots;
  static constexpr int kSumFull = kEmptyA + kASlots;
  static constexpr int kSumEmpty = kSumFull + kSums;
  static constexpr int kScaleFree = kSumEmpty + kSums;
  static constexpr int kBarriers = kScaleFree + kScaleBuffers;
  static_assert(kBarrierOffset + kBarriers * 8 <= Operands::kHeaderBytes, "the barriers fit in the header");

  // Columns of tensor memory: accumulators, then the scales of A, tile after tile, then those of B, each kScaleBuffers
  // deep.
  static constexpr int kBufferAtoms = kTurns ? 4 : kChunkAtoms;
  static constexpr int kScaleAColumns = kScaled ? kBufferAtoms * 4 : 0;
  static constexpr int kScaleWordColumns = kScaleRowsB / 32;  // of one word of four scales of B
  static constexpr int kScaleBColumns = kScaled ? kBufferAtoms * kScaleWordColumns : 0;
  static constexpr int kSumStride = Tile::kNt - (Tile::kOverlap ? kOverlapColumns : 0);
  static constexpr int kSumColumns = (kSums - 1) * kSumStride + Tile::kNt;
  static constexpr int kScaleBColumn = kSumColumns + kStacked * kScaleBuffers * kScaleAColumns;
  static constexpr int kColumns = kScaleBColumn + kScaleBuffers * kScaleBColumns;
  static constexpr bool kExclusive = kColumns > kPlainColumns;
  static_assert(kColumns <= kExclusiveColumns, "the accumulators and scales do not fit in tensor memory");
  static constexpr int kAllocatedColumns = kExclusive ? kExclusiveColumns : next_power_of_two(kColumns);

  // What only one generation has.
  static constexpr bool kNeedsSm107 = Tile::kKBytes == 64 || Tile::kCollectorB || Tile::kEarlyARelease ||
                                      Tile::kMulticast32b || kExclusive || kOversized || kWideStart;
  static constexpr bool kNeedsSm103 = kTurns;
};

}  // namespace tilewright::tcgen05
