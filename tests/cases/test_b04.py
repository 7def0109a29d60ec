"""B04: tokens of an arch list matched as text. "12.1" holds "2.1"; a list with 10.0 and 10.0a loses plain 10.0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright_codegen.archs import ArchTokenError
from tilewright_codegen.ir import FALLBACK, Cap, Choice
from tilewright_codegen.variants import parse_archs

from .support import render, specs


def images(text: str) -> list[str]:
    return [a.image for a in parse_archs(text, specs())]


def test_tokens_are_matched_whole() -> None:
    assert images("12.1a") == ["sm_121a"]
    for token in ("2.1", "12.10", "1.2", "121.0", "12.1.0"):
        with pytest.raises(ArchTokenError) as raised:
            images(token)
        assert f"'{token}'" in str(raised.value)


def test_two_targets_of_one_capability_both_survive() -> None:
    assert images("10.0f 10.0a") == ["sm_100f", "sm_100a"] or images("10.0f 10.0a") == ["sm_100a", "sm_100f"]
    assert images("8.0;9.0a;10.0f;12.0f") == ["sm_80", "sm_90a", "sm_100f", "sm_120f"]
    assert images("9.0a;10.0f;12.0f") == ["sm_90a", "sm_100f", "sm_120f"]


def test_the_reported_list_is_refused_token_by_token() -> None:
    with pytest.raises(ArchTokenError) as raised:
        images("7.5 8.0 8.6 8.7 8.9 9.0a 10.0 10.0a 12.0 12.1+PTX")
    quoted = [line.split("'")[1] for line in str(raised.value).splitlines()]
    assert quoted == ["7.5", "10.0", "12.0", "12.1+PTX"]


def test_a_family_is_without_code_only_where_its_rules_never_ask_for_any(tmp_path: Path) -> None:
    held = json.loads((render("80;121a", tmp_path) / "images.json").read_text())["families"]
    assert set(held) == set(specs().families)
    for name, by_image in held.items():
        path = specs().families[name].layer_by_name["path"]
        for image, arch in (("sm_80", "sm80"), ("sm_121a", "sm121")):
            asked = any(rule.outcome not in (Cap(0), Choice(FALLBACK)) for rule in path.effective(arch))
            assert bool(by_image[image]) == asked, (name, image)
