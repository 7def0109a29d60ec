"""Bugs planted in gemm_4bit, by changing one place of a header."""

from __future__ import annotations

from tilewright_codegen.emulate.build import Patch, Target
from tilewright_codegen.emulate.cases import Problem

from .mutant import Mutant
from .tiles import decode_4bit, mma_4bit, wgmma_4bit

HOPPER = wgmma_4bit()
SHARED_A = wgmma_4bit(cluster_n=2)
SPLIT = wgmma_4bit(split_k=2)
DEEP = Problem(20, 70, 512)
PAIR_DEEP = Problem(20, 140, 512)


def _wgmma(
    name: str,
    old: str,
    new: str,
    *detectors: str,
    file: str = "wgmma.cuh",
    target: Target = HOPPER,
    problem: Problem = DEEP,
) -> Mutant:
    return Mutant(f"wgmma-{name}", target, problem, Patch(f"gemm_4bit/{file}", old, new), detectors)


DRAIN = "  __device__ __forceinline__ void drain(int first_block, int blocks) const {\n"
EMPTY_WAIT = "      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);\n"
ALL_SYNC = (
    "  __syncthreads();\n"
    "  if constexpr (Config::kClusterN > 1) ptx::cluster_sync();  // peers arrive at these barriers\n"
)
FULL_WAIT = "    if (kStep == 0) ptx::mbarrier_wait(flow.empty - Config::kStages * 8, ring.phase);\n"
FINAL_WAIT = "    ptx::wgmma_wait<0>();\n    ptx::wgmma_pin(acc);\n"
MULTIPLY = "kPanel + 2 * (kBatch % kGroups * kGroupParts + part)"
EXPECT = "a_bytes(tile_m) + Geometry::kWStageBytes);"
LAST_SYNC = "  if constexpr (Config::kClusterN > 1) ptx::cluster_sync();\n"

