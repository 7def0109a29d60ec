"""B02: a target is asked for, accepted, and folded into another one, because two lists kept by hand lack it.

Reported: 107-real went into the cache and no image for it into the library; 103 likewise.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tilewright_codegen.archs import ArchTokenError, check_toolkit
from tilewright_codegen.binary import compare, parse_symbols, read_expected
from tilewright_codegen.variants import parse_archs

from .support import ROOT, render, specs

ASKED = "80;90a;100a;103a;107a;120a;121a"
IMAGES = ["sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_120a", "sm_121a"]


def test_what_is_asked_for_is_what_is_compiled_and_what_the_library_must_hold(tmp_path: Path) -> None:
    assert [a.image for a in parse_archs(ASKED, specs())] == IMAGES
    out = render(ASKED, tmp_path)
    for held in json.loads((out / "images.json").read_text())["families"].values():
        assert list(held) == IMAGES
    compiled = set(re.findall(r"\b(\d+[af]?)-real", (out / "archs.cmake").read_text()))
    assert compiled == {image.removeprefix("sm_") for image in IMAGES}


def test_the_library_is_read_back_and_a_missing_image_is_a_fault(tmp_path: Path) -> None:
    expected = read_expected(render(ASKED, tmp_path) / "images.json")
    kernel = "_ZN1xINS_14Gemm4bitConfigINS_9gemm_4bit11Tile_simt_1E6__halfEEEvv"
    line = f"FUNC          GLOBAL  DEFAULT    ENTRY                                {kernel}\n"
    held = [i for i in IMAGES if i != "sm_107a"]
    text = "".join(f"\nFatbin elf code:\n================\narch = {i}\n\nsymbols:\n{line}" for i in held)
    problems = compare(expected, parse_symbols(text))
    assert any(
        p.startswith("sm_107a: asked for, but the library has no machine code for it (gemm_4bit") for p in problems
    )


@pytest.mark.parametrize(
    ("token", "text"), [("107-real", "leave out '-real'"), ("107", "ask for 107a or 107f"), ("108a", "108a")]
)
def test_other_spellings_are_refused_and_not_folded(token: str, text: str) -> None:
    with pytest.raises(ArchTokenError, match=text) as raised:
        parse_archs(token, specs())
    assert f"'{token}'" in str(raised.value)
    assert [a.image for a in parse_archs("107f", specs())] == ["sm_107f"]


def test_an_older_compiler_is_refused_with_the_one_that_is_needed() -> None:
    archs = parse_archs(ASKED, specs())
    check_toolkit(archs, "13.4")
    with pytest.raises(ArchTokenError, match=r"'107a': sm_107a needs CUDA 13\.4 or newer; the compiler is 13\.0"):
        check_toolkit(archs, "13.0")


def test_the_specs_are_the_only_list_of_archs() -> None:
    """No other source file names targets one by one: a second list would be one that can lack something."""
    files = [
        *ROOT.glob("codegen/**/*.py"),
        *ROOT.glob("cmake/*.cmake"),
        ROOT / "CMakeLists.txt",
        *ROOT.glob("scripts/*.py"),
    ]
    for file in files:
        text = file.read_text("utf-8")
        listed = re.findall(r"\b\d{2,3}[af]?\b(?:[;, ]+\b\d{2,3}[af]?\b){4,}", text)
        assert not [t for t in listed if "80" in t and "90" in t], file
