// The multiplying side of the wgmma engine: codes to register fragments, fragments against tiles of A.
#pragma once

#include <cstdint>

#include "tilewright/dequant/nibble_tables.cuh"
#include "tilewright/gemm_4bit/wgmma_plan.cuh"
#include "tilewright/gemm_4bit/wgmma_scales.cuh"
#include "tilewright/ptx/bits.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/wgmma.cuh"

namespace tilewright::kernels {

// One warpgroup with 64 weight rows. Its weights are the A operand of wgmma (from registers), the tile of activations the
// B operand, so that the accumulators hold out^T: row = weight row, column = row of activations.
template <class Config, bool kBlock16, bool kPrepacked>
class WgmmaConsumer {
 public:
  using Element = typename Config::Element;
  using Geometry = WgmmaGeometry<Config>;
  using Ring = RingPosition<Config::kStages>;
  using Scales = ScaleStream<Element, kBlock16>;
  using Multiply = ptx::Wgmma<Element, Config::kMt>;

  __device__ __forceinline__ WgmmaConsumer(const WgmmaParams& params, const WgmmaShared<Config>& shared,
                                           WgmmaPlace<Config> place, int consumer, float offset)
      : params_(params), shared_(shared), place_(place), offset_(offset) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    row_ = static_cast<int>(
        ptx::opaque(static_cast<uint32_t>(consumer * 64 + (thread >> 5) * 16 + (thread >> 2 & 7))));
    quad_lane_ = ptx::opaque(static_cast<uint32_t>(thread & 3));
    entry_lane_ = ptx::opaque(threadIdx.x % 32 * 4);
    first_codes_ = ptx::opaque(shared.w_stage(0) + (kPrepacked ? row_ / kPrepackedRows * kGroupBytes + entry_lane_ * 4
                                                               : static_cast<uint32_t>(row_ * kRowBytes)));
    first_panel_ = ptx::opaque(static_cast<uint32_t>(ptx::wgmma_descriptor_k_major_128b(shared.a_stage(0))));
    // Two copies, so that the compiler cannot know the tables to be the same in all lanes: it would keep them in
    // uniform registers, of which a permute takes only one.
    const uint32_t tables = shared.tables() + (quad_lane_ & 1) * sizeof(dequant::NibbleTables);
    const uint4 low = ptx::lds_128(tables);
    const uint4 high = ptx::lds_128(tables + 16);
    tables_ = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
  }

  // The row of the tile of weights whose accumulators this thread's first half holds.
  __device__ __forceinline__ int row() const { return row_; }

  // acc += the block's part of k for the weight rows from `first_n`, in turns of two steps of 64.
  //
  // Of a shared tile: arrives at the cluster's barrier in the last turn, when all stages but those of that turn have
  // been read.
  __device__ __forceinline__ void multiply(float (&acc)[Config::kMt / 2], Ring& ring, int first_n,
                                           const WgmmaWork& work) {
    if (work.first_turn >= work.end_turn) {
      tell_cluster(work);
      return;
    }
    Flow flow;
    flow.scales.start(params_.source, first_n + row_, params_.n, params_.steps, offset_, shared_.nested_code(),
                      work.first_turn);
    flow.behind = shared_.spare();
    aim(flow, ring);
    read_codes<0, 0>(flow, ring);
    look_up<0>(flow);
    if constexpr (Config::kKc == kTurnK) read_codes<1, 1>(flow, ring);
    flow.scales.ask(params_.source, work.first_turn);
    scale<0>(flow);
    if constexpr (kFar) look_up<1>(flow);
    const int last = work.end_turn - 1;
    for (int turn = work.first_turn; turn < last; ++turn) take_turn<false>(acc, flow, ring, work, turn);
    take_turn<true>(acc, flow, ring, work, last);
    ptx::wgmma_wait<0>();
    ptx::wgmma_pin(acc);
    release(flow.behind);
  }

 private:
  static constexpr int kGroupParts = Config::kGroupParts;
  static constexpr int kGroups = 4 / kGroupParts;  // batches of a step
  static constexpr int kBatches = 2 * kGroups;     // of a turn
  static constexpr int kStageBatches = kBatches / (kTurnK / Config::kKc);
  static constexpr int kBuffers = 4;  // of fragments: two batches multiply, one is scaled, and four divides kBatches
  // Two warpgroups would wait for their look-ups, so these are issued a batch earlier; of more, others fill that time.
  static constexpr bool kFar = Config::kKc == kTurnK && Geometry::kConsumers <= 2;
  static constexpr int kGroupBytes = Config::kKc / kStepK * kPrepackedBlockBytes;  // of 16 prepacked rows in a stage
  static constexpr int kRowBytes = Config::kKc / 2;
  static_assert(kGroupParts == 1 || kGroupParts == 2, "fragments of four batches are kept");
  static_assert(Config::kStages >= 3, "stages are held while those ahead are waited for");

