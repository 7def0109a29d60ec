"""explain: which kernel answers a problem, by which rule, on what evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from . import _ops, formats
from .layout import LAYOUTS

if TYPE_CHECKING:
    from tilewright_codegen.ir import SpecTree

FAMILY = "gemm_4bit"
_WORDS = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}


@dataclass(frozen=True)
class Reasons:
    """What `explain` found. `str()` of it is the whole text: every layer, its rule, its evidence, the nearest changes.

    arch: the rule set. tile: what is launched, None for the fallback. rules: layer -> rule id, None where a layer was
    not asked.
    """

    arch: str
    num_sms: int
    tile: str | None
    rules: dict[str, str | None]
    text: str

    def __str__(self) -> str:
        return self.text


def explain(
    M: int,
    N: int,
    K: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    device: torch.device | str | int | None = None,
    arch: str | None = None,
    num_sms: int | None = None,
    blocksize: int | None = None,
    quant_type: str = "nf4",
    family: str = FAMILY,
    scaling: str = "row",
    fast_accum: bool = False,
    grouping: str = "none",
    layout: str = LAYOUTS[0],
) -> Reasons:
    """Why a product of x [M, K] and a weight [N, K] runs the way it does on a CUDA device, or on an arch such as
    "sm121".

    family: gemm_4bit, whose weights have `blocksize`, `quant_type` and `layout` (packed, prepacked); gemm_fp8, with
    `scaling` (tensor, row, block), `fast_accum` and `grouping` (none, contiguous, masked; M is the rows of one group);
    or gemm_nvfp4. dtype: of the activations of gemm_4bit, of the result of the others.

    Without `arch` the device is asked (the current one if `device` is None) and its rules are those of the image
    that it loads. num_sms: the device's own, or the first that the arch profile lists. ValueError for sizes outside
    the limits of the rules, an unknown arch or word, or no device to ask.
    """
    from tilewright_codegen.evaluate import ProblemError
    from tilewright_codegen.explain import explain as explain_problem
    from tilewright_codegen.explain_report import render_text

    tree = _tree()
    if family not in tree.families:
        raise ValueError(f"family={family!r}; allowed: {', '.join(tree.families)}")
    if arch is None:
        arch, counted = _device_arch(tree, device)
        num_sms = counted if num_sms is None else num_sms
    elif arch not in tree.archs:
        raise ValueError(f"arch={arch!r}; allowed: {', '.join(tree.archs)}")
    num_sms = tree.archs[arch].profile.sm_counts[0] if num_sms is None else num_sms
    fmt = formats.get_format(quant_type)
    formats.dtype_code(dtype)
    if family == FAMILY and blocksize is not None and blocksize not in fmt.blocksizes:
        raise ValueError(f"blocksize={blocksize}; allowed for {quant_type}: {', '.join(map(str, fmt.blocksizes))}")
    problem: dict[str, int | str] = {
        "M": M,
        "N": N,
        "K": K,
        "num_sms": num_sms,
        "blocksize": fmt.default_blocksize if blocksize is None else blocksize,
        "dtype": _WORDS[dtype],
        "quant_type": quant_type,
        "layout": layout,
        "scaling": scaling,
        "accumulation": "fast" if fast_accum else "accurate",
        "grouping": grouping,
    }
    chosen = tree.families[family]
    problem = {name: value for name, value in problem.items() if name in chosen.input_by_name}
    try:
        found = explain_problem(tree, chosen, arch, problem)
    except ProblemError as error:
        raise ValueError(str(error)) from None
    rules = {layer.layer: None if layer.rule is None else layer.rule.id for layer in found.layers}
    return Reasons(arch, num_sms, found.launch, rules, render_text(found))


@lru_cache(maxsize=1)
def _tree() -> SpecTree:
    from tilewright_codegen.data import specs_folder
    from tilewright_codegen.tree import load_tree

    return load_tree(str(specs_folder()))


def _device_arch(tree: SpecTree, device: torch.device | str | int | None) -> tuple[str, int]:
    """Rule set and SM count of a CUDA device."""
    if not torch.cuda.is_available():
        raise ValueError("device: no CUDA device is available; name an arch, such as arch='sm90'")
    properties = torch.cuda.get_device_properties(device)
    cc = (properties.major, properties.minor)
    exact = next((name for name, arch in tree.archs.items() if arch.profile.cc == cc), "unknown")
    return _ops.NATIVE.arch_for(*cc) or exact, properties.multi_processor_count
