// Compares descriptors, swizzles and scale layouts of the tcgen05 engine with what CuTe computes on the host.
// Prints the first difference of each kind and the number of comparisons; returns 1 if anything differs.
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "cute/arch/mma_sm100_desc.hpp"
#include "cute/atom/mma_traits_sm100.hpp"
#include "cute/tensor.hpp"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/float8.h"
#include "cutlass/float_subbyte.h"
#include "tilewright/nvfp4/scale_layout.h"
#include "tilewright/tcgen05/descriptors.h"

namespace {

using namespace tilewright;
using cute::UMMA::Major;

int64_t compared = 0;
std::map<std::string, int> differences;

void compare(const char* what, int64_t first, int64_t second, uint64_t ours, uint64_t theirs) {
  ++compared;
  if (ours == theirs) return;
  if (differences[what]++ == 0) {
    std::printf("%s at (%lld, %lld): 0x%llx, CuTe 0x%llx\n", what, static_cast<long long>(first),
                static_cast<long long>(second), static_cast<unsigned long long>(ours),
                static_cast<unsigned long long>(theirs));
  }
}

template <class A, tcgen05::Fp8Format kFormat, int kM, int... kIndex>
void check_fp8(std::integer_sequence<int, kIndex...>) {
  const auto one = [](auto n) {
    constexpr int kN = decltype(n)::value;
    constexpr auto theirs = cute::UMMA::make_instr_desc<A, cutlass::float_e4m3_t, float, kM, kN, Major::K, Major::K>();
    compare("fp8 instruction", kM, kN,
            tcgen05::fp8_instruction(kM, kN, kFormat, tcgen05::Fp8Format::kE4m3, tcgen05::KStep::k32Bytes),
            static_cast<uint32_t>(theirs));
  };
  (one(std::integral_constant<int, 16 * (kIndex + 1)>{}), ...);
}

template <int kM, int... kIndex>
void check_nvfp4(std::integer_sequence<int, kIndex...>) {
  const auto one = [](auto n) {
    constexpr int kN = decltype(n)::value;
    auto theirs = cute::UMMA::make_instr_desc_block_scaled<cutlass::float_e2m1_t, cutlass::float_e2m1_t, float,
                                                           cutlass::float_ue4m3_t, kM, kN, Major::K, Major::K>();
    for (int k_size = 0; k_size < 2; ++k_size) {
      for (int scale_byte = 0; scale_byte < 4; scale_byte += 2) {
        theirs.k_size_ = static_cast<uint16_t>(k_size);
        theirs.a_sf_id_ = theirs.b_sf_id_ = static_cast<uint16_t>(scale_byte);
        const auto step = k_size == 0 ? tcgen05::KStep::k32Bytes : tcgen05::KStep::k48Bytes;
        compare("nvfp4 instruction", kM, kN, tcgen05::nvfp4_instruction(kM, kN, step, scale_byte),
                static_cast<uint32_t>(theirs));
      }
    }
  };
  (one(std::integral_constant<int, 16 * (kIndex + 1)>{}), ...);
}

// CuTe's descriptor of a K-major tile of bytes; its start address is set apart, a host has no shared memory.
template <class Atom, int kRows, int kBytes>
cute::UMMA::SmemDescriptor tile_descriptor() {
  const auto layout = cute::tile_to_shape(Atom{}, cute::Shape<cute::Int<kRows>, cute::Int<kBytes>>{});
  const auto tensor = cute::make_tensor(cute::make_smem_ptr(static_cast<uint8_t*>(nullptr)), layout);
  const auto step = cute::local_tile(tensor, cute::Shape<cute::Int<kRows>, cute::Int<32>>{}, cute::make_coord(0, 0));
  return cute::UMMA::make_umma_desc<Major::K>(step);
}

void check_smem_descriptors() {
  auto swizzled = tile_descriptor<cute::UMMA::Layout_K_SW128_Atom<uint8_t>, 128, 128>();
  auto plain = tile_descriptor<cute::UMMA::Layout_K_INTER_Atom<uint8_t>, 32, 32>();
  constexpr uint64_t kNotLeading = ~(uint64_t{0x3fff} << 16);  // a scale atom has one column
  for (uint32_t address = 0; address < 256 * 1024; address += 16) {
    swizzled.start_address_ = static_cast<uint16_t>(address >> 4);
    plain.start_address_ = static_cast<uint16_t>(address >> 4);
    compare("operand descriptor", address, 0, tcgen05::smem_descriptor(tcgen05::kOperand128B, address), swizzled);
    compare("scale descriptor", address, 0, tcgen05::smem_descriptor(tcgen05::kScaleAtom, address) & kNotLeading,
            plain & kNotLeading);
    auto onward = swizzled;
    const uint32_t next = (address * 5 + 1024) % (256 * 1024) / 16 * 16;
    onward.lbo_mode_ = 1;
    onward.leading_byte_offset_ = static_cast<uint16_t>(next >> 4);
    compare("onward descriptor", address, next, tcgen05::smem_descriptor_onward(tcgen05::kOperand128B, address, next),
            onward);
  }
}

void check_swizzle() {
  const auto layout =
      cute::tile_to_shape(cute::UMMA::Layout_K_SW128_Atom<uint8_t>{}, cute::Shape<cute::_128, cute::_128>{});
  for (int row = 0; row < 128; ++row) {
    for (int byte = 0; byte < 128; ++byte) {
      const int ours = row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16;
      compare("swizzled byte", row, byte, static_cast<uint64_t>(ours), static_cast<uint64_t>(layout(row, byte)));
    }
  }
}

void check_scale_layout(int rows, int k) {
  using Config = cutlass::detail::Sm1xxBlockScaledConfig<16>;
  const auto layout_a = Config::tile_atom_to_shape_SFA(cute::make_shape(rows, 128, k, 1));
  const auto layout_b = Config::tile_atom_to_shape_SFB(cute::make_shape(128, rows, k, 1));
  for (int row = 0; row < rows; ++row) {
    for (int group = 0; group < k / 16; ++group) {
      const auto ours = static_cast<uint64_t>(nvfp4::scale_offset(row, group, k));
      compare("scale of A", row, group, ours, static_cast<uint64_t>(layout_a(row, group * 16, 0)));
      compare("scale of B", row, group, ours, static_cast<uint64_t>(layout_b(row, group * 16, 0)));
    }
  }
  compare("bytes of scales", rows, k, static_cast<uint64_t>(nvfp4::scale_bytes(rows, k)),
          static_cast<uint64_t>(cute::cosize(layout_a)));
}

// Where the scale of (row, 16 elements) lies in tensor memory when `kRows` rows and `kWords` words of four scales
// follow one another as the engine places them.
template <bool kOfA, int kRows, int kWords>
void check_tensor_memory() {
  using Scale = cutlass::float_ue4m3_t;
  using Fragment = cute::UMMA::tmem_sf_frg<Scale, 16, 2, kOfA, cute::UMMA::TmemAllocMode::ScaleFactorDuplicated4by1>;
  using Shape =
      cute::Shape<cute::Shape<cute::Int<kRows>, cute::Shape<cute::_16, cute::_4>>, cute::_1, cute::Int<kWords>>;
  const auto layout = Fragment::make(Shape{}).layout();
  constexpr int kLane = cute::TMEM::DP<Scale>{};
  for (int row = 0; row < kRows; ++row) {
    for (int scale = 0; scale < 4 * kWords; ++scale) {
      const int column = scale / 4 * (kRows / 32) + row / 32;
      const int64_t ours = int64_t{row % 32} * kLane + column * 4 + scale % 4;
      const auto within = cute::make_coord(row, cute::make_coord(0, scale % 4));
      compare(kOfA ? "tensor memory, A" : "tensor memory, B", row, scale, static_cast<uint64_t>(ours),
              static_cast<uint64_t>(layout(within, 0, scale / 4)));
    }
  }
}

}  // namespace

int main() {
  constexpr auto kAllN = std::make_integer_sequence<int, 16>{};
  check_fp8<cutlass::float_e4m3_t, tcgen05::Fp8Format::kE4m3, 128>(kAllN);
  check_fp8<cutlass::float_e4m3_t, tcgen05::Fp8Format::kE4m3, 256>(kAllN);
  check_fp8<cutlass::float_e5m2_t, tcgen05::Fp8Format::kE5m2, 256>(kAllN);
  check_nvfp4<128>(kAllN);
  check_nvfp4<256>(kAllN);
  check_smem_descriptors();
  check_swizzle();
  for (const int rows : {1, 31, 32, 33, 127, 128, 129, 255, 256, 300, 513}) {
    for (const int k : {16, 32, 48, 64, 80, 128, 240, 256, 272, 1024}) check_scale_layout(rows, k);
  }
  check_tensor_memory<true, 128, 2>();
  check_tensor_memory<true, 128, 12>();
  check_tensor_memory<false, 128, 2>();
  check_tensor_memory<false, 256, 2>();
  check_tensor_memory<false, 256, 12>();
  std::printf("compared %lld\n", static_cast<long long>(compared));
  return differences.empty() ? 0 : 1;
}