  // A lane's codes of one step: word[row][i], byte j of word i for the two elements at 2 t of the (4 i + j)-th eight.
  struct Codes {
    uint32_t word[2][2];
  };

  // What one turn hands to the next.
  struct Flow {
    Scales scales;
    uint32_t fragment[kBuffers][4 * kGroupParts];  // of a batch: scaled while the ones before multiply
    uint32_t elements[4 * kGroupParts];            // of the batch that is scaled next
    Codes codes[2];
    uint64_t panel;       // descriptor of the first panel of A of the stage in use
    uint64_t next_panel;  // and of the next
    uint32_t codes_at;    // where this lane's codes lie in the next stage
    uint32_t empty;       // the barrier that is told when the next stage has been read
    uint32_t own;         // that of the stage in use
    uint32_t behind;      // that of the stage whose multiplications may still run
  };

  // Points at the stage at `ring`. The halves of a descriptor are joined, not added, lest each sum of it take a carry.
  __device__ __forceinline__ void aim(Flow& flow, const Ring& ring) const {
    const uint32_t low = first_panel_ + ring.slot * (Geometry::kAStageBytes >> 4);
    flow.next_panel = (ptx::wgmma_descriptor_k_major_128b(0) >> 32 << 32) | low;
    flow.codes_at = first_codes_ + ring.slot * Geometry::kWStageBytes;
    flow.empty = shared_.empty(ring.slot);
  }

  // A turn in batches of kGroupParts fragments, from batch kBatch on. While one batch multiplies, the next is scaled,
  // those after it are looked up, and the codes of the next step are read. A wgmma that takes A from registers holds its
  // warp until it starts, so all that is to overlap with it stands between two of them. The last turn prepares nothing
  // for another: it is a copy of its own, as branches for it would part the others into blocks that nothing moves
  // across.
  template <bool kLast, int kBatch = 0>
  __device__ __forceinline__ void take_turn(float (&acc)[Config::kMt / 2], Flow& flow, Ring& ring,
                                            const WgmmaWork& work, int turn) const {
    constexpr int kStep = kBatch / kGroups;
    constexpr bool kEntersStage = kBatch % kStageBatches == 0;
    constexpr bool kHasNext = !kLast || kBatch + 1 < kBatches;
    if constexpr (kEntersStage) {
      flow.panel = flow.next_panel;
      flow.own = flow.empty;
      ring.advance();
      aim(flow, ring);
    }
    if constexpr (!kFar && kHasNext) look_up<kBatch + 1>(flow);
    multiply_batch<kBatch>(acc, flow);
    if constexpr (kHasNext) scale<kBatch + 1>(flow);
    if constexpr (kFar && (!kLast || kBatch + 2 < kBatches)) look_up<kBatch + 2>(flow);
    if constexpr (kLast && kBatch == 1) tell_cluster(work);
    if constexpr (Config::kKc == kTurnK) {
      if constexpr (kBatch % kGroups + 1 == kGroups && !kLast) read_codes<kStep, kStep>(flow, ring);
    } else {
      if constexpr (kBatch % kGroups == 0 && (!kLast || kStep == 0)) read_codes<1 - kStep, 0>(flow, ring);
    }
    if constexpr (kBatch + 2 == kBatches && !kLast) flow.scales.ask(params_.source, turn + 1);
    ptx::wgmma_wait<1>();  // the batch before is done
    ptx::wgmma_pin(flow.fragment[(kBatch + kBuffers - 1) % kBuffers]);
    if constexpr (Config::kKc == kStepK) {  // what was just read is not used before here: a warp issues in order
      ptx::wgmma_pin(flow.codes[1 - kStep].word[0]);
      ptx::wgmma_pin(flow.codes[1 - kStep].word[1]);
    }
    if constexpr (kEntersStage) {
      release(flow.behind);
      flow.behind = flow.own;
    }
    if constexpr (kBatch + 1 < kBatches) take_turn<kLast, kBatch + 1>(acc, flow, ring, work, turn);
  }

