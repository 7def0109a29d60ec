"""The workflows are well formed, ask for few rights, and pin what they run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
USES = sorted({*WORKFLOWS, *GITHUB.glob("actions/*/action.yml")})
WRITES = {
    ("ci.yml", "comment"): {"pull-requests"},
    ("release.yml", "attest"): {"id-token", "attestations"},
    ("release.yml", "publish"): {"id-token"},
    ("release.yml", "assets"): {"contents"},
}
"""The only jobs that may write, and what."""


def _load(path: Path) -> dict[Any, Any]:
    data: dict[Any, Any] = yaml.safe_load(path.read_text())
    return data


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_nothing() -> None:
    _run(_tool("zizmor"), "--offline", "--persona=pedantic", "--no-progress", GITHUB)


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", "workflows/*.yml"),
        ("github-actions", "actions/*/action.yml"),
        ("dependabot", "dependabot.yml"),
    ],
)
def test_files_fit_their_schema(schema: str, pattern: str) -> None:
    files = sorted(GITHUB.glob(pattern))
    assert files
    _run(_tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *files)


def test_actionlint_finds_nothing() -> None:
    _run(_tool("actionlint"))


@pytest.mark.parametrize("path", USES, ids=lambda path: path.parent.name + "/" + path.name)
def test_actions_are_pinned_by_commit_with_their_version(path: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", path.read_text())
    for action, comment in used:
        if not action.startswith("$/"):
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action} lacks its version"


def test_one_action_has_one_commit() -> None:
    pins: dict[str, set[str]] = {}
    for path in USES:
        for name, commit in re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40})", path.read_text()):
            pins.setdefault(name, set()).add(commit)
    assert pins
    assert {name: commits for name, commits in pins.items() if len(commits) > 1} == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_rights_are_least(path: Path) -> None:
    workflow = _load(path)
    assert workflow["permissions"] == {}, "the default is no right at all"
    for name, job in workflow["jobs"].items():
        writes = {scope for scope, level in job.get("permissions", {}).items() if level == "write"}
        assert writes == WRITES.get((path.name, name), set()), name
        assert "uses" in job or "timeout-minutes" in job, f"{name} has no time limit"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_triggers_give_no_rights_to_strangers(path: Path) -> None:
    workflow = _load(path)
    triggers = set(workflow[True])  # YAML 1.1 reads `on` as true
    assert not triggers & {"pull_request_target", "workflow_run", "issue_comment"}
    assert "concurrency" in workflow


def test_devices_are_out_of_reach_of_pull_requests() -> None:
    for path in WORKFLOWS:
        workflow = _load(path)
        if any("self-hosted" in str(job.get("runs-on")) for job in workflow["jobs"].values()):
            assert not any(str(trigger).startswith("pull_request") for trigger in workflow[True]), path.name


def test_a_job_that_may_write_runs_no_code_of_the_repository() -> None:
    """The exception builds the attestations of a release, from a tag."""
    for (file, name), _ in WRITES.items():
        job = _load(GITHUB / "workflows" / file)["jobs"][name]
        checks_out = any(str(step.get("uses", "")).startswith("actions/checkout@") for step in job["steps"])
        assert checks_out == ((file, name) == ("release.yml", "attest"))


def test_cibuildwheel_takes_the_configuration() -> None:
    command = [_tool("cibuildwheel"), "--print-build-identifiers", "--platform=linux", "--archs=x86_64,aarch64", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["cp311-manylinux_x86_64", "cp311-manylinux_aarch64"], done.stderr
