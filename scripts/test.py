"""Passes the tests: lint, types, tests, generated files, proofs.

    python3 scripts/test.py [--here] [pytest options]

Makes an environment under build/test with the package installed from the source tree; --here uses the running Python
and what it has installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from environment import ROOT, TORCH, attempt, make_environment, run

WORK = ROOT / "build" / "test"
PROCESSES = ("-n", "auto", "--maxprocesses", "4")  # tests start compilers, which take memory


def install() -> Path:
    """The environment of the tests: an editable install with a small native library."""
    python = make_environment(WORK / "environment")
    run([python, "-m", "pip", "install", "--quiet", TORCH])
    run([python, "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[dev]"])
    return python


def check(python: Path, pytest_options: list[str]) -> list[str]:
    """Runs every check, the quick ones first; returns the names of those that failed."""
    checks = {
        "lint": ["ruff", "check", "."],
        "format": ["ruff", "format", "--check", "."],
        "types": ["mypy"],
        "specs": ["codegen", "validate"],
        "generated files": ["codegen", "render", "--check"],
        "support matrix": ["codegen", "matrix", "--write", "README.md", "--check"],
        "key reference": ["codegen", "reference", "--write", "specs/README.md", "--check"],
        "proofs": ["codegen", "prove"],
        "tests": ["pytest", *PROCESSES, *pytest_options],
    }
    return [name for name, command in checks.items() if attempt([python, "-m", *command]) != 0]


def main() -> None:
    """Installs unless told not to, then checks."""
    options = sys.argv[1:]
    here = "--here" in options
    failed = check(Path(sys.executable) if here else install(), [option for option in options if option != "--here"])
    if failed:
        sys.exit(f"\nfailed: {', '.join(failed)}")
    print("\nall checks passed")


if __name__ == "__main__":
    main()