WGMMA = (
    _wgmma("slot-not-waited-for", EMPTY_WAIT, "", "in-flight", "race", "barrier"),
    _wgmma("wrong-empty-phase", EMPTY_WAIT, EMPTY_WAIT.replace(" ^ 1", ""), "deadlock", "barrier"),
    _wgmma("bytes-not-waited-for", FULL_WAIT, "", "uninitialised", "in-flight", "race", file="wgmma_consumer.cuh"),
    _wgmma(
        "wrong-full-phase",
        FULL_WAIT,
        FULL_WAIT.replace("ring.phase", "ring.phase ^ 1"),
        "uninitialised",
        "in-flight",
        "race",
        file="wgmma_consumer.cuh",
    ),
    _wgmma("too-few-bytes", EXPECT, EXPECT.replace(");", " - 128);"), "barrier"),
    _wgmma("too-many-bytes", EXPECT, EXPECT.replace(");", " + 128);"), "deadlock"),
    _wgmma(
        "early-release",
        "ptx::wgmma_wait<1>();  // the batch before is done",
        "ptx::wgmma_wait<3>();",
        "race",
        "registers",
        "in-flight",
        file="wgmma_consumer.cuh",
    ),
    _wgmma("no-fence", "    ptx::wgmma_fence();\n", "", "registers", file="wgmma_consumer.cuh"),
    _wgmma(
        "sum-not-waited-for", FINAL_WAIT, "    ptx::wgmma_pin(acc);\n", "registers", "race", file="wgmma_consumer.cuh"
    ),
    _wgmma(
        "wrong-k-step",
        MULTIPLY,
        MULTIPLY.replace("2 *", "4 *"),
        "result",
        "uninitialised",
        "descriptor",
        "race",
        "in-flight",
        file="wgmma_consumer.cuh",
    ),
    _wgmma(
        "wrong-swizzle",
        "Config::kKc == 64 ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_64B}",
        "CU_TENSOR_MAP_SWIZZLE_NONE}",
        "result",
        target=wgmma_4bit(kc=128),
    ),
    _wgmma("barriers-not-shown", "    ptx::mbarrier_init_fence();\n", "", "proxy-fence"),
    _wgmma("no-sync-after-start", ALL_SYNC, "", "barrier", "race", "uninitialised"),
    _wgmma(
        "no-cluster-sync-after-start", ALL_SYNC, "  __syncthreads();\n", "barrier", target=SHARED_A, problem=PAIR_DEEP
    ),
    _wgmma("leaves-its-cluster", LAST_SYNC, "", "exited", target=SHARED_A, problem=PAIR_DEEP),
    _wgmma(
        "wrong-arrival-count",
        "4 * Geometry::kConsumers * Config::kClusterN",
        "4 * Geometry::kConsumers",
        "barrier",
        "race",
        "in-flight",
        target=SHARED_A,
        problem=PAIR_DEEP,
    ),
    _wgmma(
        "releases-one-peer",
        "(entry_lane_ < 4 * Config::kClusterN)",
        "(entry_lane_ < 4)",
        "deadlock",
        file="wgmma_consumer.cuh",
        target=SHARED_A,
        problem=PAIR_DEEP,
    ),
    _wgmma(
        "wrong-multicast-mask",
        "((1 << Config::kClusterN) - 1)",
        "1",
        "deadlock",
        "uninitialised",
        target=SHARED_A,
        problem=PAIR_DEEP,
    ),
    _wgmma(
        "earlier-kernel-not-waited-for",
        "    if (threadIdx.x == 0) {\n      ptx::wait_for_dependencies();\n",
        "    if (threadIdx.x == 0) {\n",
        "dependency",
    ),
    _wgmma(
        "unsynchronised-epilogue",
        DRAIN + "    ptx::named_barrier_sync(barrier_, 128);\n",
        DRAIN,
        "uninitialised",
        "race",
        file="wgmma_epilogue.cuh",
    ),
    _wgmma(
        "epilogue-swizzle",
        "128 + ((chunk ^ row) << 4), upper, lower",
        "128 + (chunk << 4), upper, lower",
        "result",
        file="wgmma_epilogue.cuh",
    ),
    _wgmma(
        "sums-not-received",
        "    ptx::mbarrier_wait(shared.received(), 0);\n",
        "",
        "race",
        "uninitialised",
        "in-flight",
        file="wgmma_epilogue.cuh",
        target=SPLIT,
        problem=Problem(16, 64, 1024),
    ),
    _wgmma(
        "sums-sent-too-early",
        "        ptx::cluster_wait();  // multiply() arrived\n        epilogue",
        "        epilogue",
        "race",
        "in-flight",
        "barrier",
        "exited",
        target=SPLIT,
        problem=Problem(16, 64, 1024),
    ),
    _wgmma(
        "sums-over-the-last-turn",
        "% Config::kStages * Geometry::kAStageBytes",
        "% Config::kStages * Geometry::kAStageBytes + 2 * Geometry::kAStageBytes",
        "race",
        "in-flight",
        file="wgmma_plan.cuh",
        target=SPLIT,
        problem=Problem(16, 64, 1024),
    ),
    _wgmma(
        "last-box-as-the-others",
        "      key_a.box_rows = rows;\n",
        "",
        "barrier",
        target=wgmma_4bit(mt=128, occupancy=1),
        problem=Problem(140, 70, 256),
    ),
    _wgmma(
        "registers-never-given",
        "    ptx::setmaxnreg_dec<Geometry::kProducerRegisters>();\n",
        "",
        "deadlock",
        "registers",
    ),
    _wgmma(
        "ragged-rows-stored",
        "if (m >= params_.m || n >= params_.n) continue;",
        "if (n >= params_.n) continue;",
        "bounds",
        file="wgmma_epilogue.cuh",
    ),
    _wgmma(
        "window-not-aligned",
        "{(window + Geometry::kAlignment - 1) / Geometry::kAlignment * Geometry::kAlignment}",
        "{window}",
        "alignment",
        "descriptor",
    ),
)

DECODE = decode_4bit()
DECODE_PAIR = decode_4bit(cluster=2)
DECODE_STAGED = decode_4bit(mb=16, kb=4, occupancy=1, ring_kb=24)
DECODE_STAGED_PAIR = decode_4bit(mb=16, kb=4, occupancy=1, ring_kb=24, cluster=2)
FEW = Problem(5, 300, 512)


def _decode(
    name: str, old: str, new: str, *detectors: str, file: str = "decode_block.cuh", target: Target = DECODE
) -> Mutant:
    return Mutant(f"decode-{name}", target, FEW, Patch(f"gemm_4bit/{file}", old, new), detectors)


