"""B09: a wheel that imports and whose first call fails, because its images do not run on the card."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright import _doctor, _machine, _ops

from .support import ON_GPU, host_program, needs_compiler, run_python

ORIN = _machine.Device(0, "Jetson AGX Orin", (8, 7), 16, 32 << 30)


@needs_compiler
@pytest.mark.parametrize(("archs", "expected"), [("90a", "none"), ("87;90a", "sm_87 sm87"), ("80+PTX", "sm_80 sm80")])
def test_images_on_an_orin(archs: str, expected: str, tmp_path: Path) -> None:
    assert host_program("serve.cpp", archs, tmp_path)("8.7") == [expected]


def test_an_image_of_its_own_is_part_of_every_set_for_that_card() -> None:
    """Reports contradict each other on whether an 8.0 image runs on 8.7: no shipped set relies on it."""
    from tilewright_codegen.variants import parse_archs

    from .support import specs

    for variant in specs().variants:
        archs = parse_archs(variant.name, specs())
        if variant.name in ("all", "jetson"):
            assert "sm_87" in [a.image for a in archs]


def test_the_report_of_a_machine_names_card_images_and_platform() -> None:
    machine = _machine.look()
    found = _machine.Machine(**{**machine.__dict__, "devices": (ORIN,), "no_devices": ""})
    text = str(_doctor.examine(found, run=False))
    for part in ("Jetson AGX Orin", "8.7", machine.system.split(",")[0]):
        assert part in text


UNSERVED = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import torch, tilewright
    x, dense = torch.randn(5, 128, device="cuda"), torch.randn(72, 128, device="cuda")
    for _ in range(2):
        packed, state = tilewright.quantize_4bit(dense)
        exact = tilewright.dequantize_4bit(packed, state)
        error = (tilewright.gemm_4bit(x, packed, state) - x @ exact.T).norm() / (x @ exact.T).norm()
        a, scale_a = tilewright.quantize_fp8(x)
        b, scale_b = tilewright.quantize_fp8(dense)
        wanted = tilewright.dequantize_fp8(a, scale_a) @ tilewright.dequantize_fp8(b, scale_b).T
        found = tilewright.gemm_fp8(a, b, scale_a, scale_b, out_dtype=torch.float32)
        other = (found - wanted).norm() / wanted.norm()
        first, second = tilewright.quantize_nvfp4(x), tilewright.quantize_nvfp4(dense)
        wanted = tilewright.dequantize_nvfp4(first) @ tilewright.dequantize_nvfp4(second).T
        found = tilewright.gemm_nvfp4(first, second, out_dtype=torch.float32)
        print(float(error) < 1e-4, float(other) < 1e-4, float((found - wanted).norm() / wanted.norm()) < 1e-4)
ours = [str(w.message) for w in said if "tilewright" in str(w.message)]
print(len(ours), tilewright.last_decision().path)
print(ours[0])
"""


@pytest.mark.gpu
@pytest.mark.skipif(
    not ON_GPU or _ops.NATIVE.refusal(0) is None, reason="needs a card that no image of the library runs on"
)
def test_a_card_that_nothing_runs_on_is_served_by_plain_torch_with_one_warning() -> None:
    """Also where only PTX is left and the driver refuses to translate it."""
    done = run_python(UNSERVED, CUDA_MODULE_LOADING="LAZY")
    lines = done.stdout.splitlines()
    assert lines[:3] == ["True True True", "True True True", "1 torch"], done.stdout + done.stderr[-2000:]
    assert "tilewright runs in plain torch: cuda:0 has compute capability" in lines[3], lines
