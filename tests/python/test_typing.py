"""The public interface is typed: a user's program passes mypy strict, and a wrong one does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import torch

import tilewright
from tilewright import checkpoint


def serve(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    report: tilewright.ConvertReport = tilewright.convert(model, quant_type="nf4", include=["*.mlp.*"])
    names: tuple[str, ...] = report.converted
    print(names, report.skipped.get("lm_head"))
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 64), nested=True)
    packed, state = tilewright.quantize_4bit(torch.randn(8, 64), blocksize=64)
    shape: tuple[int, int] = state.shape
    print(shape, tilewright.dequantize_4bit(packed, state, dtype=torch.float16).dtype)
    saved: dict[str, torch.Tensor] = checkpoint.to_bitsandbytes(layer, prefix="up.")
    twin: tilewright.Linear4bit = checkpoint.from_bitsandbytes(saved, prefix="up.")
    print(checkpoint.load(model, saved, ignore=["*.k_scale"]).bitsandbytes, twin)
    why: tilewright.Reasons = tilewright.explain(1, 8, 64, arch="sm90")
    with tilewright.force_tile("fallback"):
        out: torch.Tensor = tilewright.gemm_4bit(x, packed, state)
    last: tilewright.Decision | None = tilewright.last_decision()
    print(why.tile, None if last is None else last.tile)
    return out
"""
WRONG = """
import torch
import tilewright

tilewright.convert(torch.nn.Linear(1, 1), blocksize="64")
tilewright.quantize_4bit(torch.randn(8, 64)).state
"""


@pytest.mark.slow
def test_a_users_program_is_typed(tmp_path: Path) -> None:
    assert (Path(tilewright.__file__).parent / "py.typed").is_file()
    api = pytest.importorskip("mypy.api", reason="needs mypy")
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    cache = ROOT / ".mypy_cache" / "programs"
    options = ["--strict", "--config-file", "", "--cache-dir", str(cache), "--no-error-summary"]
    text, _, code = api.run([*options, str(tmp_path / "right.py"), str(tmp_path / "wrong.py")])
    assert code == 1
    assert "right.py" not in text, text
    assert 'Argument "blocksize" to "convert" has incompatible type "str"' in text
    assert 'has no attribute "state"' in text