SUMS_WAIT = "    ptx::mbarrier_wait(block.partial_empty(slot.index), slot.phase);\n"
SUMS_LEFT = "    __syncwarp();\n    if (lane == 0) ptx::mbarrier_arrive(block.partial_full(slot.index));\n"
BARRIERS_SHOWN = "ptx::mbarrier_init(block.received_barrier(lane), 1);\n  ptx::mbarrier_init_fence();\n"
CHUNKS_TAKEN = "  __syncwarp();\n  if (lane == 0) {\n    for (int stage = params.first_lent;"
CLUSTER_WAIT = "  if constexpr (Shape::kStaged) decode_wait_for_cluster(block.cluster_size);\n"

DECODES = (
    _decode("sums-overwritten", SUMS_WAIT, "", "race", "barrier", file="decode_multiply.cuh"),
    _decode(
        "lanes-left-behind",
        SUMS_LEFT,
        SUMS_LEFT.replace("    __syncwarp();\n", ""),
        "race",
        "uninitialised",
        file="decode_multiply.cuh",
    ),
    _decode(
        "scales-not-counted",
        "ptx::mbarrier_init(block.full(lane), 33);",
        "ptx::mbarrier_init(block.full(lane), 1);",
        "barrier",
        "in-flight",
    ),
    _decode("wrong-row-bytes", "piece_bytes, barrier);", "piece_bytes - 16, barrier);", "deadlock"),
    _decode(
        "too-many-rows",
        "const int rows = min(Shape::kStageRows, block.end_row - block.first_row - round * Shape::kStageRows);",
        "const int rows = Shape::kStageRows;",
        "bounds",
    ),
    _decode(
        "sums-counted-twice",
        "ptx::mbarrier_arrive_expect(barrier, Shape::kQuads * 16);",
        "ptx::mbarrier_arrive_expect(barrier, Shape::kQuads * 8);",
        "barrier",
        "uninitialised",
        "in-flight",
        file="decode_sum.cuh",
        target=DECODE_PAIR,
    ),
    _decode(
        "received-too-early",
        "  ptx::mbarrier_wait(block.received_barrier(buffer), round / (2 * Shape::kAdders) & 1);\n",
        "",
        "in-flight",
        "uninitialised",
        "race",
        file="decode_sum.cuh",
        target=DECODE_PAIR,
    ),
    _decode(
        "stage-not-lent",
        "const bool lent = Shape::kStaged && ring.index >= params.first_lent;",
        "const bool lent = false;",
        "race",
        "in-flight",
        "barrier",
        target=DECODE_STAGED,
    ),
    _decode(
        "chunk-not-waited-for",
        "    ptx::mbarrier_wait(block.chunk_full(chunk), 0);\n",
        "",
        "race",
        "in-flight",
        "uninitialised",
        file="decode_multiply.cuh",
        target=DECODE_STAGED,
    ),
    _decode(
        "chunk-fetched-too-early",
        "  ptx::wait_for_dependencies();\n",
        "",
        "dependency",
        file="decode_sum.cuh",
        target=DECODE_STAGED,
    ),
    _decode(
        "chunk-swizzle",
        "row * 128 + (piece ^ row) * 16",
        "row * 128 + piece * 16",
        "result",
        file="decode_activations.cuh",
        target=DECODE_STAGED,
    ),
    _decode(
        "chunk-overwritten",
        CHUNKS_TAKEN,
        CHUNKS_TAKEN.replace("  __syncwarp();\n", ""),
        "race",
        "in-flight",
        file="decode_multiply.cuh",
        target=DECODE_STAGED,
    ),
    _decode(
        "table-over-chunks",
        "  ptx::named_barrier_sync(3, Shape::kWarps * 32);  // table and sums lie where other warps may yet read A\n",
        "",
        "race",
        file="decode_multiply.cuh",
        target=DECODE_STAGED,
    ),
    _decode(
        "table-not-waited-for",
        "    ptx::named_barrier_sync(3, Shape::kWarps * 32);\n  }\n}\n",
        "  }\n}\n",
        "race",
        file="decode_multiply.cuh",
        target=DECODE_STAGED,
    ),
    _decode(
        "barriers-not-shown",
        BARRIERS_SHOWN,
        BARRIERS_SHOWN.replace("  ptx::mbarrier_init_fence();\n", ""),
        "proxy-fence",
        "barrier",
        target=DECODE_STAGED_PAIR,
    ),
    _decode(
        "sent-before-the-cluster-met",
        CLUSTER_WAIT,
        "",
        "barrier",
        file="decode_sum.cuh",
        target=DECODE_STAGED_PAIR,
    ),
)

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

MUTANTS = (*WGMMA, *DECODES, *MMA)
