"""Which mutants of the core modules the tests notice: dispatch, loader, layouts.

    python tests/mutation/run.py --count 40 --jobs 2 --out evidence/mutation-python.json

Works on a copy of the tree. A mutant is killed when the tests of its module fail or take far longer than they should;
each one that survives stands in survivors.yaml with the reason, or the tests lack something. Exit status 1 when fewer
than 85 % are killed or a survivor has no reason.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy  # noqa: F401
import pydantic  # noqa: F401
import pytest
import torch
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from mutate import Mutant, chosen  # noqa: E402

MODULES: dict[str, tuple[str, ...]] = {
    "python/tilewright/_decisions.py": ("tests/python/test_decisions.py",),
    "python/tilewright/_tuned.py": ("tests/python/test_tuned.py",),
    "codegen/archs.py": ("tests/python/test_archs.py", "tests/cases/test_b05.py"),
    "codegen/loader.py": ("tests/codegen/test_loader.py",),
    "codegen/expr.py": ("tests/codegen/test_expr.py",),
    "python/tilewright/formats.py": ("tests/python/test_formats.py",),
    "python/tilewright/reference.py": (
        "tests/python/test_checks.py",
        "tests/python/test_formats.py",
        "tests/cases/test_b22.py",
    ),
    "python/tilewright/_checks.py": ("tests/python/test_checks.py", "tests/python/test_gemm.py"),
    "codegen/decide.py": ("tests/codegen/test_decide.py",),
    "codegen/evaluate.py": ("tests/cases/test_b18.py", "tests/codegen/test_vector.py"),
}
PATIENCE = 4.0
SKIPPED = "not test_compile and not test_export and not test_opcheck and not damaged_specs and not second_deriv"
"""Tests that take long and look at other things."""
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Its plugins are imported before the fork."""


class Copy:
    """A copy of the tree, imported under the names that an install has."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        for name in listed.stdout.splitlines():
            source = ROOT / name
            if source.is_file() and not name.startswith(("evidence/", "docs/")):
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, self.root / name)
        self.path = folder / "path"
        self.path.mkdir()
        (self.path / "tilewright").symlink_to(self.root / "python/tilewright")
        (self.path / "tilewright_codegen").symlink_to(self.root / "codegen")
        self.took: dict[str, float] = {}

    def test(self, module: str, patience: float) -> tuple[bool, str]:
        """Whether the tests of a module pass, and the first thing that failed.

        They run in a fork of this process, which has imported what they need but nothing of ours.
        """
        tests = [name for name in MODULES[module] if (self.root / name).is_file()]
        log = self.root / "log.txt"
        child = os.fork()
        if child == 0:
            os._exit(_child(self.root, self.path, tests, log))
        deadline = time.monotonic() + patience
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return False, "took too long"
            time.sleep(0.05)
        lines = log.read_text("utf-8", "replace").splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        return done[1] == 0, (failed or lines[-1:] or ["no output"])[0][:160]

    def judge(self, module: str, mutant: Mutant) -> str | None:
        """What noticed the mutant; None when nothing did."""
        file = self.root / module
        before = file.read_bytes()
        try:
            file.write_text(mutant.source, "utf-8")
            passed, why = self.test(module, 20 + PATIENCE * self.took[module])
        finally:
            file.write_bytes(before)
        return None if passed else why


def _child(root: Path, path: Path, tests: list[str], log: Path) -> int:
    """Runs pytest on the copy; the exit status. Never raises: it stands in a fork of the caller."""
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(out, number)
        os.chdir(root)
        os.environ.update({"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"})
        sys.path.insert(0, str(path))
        sys.dont_write_bytecode = True
        torch.set_num_threads(1)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu and not slow", "-k", SKIPPED, *QUIET]
        status = int(pytest.main([*options, *tests]))
        sys.stdout.flush()
        return status
    except BaseException:  # whatever a mutant raises, also SystemExit
        os.write(2, traceback.format_exc().encode())
        return 1


def run_module(module: str, count: int) -> dict[str, Any]:
    """Kills and survivors of one module, in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="tilewright-mutants-") as folder:
        copy_ = Copy(Path(folder))
        started = time.monotonic()
        passed, why = copy_.test(module, 600)
        if not passed:
            return {"module": module, "error": f"the tests fail without a mutant: {why}"}
        copy_.took[module] = time.monotonic() - started
        print(f"{module}: {copy_.took[module]:.1f} s without a mutant", file=sys.stderr, flush=True)
        tried = chosen(module, (ROOT / module).read_text("utf-8"), count)
        survivors = []
        for mutant in tried:
            if copy_.judge(module, mutant) is None:
                survivors.append(mutant.name)
                print(f"{module}: survived: {mutant.name}", file=sys.stderr, flush=True)
    return {"module": module, "tried": len(tried), "killed": len(tried) - len(survivors), "survivors": survivors}


def as_text(found: list[dict[str, Any]]) -> str:
    """The evidence: counts over all modules, then a line a module."""
    tried, killed = (sum(row.get(key, 0) for row in found) for key in ("tried", "killed"))
    head = {"schema": "mutation/1", "tried": tried, "killed": killed, "rate": round(killed / max(1, tried), 4)}
    return json.dumps(head)[:-1] + ', "modules": [\n' + ",\n".join(json.dumps(row) for row in found) + "\n]}\n"


def main() -> None:
    """Runs the modules side by side and writes the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="mutants a module")
    parser.add_argument("--module", action="append", choices=sorted(MODULES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    modules = options.module or list(MODULES)
    found: list[dict[str, Any]] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for row in pool.imap(functools.partial(run_module, count=options.count), modules):
            found.append(row)
            if options.out:
                options.out.write_text(as_text(found), "utf-8")
    reasons = yaml.safe_load((HERE / "survivors.yaml").read_text("utf-8")) or {}
    unexplained = [
        f"{row['module']}: {name}"
        for row in found
        for name in row.get("survivors", [])
        if name not in reasons.get(row["module"], {})
    ]
    print(as_text(found))
    for line in unexplained:
        print(f"no reason: {line}", file=sys.stderr)
    sys.exit(1 if unexplained or json.loads(as_text(found))["rate"] < 0.85 or any("error" in r for r in found) else 0)


if __name__ == "__main__":
    main()
