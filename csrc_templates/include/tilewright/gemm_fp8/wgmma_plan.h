// Geometry of the wgmma engine of gemm_fp8, usable from host code without CUDA headers.
#pragma once

#include "tilewright/types.h"

namespace tilewright::gemm_fp8 {

constexpr int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

// Tile fields:
//   kMt, kNt          rows and columns of the output tile
//   kKc               k per pipeline stage; 128, one swizzled row of bytes
//   kStages           pipeline stages, at least 2
//   kSwap             0: the rows of A are the 64-row side of wgmma and the columns its N side; 1: the other way round,
//                     so that kMt may be any N of wgmma (16 to 256)
//   kConsumers        multiplying warpgroups, 1 to 3
//   kPingpong         0: all of them share a tile; 1: each takes every kConsumers-th tile, so that one stores while
//                     another multiplies
//   kPromote          0: sums stay in the tensor core over all of K (fast_accum, scales per tensor or row);
//                     1: they are added up in fp32 every 128 of K (every kind of scale)
//   kClusterM         blocks of a cluster that share one tile of B, each with kMt rows of its own (1 or 2)
//   kClusterN         blocks of a cluster that share one tile of A, each with kNt columns of its own (1 or 2)
//   kSplitK           blocks of a cluster that share one output tile, each with its part of k, when there are no more
//                     tiles than clusters; with more, those of the last round. With kSwap each block stores a share of
//                     the rows; else each of its warpgroups' rows are stored by the block of that number
//   kOccupancy        blocks per multiprocessor the registers are sized for
template <class Tile>
struct WgmmaGeometry {
  static constexpr int kXRows = Tile::kSwap ? Tile::kNt : Tile::kMt;  // the 64-row side
  static constexpr int kYRows = Tile::kSwap ? Tile::kMt : Tile::kNt;  // the N side
  static constexpr int kTeam = Tile::kPingpong ? 1 : Tile::kConsumers;  // warpgroups that share a tile
  static constexpr int kXBlocks = kXRows / 64 / kTeam;                  // blocks of 64 rows a warpgroup holds
  static constexpr int kAccumulators = kXBlocks * kYRows / 2;           // registers a thread holds them in
  static constexpr int kThreads = 128 * (1 + Tile::kConsumers);
  static constexpr int kPeers = Tile::kClusterM * Tile::kClusterN;
  static constexpr int kCluster = kPeers * Tile::kSplitK;

  static_assert(Tile::kKc == 128, "a stage is one swizzled row of 128 bytes");
  static_assert(Tile::kConsumers >= 1 && Tile::kConsumers <= 3, "one to three multiplying warpgroups");
  static_assert(kXBlocks >= 1 && kXRows == 64 * kTeam * kXBlocks, "whole blocks of 64 rows for every warpgroup");
  static_assert(kYRows <= 256, "an N of wgmma");
  static_assert(kXRows <= 256, "a box of the copy engine");
  static_assert(Tile::kMt % 16 == 0, "output leaves 16 rows at a time");
  static_assert(Tile::kNt % (Tile::kSwap || Tile::kPromote ? 64 : 16) == 0, "columns that leave, or have a scale");
  static_assert(Tile::kStages >= 2, "one stage is read while another is filled");
  static_assert(kPeers <= 2 && kCluster <= 8, "larger clusters are not portable");
  static_assert(Tile::kMt / Tile::kClusterN % 8 == 0 && Tile::kNt / Tile::kClusterM % 8 == 0, "whole swizzle groups");
  static_assert(Tile::kSplitK == 1 || !Tile::kPingpong, "the warpgroups of a block sum their parts of k together");
  static_assert(Tile::kSplitK == 1 || Tile::kSwap || Tile::kSplitK == Tile::kConsumers, "a block for each warpgroup");
  static_assert(!(Tile::kPromote && Tile::kPingpong), "adding up hides behind another warpgroup's product");
  static_assert(kAccumulators + (Tile::kPromote ? kYRows / 2 : 0) <= 208, "the accumulators do not fit");

  // Registers per thread. A block owns what its threads are launched with, a multiple of 8 each; the producer gives
  // some up and the consumers take them. Asking for more than the block owns would wait for ever.
  static constexpr int kLaunchRegisters = 512 / Tile::kOccupancy / (1 + Tile::kConsumers) / 8 * 8;
  static constexpr int kProducerRegisters = Tile::kConsumers == 3 ? 32 : 40;
  static constexpr int kConsumerFit =
      (kLaunchRegisters * (1 + Tile::kConsumers) - kProducerRegisters) / Tile::kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kConsumerFit > 240 ? 240 : kConsumerFit;

  // Dynamic shared memory, in this order:
  //   stages x A   kMt rows of 128 swizzled bytes
  //   stages x B   kNt rows of 128 swizzled bytes
  //   exchange     with kSplitK, what the other blocks of the cluster send: of each its sums of this block's share
  //   output       per consumer two buffers, or one where two do not fit, of kOutputRows rows of 128 swizzled bytes
  //   scales       with kPromote, per stage: kMt floats of A, then 4 of B, one for every 64 columns
  //   barriers     full and empty, one of each per stage; with kSplitK one more of the exchange
  // and 1024 bytes to align the whole.
  static constexpr int kAStageBytes = Tile::kMt * 128;
  static constexpr int kBStageBytes = Tile::kNt * 128;
  static constexpr int kStageBytes = kAStageBytes + kBStageBytes;
  static constexpr int kOutputRows = Tile::kSwap ? gcd(64, 2 * Tile::kMt) : 64;
  static constexpr int kOutputBytes = kOutputRows * 128;
  static constexpr int kScaleStageBytes = Tile::kPromote ? (Tile::kMt + 4) * 4 : 0;
  // What a block stores of a split tile: blocks of 8 along the N side, at most, of so many warpgroups.
  static constexpr int kShareBlocks = Tile::kSwap ? (Tile::kMt / 8 + Tile::kSplitK - 1) / Tile::kSplitK : kYRows / 8;
  static constexpr int kShareGroups = Tile::kSwap ? Tile::kConsumers : 1;
  static constexpr int kExchangeBytes = (Tile::kSplitK - 1) * kShareBlocks * kXBlocks * kShareGroups * 2048;
  static constexpr int kBarriersBytes = 8 * (2 * Tile::kStages + (Tile::kSplitK > 1 ? 1 : 0));
  static constexpr int kStagesBytes = Tile::kStages * kStageBytes;

  static constexpr int kBOffset = Tile::kStages * kAStageBytes;
  static constexpr int kOutputOffset = kStagesBytes + kExchangeBytes;
  static constexpr int kAlignment = 1024;
  // The dynamic window starts on 16 bytes only.
  static constexpr int kOtherBytes = kOutputOffset + Tile::kStages * kScaleStageBytes + kBarriersBytes + kAlignment;
  static constexpr int kMostBytes = 228 * 1024 / Tile::kOccupancy - 1024;
  static constexpr int kOutputBuffers = kOtherBytes + Tile::kConsumers * 2 * kOutputBytes <= kMostBytes ? 2 : 1;
  static constexpr int kScaleOffset = kOutputOffset + Tile::kConsumers * kOutputBuffers * kOutputBytes;
  static constexpr int kBarrierOffset = kScaleOffset + Tile::kStages * kScaleStageBytes;
  static constexpr int kBytes = kOtherBytes + Tile::kConsumers * kOutputBuffers * kOutputBytes;
  static_assert(kBytes <= kMostBytes, "a multiprocessor has 228 KiB, of which every block takes one for itself");
};

}  // namespace tilewright::gemm_fp8
