"""Bugs planted in the decode engine's Hopper kernel of gemm_fp8, by changing one place of a header."""

from __future__ import annotations

from tilewright_codegen.emulate.build import Patch, Target
from tilewright_codegen.emulate.cases import Problem

from .mutant import Mutant
from .tiles import SM90


def _target(cluster: int) -> Target:
    fields = dict(mb=16, warps=4, depth=3, occupancy=1, per_sm=1, a_kb=4, cluster=cluster)
    return Target("gemm_fp8", "decode", f"bulk{cluster}", fields, SM90)


def _bulk(
    name: str, file: str, old: str, new: str, *detectors: str, cluster: int = 1, scaling: str = "tensor"
) -> Mutant:
    problem = Problem(13, 51, 1280, words=dict(scaling=scaling))
    return Mutant(f"bulk-{name}", _target(cluster), problem, Patch(f"gemm_fp8/{file}", old, new), detectors)


GIVEN_BACK = "    give_back(slots[kIndex]);\n"
READ = "    ptx::wgmma_wait<kCount - 1 - kIndex>();\n    ptx::wgmma_pin(part[kIndex]);\n"

MUTANTS = (
    _bulk(
        "rows-not-cleared",
        "decode_bulk.cuh",
        "  if (threadIdx.x < 32 * Config::kWarps) consumer.clear_unused_rows();\n",
        "",
        "uninitialised",
    ),
    _bulk("clearing-not-shown", "decode_bulk_multiply.cuh", "    ptx::fence_async_shared();\n", "", "proxy-fence"),
    _bulk(
        "given-back-unread",
        "decode_bulk_multiply.cuh",
        READ + GIVEN_BACK,
        GIVEN_BACK + READ,
        "race",
        "in-flight",
    ),
    _bulk(
        "stage-overwritten",
        "decode_bulk_stream.cuh",
        "      ptx::mbarrier_wait(shared_.empty(slot), parity);\n",
        "",
        "race",
        "in-flight",
        "barrier",
    ),
    _bulk(
        "dependencies-not-awaited",
        "decode_bulk_stream.cuh",
        "    ptx::wait_for_dependencies();\n",
        "",
        "dependency",
    ),
    _bulk(
        "block-not-awaited",
        "decode_bulk_multiply.cuh",
        "    ptx::cluster_wait();\n",
        "",
        "barrier",
        "uninitialised",
        "race",
        cluster=2,
    ),
    _bulk(
        "sums-not-awaited",
        "decode_bulk_multiply.cuh",
        "    ptx::mbarrier_wait(shared_.sums(), 0);\n",
        "",
        "race",
        "uninitialised",
        "in-flight",
        cluster=2,
    ),
    _bulk(
        "scales-not-awaited",
        "decode_bulk_multiply.cuh",
        "    ptx::cp_async_wait<0>();\n",
        "",
        "in-flight",
        "race",
        "uninitialised",
        scaling="block",
    ),
    _bulk(
        "scale-of-another-unit",
        "decode_bulk_multiply.cuh",
        "      const int unit = step + kIndex;\n",
        "      const int unit = step;\n",
        "result",
        cluster=1,
        scaling="block",
    ),
    _bulk(
        "not-turned",
        "decode_bulk_multiply.cuh",
        "    second = ptx::transpose_8x8(second);\n",
        "",
        "result",
    ),
)
