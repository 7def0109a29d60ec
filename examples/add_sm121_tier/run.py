"""Retells how bitsandbytes got its sm121 tier: three lines of specs, and what they change on 60,720 decisions.

Needs tilewright installed (pip install -e .): python examples/add_sm121_tier/run.py
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright_codegen.difference import Difference, compare
from tilewright_codegen.difference_report import render_text
from tilewright_codegen.tree import load_tree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
PATCHED = Path("families/gemm_4bit/1_path.yaml")
PUBLISHED = {"enumerated": 60_720, "changed": 216, "M": (48, 256)}


def apply_patch(text: str, patch: str, *, reverse: bool = False) -> str:
    """Apply a unified diff of one hunk, or take it back. Raises ValueError when the text is not what it expects."""
    hunk = [line for line in patch.splitlines() if line[:2] not in ("--", "++", "@@")]
    before = [line[1:] for line in hunk if line[0] in " -"]
    after = [line[1:] for line in hunk if line[0] in " +"]
    if reverse:
        before, after = after, before
    old, new = ("\n".join(lines) + "\n" for lines in (before, after))
    if text.count(old) != 1:
        raise ValueError("the patch does not fit")
    return text.replace(old, new)


def stock_tree(folder: Path) -> Path:
    """A copy of the example tree as it was before the tier, and so without the claims about it."""
    tree = folder / "stock"
    shutil.copytree(EXAMPLE, tree, ignore=shutil.ignore_patterns("claims.yaml"))
    path = tree / PATCHED
    path.write_text(apply_patch(path.read_text(), (HERE / "tier.patch").read_text(), reverse=True))
    return tree


def retell(folder: Path) -> Difference:
    """Take the tier out of a copy, put it back by the patch, and compare the two."""
    stock = stock_tree(folder)
    patched = folder / "patched"
    shutil.copytree(stock, patched)
    path = patched / PATCHED
    path.write_text(apply_patch(path.read_text(), (HERE / "tier.patch").read_text()))
    before, after = load_tree(stock), load_tree(patched)
    return compare(before, after, "gemm_4bit", after.grids["sm121-case"])


def findings(found: Difference) -> dict[str, bool]:
    """The statements of the published proof, and whether each holds here."""
    low, high = found.m_range or (0, 0)
    return {
        "60,720 decisions are enumerated": found.enumerated == PUBLISHED["enumerated"],
        "every change is on sm121": {c.arch for c in found.changes} == {"sm121"},
        "every change has M <= 256": 0 < low <= high <= 256,
        "nothing goes from custom to fallback": set(found.directions) == {"path: fallback -> custom"},
    }


def main() -> int:
    with TemporaryDirectory() as temporary:
        found = retell(Path(temporary))
    print(render_text(found, "the tree without the tier", limit=12), end="\n\n")
    held = findings(found)
    for statement, holds in held.items():
        print(f"{'holds' if holds else 'FAILS'}: {statement}")
    print(f"published: {PUBLISHED['changed']} changed, M from 48 to 256; here: {found.changed}, M from "
          f"{found.m_range[0]} to {found.m_range[1]}" if found.m_range else "nothing changed")  # fmt: skip
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
