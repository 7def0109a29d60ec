"""Arch tokens: matched whole, refused by name, nothing dropped in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright_codegen.archs import NAMED_SETS, ArchTokenError, check_toolkit, parse_arch_tokens
from tilewright_codegen.images import images_of
from tilewright_codegen.models.arch import ArchProfile
from tilewright_codegen.tree import load_tree

SPECS = Path(__file__).resolve().parents[2] / "specs"


@pytest.fixture(scope="module")
def profiles() -> list[ArchProfile]:
    return [arch.profile for arch in load_tree(str(SPECS)).archs.values()]


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("90a", ["sm_90a"]),
        ("80;90a;107a", ["sm_80", "sm_90a", "sm_107a"]),
        ("107a, 90a 80;", ["sm_80", "sm_90a", "sm_107a"]),
        ("sm_90a", ["sm_90a"]),
        ("9.0a 10.0f;12.1a", ["sm_90a", "sm_100f", "sm_121a"]),
        ("100f;100a", ["sm_100a", "sm_100f"]),
        ("107f", ["sm_107f"]),
        ("90a;8.9+PTX;80", ["sm_80", "sm_89", "sm_90a", "compute_89"]),
        ("89;sm_89+PTX", ["sm_89", "compute_89"]),
        ("80+PTX;86+PTX", ["sm_80", "sm_86", "compute_80", "compute_86"]),
        ("small", ["sm_80", "sm_90a"]),
        ("80;90a;100a;103a;107a;120a;121a", ["sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_120a", "sm_121a"]),
    ],
)
def test_valid(profiles: list[ArchProfile], text: str, images: list[str]) -> None:
    assert [image.name for image in images_of(parse_arch_tokens(text, profiles))] == images


def test_all_is_every_profile_with_code(profiles: list[ArchProfile]) -> None:
    found = {arch.profile.name for arch in parse_arch_tokens("all", profiles)}
    assert found == {profile.name for profile in profiles if profile.gencode is not None}


@pytest.mark.parametrize("name", NAMED_SETS)
def test_named_sets_name_known_archs(profiles: list[ArchProfile], name: str) -> None:
    assert parse_arch_tokens(name, profiles)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("8.0a", "there is no target sm_80a for sm80; ask for 80"),
        ("86a", "there is no target sm_86a"),
        ("9.0f", "there is no target sm_90f for sm90; ask for 90a"),
        ("90", "a plain target lacks; ask for 90a"),
        ("120", "a plain target lacks; ask for 120f or 120a"),
        ("12.10", "is not understood"),
        ("2.1", "no arch of the specs has cc 2.1"),
        ("7.0a", "no arch of the specs has cc 7.0"),
        ("88", "no arch of the specs has cc 8.8"),
        ("sm_90A", "did you mean 'sm_90a'"),
        ("9.0A", "did you mean '9.0a'"),
        ("All", "did you mean 'all'"),
        ("Hopper", "is not understood; expected one of 80"),
        ("9.0.a", "is not understood"),
        ("101a", "compute capability 10.1 is 11.0 since CUDA 13.0; ask for 110a"),
        ("107-real", "leave out '-real'"),
        ("89-virtual", "did you mean '89\\+PTX'"),
        ("89+ptx", "did you mean '89\\+PTX'"),
        ("90a+PTX", "PTX of a target with 'a' runs on no later device; ask for 89\\+PTX"),
        ("12.0f+PTX", "PTX of a target with 'f' runs on no later device; ask for 89\\+PTX"),
        ("90+PTX", "a plain target lacks; ask for 90a"),
        ("88+PTX", "no arch of the specs has cc 8.8"),
        ("small+PTX", "stands behind one arch, not behind 'small'"),
        ("89+PTX+PTX", "is not understood"),
        ("89+", "is not understood"),
        ("+PTX", "is not understood"),
        ("90ab", "is not understood"),
    ],
)
def test_refused_by_name(profiles: list[ArchProfile], token: str, message: str) -> None:
    with pytest.raises(ArchTokenError, match=message) as raised:
        parse_arch_tokens(f"80;{token}", profiles)
    assert f"arch token '{token}'" in str(raised.value)


def test_every_bad_token_is_reported(profiles: list[ArchProfile]) -> None:
    with pytest.raises(ArchTokenError) as raised:
        parse_arch_tokens("8.0a 90a Volta", profiles)
    assert [line.split("'")[1] for line in str(raised.value).splitlines()] == ["8.0a", "Volta"]


@pytest.mark.parametrize("text", ["", " ; ,"])
def test_empty(profiles: list[ArchProfile], text: str) -> None:
    with pytest.raises(ArchTokenError, match="is empty"):
        parse_arch_tokens(text, profiles)


def test_duplicates_are_noted(profiles: list[ArchProfile]) -> None:
    notes: list[str] = []
    assert len(parse_arch_tokens("80;8.0;90a", profiles, notes.append)) == 2
    assert notes == ["arch token '8.0' repeats '80'"]


def test_ptx_beside_its_machine_code_is_no_repetition(profiles: list[ArchProfile]) -> None:
    notes: list[str] = []
    assert len(parse_arch_tokens("89;8.9+PTX;89;89+PTX", profiles, notes.append)) == 1
    assert notes == ["arch token '89' repeats '8.9+PTX'", "arch token '89+PTX' repeats '8.9+PTX'"]


def test_the_compiler_must_know_the_target(profiles: list[ArchProfile]) -> None:
    archs = parse_arch_tokens("80;103a;107a;110a", profiles)
    check_toolkit(archs, "13.5")
    with pytest.raises(
        ArchTokenError, match=r"arch token '107a': sm_107a needs CUDA 13\.4 or newer; the compiler is 13\.0"
    ):
        check_toolkit(archs, "13.0")
    with pytest.raises(ArchTokenError) as raised:
        check_toolkit(archs, "12.8")
    assert [line.split("'")[1] for line in str(raised.value).splitlines()] == ["103a", "107a", "110a"]
