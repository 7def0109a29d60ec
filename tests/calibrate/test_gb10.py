"""The retold calibration of the GB10 comes to what was published."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

PLACE = Path(__file__).parents[2] / "examples" / "gb10_calibration"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gb10_calibration", PLACE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_statement_holds(example: ModuleType, tmp_path: Path) -> None:
    data = yaml.safe_load((PLACE / "published.yaml").read_text())
    stock = example.stock_tree(tmp_path)
    path, tile = example.calibrate_path(data, stock), example.calibrate_tile(data)
    held = example.statements(path, tile, example.against_published(path, stock))
    assert [s for s, holds in held.items() if not holds] == []
    assert len(held) == 7
    assert path.checked.ok
    assert tile.checked.ok


def test_without_the_lost_row_the_cap_would_be_384(example: ModuleType, tmp_path: Path) -> None:
    """The cap is the data's doing: had 3072x3072 won at M = 384, it would be higher."""
    data = yaml.safe_load((PLACE / "published.yaml").read_text())
    data["path"]["above"]["lost"]["ratios"] = [1.1] * 5
    path = example.calibrate_path(data, example.stock_tree(tmp_path))
    assert [r.candidate.cap for r in path.patch.rules] == [384]


def test_had_the_third_shape_won_the_wide_tile_would_go(example: ModuleType) -> None:
    """The rejection of a rule for 128x128-64 is the data's doing too."""
    data = yaml.safe_load((PLACE / "published.yaml").read_text())
    third = data["tile"]["rechecked"][0]
    third["passes"] = [1.142] * 7
    tile = example.calibrate_tile(data)
    moved = [c for c, outcome in tile.outcomes() if c.choices.incumbent == "128x128-64" and outcome != "128x128-64"]
    assert len(moved) >= 3
