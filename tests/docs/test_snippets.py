"""The code in the docs runs; and the runner would notice if it did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import snippets

ROOT = Path(__file__).resolve().parents[2]
EVERY = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PAGES = [page for page in EVERY if "<!-- runs" in page.read_text(encoding="utf-8")]
PROGRAMS = [
    pytest.param(page, program, id=f"{page.stem}-{program.language}-{program.line}")
    for page in PAGES
    for program in snippets.programs(page)
]


def test_the_guides_for_users_have_code_that_runs() -> None:
    users = {"README", "index", "command", "checkpoints", "transformers", "torch-compile"}
    changes = {"add-a-family", "add-a-tile", "add-an-arch", "change-a-rule", "embed-the-generator", "prove"}
    assert users | changes <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.stem)
def test_every_block_runs_or_says_why_not(page: Path) -> None:
    assert [f"{page.name}:{line}" for line in snippets.unmarked(page)] == []


@pytest.mark.parametrize(("page", "program"), PROGRAMS)
def test_snippets_run(page: Path, program: snippets.Snippet, tmp_path: Path) -> None:
    if program.missing:
        pytest.skip(f"needs {', '.join(program.missing)}")
    done = snippets.run(program, page, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def write(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


def test_a_failing_block_fails_at_its_line(tmp_path: Path) -> None:
    text = "# A\n\n<!-- runs -->\n```python\nx = 1\n```\n\n```python\n1 / 0\n```\n"
    text += "\n<!-- runs -->\n```python\nassert x == 2\n```\n"
    page = write(tmp_path, text)
    (program,) = snippets.programs(page)
    done = snippets.run(program, page, tmp_path)
    assert done.returncode == 1
    assert "line 14, in <module>" in done.stderr and "AssertionError" in done.stderr


def test_a_failing_command_fails(tmp_path: Path) -> None:
    page = write(tmp_path, "<!-- runs -->\n```sh\nfalse\necho not reached\n```\n")
    (program,) = snippets.programs(page)
    done = snippets.run(program, page, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")


def test_blocks_in_a_tree_are_one_session(tmp_path: Path) -> None:
    text = "<!-- runs in the specs -->\n```sh\nWORD=here\nrm specs/grid.yaml\n```\n\n"
    text += "<!-- runs in the specs -->\n```sh\necho $WORD\ngit status --short\ntilewright --version\n```\n"
    page = write(tmp_path, text)
    (program,) = snippets.programs(page)
    done = snippets.run(program, page, tmp_path)
    assert done.stdout.splitlines()[:2] == ["here", " D specs/grid.yaml"], done.stderr
    assert done.stdout.splitlines()[2].startswith("tilewright, version")
    assert (snippets.ROOT / "specs" / "grid.yaml").is_file()


def test_blocks_without_a_mark_are_found(tmp_path: Path) -> None:
    text = "# A\n\n```sh\ntrue\n```\n\n<!-- not run: no -->\n```sh\ntrue\n```\n\n1. B\n   ```python\n   1\n   ```\n"
    assert snippets.unmarked(write(tmp_path, text + "\n<!-- not run: -->\n```sh\nx\n```\n")) == [3, 13, 18]


@pytest.mark.parametrize("text", ["<!-- runs -->\n\n```sh\ntrue\n```\n", "<!-- runs -->\n```yaml\na: 1\n```\n"])
def test_a_mark_that_marks_nothing_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="without a python or sh block"):
        snippets.read(write(tmp_path, text))


def test_needs_are_looked_up(tmp_path: Path) -> None:
    (block,) = snippets.read(write(tmp_path, "<!-- runs: pytest no_such_package -->\n```python\npass\n```\n"))
    assert block.missing == ("no_such_package",)
