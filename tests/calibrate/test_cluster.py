"""Cells spread over the workers of a dask cluster: all are answered, and without a fitting worker none is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

distributed = pytest.importorskip("distributed")

from tilewright_codegen.calibrate.cluster import cluster_runner  # noqa: E402
from tilewright_codegen.calibrate.measure import Campaign, MeasureError  # noqa: E402
from tilewright_codegen.calibrate.plan import Design, plan  # noqa: E402
from tilewright_codegen.calibrate.records import Method, Store  # noqa: E402
from tilewright_codegen.calibrate.synthetic import World  # noqa: E402
from tilewright_codegen.grid import Point  # noqa: E402
from tilewright_codegen.ir import SpecTree  # noqa: E402

from .conftest import DEVICE  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, resources={"GPU": 1, "sm121": 1}
    ) as cluster:
        yield cluster.scheduler_address


def campaign(tree: SpecTree, folder: Path, **more: Any) -> Campaign:
    family, arch = tree.families["gemm_4bit"], tree.archs["sm121"]
    design = Design(("bf16",), 48, points=(Point(4096, 4096), Point(14336, 4096)), rows=(8, 16, 24, 32), seeded=40)
    cells = plan(family, arch, family.layer_by_name["tile"], design)
    backend = {"kind": "synthetic", "world": World(device=DEVICE).model_dump(mode="json")}
    method = Method(warmup=1, rounds=3, passes=5)
    return Campaign("gemm_4bit", "tile", cells, method, backend, Store(folder / "r.jsonl"), "sm121", **more)


def test_the_cluster_measures_what_one_process_measures(tree: SpecTree, address: str, tmp_path: Path) -> None:
    alone, spread = campaign(tree, tmp_path / "a"), campaign(tree, tmp_path / "b", pooled=True)
    alone.run()
    with cluster_runner(address, "sm121") as spread.runner:
        spread.run()
    assert len(alone.plan) > 16, "more than one task"
    assert spread.failed == {}
    assert sorted(p.model_dump_json() for p in spread.store.passes) == sorted(
        p.model_dump_json() for p in alone.store.passes
    )


def test_without_a_worker_of_the_arch_it_says_what_to_state(address: str) -> None:
    with pytest.raises(MeasureError, match='states the resources "GPU=1 sm90=1"'):
        cluster_runner(address, "sm90").__enter__()


def test_without_a_scheduler_it_says_so() -> None:
    with pytest.raises(MeasureError, match="there is no scheduler at nonsense"):
        cluster_runner("nonsense://x", "sm90").__enter__()
