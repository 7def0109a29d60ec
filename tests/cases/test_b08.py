"""B08: the host decides by the device, the machine code was made for something older.

Reported of a library for 89;121 on a 12.0 card: the 12.1 image does not load there, and 8.9 code ran under the rules of
12.x.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright_codegen.images import Image, images_of
from tilewright_codegen.variants import parse_archs

from .support import PROFILES, host_program, needs_compiler, specs

CASES = [
    ("89+PTX;121a", {"12.0": "compute_89 sm89", "12.1": "sm_121a sm121", "8.9": "sm_89 sm89"}),
    ("89;121a", {"12.0": "none", "12.1": "sm_121a sm121", "9.0": "none"}),
    ("80+PTX", {"9.0": "compute_80 sm80", "8.6": "sm_80 sm80", "7.5": "none"}),
    ("120a", {"12.1": "none", "12.0": "sm_120a sm120"}),
    ("120f", {"12.1": "sm_120f sm120", "12.0": "sm_120f sm120", "12.2": "none"}),
    ("100f;100a", {"10.0": "sm_100a sm100", "10.3": "sm_100f sm100", "10.7": "sm_100f sm100", "10.9": "none"}),
]


@needs_compiler
@pytest.mark.parametrize(("archs", "expected"), CASES, ids=[c[0] for c in CASES])
def test_the_rules_are_those_of_the_image_that_loads(archs: str, expected: dict[str, str], tmp_path: Path) -> None:
    found = host_program("serve.cpp", archs, tmp_path)(*expected)
    assert dict(zip(expected, found, strict=True)) == expected


@needs_compiler
def test_whatever_is_chosen_can_be_loaded(tmp_path: Path) -> None:
    """The runtime's choice is one of the images that serve the device, and there is none only where none serves."""
    archs = "80;86+PTX;90a;100f;103a;120f;121a"
    images = {i.name: i for i in images_of(parse_archs(archs, specs()))}
    asked = [*PROFILES, (7, 5), (8, 8), (9, 1), (10, 8), (12, 2), (13, 0)]
    found = host_program("serve.cpp", archs, tmp_path)(*("{}.{}".format(*cc) for cc in asked))
    for cc, line in zip(asked, found, strict=True):
        serving = [i for i in images.values() if i.serves(cc)]
        if line == "none":
            assert serving == []
            continue
        name, arch = line.split()
        chosen: Image = images[name]
        assert chosen in serving and chosen.arch == arch
        assert not chosen.ptx or all(i.ptx for i in serving)
