"""The files around the code: citation, changelog, licence, and the version that all of them name."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r'"(.+)"', (ROOT / "python" / "tilewright" / "_version.py").read_text().splitlines()[-1])


def test_the_citation_names_the_version_and_the_licence() -> None:
    assert VERSION is not None
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (VERSION[1], "Apache-2.0")
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]


@pytest.mark.skipif(importlib.util.find_spec("check_jsonschema") is None, reason="needs check-jsonschema")
def test_the_citation_fits_its_schema() -> None:
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format"]
    done = subprocess.run([*words, ROOT / "CITATION.cff"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_version_of_the_changelog_says_which_decisions_changed() -> None:
    assert VERSION is not None
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert versions[0].startswith(VERSION[1])
    for version in versions:
        assert re.match(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)$", version.splitlines()[0])
        (dispatch,) = re.findall(r"^### Dispatch\n\n(.+)", version, flags=re.MULTILINE)
        assert dispatch.strip()
