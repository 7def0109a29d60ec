"""Bugs planted in gemm_fp8 and in the engine of CTA pairs, by changing one place of a header."""

from __future__ import annotations

from tilewright_codegen.emulate.build import Patch, Target
from tilewright_codegen.emulate.cases import Problem

from .mutant import Mutant
from .tiles import rubin_nvfp4, tcgen05_fp8, tcgen05_nvfp4, wgmma_fp8


def _fp8(
    name: str, file: str, old: str, new: str, *detectors: str, target: Target | None = None, **words: str | int
) -> Mutant:
    problem = Problem(70, 72, 640, words=words)
    return Mutant(f"fp8-{name}", target or wgmma_fp8(), problem, Patch(f"gemm_fp8/{file}", old, new), detectors)


BY_BLOCK = dict(scaling="block", fast_accum=0)
SCALE_WAIT = (
    "      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);\n"
    "      const uint32_t stage = shared_.scales(ring_.slot);\n"
)

FP8 = (
    _fp8("store-not-shown", "wgmma_epilogue.cuh", "    ptx::fence_async_shared();\n", "", "proxy-fence"),
    _fp8(
        "store-not-synchronised",
        "wgmma_epilogue.cuh",
        "    ptx::fence_async_shared();\n    ptx::named_barrier_sync(barrier_, 128);\n",
        "    ptx::fence_async_shared();\n",
        "race",
        "uninitialised",
        "proxy-fence",
    ),
    _fp8(
        "buffer-still-read",
        "wgmma_epilogue.cuh",
        "    if (thread() == 0) ptx::bulk_wait_read<Geometry::kOutputBuffers - 1>();\n",
        "",
        "race",
        target=wgmma_fp8(nt=192),
    ),
    _fp8(
        "leaves-while-storing", "wgmma_epilogue.cuh", "    if (thread() == 0) ptx::bulk_wait_read<0>();\n", "", "exited"
    ),
    _fp8(
        "stale-scales",
        "wgmma_producer.cuh",
        SCALE_WAIT,
        SCALE_WAIT.split("\n", 1)[1],
        "race",
        "in-flight",
        "barrier",
        target=wgmma_fp8(promote=1),
        **BY_BLOCK,
    ),
    _fp8(
        "scale-of-the-first-block",
        "wgmma_producer.cuh",
        "      of_b += params_.scale_steps.b_k;\n",
        "",
        "result",
        target=wgmma_fp8(promote=1),
        **BY_BLOCK,
    ),
    _fp8(
        "below-a-tail-not-cleared",
        "wgmma_producer.cuh",
        "      ptx::sts_float4(shared_.a_stage(slot) + params_.tail_rows * 128 + at * 16, 0.0f, 0.0f, 0.0f, 0.0f);\n",
        "      (void)slot, (void)at;\n",
        "uninitialised",
        target=wgmma_fp8(swap=1, mt=96, consumers=1),
    ),
    _fp8(
        "dependencies-not-awaited",
        "wgmma.cuh",
        "      ptx::wait_for_dependencies();\n      while (schedule.take(work)) producer.load(work);\n",
        "      while (schedule.take(work)) producer.load(work);\n",
        "dependency",
    ),
    _fp8(
        "asked-for-twice",
        "wgmma_producer.cuh",
        "    if constexpr (!Config::kPromote) ahead_ = steps;\n",
        "",
        "race",
        "in-flight",
        "barrier",
        "deadlock",
    ),
    _fp8(
        "sums-not-awaited",
        "wgmma_epilogue.cuh",
        "    ptx::mbarrier_wait(shared.received(), 0);\n",
        "",
        "race",
        "uninitialised",
        "in-flight",
        target=wgmma_fp8(swap=1, mt=96, split_k=2),
    ),
)

BLACKWELL = tcgen05_nvfp4()
PAIRS = Problem(300, 136, 1280)
STACKED = Problem(600, 300, 1280)


