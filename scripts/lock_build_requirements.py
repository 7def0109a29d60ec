"""Writes .github/build-requirements.txt: the build requirements of pyproject.toml and what they need in turn, each at
one version, with the hashes of the files for every machine that wheels are built on.

    python scripts/lock_build_requirements.py

Release builds install from it with --require-hashes. Asks the index that pip is set up with, and downloads nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from build_requirements import PYPROJECT, build_requirements

LOCK = PYPROJECT.parent / ".github" / "build-requirements.txt"
MACHINES = ("x86_64", "aarch64")
PYTHON = "3.11"
TAGS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux_2_12", "manylinux1")
HEAD = f"""\
# What the wheels are built with, on Python {PYTHON}: written by scripts/lock_build_requirements.py.
# pip install --require-hashes --only-binary=:all: -r .github/build-requirements.txt
"""


def resolve(requirements: list[str], machine: str) -> dict[str, tuple[str, str]]:
    """Name -> version and SHA-256 of what pip would install on the machine."""
    platforms = [word for tag in TAGS for word in ("--platform", f"{tag}_{machine}")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:",
            "--python-version", PYTHON, "--implementation", "cp", *platforms, "--target", folder,
            "--report", str(report), *requirements,
        ]  # fmt: skip
        subprocess.run(command, check=True)
        found = json.loads(report.read_text("utf-8"))["install"]
    return {
        item["metadata"]["name"].lower().replace("_", "-"): (
            item["metadata"]["version"],
            item["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for item in found
    }


def lock(by_machine: dict[str, dict[str, tuple[str, str]]]) -> str:
    """The text of the file. SystemExit when the machines would get different versions."""
    names = sorted({name for found in by_machine.values() for name in found})
    lines = []
    for name in names:
        entries = [found[name] for found in by_machine.values() if name in found]
        if len({version for version, _ in entries}) != 1:
            raise SystemExit(
                f"error: {name}: {', '.join(version for version, _ in entries)} on {', '.join(by_machine)}."
            )
        hashes = sorted({digest for _, digest in entries})
        lines.append(f"{name}=={entries[0][0]}" + "".join(f" \\\n    --hash=sha256:{digest}" for digest in hashes))
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Asks for every machine and writes the file."""
    wanted = build_requirements(PYPROJECT.read_text("utf-8"))
    LOCK.write_text(lock({machine: resolve(wanted, machine) for machine in MACHINES}), "utf-8")
    print(f"wrote {LOCK}")


if __name__ == "__main__":
    main()
