"""B05: suffixes. "9.0a" was dropped in silence, "8.0a" became a flag that no compiler takes, int("120a") crashed."""

from __future__ import annotations

import pytest

import tilewright
from tilewright_codegen.archs import ArchTokenError, parse_arch_tokens
from tilewright_codegen.variants import parse_archs

from .support import run_python, specs

VALID = ["9.0a", "10.0a", "10.3a", "12.0a", "12.1a", "10.0f", "12.0f"]
WRONG = [
    "7.0a",
    "7.5a",
    "8.0a",
    "8.6a",
    "8.7a",
    "8.9a",
    "9.0f",
    "9.0A",
    "Hopper",
    "All",
    "9.0.a",
    "90a-virtual",
    "9,0a",
]


@pytest.mark.parametrize("token", VALID)
def test_valid_tokens_keep_their_suffix(token: str) -> None:
    (arch,) = parse_archs(token, specs())
    assert arch.image == "sm_" + token.replace(".", "")
    assert parse_archs("sm_" + token.replace(".", ""), specs())[0].image == arch.image


@pytest.mark.parametrize("ptx", ["", "+PTX"])
@pytest.mark.parametrize("token", WRONG)
def test_impossible_ones_are_quoted(token: str, ptx: str) -> None:
    with pytest.raises(ArchTokenError) as raised:
        parse_archs(f"80;{token}{ptx}", specs())
    first = (token + ptx).split(",")[0]
    assert f"'{first}'" in str(raised.value)


@pytest.mark.parametrize("text", ["8.0;8.6;8.9;9.0a", "8.0,8.6,8.9,9.0a", "8.0 8.6 8.9 9.0a", "8.0;8.6;8.9;9.0a;"])
def test_separators(text: str) -> None:
    assert [a.image for a in parse_archs(text, specs())] == ["sm_80", "sm_86", "sm_89", "sm_90a"]


def test_a_card_that_no_code_is_built_for_is_no_target() -> None:
    profiles = [a.profile for a in specs().archs.values()]
    without = [p.model_copy(update={"gencode": None}) if p.name == "sm90" else p for p in profiles]
    assert [a.image for a in parse_arch_tokens("80", without)] == ["sm_80"]
    for token in ("90a", "9.0a"):
        with pytest.raises(ArchTokenError, match=f"'{token}'"):
            parse_arch_tokens(token, without)


def test_names_with_a_suffix_in_torch_are_no_concern_of_the_import() -> None:
    code = (
        "import torch\n"
        "torch.cuda.get_arch_list = lambda: ['sm_90', 'sm_100f', 'sm_120a', 'compute_120']\n"
        "import tilewright\n"
        "from tilewright._doctor import examine\n"
        "print(tilewright.build_info()['version'], examine(run=False).healthy)\n"
    )
    done = run_python(code)
    assert done.stdout.split() == [tilewright.__version__, "True"], done.stderr
