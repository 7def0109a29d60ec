"""The site builds without a warning, and holds its pages, its pictures and a search index."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="needs mkdocs-material: pip install tilewright[docs]"
)


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib", reason="the decision maps need it")
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there_and_searchable(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in (ROOT / "docs").glob("**/*.md")}
    generated = {f"reference/{name}" for name in ("python", "keys", "codes", "matrix", "maps", "provenance")}
    assert {"" if name == "index" else f"{name}/" for name in pages | generated} <= found
    text = " ".join(entry["text"] for entry in index["docs"])
    for word in ("from_bitsandbytes", "E300", "smem_optin_bytes", "sm121", "gb10-2026-08", "k-multiple-16"):
        assert word in text, word


def test_pictures_and_local_files_exist(site: Path) -> None:
    pages = list(site.glob("**/index.html"))
    assert len(pages) > 10
    pictures = 0
    for page in pages:
        html = page.read_text()
        for target in re.findall(r'(?:src|href)="([^"#?]+)["#?]', html):
            if not target.startswith(("http", "data:", "mailto:", "/")):
                assert (page.parent / target).exists(), f"{page.relative_to(site)}: {target}"
        pictures += html.count('src="../map-')
        assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', html.replace('rel="canonical"', ""))
    assert pictures >= 4


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page = tmp_path / "docs" / "command.md"
    page.write_text(page.read_text() + "\n[nowhere](no-such-page.md)\n")
    text = (ROOT / "mkdocs.yml").read_text()
    # Without the generated pages: they are not what is tested here, and they take time.
    text = text.replace("hooks: [scripts/docs_hooks.py]\n", "")
    text = re.sub(r"  - Reference:\n(?: {6}.*\n)+", "", text)
    config = tmp_path / "mkdocs.yml"
    config.write_text(text)
    done = build(config, tmp_path / "site")
    assert done.returncode != 0
    assert "no-such-page.md" in done.stdout + done.stderr
