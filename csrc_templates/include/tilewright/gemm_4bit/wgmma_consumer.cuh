// The multiplying side of the wgmma engine: codes to register fragments, fragments against tiles of A.
#pragma once

#include <cstdint>

#include "tilewright/dequant/nibble_tables.cuh"
#include "tilewright/gemm_4bit/wgmma_plan.cuh"
#include "tilewright/gemm_4bit/wgmma_scales.cuh"
#include "tilewright/ptx/bits.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/wgmma.cuh"

namespace tilewright::kernels {

// One warpgroup with 64 weight rows. Its weights are the A operand of wgmma (from registers), the tile of activations the B
// operand, so that the accumulators hold out^T: row = weight row, column = row of activations.
template <class Config, bool kBlock16>
class WgmmaConsumer {
 public:
  using Element = typename Config::Element;
  using Geometry = WgmmaGeometry<Config>;
  using Ring = RingPosition<Config::kStages>;
  // The largest accumulators leave few registers for scales on their way.
  using Scales = ScaleStream<Element, kBlock16, Config::kMt >= 224 ? 2 : 4>;
  using Multiply = ptx::Wgmma<Element, Config::kMt>;

  __device__ __forceinline__ WgmmaConsumer(const WgmmaParams& params, const WgmmaShared<Config>& shared,
                                           WgmmaPlace<Config> place, int consumer, float offset)
      : params_(params), shared_(shared), place_(place), offset_(offset) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    row_ = consumer * 64 + (thread >> 5) * 16 + (thread >> 2 & 7);
    const uint32_t quad_lane = thread & 3;
    own_bytes_ = quad_lane | (quad_lane + 4) << 4;
    entry_bytes_ = 0x5504u | quad_lane << 4;
    entry_lane_ = (threadIdx.x & 31) * 4;
    // Two copies, so that the compiler cannot know the tables to be the same in all lanes: it would keep them in uniform
    // registers, of which a permute takes only one.
    const uint32_t tables = shared.tables() + (quad_lane & 1) * sizeof(dequant::NibbleTables);
    const uint4 low = ptx::lds_128(tables);
    const uint4 high = ptx::lds_128(tables + 16);
    tables_ = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
  }

  // The row of the tile of weights whose accumulators this thread's first half holds.
  __device__ __forceinline__ int row() const { return row_; }

