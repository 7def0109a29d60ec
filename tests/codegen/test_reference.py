"""The key reference says something about every key that the models accept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright_codegen.models import TILE_MODELS, SpecModel
from tilewright_codegen.reference import attribute_docstrings, reference
from tilewright_codegen.tree import MODELS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("model", [*MODELS.values(), *TILE_MODELS.values()], ids=lambda m: m.__name__)
def test_every_key_has_a_row_with_a_meaning(model: type[SpecModel]) -> None:
    text = reference()
    meanings = attribute_docstrings(model)
    for name, field in model.model_fields.items():
        assert meanings.get(name), f"{model.__name__}.{name} has no docstring"
        meaning = " ".join(meanings[name].split())
        assert any(line.startswith(f"| `{field.alias or name}` |") and meaning in line for line in text.splitlines())


def test_the_committed_page_is_current() -> None:
    assert (ROOT / "specs" / "README.md").read_text("utf-8") == reference()


def test_check_notices_a_stale_page(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    command = [sys.executable, "-m", "tilewright_codegen", "reference", "--write", str(page)]
    page.write_text("stale")
    stale = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert stale.returncode == 1
    assert "tilewright reference --write" in stale.stderr
    assert page.read_text() == "stale"
    subprocess.run(command, check=True)
    assert page.read_text("utf-8") == reference()
