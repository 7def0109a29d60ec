"""The figures of docs/wheels.md are those that evidence/ records, and the recorded wheels keep to the budget."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = json.loads((ROOT / "evidence" / "wheel-2026-11-30.json").read_text("utf-8"))
WHEELS: dict[str, dict[str, Any]] = RECORD["all families"]["wheels"]
BUDGET = load_tree(ROOT / "specs").budget
FAMILIES = ("gemm_4bit", "gemm_fp8", "gemm_nvfp4", "support")


def table() -> dict[str, list[str]]:
    """The rows of the table under "Figures", by wheel."""
    text = (ROOT / "docs" / "wheels.md").read_text("utf-8").partition("## Figures\n")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    head, *body = rows
    assert head == ["wheel", "MB", *(f"`{name}`" if name != "support" else name for name in FAMILIES), "kernels"]
    return {name: cells for name, *cells in body}


def total(wheel: dict[str, Any], family: str) -> int:
    """Bytes of a family's device code in all images."""
    return sum(wheel["device_code_bytes"].get(family, {}).values())


def test_the_table_lists_the_recorded_wheels() -> None:
    rows = table()
    assert rows.keys() == WHEELS.keys()
    for name, wheel in WHEELS.items():
        sizes = [wheel["file_bytes"], *(total(wheel, family) for family in FAMILIES)]
        assert rows[name] == [*(f"{size / 1e6:.2f}" for size in sizes), str(wheel["kernels"])], name


@pytest.mark.parametrize("name", WHEELS)
def test_recorded_wheels_keep_to_the_budget(name: str) -> None:
    wheel = WHEELS[name]
    assert wheel["file_bytes"] <= BUDGET.wheel_bytes
    assert total(wheel, "support") <= BUDGET.support_bytes
    assert {family.family for family in BUDGET.families} == set(FAMILIES) - {"support"}
    for family in BUDGET.families:
        assert total(wheel, family.family) <= family.total_bytes
        for image, size in wheel["device_code_bytes"].get(family.family, {}).items():
            assert size <= family.images.get(image, family.image_bytes), (family.family, image)


def test_recorded_times_keep_to_the_budget_and_stand_in_the_text() -> None:
    text = " ".join((ROOT / "docs" / "wheels.md").read_text("utf-8").split())
    built, rule = RECORD["all families"]["from nothing"], RECORD["all families"]["one rule"]
    assert built["cpu_s"] <= BUDGET.build.full_cpu_seconds
    assert rule["cpu_s"] <= BUDGET.build.rule_change_seconds and rule["device_objects"] == 0
    assert f"takes {built['cpu_s'] / 60:.0f} processor minutes" in text
    assert f"{rule['cpu_s']:.0f} processor seconds and no device code" in text
    shown = re.search(r"(\d+) objects", text)
    assert shown is not None and int(shown[1]) == built["objects"]
