"""Builds a wheel as a release does, without a container engine, and checks it.

    python3 scripts/build_wheel_local.py [--archs all] [--test-python python3.12=torch==2.14.1 ...]

Build, link for manylinux_2_28 with zig, repair with auditwheel, compare with the specs, install into a clean
environment, import before and after torch. Everything is made under build/wheel. Says at the end what it did not cover.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from build_requirements import PYPROJECT, build_requirements
from environment import ROOT, TORCH, make_environment, run
from wheel_tools import (
    TOOLS,
    Timer,
    build_environment,
    commit_date,
    fresh,
    one_wheel,
    path_with,
    say_not_covered,
    write_linker,
)

WORK = ROOT / "build" / "wheel"
SMOKE = ROOT / "tests" / "wheels" / "smoke.py"


def make_tools(folder: Path) -> Path:
    """An environment with the build requirements at one fixed place: compiler caches see one compiler."""
    python = make_environment(folder)
    run([python, "-m", "pip", "install", "--quiet", *build_requirements(PYPROJECT.read_text("utf-8")), *TOOLS])
    return python


def build(python: Path, options: argparse.Namespace, timer: Timer) -> Path:
    """The unrepaired wheel."""
    out = fresh(WORK / "raw")
    cmake = WORK / "cmake" / options.archs.replace(";", "-")
    if options.clean:
        shutil.rmtree(cmake, ignore_errors=True)
    linker = write_linker(WORK / "bin", python, platform.machine())
    variables = build_environment(linker, options.archs, None if options.no_cache else WORK / "ccache", {})
    variables["PATH"] = path_with(python)
    flags = ["--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", out, f"-Cbuild-dir={cmake}"]
    timer.step("build", [python, "-m", "build", *flags, ROOT], extra=variables)
    return one_wheel(out)


def repair(python: Path, wheel: Path, timer: Timer) -> Path:
    """The wheel with the platform tag it has earned."""
    out = fresh(WORK / "dist")
    extra = {"PATH": path_with(python), "SOURCE_DATE_EPOCH": commit_date()}
    run([python, "-m", "auditwheel", "show", wheel], extra=extra)
    timer.step("repair", [python, "-m", "auditwheel", "repair", "--plat", "auto", "-w", out, wheel], extra=extra)
    return one_wheel(out)


def try_out(wheel: Path, entry: str) -> str:
    """Install into a clean environment and run the smoke test. `entry` is PYTHON=REQUIREMENT of torch."""
    interpreter, _, torch = entry.partition("=")
    if not torch:
        sys.exit(f"error: --test-python {entry}: PYTHON=REQUIREMENT is expected, such as python3.12=torch==2.14.1.")
    folder = fresh(WORK / "clean")
    run([interpreter, "-m", "venv", folder])
    python = folder / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", torch, wheel])
    # A PATH without compilers: installing and importing must need none.
    done = subprocess.run(
        [python, "-I", SMOKE], cwd=folder, env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False
    )
    print(done.stdout + done.stderr, flush=True)
    if done.returncode != 0:
        sys.exit(f"error: the smoke test fails with {entry}.")
    return done.stdout.strip().splitlines()[-1]


def check_instructions(python: Path, wheel: Path, options: argparse.Namespace, timer: Timer) -> None:
    """Compare the wheel with its specs; nothing may be left unchecked."""
    flags = ["--archs", options.archs, "--complete", "--instructions", options.instructions]
    timer.step("check", [python, "-m", "codegen", "wheel-check", wheel, *flags])


def check_time(python: Path, timer: Timer) -> None:
    """A build of all archs from nothing keeps to the budget of the specs. Ends the script when it does not."""
    code = "from codegen.tree import load_tree; print(load_tree('specs').budget.build.full_cpu_seconds)"
    done = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    used, budget = timer.steps["build"]["cpu_s"], int(done.stdout)
    if used > budget:
        sys.exit(f"error: the build took {used:.0f} processor seconds; the budget of specs/budget.yaml is {budget}.")
    print(f"{used:.0f} of {budget} processor seconds")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--archs", default="all", help="arch list or variant to build")
    parser.add_argument("--here", action="store_true", help="build with the running Python and what it has installed")
    parser.add_argument("--clean", action="store_true", help="build from nothing")
    parser.add_argument("--no-cache", action="store_true", help="use no compiler cache")
    parser.add_argument("--instructions", choices=["sample", "all"], default="sample", help="kernels to read")
    parser.add_argument("--test-python", action="append", metavar="PYTHON=TORCH", help="clean environments to try")
    parser.add_argument("--no-install", action="store_true", help="do not try the wheel in a clean environment")
    parser.add_argument("--times", type=Path, help="JSON file to write the times of the steps to")
    return parser.parse_args()


def main() -> None:
    """Build, repair, check, try out."""
    options = parse()
    python = Path(sys.executable) if options.here else make_tools(WORK / "tools")
    timer = Timer()
    wheel = repair(python, build(python, options, timer), timer)
    check_instructions(python, wheel, options, timer)
    if options.clean and options.no_cache and options.archs == "all":
        check_time(python, timer)
    entries = [] if options.no_install else options.test_python or [f"{sys.executable}={TORCH}"]
    tried = [f"{entry}: {try_out(wheel, entry)}" for entry in entries]
    if options.times:
        options.times.write_text(json.dumps({"wheel": wheel.name, "steps": timer.steps}, indent=2) + "\n")
    print(f"\n{wheel}: {wheel.stat().st_size:,} bytes")
    print("\n".join(tried))
    more = [] if tried else ["an installed wheel: it was not tried in a clean environment"]
    say_not_covered([*more, f"machines other than {platform.machine()}"])


if __name__ == "__main__":
    main()
