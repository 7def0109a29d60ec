"""B07: an instruction that only an `a` or `f` target has, compiled for the plain one: it aborts on the device."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright_codegen.archs import ArchTokenError
from tilewright_codegen.validate import validate
from tilewright_codegen.variants import parse_archs

from .support import ROOT, specs


@pytest.mark.parametrize("token", ["90", "100", "103", "107", "110", "120", "121"])
def test_a_plain_target_of_such_a_card_is_refused(token: str) -> None:
    for text in (token, f"{token};{token}a"):
        with pytest.raises(ArchTokenError, match="a plain target lacks; ask for"):
            parse_archs(text, specs())


@pytest.mark.parametrize(("arch", "target"), [("sm90", "sm_90a"), ("sm100", "sm_100f"), ("sm120", "sm_120f")])
def test_a_profile_cannot_name_one_either(arch: str, target: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs", ignore=shutil.ignore_patterns("examples"))
    file = tmp_path / "specs" / "archs" / f"{arch}.yaml"
    text = file.read_text()
    assert f"gencode: {target}" in text
    if arch == "sm120":  # the engine that the reports are about
        text = text.replace("mma_m16n8k16]", "mma_m16n8k16, mma_block_scaled]")
    file.write_text(text.replace(f"gencode: {target}", f"gencode: {target[:-1]}"))
    wanted = f"{arch}: the plain target {target[:-1]} has no instructions for "
    found = [d for d in validate(tmp_path / "specs").diagnostics if d.message.startswith(wanted)]
    assert [(d.code, d.location.path.endswith(file.name)) for d in found] == [("E209", True)]
