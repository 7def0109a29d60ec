#include "matrix_descriptor.h"

namespace tilewright::emulator {

TensorOperand TensorOperand::decode(uint64_t bits, bool wide, bool may_go_on, Place place) {
  TensorOperand d{};
  const uint32_t start_bits = wide ? 15 : 14;
  d.start = static_cast<uint32_t>(bits & ((1u << start_bits) - 1)) << 4;
  d.leading = static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4;
  d.stride = static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4;
  d.onward = (bits >> 52 & 1) != 0;
  switch (bits >> 61) {
    case 0: d.pattern = 0; break;
    case 2: d.pattern = 128; break;
    case 4: d.pattern = 64; break;
    case 6: d.pattern = 32; break;
    default:
      fail(Detector::kDescriptor, format("swizzle %d of a shared-memory descriptor", static_cast<int>(bits >> 61)),
           place);
  }
  uint64_t reserved = uint64_t{3} << 30 | uint64_t{0xff} << 53 | (wide ? uint64_t{1} << 15 : uint64_t{3} << 14);
  if ((bits & reserved) != 0)
    fail(Detector::kDescriptor, format("shared-memory descriptor 0x%016lx sets reserved bits", bits), place);
  if ((bits >> 46 & 7) != 1) fail(Detector::kDescriptor, "a shared-memory descriptor of tcgen05 has version 1", place);
  if (d.onward && !may_go_on) fail(Detector::kDescriptor, "only 48-byte steps of sm_103 go on in another tile", place);
  if (d.stride == 0) fail(Detector::kDescriptor, "no stride between groups of 8 rows", place);
  if (d.pattern != 0) {
    const uint32_t row = d.start - d.start % static_cast<uint32_t>(d.pattern);
    const uint32_t repeat = 8u * static_cast<uint32_t>(d.pattern);
    if (row % repeat != (bits >> 49 & 7) * 128 || d.stride % repeat != 0) {
      fail(Detector::kDescriptor,
           format("an operand under the %d-byte swizzle starts at 0x%x with a stride of %u: its groups of 8 rows "
                  "do not start where the pattern repeats",
                  d.pattern, d.start, d.stride),
           place);
    }
  }
  return d;
}

namespace {

void check_shape(const TensorInstruction& i, Place place) {
  if (i.m != 256)
    fail(Detector::kDescriptor, format("a pair multiplies 256 rows, the instruction says %d", i.m), place);
  if (i.n < 32 || i.n > 256 || i.n % 32 != 0) fail(Detector::kDescriptor, format("N is %d", i.n), place);
}

}  // namespace

TensorInstruction TensorInstruction::decode_fp8(uint32_t bits, int minor, Place place) {
  TensorInstruction i{};
  i.m = static_cast<int>(bits >> 24 & 31) * 16;
  i.n = static_cast<int>(bits >> 17 & 63) * 8;
  i.a_e5m2 = (bits >> 7 & 7) == 1;
  i.b_e5m2 = (bits >> 10 & 7) == 1;
  i.k_bytes = bits >> 29 & 1 ? 64 : 32;
  if ((bits >> 4 & 3) != 1) fail(Detector::kDescriptor, "accumulators other than fp32", place);
  if ((bits >> 7 & 7) > 1 || (bits >> 10 & 7) > 1)
    fail(Detector::kDescriptor, "formats other than e4m3 and e5m2", place);
  if ((bits & (0xfu | 1u << 6 | 0xfu << 13 | 1u << 23 | 3u << 30)) != 0) {
    fail(Detector::kDescriptor, format("instruction descriptor 0x%08x sets bits that should be zero", bits), place);
  }
  if (i.k_bytes == 64 && minor != 7) fail(Detector::kDescriptor, "64 bytes of K an instruction are of sm_107", place);
  check_shape(i, place);
  return i;
}

TensorInstruction TensorInstruction::decode_fp4(uint32_t bits, int minor, Place place) {
  TensorInstruction i{};
  i.m = static_cast<int>(bits >> 27 & 3) * 128;
  i.n = static_cast<int>(bits >> 17 & 63) * 8;
  const uint32_t k_dim = (bits >> 3 & 1) << 1 | bits >> 31;
  i.scale_byte_b = static_cast<int>(bits >> 4 & 3);
  i.scale_byte_a = static_cast<int>(bits >> 29 & 3);
  if (k_dim == 3) fail(Detector::kDescriptor, "k_dim 3 of an fp4 instruction", place);
  i.k_bytes = k_dim == 0 ? 32 : k_dim == 1 ? 48 : 64;
  if ((bits >> 7 & 7) != 1 || (bits >> 10 & 3) != 1) fail(Detector::kDescriptor, "formats other than e2m1", place);
  if ((bits >> 23 & 1) != 0) fail(Detector::kDescriptor, "scales other than ue4m3", place);
  if ((bits & (7u | 1u << 6 | 31u << 12 | 7u << 24)) != 0) {
    fail(Detector::kDescriptor, format("instruction descriptor 0x%08x sets bits that should be zero", bits), place);
  }
  if ((k_dim == 1 && minor != 3) || (k_dim == 2 && minor != 7)) {
    fail(Detector::kDescriptor, format("%d bytes of K an fp4 instruction are not of this arch", i.k_bytes), place);
  }
  if (k_dim != 1 && (i.scale_byte_a != 0 || i.scale_byte_b != 0))
    fail(Detector::kDescriptor, "a first scale byte with whole words of scales", place);
  check_shape(i, place);
  return i;
}

}  // namespace tilewright::emulator