  template <int kBatch>
  __device__ __forceinline__ void multiply_batch(float (&acc)[Config::kMt / 2], Flow& flow) const {
    uint32_t(&fragment)[4 * kGroupParts] = flow.fragment[kBatch % kBuffers];
    constexpr uint32_t kPanel = kBatch % kStageBatches / kGroups * (Geometry::kPanelBytes >> 4);
    ptx::wgmma_pin(fragment);
    ptx::wgmma_fence();
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
      Multiply::run(acc, fragment + 4 * part, flow.panel + kPanel + 2 * (kBatch % kGroups * kGroupParts + part));
    }
    ptx::wgmma_commit();
  }

  // Of a shared tile: all stages but those of the last turn have been read.
  static __device__ __forceinline__ void tell_cluster(const WgmmaWork& work) {
    if (Config::kSplitK > 1 && work.split) ptx::cluster_arrive();
  }

  // Reads the codes of the kStep-th step of the stage at `ring` into codes[kTo]; waits for the stage where the step is
  // its first.
  template <int kTo, int kStep>
  __device__ __forceinline__ void read_codes(Flow& flow, const Ring& ring) const {
    Codes& codes = flow.codes[kTo];
    if (kStep == 0) ptx::mbarrier_wait(flow.empty - Config::kStages * 8, ring.phase);
    if constexpr (kPrepacked) {
      const uint4 own = ptx::lds_128(flow.codes_at + kStep * kPrepackedBlockBytes);
      codes.word[0][0] = own.x;
      codes.word[0][1] = own.y;
      codes.word[1][0] = own.z;
      codes.word[1][1] = own.w;
    } else {
      // A quad reads the same 16 bytes of its row and lane t takes byte t of each word.
      const uint32_t swizzle = Config::kKc == kStepK ? 0 : row_ >> 1 & 3;
      const uint32_t pick = quad_lane_ | (quad_lane_ + 4) << 4;
      uint4 words[2][2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          words[row][half] = ptx::lds_128(flow.codes_at + row * 8 * kRowBytes + ((2 * kStep + half) ^ swizzle) * 16);
        }
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4& four = words[row][half];
          codes.word[row][half] =
              ptx::prmt(ptx::prmt(four.x, four.y, pick), ptx::prmt(four.z, four.w, pick), 0x5410u);
        }
      }
    }
  }

  // The elements of a batch, counted from the turn whose codes these are, without their scales.
  template <int kBatch>
  __device__ __forceinline__ void look_up(Flow& flow) const {
    const Codes& codes = flow.codes[kBatch / kGroups % 2];
#pragma unroll
    for (int i = 0; i < kGroupParts; ++i) {
      const int part = kBatch % kGroups * kGroupParts + i;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint32_t word = codes.word[row][part / 2];
        uint32_t& first = flow.elements[4 * i + row];
        uint32_t& second = flow.elements[4 * i + 2 + row];
        if (by_table(part)) {
          first = entry(word, 2 * (part % 2));
          second = entry(word, 2 * (part % 2) + 1);
        } else {
          dequant::expand_four<!kBlock16>(tables_, part % 2 == 0 ? word : word >> 16, first, second);
        }
      }
    }
  }

  // The fragments of a batch: its elements times the scales of their rows.
  template <int kBatch>
  __device__ __forceinline__ void scale(Flow& flow) const {
    uint32_t(&fragment)[4 * kGroupParts] = flow.fragment[kBatch % kBuffers];
#pragma unroll
    for (int i = 0; i < 4 * kGroupParts; ++i) {
      const int part = kBatch % kGroups * kGroupParts + i / 4;
      fragment[i] = multiply_pair<Element>(flow.elements[i], flow.scales.pair(i % 2, kBatch / kGroups % 2, part));
    }
    ptx::wgmma_pin(fragment);
  }

  // Two of four alternate, so that every batch has both kinds.
  static __device__ __forceinline__ constexpr bool by_table(int part) {
    return Config::kLutParts == 2 ? part % 2 == 0 : part < Config::kLutParts;
  }

  // The entry of byte `index` of `word` in this lane's bank.
  __device__ __forceinline__ uint32_t entry(uint32_t word, int index) const {
    if constexpr (Geometry::kTableStride == 256) {
      const uint32_t selector = 0x5504u | static_cast<uint32_t>(index) << 4;
      return ptx::lds_32(shared_.byte_table() + ptx::prmt(word, entry_lane_, selector));
    } else {
      const uint32_t shifted = index == 0 ? word << 7 : word >> (8 * index - 7);
      return ptx::lds_32(shared_.byte_table() + ptx::merge_masked<0x7f80u>(shifted, entry_lane_));
    }
  }

  // Tells every block that writes into the stage whose barrier this is that this warp has read it.
  __device__ __forceinline__ void release(uint32_t empty) const {
    if constexpr (Config::kClusterN == 1) {
      if (entry_lane_ == 0) ptx::mbarrier_arrive(empty);
    } else {
      if (entry_lane_ < 4 * Config::kClusterN) {
        const auto rank = static_cast<uint32_t>(place_.split * Config::kClusterN) + entry_lane_ / 4;
        ptx::mbarrier_arrive_cluster(ptx::map_to_block(empty, rank));
      }
    }
  }

  const WgmmaParams& params_;
  const WgmmaShared<Config>& shared_;
  WgmmaPlace<Config> place_;
  dequant::NibbleTables tables_;
  float offset_;
  int row_;
  uint32_t quad_lane_;
  uint32_t first_codes_;  // where this lane's codes lie in the first stage
  uint32_t first_panel_;  // the first panel of A, as descriptors count
  uint32_t entry_lane_;  // 4 times the lane
};

}  // namespace tilewright::kernels
