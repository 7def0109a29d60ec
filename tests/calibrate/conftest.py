"""A synthetic card, a small layer to calibrate, and passes made of given ratios."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright_codegen.calibrate.candidates import Choices, choices
from tilewright_codegen.calibrate.records import Cell, Device, Header, Method, Pass
from tilewright_codegen.ir import Family, SpecTree
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
DEVICE = Device(arch="sm121", num_sms=48, product="synthetic card")


@pytest.fixture(scope="session")
def tree() -> SpecTree:
    return load_tree(ROOT / "specs")


@pytest.fixture(scope="session")
def family(tree: SpecTree) -> Family:
    return tree.families["gemm_4bit"]


def cell(M: int, N: int, K: int, dtype: str = "bf16") -> Cell:
    return Cell(arch="sm121", num_sms=48, dtype=dtype, M=M, N=N, K=K)


def choice(tree: SpecTree, layer: str, M: int, N: int, K: int) -> Choices:
    family = tree.families["gemm_4bit"]
    found = choices(family, tree.archs["sm121"], family.layer_by_name[layer], cell(M, N, K), through=True)
    assert found is not None
    return found


def rechecks(chosen: Choices, ratios: dict[str, list[float]], null: float = 1.001) -> list[Pass]:
    """A pass for every position of the lists of ratios."""
    count = len(next(iter(ratios.values())))
    return [
        Pass(
            stage="recheck", index=i, cell=chosen.cell, incumbent=chosen.incumbent, null=null,
            ratios={name: series[i] for name, series in ratios.items()},
        )
        for i in range(count)
    ]  # fmt: skip


def header(layer: str, **changes: object) -> Header:
    values = {"family": "gemm_4bit", "layer": layer, "device": DEVICE, "method": Method(), "through": True}
    return Header.model_validate({**values, **changes})
