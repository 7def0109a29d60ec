"""Measures what a build takes again after one changed rule, one changed tile, and with a warm compiler cache.

    python3 scripts/measure_rebuild.py [--archs 80] [--out result.json]

Works on a clone under build/rebuild, so the working tree keeps its files. Exit status 1 when a rule costs device code
or more processor time than `build: rule_change_seconds` of specs/budget.yaml.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from build_wheel_local import WORK, make_tools
from environment import ROOT, run
from wheel_tools import build_environment, cpu_seconds, fresh, path_with, write_linker

RULES = "specs/families/gemm_4bit/1_path.yaml"
TILES = "specs/families/gemm_4bit/tiles.yaml"


class Tree:
    """A clone with a build folder."""

    def __init__(self, python: Path, folder: Path, archs: str) -> None:
        self.folder, self.python = folder / "source", python
        self.build = folder / "build"
        run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", self.folder])
        linker = write_linker(WORK / "bin", python, platform.machine())
        variables = build_environment(linker, archs, folder / "ccache", {"PATH": path_with(python)})
        self.environment = {**os.environ, **variables}

    def configure(self) -> None:
        """Prepare the build folder."""
        flags = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={self.python}"]
        words = ["cmake", "-S", str(self.folder), "-B", str(self.build), *flags]
        subprocess.run(words, env=self.environment, check=True, capture_output=True)

    def make(self) -> dict[str, float]:
        """Build; how long it took, and how many files of each kind were compiled."""
        start, used = time.monotonic(), cpu_seconds()
        words = ["ninja", "-C", str(self.build)]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"error: the build fails:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return {
            "seconds": round(time.monotonic() - start, 1),
            "cpu_s": round(cpu_seconds() - used, 1),
            "device_objects": len(re.findall(r"Building CUDA object", done.stdout)),
            "host_objects": len(re.findall(r"Building CXX object", done.stdout)),
        }

    def change(self, file: str, edit: Callable[[str], str]) -> None:
        """Edit a file of the clone; ends the script when the edit finds nothing."""
        path = self.folder / file
        text = path.read_text("utf-8")
        if (changed := edit(text)) == text:
            sys.exit(f"error: nothing to change was found in {file}.")
        path.write_text(changed, "utf-8")


def raise_limit(text: str) -> str:
    """Another threshold in the first rule that has one on M."""
    return re.sub(r"when: \[M > (\d+)\]", lambda m: f"when: [M > {int(m[1]) + 64}]", text, count=1)


def change_warps(text: str) -> str:
    """Other warps in the first simt tile: one tile whose object code differs."""
    return re.sub(r"(\{id: simt-1, mb: 1, warps: )(\d+)", lambda m: f"{m[1]}{int(m[2]) * 2}", text, count=1)


def measure(tree: Tree) -> dict[str, dict[str, float]]:
    """All four measurements."""
    found = {}
    tree.configure()
    found["from nothing, cold cache"] = tree.make()
    fresh(tree.build)
    tree.configure()
    found["from nothing, warm cache"] = tree.make()
    tree.change(RULES, raise_limit)
    found["one rule"] = tree.make()
    tree.change(TILES, change_warps)
    found["one tile"] = tree.make()
    return found


def cache_statistics(tree: Tree) -> str:
    """What ccache says of itself; empty without ccache."""
    try:
        done = subprocess.run(["ccache", "-s"], env=tree.environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout


def rule_budget(tree: Tree) -> int:
    code = "from codegen.tree import load_tree; print(load_tree('specs').budget.build.rule_change_seconds)"
    done = subprocess.run([tree.python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--archs", default="80", help="arch list to build")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    tree = Tree(make_tools(WORK / "tools"), fresh(ROOT / "build" / "rebuild"), options.archs)
    found = measure(tree)
    print(json.dumps(found, indent=2))
    print(cache_statistics(tree))
    if options.out:
        options.out.write_text(json.dumps({"archs": options.archs, **found}, indent=2) + "\n", "utf-8")
    rule, budget = found["one rule"], rule_budget(tree)
    # Processor time: other work on the machine does not count, and two free processors take no longer.
    if rule["device_objects"] or rule["cpu_s"] > budget:
        sys.exit(
            f"error: one rule compiled {rule['device_objects']} device objects in {rule['cpu_s']} s of {budget} s."
        )


if __name__ == "__main__":
    main()