  // acc += the block's part of k for the weight rows from `first_n`, in turns of two steps of 64.
  //
  // A wgmma that takes A from registers holds its warp until it starts. So the expansion of the next kGroupParts fragments
  // runs between two batches of them, while the batch before, or another warpgroup's, multiplies.
  __device__ __forceinline__ void multiply(float (&acc)[Config::kMt / 2], Ring& ring, int first_n, int first_turn,
                                           int end_turn) {
    if (first_turn >= end_turn) return;
    Scales scales;
    scales.start(params_.source, first_n + row_, params_.n, params_.steps, offset_, shared_.nested_code(), first_turn);
    uint32_t fragment[2][4 * kGroupParts];
    uint4 words[2][2];
    Ring behind = ring;  // the stage whose multiplications may still run
    ptx::mbarrier_wait(shared_.full(ring.slot), ring.phase);
    load_words(words, ring.slot, 0);
    for (int turn = first_turn; turn < end_turn; ++turn) {
      uint32_t pair[2][2][Scales::kPerStep];
      scales.next(params_.source, pair);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const bool leaves_stage = Config::kKc == kStepK || step == 1;
        const uint64_t descriptor = panel_descriptor(ring.slot, Config::kKc == kStepK ? 0 : step);
        if (leaves_stage) ring.advance();
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          uint32_t(&own)[4 * kGroupParts] = fragment[(step * kGroups + group) % 2];
#pragma unroll
          for (int part = 0; part < kGroupParts; ++part) {
            expand_part(own + 4 * part, group * kGroupParts + part, words, pair[step]);
          }
          if (group + 1 == kGroups && (step == 0 || turn + 1 < end_turn)) {
            if (leaves_stage) ptx::mbarrier_wait(shared_.full(ring.slot), ring.phase);
            load_words(words, ring.slot, leaves_stage ? 0 : 1);
          }
          ptx::wgmma_pin(own);
          ptx::wgmma_fence();
#pragma unroll
          for (int part = 0; part < kGroupParts; ++part) {
            Multiply::run(acc, own + 4 * part, descriptor + 2 * (group * kGroupParts + part));
          }
          ptx::wgmma_commit();
          ptx::wgmma_wait<1>();  // the group before is done
          ptx::wgmma_pin(fragment[(step * kGroups + group + 1) % 2]);
          if (group == 0 && (step == 0 || Config::kKc == kStepK) && (turn > first_turn || step > 0)) {
            release(behind.slot);
            behind.advance();
          }
        }
      }
    }
    ptx::wgmma_wait<0>();
    ptx::wgmma_pin(acc);
    release(behind.slot);
  }

 private:
  static constexpr int kGroupParts = Config::kGroupParts;
  static constexpr int kGroups = 4 / kGroupParts;
  static_assert(kGroupParts == 1 || kGroupParts == 2 || kGroupParts == 4, "a step has four parts");
  static_assert(Config::kStages >= 3, "two stages are held while a third is waited for");

  __device__ __forceinline__ uint64_t panel_descriptor(int slot, int step) const {
    return ptx::wgmma_descriptor_k_major_128b(shared_.a_stage(slot) + step * Geometry::kPanelBytes);
  }

  // The packed codes of this quad's two rows for step `step` of a stage: words[32-block of k][row]. The four lanes of a quad
  // read the same 16 bytes; lane t owns byte t of every word.
  __device__ __forceinline__ void load_words(uint4 (&words)[2][2], int slot, int step) const {
    constexpr int kRowBytes = Config::kKc / 2;
    const uint32_t rows = shared_.w_stage(slot) + row_ * kRowBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int chunk = 2 * step + half;
      const uint32_t at = Config::kKc == kStepK ? chunk << 4 : (chunk ^ (row_ >> 1 & 3)) << 4;
#pragma unroll
      for (int row = 0; row < 2; ++row) words[half][row] = ptx::lds_128(rows + row * 8 * kRowBytes + at);
    }
  }

  // The A fragment of 16 in k.
  __device__ __forceinline__ void expand_part(uint32_t* fragment, int part, const uint4 (&words)[2][2],
                                              const uint32_t (&pair)[2][Scales::kPerStep]) const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint4& four = words[part / 2][row];
      if (part % 2 == 0) {
        expand_pair(fragment, part, row, four.x, four.y, pair[row]);
      } else {
        expand_pair(fragment, part, row, four.z, four.w, pair[row]);
      }
    }
  }

  // This thread's byte of two words of codes to the two registers of one row in the fragment of `part`.
  __device__ __forceinline__ void expand_pair(uint32_t* fragment, int part, int row, uint32_t word0, uint32_t word1,
                                              const uint32_t (&pair)[Scales::kPerStep]) const {
    uint32_t first, second;
    if (by_table(part)) {
      first = look_up(word0);
      second = look_up(word1);
    } else {
      dequant::expand_four<!kBlock16>(tables_, ptx::prmt(word0, word1, own_bytes_), first, second);
    }
    const uint32_t scale = pair[kBlock16 ? part : 0];
    fragment[row] = multiply_pair<Element>(first, scale);
    fragment[2 + row] = multiply_pair<Element>(second, scale);
  }

  // Two of four alternate, so that every batch has both kinds.
  static __device__ __forceinline__ constexpr bool by_table(int part) {
    return Config::kLutParts == 2 ? part % 2 == 0 : part < Config::kLutParts;
  }

  // Entry `byte` of the byte table in this lane's bank: one permute makes the offset byte * 256 + lane * 4.
  __device__ __forceinline__ uint32_t look_up(uint32_t word) const {
    return ptx::lds_constant_word(shared_.byte_table() + ptx::prmt(word, entry_lane_, entry_bytes_));
  }

  // Tells every block that writes into this stage that this warp has read it.
  __device__ __forceinline__ void release(int slot) const {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    if constexpr (Config::kClusterN == 1) {
      if (lane == 0) ptx::mbarrier_arrive(shared_.empty(slot));
    } else {
      if (lane < Config::kClusterN) {
        const auto rank = static_cast<uint32_t>(place_.split * Config::kClusterN + lane);
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
  uint32_t own_bytes_, entry_bytes_, entry_lane_;
};

}  // namespace tilewright::kernels
