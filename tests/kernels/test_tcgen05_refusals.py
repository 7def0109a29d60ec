"""Problems that the tcgen05 launchers do not take are refused, with the documented code, before any device is asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .tcgen05_tiles import TILES
from .test_tcgen05_sass import INCLUDE, tool

HERE = Path(__file__).parent
ROLES = {"TileNvfp4": "nvfp4-1x1-c2", "TileFp8": "fp8-1x1-c2", "TileFp8Promote": "fp8-1x1-n128-promote"}


@pytest.mark.slow
def test_refusals_come_before_the_launch(tmp_path: Path) -> None:
    nvcc = tool("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc of CUDA 13.5")
    by_id = {tile.id: tile for tile in TILES}
    structs = [by_id[tile].struct(name) for name, tile in ROLES.items()]
    (tmp_path / "tcgen05_refusals_tiles.h").write_text(
        '#pragma once\n#include "tilewright/types.h"\n' + "".join(structs)
    )
    program = tmp_path / "refusals"
    target = ["-gencode", "arch=compute_100f,code=sm_100f", "-cudart", "static"]
    command = [nvcc, "-std=c++17", "-O1", f"-I{INCLUDE}", f"-I{tmp_path}", *target, HERE / "tcgen05_refusals.cu"]
    subprocess.run([*command, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
