"""The real-model example on the CPU: nf4 weights keep the embeddings and the retrieval of the fp32 model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_nf4_keeps_similarity_and_ranking(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    command = [sys.executable, str(ROOT / "examples" / "minilm_nf4.py"), "--device", "cpu", "--json", str(out)]
    environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "ran on: CPU" in result.stdout
    report = json.loads(out.read_text())
    assert report["ran_on"] == "CPU"
    assert report["sentences"] >= 50
    assert report["linears"] == 37
    assert report["bytes_after"] * 6 < report["bytes_before"]
    assert all(layer["nrmse"] < 1e-6 for layer in report["layers"])
    assert report["quality"]["cosine_min"] >= 0.95
    assert report["quality"]["cosine_mean"] >= 0.97
    assert report["quality"]["top1_same"] == 1.0
