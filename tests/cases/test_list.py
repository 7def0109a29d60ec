"""Every case of the page has its test, every test its line."""

from __future__ import annotations

import re

from .support import ROOT

PAGE = (ROOT / "docs/robustness.md").read_text("utf-8")


def test_one_line_and_one_test_a_case() -> None:
    lines = re.findall(r"^\| (B\d\d) \|.*\| `(test_b\d\d\.py)` \|$", PAGE, re.M)
    files = {p.name for p in (ROOT / "tests/cases").glob("test_b*.py")}
    assert len(lines) == len(files) == 27
    assert {file for _, file in lines} == files
    for case, file in lines:
        assert file == f"test_{case.lower()}.py"
        assert (ROOT / "tests/cases" / file).read_text("utf-8").startswith(f'"""{case}: ')


def test_every_other_file_that_the_page_names_is_there() -> None:
    for name in re.findall(r"`((?:tests|benchmarks|evidence|\.github)/[\w./-]+)`", PAGE):
        assert (ROOT / name).exists(), name
