"""Passes the tests: lint, types, tests, generated files, proofs.

    python3 scripts/test.py [--here] [pytest options]

Makes an environment under build/test with the package installed from the source tree; --here uses the running Python
and what it has installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from environment import ROOT, TORCH, make_environment, run

WORK = ROOT / "build" / "test"


def install() -> Path:
    """The environment of the tests: an editable install with a small native library."""
    python = make_environment(WORK / "environment")
    run([python, "-m", "pip", "install", "--quiet", TORCH])
    run([python, "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[dev]"])
    return python


def check(python: Path, pytest_options: list[str]) -> None:
    """Every check, the quick ones first."""
    run([python, "-m", "ruff", "check", "."])
    run([python, "-m", "ruff", "format", "--check", "."])
    run([python, "-m", "mypy"])
    run([python, "-m", "codegen", "validate"])
    run([python, "-m", "codegen", "render", "--check"])
    run([python, "-m", "pytest", *pytest_options])
    run([python, "-m", "codegen", "prove"])
    run([python, "-m", "codegen", "prove", "--specs", "specs/examples/bitsandbytes-0.50"])


def main() -> None:
    """Installs unless told not to, then checks."""
    options = sys.argv[1:]
    here = "--here" in options
    check(Path(sys.executable) if here else install(), [option for option in options if option != "--here"])
    print("\nall checks passed")


if __name__ == "__main__":
    main()
