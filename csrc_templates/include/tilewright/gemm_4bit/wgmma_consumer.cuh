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

// One warpgroup with 64 weight rows. Its weights are the A operand of wgmma (from registers), the tile of activations the B
// operand, so that the accumulators hold out^T: row = weight row, column = row of activations.
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
    row_ = static_cast<int>(ptx::opaque(static_cast<uint32_t>(consumer * 64 + (thread >> 5) * 16 + (thread >> 2 & 7))));
    quad_lane_ = ptx::opaque(static_cast<uint32_t>(thread & 3));
    entry_lane_ = ptx::opaque(threadIdx.x % 32 * 4);
    warp_codes_ = ptx::opaque(static_cast<uint32_t>(row_ / kPrepackedRows * kGroupBytes) + entry_lane_ * 4);
    // Two copies, so that the compiler cannot know the tables to be the same in all lanes: it would keep them in uniform
    // registers, of which a permute takes only one.
    const uint32_t tables = shared.tables() + (quad_lane_ & 1) * sizeof(dequant::NibbleTables);
    const uint4 low = ptx::lds_128(tables);
    const uint4 high = ptx::lds_128(tables + 16);
    tables_ = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
  }

  // The row of the tile of weights whose accumulators this thread's first half holds.
  __device__ __forceinline__ int row() const { return row_; }

  // acc += the block's part of k for the weight rows from `first_n`, in turns of two steps of 64.
  //
  // Three things are on their way at a time: kGroupParts fragments multiply, the elements of the next ones come from the
  // table, and the codes of the step after those come from the stage. A wgmma that takes A from registers holds its warp
  // until it starts, so what is to overlap with it has been issued before.
  //
  // Of a shared tile: arrives at the cluster's barrier in the last turn, when all stages but those of that turn are read.
  __device__ __forceinline__ void multiply(float (&acc)[Config::kMt / 2], Ring& ring, int first_n, const WgmmaWork& work) {
    const int first_turn = work.first_turn, end_turn = work.end_turn;
    if (first_turn >= end_turn) {
      tell_cluster(work);
      return;
    }
    Scales scales;
    scales.start(params_.source, first_n + row_, params_.n, params_.steps, offset_, shared_.nested_code(), first_turn);
    uint32_t fragment[2][4 * kGroupParts];
    uint32_t elements[4 * kGroupParts];
    Codes codes[2];
    int behind = ring.slot;  // the stage whose multiplications may still run
    uint64_t panel = ptx::wgmma_descriptor_k_major_128b(shared_.a_stage(ring.slot));
    Ring ahead = ring;       // the stage whose codes are read next
    read_codes(codes[0], ahead, 0);
    look_up(elements, 0, codes[0]);
    if (kTwoAhead) {
      if (Config::kKc == kStepK) ahead.advance();
      read_codes(codes[1], ahead, 1);
      ahead.advance();
    }
    scales.ask(params_.source, first_turn);
    for (int turn = first_turn; turn < end_turn; ++turn) {
      uint32_t pair[2][2][Scales::kPerStep];
      scales.take(pair);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const uint64_t descriptor = panel;
        if (Config::kKc == kStepK || step == 1) {
          ring.advance();
          panel += static_cast<uint64_t>(ring.slot == 0 ? kPanelBack : kPanelOn);
        } else {
          panel += Geometry::kPanelBytes >> 4;
        }
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          uint32_t(&own)[4 * kGroupParts] = fragment[(step * kGroups + group) % 2];
#pragma unroll
          for (int part = 0; part < kGroupParts; ++part) {
            scale_part(own + 4 * part, elements + 4 * part, group * kGroupParts + part, pair[step]);
          }
          const bool last_group = group + 1 == kGroups;
          look_up(elements, last_group ? 0 : group + 1, codes[last_group ? 1 - step : step]);
          ptx::wgmma_pin(own);
          ptx::wgmma_fence();
#pragma unroll
          for (int part = 0; part < kGroupParts; ++part) {
            Multiply::run(acc, own + 4 * part, descriptor + 2 * (group * kGroupParts + part));
          }
          ptx::wgmma_commit();
          // Codes of a later turn are read here, or in the last turn the cluster told: one branch, past which the compiler
          // moves nothing up.
          if (kTwoAhead && group + 1 == kGroups) {
            // The codes of this step have been used: what comes in is for the step after the next.
            if (turn + 1 < end_turn) {
              read_codes(codes[step], ahead, step);
              if (Config::kKc == kStepK || step == 1) ahead.advance();
            } else if (step == (kGroups > 1 ? 0 : 1)) {
              tell_cluster(work);
            }
          }
          if (!kTwoAhead && group == 0) {
            if (step == 0 || turn + 1 < end_turn) {
              read_codes(codes[1 - step], ring, 1 - step);
            } else {
              tell_cluster(work);
            }
          }
          if (step == 1 && group == 0) scales.ask(params_.source, turn + 1);
          ptx::wgmma_wait<1>();  // the group before is done
          ptx::wgmma_pin(fragment[(step * kGroups + group + 1) % 2]);
          if (!kTwoAhead) {
            // What is on its way from shared memory is not used before here: a warp issues in order.
            ptx::wgmma_pin(codes[1 - step].word[0]);
            ptx::wgmma_pin(codes[1 - step].word[1]);
          }
          if (group == 0 && (step == 0 || Config::kKc == kStepK) && (turn > first_turn || step > 0)) {
            release(behind);
            if (++behind == Config::kStages) behind = 0;
          }
        }
      }
    }
    ptx::wgmma_wait<0>();
    ptx::wgmma_pin(acc);
    release(behind);
  }

 private:
  static constexpr int kGroupParts = Config::kGroupParts;
  static constexpr int kGroups = 4 / kGroupParts;
  // Codes are read two steps ahead where a stage holds two; where it holds one, that would take a stage from the ring.
  static constexpr bool kTwoAhead = kGroups == 1 || Config::kKc == kTurnK;
  static constexpr int kGroupBytes = Config::kKc / kStepK * kPrepackedBlockBytes;  // of 16 prepacked rows in a stage
  static_assert(kGroupParts == 1 || kGroupParts == 2 || kGroupParts == 4, "a step has four parts");
  static_assert(Config::kStages >= (kGroups == 1 && Config::kKc == kStepK ? 4 : 3),
                "stages are held while those ahead are waited for");

  // A lane's codes of one step: word[row][i], byte j of word i for the two elements at 2 t of the (4 i + j)-th eight.
  struct Codes {
    uint32_t word[2][2];
  };

  // How far the next stage's first panel lies from a stage's last, as descriptors count (16 bytes). The descriptor is
  // carried from step to step: made from the slot, it would be made anew, from the address of shared memory, every turn.
  static constexpr int64_t kPanelOn = (Geometry::kAStageBytes - (Config::kKc - kStepK) / kStepK * Geometry::kPanelBytes) >> 4;
  static constexpr int64_t kPanelBack = kPanelOn - (Config::kStages * Geometry::kAStageBytes >> 4);

  // Of a shared tile: all stages but those of the last turn have been read.
  static __device__ __forceinline__ void tell_cluster(const WgmmaWork& work) {
    if (Config::kSplitK > 1 && work.split) ptx::cluster_arrive();
  }

  // Reads the codes of a step, the `step`-th of its turn, from the stage at `at`; waits for that where the step is its first.
  __device__ __forceinline__ void read_codes(Codes& codes, const Ring& at, int step) const {
    const bool enters_stage = Config::kKc == kStepK || step == 0;
    if (enters_stage) ptx::mbarrier_wait(shared_.full(at.slot), at.phase);
    const uint32_t stage = shared_.w_stage(at.slot);
    const int step_of_stage = Config::kKc == kStepK ? 0 : step;
    if constexpr (kPrepacked) {
      const uint4 own = ptx::lds_128(stage + warp_codes_ + step_of_stage * kPrepackedBlockBytes);
      codes.word[0][0] = own.x;
      codes.word[0][1] = own.y;
      codes.word[1][0] = own.z;
      codes.word[1][1] = own.w;
    } else {
      // A quad reads the same 16 bytes of its row and lane t takes byte t of each word.
      constexpr int kRowBytes = Config::kKc / 2;
      const uint32_t rows = stage + row_ * kRowBytes;
      const uint32_t swizzle = Config::kKc == kStepK ? 0 : row_ >> 1 & 3;
      const uint32_t pick = quad_lane_ | (quad_lane_ + 4) << 4;
      uint4 words[2][2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          words[row][half] = ptx::lds_128(rows + row * 8 * kRowBytes + ((2 * step_of_stage + half) ^ swizzle) * 16);
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

  // The elements of the parts of `group`, without their scales.
  __device__ __forceinline__ void look_up(uint32_t (&elements)[4 * kGroupParts], int group, const Codes& codes) const {
#pragma unroll
    for (int i = 0; i < kGroupParts; ++i) {
      const int part = group * kGroupParts + i;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint32_t word = codes.word[row][part / 2];
        uint32_t& first = elements[4 * i + row];
        uint32_t& second = elements[4 * i + 2 + row];
        if (by_table(part)) {
          first = entry(word, 2 * (part % 2));
          second = entry(word, 2 * (part % 2) + 1);
        } else {
          dequant::expand_four<!kBlock16>(tables_, part % 2 == 0 ? word : word >> 16, first, second);
        }
      }
    }
  }

  // The A fragment of `part`: its elements times their rows' scales.
  __device__ __forceinline__ void scale_part(uint32_t* fragment, const uint32_t* elements, int part,
                                             const uint32_t (&pair)[2][Scales::kPerStep]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      fragment[i] = multiply_pair<Element>(elements[i], pair[i % 2][kBlock16 ? part : 0]);
    }
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

  // Tells every block that writes into this stage that this warp has read it.
  __device__ __forceinline__ void release(int slot) const {
    if constexpr (Config::kClusterN == 1) {
      if (entry_lane_ == 0) ptx::mbarrier_arrive(shared_.empty(slot));
    } else {
      if (entry_lane_ < 4 * Config::kClusterN) {
        const auto rank = static_cast<uint32_t>(place_.split * Config::kClusterN) + entry_lane_ / 4;
        ptx::mbarrier_arrive_cluster(ptx::map_to_block(shared_.empty(slot), rank));
      }
    }
  }

  const WgmmaParams& params_;
  const WgmmaShared<Config>& shared_;
  WgmmaPlace<Config> place_;
  dequant::NibbleTables tables_;
  float offset_;
  int row_;
  uint32_t quad_lane_, warp_codes_;
  uint32_t entry_lane_;  // 4 times the lane
};

}  // namespace tilewright::kernels