def _pair(
    name: str, file: str, old: str, new: str, *detectors: str, target: Target = BLACKWELL, problem: Problem = PAIRS
) -> Mutant:
    return Mutant(f"tcgen05-{name}", target, problem, Patch(f"tcgen05/{file}", old, new), detectors)


RUBIN = rubin_nvfp4()
FREE = "  if (warp == Layout::kMultiplyWarp) ptx::tmem_free<Layout::kAllocatedColumns, Layout::kExclusive>(tmem);\n"
RELINQUISH = (
    "    ptx::tmem_allocate<Layout::kAllocatedColumns, Layout::kExclusive>(shared.tmem_slot());\n"
    "    ptx::tmem_relinquish();\n"
)
RELINQUISHED = (
    "    ptx::tmem_relinquish();\n"
    "    ptx::tmem_allocate<Layout::kAllocatedColumns, Layout::kExclusive>(shared.tmem_slot());\n"
)
SUM_READ = "    ptx::mbarrier_wait(shared_.sum_full(sum()), sums_.phase);\n    ptx::tcgen05_fence_after();\n"
SUM_LEFT = "    ptx::tcgen05_fence_before();\n    __syncwarp();\n    const uint32_t barrier"
SCALES_FREE = (
    "    ptx::mbarrier_wait(shared_.scale_free(buffer), scale_phase_ ^ 1);\n"
    "    ptx::tcgen05_fence_after();\n"
    "    const uint32_t source"
)
FIRST_TIER = "    multiply_tier<kFirst, 0>(chunk, step, offset, b, accumulate);\n"
RELEASE_A = "    if (within == Plan::kSteps - 1) release_a_early(0);\n"
SLOT_BACK = (
    "    ptx::tcgen05_commit_multicast<kMaskBits>(shared_.empty(ring_.slot), kClusterMask);\n  }\n\n  const PairShared"
)

