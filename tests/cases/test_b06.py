"""B06: one chip, two numbers. Thor was 10.1 up to CUDA 12.9 and is 11.0 since 13.0."""

from __future__ import annotations

import pytest

from tilewright_codegen.archs import ArchTokenError, check_toolkit
from tilewright_codegen.variants import parse_archs

from .support import specs

LEAST = {"100f": "12.9", "103a": "12.9", "107a": "13.4", "110a": "13.0", "120f": "12.9", "121a": "12.9"}


@pytest.mark.parametrize("token", ["10.1", "101a", "8.7;10.1a"])
def test_the_old_number_is_refused_with_the_new_one(token: str) -> None:
    with pytest.raises(ArchTokenError, match=r"compute capability 10\.1 is 11\.0 since CUDA 13\.0; ask for 110a"):
        parse_archs(token, specs())


def test_the_new_one_needs_the_compiler_that_knows_it() -> None:
    archs = parse_archs("8.7;11.0a", specs())
    assert [a.image for a in archs] == ["sm_87", "sm_110a"]
    check_toolkit(archs, "13.0")
    with pytest.raises(ArchTokenError, match=r"sm_110a needs CUDA 13\.0 or newer; the compiler is 12\.9"):
        check_toolkit(archs, "12.9")


@pytest.mark.parametrize(("token", "least"), LEAST.items())
def test_every_target_knows_its_oldest_compiler(token: str, least: str) -> None:
    archs = parse_archs(token, specs())
    check_toolkit(archs, least)
    major, minor = map(int, least.split("."))
    older = f"{major}.{minor - 1}" if minor else f"{major - 1}.9"
    with pytest.raises(ArchTokenError, match=f"needs CUDA {least} or newer; the compiler is {older}"):
        check_toolkit(archs, older)
