"""Draws time over floor against M, one panel a weight shape, from the result of gemm_4bit_h200.py.

    python benchmarks/plot_gemm_4bit.py evidence/gemm_4bit-h200.json docs/gemm_4bit-h200.svg

The floor is the longer of reading the packed weight, scales and activations and writing the output at the card's read
bandwidth, and of the multiplications at its dense bf16 rate.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

# Peer, label, colour, marker.
LINES = (
    ("tilewright prepacked", "tilewright, prepacked", "#0b6e4f", "o"),
    ("tilewright", "tilewright", "#52b788", "s"),
    ("dense", "cuBLAS, dense bf16 weights", "#6c757d", "^"),
    ("bitsandbytes", "bitsandbytes", "#d1495b", "v"),
)


def panel(axes: Any, cells: list[dict[str, Any]], title: str) -> None:
    """One weight shape: a line a peer, logarithmic both ways."""
    for peer, label, colour, marker in LINES:
        points = [(c["M"], c["us"][peer] / c["floor_us"]) for c in cells if peer in c["us"]]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=3, linewidth=1.2, label=label)
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_title(title, fontsize=9)
    axes.grid(True, linewidth=0.3)
    axes.tick_params(labelsize=7)


def draw(result: dict[str, Any]) -> Any:
    """The figure: panels in the order of the shapes in the result."""
    shapes = list(dict.fromkeys((c["N"], c["K"]) for c in result["cells"]))
    rows = -(-len(shapes) // 3)
    figure, grid = plt.subplots(rows, 3, figsize=(10, 2.6 * rows), sharex=True, sharey=True, squeeze=False)
    flat = list(grid.flat)
    for axes, (N, K) in zip(flat, shapes, strict=False):
        panel(axes, [c for c in result["cells"] if (c["N"], c["K"]) == (N, K)], f"N {N}, K {K}")
    for axes in flat[len(shapes) :]:
        axes.axis("off")
    handles, labels = flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", fontsize=9, frameon=False)
    figure.supxlabel("M, rows of activations", fontsize=9)
    figure.supylabel("time over floor", fontsize=9)
    figure.tight_layout()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    plt.rcParams["svg.hashsalt"] = "tilewright"  # the same file from the same numbers
    figure = draw(json.loads(options.result.read_text()))
    figure.savefig(options.picture, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