TCGEN05 = (
    _pair("memory-leaked", "kernel.cuh", FREE, "", "tensor-memory"),
    _pair("permit-given-up-first", "kernel.cuh", RELINQUISH, RELINQUISHED, "tensor-memory"),
    _pair(
        "freed-too-early",
        "kernel.cuh",
        "  ptx::cluster_sync();\n  ptx::tcgen05_fence_after();\n" + FREE,
        FREE + "  ptx::cluster_sync();\n",
        "tensor-memory",
        "exited",
    ),
    _pair(
        "collector-not-filled",
        "multiplier.cuh",
        "Config::kCollectorB ? ptx::Collector::kFillB : ptx::Collector::kNone",
        "ptx::Collector::kNone",
        "collector",
        target=RUBIN,
        problem=STACKED,
    ),
    _pair(
        "collector-of-another-b",
        "multiplier.cuh",
        "multiply_tier<kSecond, 1>(chunk, step, offset, b, accumulate);",
        "multiply_tier<kSecond, 1>(chunk, step, offset, b + 4, accumulate);",
        "collector",
        target=RUBIN,
        problem=STACKED,
    ),
    _pair("sum-not-waited-for", "epilogue.cuh", SUM_READ, "    ptx::tcgen05_fence_after();\n", "race", "uninitialised"),
    _pair("no-fence-after-wait", "epilogue.cuh", SUM_READ, SUM_READ.split("\n", 1)[0] + "\n", "race"),
    _pair(
        "no-fence-before-arrival",
        "epilogue.cuh",
        SUM_LEFT,
        SUM_LEFT.split("\n", 1)[1],
        "race",
        target=tcgen05_nvfp4(accumulators=1),
        problem=Problem(520, 136, 512),
    ),
    _pair("scales-overtake", "multiplier.cuh", SCALES_FREE, "    const uint32_t source", "race"),
    _pair(
        "early-release-of-everything",
        "multiplier.cuh",
        SLOT_BACK,
        SLOT_BACK.replace("tcgen05_commit_multicast", "tcgen05_commit_a_read_multicast"),
        "race",
        "in-flight",
        target=RUBIN,
        problem=STACKED,
    ),
    _pair(
        "a-released-before-it-is-read",
        "multiplier.cuh",
        FIRST_TIER + RELEASE_A,
        RELEASE_A + FIRST_TIER,
        "race",
        "in-flight",
        target=RUBIN,
        problem=STACKED,
    ),
    _pair(
        "strides-swapped",
        "descriptors.h",
        "smem_descriptor_base(Swizzle::k128B, 16, 1024)",
        "smem_descriptor_base(Swizzle::k128B, 1024, 16)",
        "descriptor",
    ),
    _pair(
        "operand-swizzle",
        "descriptors.h",
        "smem_descriptor_base(Swizzle::k128B, 16, 1024)",
        "smem_descriptor_base(Swizzle::k64B, 16, 1024)",
        "descriptor",
        "result",
    ),
    _pair("descriptor-version", "descriptors.h", "uint64_t{1} << 46 | ", "", "descriptor"),
    _pair(
        "wrong-k-dim",
        "descriptors.h",
        "return (k_dim >> 1) << 3 |",
        "return",
        "descriptor",
        "result",
        target=RUBIN,
        problem=STACKED,
    ),
    _pair(
        "wrong-k-dim-fp8",
        "descriptors.h",
        "(step == KStep::k64Bytes ? 1u << 29 : 0u)",
        "0u",
        "result",
        target=tcgen05_fp8((10, 7), k_bytes=64),
    ),
    _pair(
        "half-of-n",
        "multiplier.cuh",
        "return nvfp4_instruction(256, Config::kNt, kStep);",
        "return nvfp4_instruction(256, Config::kNt / 2, kStep);",
        "result",
        "uninitialised",
    ),
    _pair(
        "bytes-of-one-block",
        "producer.cuh",
        "ptx::mbarrier_arrive_expect(barrier, 2 * bytes)",
        "ptx::mbarrier_arrive_expect(barrier, bytes)",
        "barrier",
    ),
    _pair(
        "sums-of-one-block",
        "kernel.cuh",
        "ptx::mbarrier_init(shared.sum_empty(sum), 2 * 4);",
        "ptx::mbarrier_init(shared.sum_empty(sum), 4);",
        "barrier",
        "race",
        target=tcgen05_nvfp4(accumulators=1),
        problem=Problem(520, 136, 512),
    ),
    _pair(
        "never-overwritten",
        "multiplier.cuh",
        "multiply_step(chunk, step, accumulate || chunk != 0 || step != 0);",
        "multiply_step(chunk, step, true);",
        "uninitialised",
        "result",
    ),
    _pair(
        "scales-of-the-first-chunk",
        "multiplier.cuh",
        "copy_scales(ring_.slot, chunk, chunk * Plan::kChunkAtoms);",
        "copy_scales(ring_.slot, chunk, 0);",
        "result",
    ),
    _pair(
        "scales-of-b-misplaced",
        "multiplier.cuh",
        "copy_atom(scale_b(buffer) + atom * Plan::kScaleWordColumns + group * 4,",
        "copy_atom(scale_b(buffer) + atom * 4 + group * 8,",
        "result",
        "uninitialised",
        target=tcgen05_nvfp4(nt=256, accumulators=1),
        problem=Problem(300, 264, 1280),
    ),
    _pair(
        "stores-not-waited-for",
        "epilogue.cuh",
        "    if (lane_ == 0) ptx::bulk_wait_read<kBuffers - 1>();\n",
        "",
        "race",
    ),
    _pair("leaves-while-storing", "epilogue.cuh", "    if (lane_ == 0) ptx::bulk_wait_read<0>();\n", "", "exited"),
)

MUTANTS = (*FP8, *TCGEN05)
