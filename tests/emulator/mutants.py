"""Planted bugs: each is a small change to one kernel header that some check must catch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright_codegen.emulate.build import Patch, Target
from tilewright_codegen.emulate.cases import Problem

from .tiles import decode_4bit, mma_4bit, rubin_nvfp4, tcgen05_fp8, tcgen05_nvfp4, wgmma_4bit, wgmma_fp8


@dataclass(frozen=True)
class Mutant:
    """`detectors`: the checks that may be the first to speak, which depends on the schedule."""

    name: str
    target: Target
    problem: Problem
    patch: Patch
    detectors: tuple[str, ...]

    def built(self) -> Target:
        return replace(self.target, tile=f"mutant-{self.name}", patches=(self.patch,))


HOPPER = wgmma_4bit()
SHARED_A = wgmma_4bit(cluster_n=2)
SPLIT = wgmma_4bit(split_k=2)
DEEP = Problem(20, 70, 512)
PAIR_DEEP = Problem(20, 140, 512)


def _wgmma(name: str, old: str, new: str, *detectors: str, file: str = "wgmma.cuh", target: Target = HOPPER, problem: Problem = DEEP) -> Mutant:
    return Mutant(f"wgmma-{name}", target, problem, Patch(f"gemm_4bit/{file}", old, new), detectors)


EMPTY_WAIT = "      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);\n"
ALL_SYNC = "  __syncthreads();\n  if constexpr (Config::kClusterN > 1) ptx::cluster_sync();  // peers arrive at these barriers\n"
FULL_WAIT = "    if (enters_stage) ptx::mbarrier_wait(shared_.full(at.slot), at.phase);\n"
FINAL_WAIT = "    ptx::wgmma_wait<0>();\n    ptx::wgmma_pin(acc);\n"
MULTIPLY = "descriptor + 2 * (group * kGroupParts + part)"
EXPECT = "Geometry::kAStageBytes + Geometry::kWStageBytes);"
LAST_SYNC = "  if constexpr (Geometry::kCluster > 1) ptx::cluster_sync();\n"

WGMMA = (
    _wgmma("slot-not-waited-for", EMPTY_WAIT, "", "in-flight", "race", "barrier"),
    _wgmma("wrong-empty-phase", EMPTY_WAIT, EMPTY_WAIT.replace(" ^ 1", ""), "deadlock", "barrier"),
    _wgmma("bytes-not-waited-for", FULL_WAIT, "", "uninitialised", "in-flight", "race", file="wgmma_consumer.cuh"),
    _wgmma("wrong-full-phase", FULL_WAIT, FULL_WAIT.replace("at.phase", "at.phase ^ 1"), "uninitialised", "in-flight", "race", file="wgmma_consumer.cuh"),
    _wgmma("too-few-bytes", EXPECT, EXPECT.replace(");", " - 128);"), "barrier"),
    _wgmma("too-many-bytes", EXPECT, EXPECT.replace(");", " + 128);"), "deadlock"),
    _wgmma("early-release", "ptx::wgmma_wait<1>();  // the group before is done", "ptx::wgmma_wait<3>();", "race", "registers", "in-flight", file="wgmma_consumer.cuh"),
    _wgmma("no-fence", "          ptx::wgmma_fence();\n", "", "registers", file="wgmma_consumer.cuh"),
    _wgmma("sum-not-waited-for", FINAL_WAIT, "    ptx::wgmma_pin(acc);\n", "registers", "race", file="wgmma_consumer.cuh"),
    _wgmma("wrong-k-step", MULTIPLY, MULTIPLY.replace("2 *", "4 *"), "result", "uninitialised", "descriptor", "race", "in-flight", file="wgmma_consumer.cuh"),
    _wgmma("wrong-swizzle", "Config::kKc == 64 ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_64B}", "CU_TENSOR_MAP_SWIZZLE_NONE}", "result", target=wgmma_4bit(kc=128)),
    _wgmma("barriers-not-shown", "    ptx::mbarrier_init_fence();\n", "", "proxy-fence"),
    _wgmma("no-sync-after-start", ALL_SYNC, "", "barrier", "race", "uninitialised"),
    _wgmma("no-cluster-sync-after-start", ALL_SYNC, "  __syncthreads();\n", "barrier", target=SHARED_A, problem=PAIR_DEEP),
    _wgmma("leaves-its-cluster", LAST_SYNC, "", "exited", target=SHARED_A, problem=PAIR_DEEP),
    _wgmma("wrong-arrival-count", "4 * Geometry::kConsumers * Config::kClusterN", "4 * Geometry::kConsumers", "barrier", "race", "in-flight", target=SHARED_A, problem=PAIR_DEEP),
    _wgmma("releases-one-peer", "if (lane < Config::kClusterN) {", "if (lane < 1) {", "deadlock", file="wgmma_consumer.cuh", target=SHARED_A, problem=PAIR_DEEP),
    _wgmma("wrong-multicast-mask", "((1 << Config::kClusterN) - 1)", "1", "deadlock", "uninitialised", target=SHARED_A, problem=PAIR_DEEP),
    _wgmma("earlier-kernel-not-waited-for", "    if (threadIdx.x == 0) {\n      ptx::wait_for_dependencies();\n", "    if (threadIdx.x == 0) {\n", "dependency"),
    _wgmma("unsynchronised-epilogue", "  __device__ __forceinline__ void drain(int first_block, int blocks) const {\n    ptx::named_barrier_sync(barrier_, 128);\n", "  __device__ __forceinline__ void drain(int first_block, int blocks) const {\n", "uninitialised", "race", file="wgmma_epilogue.cuh"),
    _wgmma("epilogue-swizzle", "128 + ((chunk ^ row) << 4), upper, lower", "128 + (chunk << 4), upper, lower", "result", file="wgmma_epilogue.cuh"),
    _wgmma("sums-not-waited-for", "        ptx::cluster_sync();\n        epilogue.store_share", "        epilogue.store_share", "race", "uninitialised", "barrier", "deadlock", target=SPLIT, problem=Problem(16, 64, 1024)),
    _wgmma("registers-never-given", "    ptx::setmaxnreg_dec<Geometry::kProducerRegisters>();\n", "", "deadlock", "registers"),
    _wgmma("ragged-rows-stored", "if (m >= params_.m || n >= params_.n) continue;", "if (n >= params_.n) continue;", "bounds", file="wgmma_epilogue.cuh"),
    _wgmma("window-not-aligned", "{(window + Geometry::kAlignment - 1) / Geometry::kAlignment * Geometry::kAlignment}", "{window}", "alignment", "descriptor"),
)  # fmt: skip

DECODE = decode_4bit()
DECODE_PAIR = decode_4bit(cluster=2)
FEW = Problem(5, 300, 512)


def _decode(name: str, old: str, new: str, *detectors: str, file: str = "decode_block.cuh", target: Target = DECODE) -> Mutant:
    return Mutant(f"decode-{name}", target, FEW, Patch(f"gemm_4bit/{file}", old, new), detectors)


SUMS_WAIT = "    ptx::mbarrier_wait(block.partial_empty(slot.index), slot.phase);\n"
SUMS_LEFT = "    __syncwarp();\n    if (lane == 0) ptx::mbarrier_arrive(block.partial_full(slot.index));\n"

DECODES = (
    _decode("sums-overwritten", SUMS_WAIT, "", "race", "barrier", file="decode.cuh"),
    _decode("lanes-left-behind", SUMS_LEFT, SUMS_LEFT.replace("    __syncwarp();\n", ""), "race", "uninitialised", file="decode.cuh"),
    _decode("scales-not-counted", "ptx::mbarrier_init(block.full(lane), 33);", "ptx::mbarrier_init(block.full(lane), 1);", "barrier", "in-flight"),
    _decode("wrong-row-bytes", "piece_bytes, barrier);", "piece_bytes - 16, barrier);", "deadlock"),
    _decode("too-many-rows", "const int rows = min(Shape::kStageRows, block.end_row - block.first_row - round * Shape::kStageRows);", "const int rows = Shape::kStageRows;", "bounds"),
    _decode("sums-counted-twice", "ptx::mbarrier_arrive_expect(barrier, Shape::kQuads * 16);", "ptx::mbarrier_arrive_expect(barrier, Shape::kQuads * 8);", "barrier", "uninitialised", "in-flight", file="decode_sum.cuh", target=DECODE_PAIR),
    _decode("received-too-early", "  ptx::mbarrier_wait(block.received_barrier(buffer), round / (2 * Shape::kAdders) & 1);\n", "", "in-flight", "uninitialised", "race", file="decode_sum.cuh", target=DECODE_PAIR),
)  # fmt: skip

MMA = (
    Mutant(
        "mma-chunk-not-waited-for",
        mma_4bit(),
        Problem(37, 72, 512),
        Patch("gemm_4bit/mma_m16n8k16.cuh", "ptx::cp_async_wait<kAhead - 1>();", "ptx::cp_async_wait<kAhead>();"),
        ("in-flight",),
    ),
    Mutant(
        "mma-block-not-synchronised",
        mma_4bit(),
        Problem(37, 72, 512),
        Patch("gemm_4bit/mma_m16n8k16.cuh", "    __syncthreads();\n    const bool more", "    const bool more"),
        ("race", "in-flight", "uninitialised"),
    ),
    Mutant(
        "mma-ragged-k",
        mma_4bit(kc=128),
        Problem(37, 72, 352),
        Patch("gemm_4bit/mma_stages.cuh", "a_.chunk() * 8 < k_left_", "true"),
        ("padding", "bounds"),
    ),
)


def _fp8(name: str, file: str, old: str, new: str, *detectors: str, target: Target | None = None, **words: str | int) -> Mutant:
    problem = Problem(70, 72, 640, words=words)
    return Mutant(f"fp8-{name}", target or wgmma_fp8(), problem, Patch(f"gemm_fp8/{file}", old, new), detectors)


BY_BLOCK = dict(scaling="block", fast_accum=0)
SCALE_WAIT = "      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);\n      const uint32_t stage = shared_.scales(ring_.slot);\n"

FP8 = (
    _fp8("store-not-shown", "wgmma_epilogue.cuh", "    ptx::fence_async_shared();\n", "", "proxy-fence"),
    _fp8("store-not-synchronised", "wgmma_epilogue.cuh", "    ptx::fence_async_shared();\n    ptx::named_barrier_sync(barrier_, 128);\n", "    ptx::fence_async_shared();\n", "race", "uninitialised", "proxy-fence"),
    _fp8("buffer-still-read", "wgmma_epilogue.cuh", "    if (thread() == 0) ptx::bulk_wait_read<Geometry::kOutputBuffers - 1>();\n", "", "race", target=wgmma_fp8(nt=128)),
    _fp8("leaves-while-storing", "wgmma_epilogue.cuh", "    if (thread() == 0) ptx::bulk_wait_read<0>();\n", "", "exited"),
    _fp8("stale-scales", "wgmma_producer.cuh", SCALE_WAIT, SCALE_WAIT.split("\n", 1)[1], "race", "in-flight", "barrier", target=wgmma_fp8(promote=1), **BY_BLOCK),
    _fp8("scale-of-the-first-block", "wgmma_producer.cuh", "of_b + step * params_.scale_b_k, 4", "of_b, 4", "result", target=wgmma_fp8(promote=1), **BY_BLOCK),
)  # fmt: skip

BLACKWELL = tcgen05_nvfp4()
PAIRS = Problem(300, 136, 1280)
STACKED = Problem(600, 300, 1280)


def _pair(name: str, file: str, old: str, new: str, *detectors: str, target: Target = BLACKWELL, problem: Problem = PAIRS) -> Mutant:
    return Mutant(f"tcgen05-{name}", target, problem, Patch(f"tcgen05/{file}", old, new), detectors)


RUBIN = rubin_nvfp4()
FREE = "  if (warp == Layout::kMultiplyWarp) ptx::tmem_free<Layout::kAllocatedColumns, Layout::kExclusive>(tmem);\n"
RELINQUISH = "    ptx::tmem_allocate<Layout::kAllocatedColumns, Layout::kExclusive>(shared.tmem_slot());\n    ptx::tmem_relinquish();\n"
RELINQUISHED = "    ptx::tmem_relinquish();\n    ptx::tmem_allocate<Layout::kAllocatedColumns, Layout::kExclusive>(shared.tmem_slot());\n"
SUM_READ = "    ptx::mbarrier_wait(shared_.sum_full(sum()), sums_.phase);\n    ptx::tcgen05_fence_after();\n"
SUM_LEFT = "    ptx::tcgen05_fence_before();\n    __syncwarp();\n    const uint32_t barrier"
SCALES_FREE = "    ptx::mbarrier_wait(shared_.scale_free(buffer), scale_phase_ ^ 1);\n    ptx::tcgen05_fence_after();\n    const uint32_t source"
EARLY_A = "ptx::tcgen05_commit_a_read_multicast<kMaskBits>(shared_.empty_a(a_slot(tier)), kClusterMask);"
SLOT_BACK = "    ptx::tcgen05_commit_multicast<kMaskBits>(shared_.empty(ring_.slot), kClusterMask);\n  }\n\n  const PairShared"

TCGEN05 = (
    _pair("memory-leaked", "kernel.cuh", FREE, "", "tensor-memory"),
    _pair("permit-given-up-first", "kernel.cuh", RELINQUISH, RELINQUISHED, "tensor-memory"),
    _pair("freed-too-early", "kernel.cuh", "  ptx::cluster_sync();\n  ptx::tcgen05_fence_after();\n" + FREE, FREE + "  ptx::cluster_sync();\n", "tensor-memory", "exited"),
    _pair("collector-not-filled", "multiplier.cuh", "Config::kCollectorB ? ptx::Collector::kFillB : ptx::Collector::kNone", "ptx::Collector::kNone", "collector", target=RUBIN, problem=STACKED),
    _pair("collector-of-another-b", "multiplier.cuh", "multiply_tier<kSecond, 1>(chunk, step, offset, b, accumulate);", "multiply_tier<kSecond, 1>(chunk, step, offset, b + 4, accumulate);", "collector", target=RUBIN, problem=STACKED),
    _pair("sum-not-waited-for", "epilogue.cuh", SUM_READ, "    ptx::tcgen05_fence_after();\n", "race", "uninitialised"),
    _pair("no-fence-after-wait", "epilogue.cuh", SUM_READ, SUM_READ.split("\n", 1)[0] + "\n", "race"),
    _pair("no-fence-before-arrival", "epilogue.cuh", SUM_LEFT, SUM_LEFT.split("\n", 1)[1], "race", target=tcgen05_nvfp4(accumulators=1), problem=Problem(520, 136, 512)),
    _pair("scales-overtake", "multiplier.cuh", SCALES_FREE, "    const uint32_t source", "race"),
    _pair("early-release-of-everything", "multiplier.cuh", SLOT_BACK, SLOT_BACK.replace("tcgen05_commit_multicast", "tcgen05_commit_a_read_multicast"), "race", "in-flight", target=RUBIN, problem=STACKED),
    _pair("a-released-before-it-is-read", "multiplier.cuh", "    multiply_tier<kFirst, 0>(chunk, step, offset, b, accumulate);\n    if (within == Plan::kSteps - 1) release_a_early(0);\n", "    if (within == Plan::kSteps - 1) release_a_early(0);\n    multiply_tier<kFirst, 0>(chunk, step, offset, b, accumulate);\n", "race", "in-flight", target=RUBIN, problem=STACKED),
    _pair("strides-swapped", "descriptors.h", "smem_descriptor_base(Swizzle::k128B, 16, 1024)", "smem_descriptor_base(Swizzle::k128B, 1024, 16)", "descriptor"),
    _pair("operand-swizzle", "descriptors.h", "smem_descriptor_base(Swizzle::k128B, 16, 1024)", "smem_descriptor_base(Swizzle::k64B, 16, 1024)", "descriptor", "result"),
    _pair("descriptor-version", "descriptors.h", "uint64_t{1} << 46 | ", "", "descriptor"),
    _pair("wrong-k-dim", "descriptors.h", "return (k_dim >> 1) << 3 |", "return", "descriptor", "result", target=RUBIN, problem=STACKED),
    _pair("wrong-k-dim-fp8", "descriptors.h", "(step == KStep::k64Bytes ? 1u << 29 : 0u)", "0u", "result", target=tcgen05_fp8((10, 7), k_bytes=64)),
    _pair("half-of-n", "multiplier.cuh", "return nvfp4_instruction(256, Config::kNt, kStep);", "return nvfp4_instruction(256, Config::kNt / 2, kStep);", "result", "uninitialised"),
    _pair("bytes-of-one-block", "producer.cuh", "ptx::mbarrier_arrive_expect(barrier, 2 * bytes)", "ptx::mbarrier_arrive_expect(barrier, bytes)", "barrier"),
    _pair("sums-of-one-block", "kernel.cuh", "ptx::mbarrier_init(shared.sum_empty(sum), 2 * 4);", "ptx::mbarrier_init(shared.sum_empty(sum), 4);", "barrier", "race", target=tcgen05_nvfp4(accumulators=1), problem=Problem(520, 136, 512)),
    _pair("never-overwritten", "multiplier.cuh", "multiply_step(chunk, step, accumulate || chunk != 0 || step != 0);", "multiply_step(chunk, step, true);", "uninitialised", "result"),
    _pair("scales-of-the-first-chunk", "multiplier.cuh", "copy_scales(ring_.slot, chunk, chunk * Plan::kChunkAtoms);", "copy_scales(ring_.slot, chunk, 0);", "result"),
    _pair("scales-of-b-misplaced", "multiplier.cuh", "copy_atom(scale_b(buffer) + atom * (Config::kNt / 32) + group * 4,", "copy_atom(scale_b(buffer) + atom * 4 + group * 8,", "result", "uninitialised", target=tcgen05_nvfp4(nt=256, accumulators=1), problem=Problem(300, 264, 1280)),
    _pair("stores-not-waited-for", "epilogue.cuh", "    if (lane_ == 0) ptx::bulk_wait_read<kBuffers - 1>();\n", "", "race"),
    _pair("leaves-while-storing", "epilogue.cuh", "    if (lane_ == 0) ptx::bulk_wait_read<0>();\n", "", "exited"),
)  # fmt: skip

MUTANTS = (*WGMMA, *DECODES, *MMA, *FP8, *TCGEN05)
