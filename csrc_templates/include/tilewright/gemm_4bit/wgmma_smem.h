// Geometry of the wgmma engine, usable from host code without CUDA headers.
#pragma once

#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/smem.h"

namespace tilewright {

// Tile fields:
//   kMt, kNt      rows of A (activations) and of the weight per block; kNt / 64 consumer warpgroups of 64 weight rows
//   kKc, kStages  elements of k per pipeline stage (64 or 128), stages
//   kClusterN     blocks of a cluster that share one tile of A, each with its own kNt weight rows
//   kSplitK       blocks of a cluster that share one output tile, each with its part of k, when there are no more tiles
//                 than clusters; with more, those tiles that would make a last, nearly empty round
//   kOccupancy    blocks per multiprocessor the registers are sized for
//   kLutParts     of every four groups of 16 in k, how many are expanded through a table of byte values in shared memory
//                 instead of byte permutes (0..4): the two use different units
//   kGroupParts   groups of 16 in k that are expanded and multiplied at a time (1 or 2)
template <class Tile>
struct WgmmaGeometry {
  static constexpr int kConsumers = Tile::kNt / 64;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kCluster = Tile::kClusterN * Tile::kSplitK;

  // Registers per thread. A block owns what its threads are launched with, a multiple of 8 each; the producer gives some
  // up and the consumers take them. Asking for more than the block owns would wait for ever.
  static constexpr int kLaunchRegisters = 512 / Tile::kOccupancy / (1 + kConsumers) / 8 * 8;
  static constexpr int kProducerRegisters = kConsumers == 1 ? 40 : 32;
  static constexpr int kConsumerFit =
      (kLaunchRegisters * (1 + kConsumers) - kProducerRegisters) / kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kConsumerFit > 240 ? 240 : kConsumerFit;

  // Whether the last tile of A has boxes of its own, without the rows past the end: measured to be up to 1.4 times as fast
  // for tiles of 128 and 256 rows, no faster for 64 and less, and 2 to 8 % slower for 192.
  static constexpr bool kOwnLastBox = Tile::kMt % 128 == 0 && Tile::kClusterN == 1;

  // Dynamic shared memory, in this order:
  //   stages x A        kKc / 64 panels of kMt rows of 128 swizzled bytes; the split-k exchange lies over this
  //   stages x W        kNt rows of kKc / 2 packed bytes
  //   output            per consumer kOutputRows rows of 128 swizzled bytes
  //   byte table        with kLutParts: 256 entries of kTableStride bytes, the first 128 of them one word per lane
  //   code tables       two copies of 8 words
  //   nested code       256 floats
  //   barriers          full and empty, one of each per stage; one for the split-k exchange; one that nobody waits at
  static constexpr int kPanelBytes = Tile::kMt * 128;
  static constexpr int kAStageBytes = Tile::kKc / 64 * kPanelBytes;
  static constexpr int kWStageBytes = Tile::kNt * Tile::kKc / 2;
  static constexpr int kStagesBytes = Tile::kStages * (kAStageBytes + kWStageBytes);
  static constexpr bool kShortOfSpace = Tile::kOccupancy > 1 || Tile::kMt >= 192 || kStagesBytes > 160 * 1024;
  static constexpr int kOutputRows = Tile::kMt % 64 == 0 && !kShortOfSpace ? 64 : Tile::kMt % 32 == 0 ? 32 : 16;
  static constexpr int kOutputBytes = kOutputRows * 128;
  // Split-k: what the other blocks of the cluster send lies over the A panels, but for those of the last turn (128 of k).
  static constexpr int kShareBlocks = (Tile::kMt / 8 + Tile::kSplitK - 1) / Tile::kSplitK;  // 8 rows each, at most
  static constexpr int kExchangeBytes = (Tile::kSplitK - 1) * kShareBlocks * kConsumers * 128 * 16;
  static constexpr int kPanelsBytes = Tile::kStages * kAStageBytes;
  static_assert(kExchangeBytes <= kPanelsBytes - 2 * kPanelBytes, "the exchange does not fit");

  static constexpr int kAOffset = 0;
  static constexpr int kWOffset = kAOffset + Tile::kStages * kAStageBytes;
  static constexpr int kOutputOffset = kStagesBytes;
  static constexpr int kByteTableOffset = kOutputOffset + kConsumers * kOutputBytes;
  static constexpr int kAlignment = 1024;  // the dynamic window starts on 16 bytes only
  static constexpr int kOtherBytes = kByteTableOffset + 64 + 256 * 4 + (2 * Tile::kStages + 2) * 8 + kAlignment;
  // One permute makes the offset of an entry when they are 256 bytes apart; where those do not fit, 128.
  static constexpr int kTableStride = (kOtherBytes + 256 * 256) * Tile::kOccupancy <= 227 * 1024 ? 256 : 128;
  static constexpr int kByteTableBytes = Tile::kLutParts > 0 ? 256 * kTableStride : 0;
  static constexpr int kTablesOffset = kByteTableOffset + kByteTableBytes;
  static constexpr int kNestedCodeOffset = kTablesOffset + 64;
  static constexpr int kBarrierOffset = kNestedCodeOffset + 256 * 4;
  static constexpr int kBytes = kOtherBytes + kByteTableBytes;
};

template <class Tile>
struct EngineSmem<Engine::kWgmma, Tile> {
  static constexpr int kBytes = WgmmaGeometry<Tile>::kBytes;
};

}  // namespace tilewright
