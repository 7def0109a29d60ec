"""B09: a wheel that imports and whose first call fails, because its images do not run on the card."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright import _doctor, _machine

from .support import host_program, needs_compiler

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
