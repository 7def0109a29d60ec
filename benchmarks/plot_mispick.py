"""Draws how far the rules are from the best tile, cell by cell, from results of mispick.py.

    python benchmarks/plot_mispick.py evidence/mispick-h200.json evidence/mispick-fp8-h200.json docs/mispick-h200.svg

One panel a result: the cells of the held grid, each tree of rules sorted by its own regret.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

COLOURS = ("#d1495b", "#0b6e4f", "#6c757d")
LABELS = {"built": "rules before", "costs": "least of the costs"}


def panel(axes: Any, result: dict[str, Any]) -> None:
    """Regrets in percent, the largest first."""
    for (name, numbers), colour in zip(result["rules"].items(), COLOURS, strict=False):
        regrets = sorted((100 * row["regret"][name] for row in result["rows"]), reverse=True)
        share = f"{numbers['mispicked']} of {numbers['cells']}"
        label = f"{LABELS.get(name, name)}: {share} above 3 %, mean {numbers['regret_geomean']:.2%}"
        axes.step(range(len(regrets)), regrets, color=colour, linewidth=1.4, where="post", label=label)
    axes.axhline(3, color="black", linewidth=0.7, linestyle=":")
    axes.set_title(result["family"], fontsize=9)
    axes.set_xlabel("cells, the worst first", fontsize=8)
    axes.set_ylim(0, 60)
    axes.grid(True, linewidth=0.3)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    plt.rcParams["svg.hashsalt"] = "tilewright"  # the same file from the same numbers
    plt.rcParams["svg.fonttype"] = "none"
    figure, grid = plt.subplots(1, len(options.results), figsize=(4.6 * len(options.results), 2.8), squeeze=False)
    for axes, path in zip(grid.flat, options.results, strict=True):
        panel(axes, json.loads(path.read_text("utf-8")))
    grid[0][0].set_ylabel("slower than the best tile, %", fontsize=8)
    figure.tight_layout()
    figure.savefig(options.picture, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
