"""The comparisons of benchmarks/gpu_fuzz.py, on the CPU: they pass what is right and notice one wrong element."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import tilewright

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CPU = torch.device("cpu")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The scripts' modules, with small operands."""
    names = ("bounds", "fuzz_pool", "fuzz_gemm_4bit", "fuzz_gemm_fp8", "fuzz_gemm_nvfp4")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = {name: importlib.import_module(name) for name in names}
    near = found["fuzz_pool"].near
    monkeypatch.setattr(found["fuzz_pool"], "near", lambda rng, choices, by=3: min(near(rng, choices, by), 160))
    monkeypatch.setattr(found["fuzz_pool"], "row_count", lambda rng: rng.randint(0, 70))
    monkeypatch.setattr(found["fuzz_pool"], "SIZE", 8 << 20)
    yield found
    for name in names:
        sys.modules.pop(name, None)


def ratios(family: object, calls: int) -> list[float]:
    """Errors over the limit of some calls."""
    found = [family.call(random.Random(number)).ratio for number in range(calls)]  # type: ignore[attr-defined]
    return [float(ratio) for ratio in found if ratio is not None]


FAMILIES = {
    "GemmFp8": ("fuzz_gemm_fp8", "gemm_fp8"),
    "GemmFp8Grouped": ("fuzz_gemm_fp8", "gemm_fp8_grouped"),
    "QuantizeFp8": ("fuzz_gemm_fp8", "quantize_fp8"),
    "QuantizeNvfp4": ("fuzz_gemm_nvfp4", "quantize_nvfp4"),
    "Quantize4bit": ("fuzz_gemm_4bit", "quantize_4bit"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_right_calls_pass_and_a_wrong_element_is_noticed(
    name: str, modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, op = FAMILIES[name]
    torch.manual_seed(3)
    family = getattr(modules[module], name)(random.Random(3), CPU, 6)
    right = ratios(family, 24)
    assert len(right) > 12 and max(right) <= 1.0
    if name.startswith("Gemm"):
        assert family.poison.calls > 12
    real = getattr(tilewright, op)

    def wrong(*given: object, **named: object) -> object:
        out = real(*given, **named)
        spoil = out if isinstance(out, torch.Tensor) else (out[0] if isinstance(out, tuple) else out.codes)
        if spoil.numel():
            flat = spoil.reshape(-1)
            last = flat[:1] if name.endswith("Grouped") else flat[-1:]
            last.copy_(last.float() + 1) if spoil.dtype in (
                torch.float16,
                torch.bfloat16,
                torch.float32,
            ) else last.view(torch.uint8).bitwise_xor_(1)
        return out

    monkeypatch.setattr(tilewright, op, wrong)
    assert sum(ratio > 1.0 for ratio in ratios(family, 24)) > 10


def test_bounds_are_near_the_errors_of_rounding(modules: dict[str, ModuleType]) -> None:
    bounds = modules["bounds"]
    torch.manual_seed(0)
    a, b = torch.randn(40, 512), torch.randn(70, 512)
    spread = a.norm(dim=1, keepdim=True) * b.norm(dim=1)
    exact = a @ b.T
    rounded = (a.bfloat16().float() @ b.bfloat16().float().T).bfloat16()
    ratio = float(bounds.over_limit(rounded, exact, spread, 512, 2 * bounds.UNIT[torch.bfloat16]))
    assert 0.05 < ratio < 0.7
    for value in (float("nan"), float(exact[3, 5]) + 2.0):
        spoiled = rounded.clone()
        spoiled[3, 5] = value
        assert not float(bounds.over_limit(spoiled, exact, spread, 512, 2 * bounds.UNIT[torch.bfloat16])) <= 1.0
    assert float(bounds.norm_over_limit(rounded, exact, spread, 512, 8e-3)) < 1.0
    assert float(bounds.norm_over_limit(rounded * 1.02, exact, spread, 512, 8e-3)) > 1.0


def test_bytes_are_compared_with_their_shape_and_type(modules: dict[str, ModuleType]) -> None:
    bounds = modules["bounds"]
    zero, negative, nan = torch.zeros(3), -torch.zeros(3), torch.full((3,), float("nan"))
    assert float(bounds.bytes_differ(zero, zero.clone())) == 0.0
    for other in (negative, zero[:2], zero.half()):
        assert float(bounds.bytes_differ(zero, other)) > 1.0
    assert float(bounds.values_differ(nan, -nan)) == 0.0 and float(bounds.values_differ(nan, zero)) > 1.0


def test_the_command_reports_every_family_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(BENCHMARKS / "gpu_fuzz.py"), "--device", "cpu", "--calls", "2", "--weights", "1"]
    asked = ["quantize_fp8", "quantize_nvfp4"]
    chosen = [word for name in asked for word in ("--family", name)]
    done = subprocess.run([*command, *chosen, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text("utf-8"))["families"]
    assert [(row["family"], row["calls"], row["failed"]) for row in rows] == [(name, 2, 0) for name in asked]
