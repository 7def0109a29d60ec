"""B32: a wheel without a bound on torch that links one torch's C++: another one gives `undefined symbol`."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from .support import ROOT, run_python


def test_the_metadata_bounds_torch_and_cmake_does_not_look_for_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.M | re.S)
    assert block is not None
    (torch_,) = [Requirement(r) for r in re.findall(r'"([^"]+)"', block[1]) if r.startswith("torch")]
    assert torch_.specifier == SpecifierSet(">=2.10")
    for file in (ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")):
        assert "find_package(Torch" not in file.read_text()


def test_every_symbol_of_torch_is_looked_up_by_name_and_its_absence_named() -> None:
    """No header of torch is included, so that no mangled name can be asked for; the shim says what it misses."""
    for file in (ROOT / "csrc_templates/src").iterdir():
        text = file.read_text("utf-8")
        assert not re.search(r"#include\s*[<\"](?:torch|ATen|c10)/", text), file
    shim = (ROOT / "csrc_templates/src/binding_shim.cpp").read_text()
    assert "dlsym" in shim
    assert re.search(r"torch \w* ?2\.10|2\.10", shim + (ROOT / "csrc_templates/src/binding_shim.h").read_text())


def test_the_order_of_imports_does_not_matter() -> None:
    for first, second in (("tilewright", "torch"), ("torch", "tilewright")):
        code = f"import {first}, {second}, torch\nprint(torch.ops.tilewright.gemm_4bit.default.name())"
        assert run_python(code).stdout.split() == ["tilewright::gemm_4bit"]


def test_a_library_that_does_not_fit_is_named_with_the_reason(tmp_path: Path) -> None:
    """Whatever the loader says of a library is repeated, and every op still answers in plain torch."""
    broken = tmp_path / "_native.so"
    broken.write_bytes(b"\x7fELF" + bytes(60))
    code = (
        "import tilewright._library as library, pathlib, sys\n"
        "library._find = lambda: pathlib.Path(sys.argv[1])\n"
        "found = library.load()\n"
        "print(found.loaded, found.reason)\n"
    )
    done = run_python(code, str(broken))
    assert done.stdout.startswith("False _native.so does not load: "), done.stderr
