"""convert: the linear layers of any model to 4 or 8 bits, in place, with a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch

from . import formats
from .linear import Linear4bit
from .linear_fp8 import LinearFP8, LinearNVFP4
from .reference_fp8 import SCALINGS

# The output layer of a language model: small next to the rest, and the layer that is hurt most by rounding.
DEFAULT_EXCLUDE = ("lm_head", "*.lm_head")
# Rows and columns from which a parameter of three dimensions is taken for a stack of weights.
_STACKED = 16


@dataclass(frozen=True)
class ConvertReport:
    """What `convert` did. converted: module names. skipped: name of a linear layer, or of a parameter that stacks the
    weights of experts, -> why it stayed as it was.

    bytes_before, bytes_after: parameters and buffers of the whole model, shared ones once.
    """

    converted: tuple[str, ...]
    skipped: dict[str, str]
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        layers = "layer" if len(self.converted) == 1 else "layers"
        sizes = f"{self.bytes_before / 1e6:.1f} MB to {self.bytes_after / 1e6:.1f} MB"
        lines = [f"{len(self.converted)} {layers} converted, {len(self.skipped)} skipped; {sizes}"]
        return "\n".join(lines + [f"  skipped {name}: {reason}" for name, reason in self.skipped.items()])


FORMATS = ("4bit", "fp8", "nvfp4")
DEFAULT_QUANT_TYPE = "nf4"
DEFAULT_SCALING = "row"


def convert(
    model: torch.nn.Module,
    *,
    format: str = FORMATS[0],  # noqa: A002
    quant_type: str | None = None,
    blocksize: int | None = None,
    nested: bool = False,
    include: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
    prepack: bool = False,
    scaling: str | None = None,
) -> ConvertReport:
    """Replaces the torch.nn.Linear layers of `model` by Linear4bit, LinearFP8 or LinearNVFP4, in place.

    format: "4bit", weights alone, with quant_type (None: "nf4"), blocksize, nested and prepack; "fp8", weights and
    activations, with scaling ("tensor", "row" or "block"; None: "row"); "nvfp4", weights and activations.
    include, exclude: patterns of module names, as in the shell ("*.mlp.*"); a layer is converted when it matches one
    of `include` (None: all) and none of `exclude`. A layer called lm_head is left alone unless `include` names it, and
    so are layers whose weight is tied to another module, subclasses of torch.nn.Linear, and layers with hooks.
    prepack: keep the codes in the order that Hopper's kernels read fastest, where the shape allows it.
    ValueError for a wrong option, for a pattern that matches no module, and for a model that is one linear layer.
    """
    check_options(format, quant_type, blocksize, nested, prepack, scaling)
    quant_type = quant_type or DEFAULT_QUANT_TYPE
    if isinstance(model, torch.nn.Linear):
        raise ValueError("the model is one linear layer, which cannot be replaced in place; use Linear4bit.from_linear")
    choice = _Choice(model, patterns("include", include), patterns("exclude", exclude) or ())
    before = _size(model)
    converted: list[str] = []
    skipped: dict[str, str] = {}
    for names, module in _linears(model):
        reason = choice.reason_to_skip(names[0], module, "e2m1" if format == "nvfp4" else quant_type)
        if reason is not None:
            skipped[names[0]] = reason
            continue
        assert isinstance(module, torch.nn.Linear)
        layer: Linear4bit | LinearFP8 | LinearNVFP4
        if format == "fp8":
            layer = LinearFP8.from_linear(module, scaling=scaling or DEFAULT_SCALING)
        elif format == "nvfp4":
            layer = LinearNVFP4.from_linear(module)
        else:
            layer = Linear4bit.from_linear(
                module, quant_type=quant_type, blocksize=blocksize, nested=nested, prepack=prepack
            )
        layer.train(module.training)
        if layer.bias is not None and module.bias is not None:
            layer.bias.requires_grad_(module.bias.requires_grad)
        for name in names:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, layer)
        converted.append(names[0])
    skipped |= choice.stacks()
    return ConvertReport(tuple(converted), skipped, before, _size(model))


def check_options(
    kind: str, quant_type: str | None, blocksize: int | None, nested: bool, prepack: bool, scaling: str | None
) -> None:
    """ValueError for a format or an option that there is not, and for an option of another format."""
    if kind not in FORMATS:
        raise ValueError(f"format={kind!r}; allowed: {', '.join(FORMATS)}")
    owners = {"quant_type": "4bit", "blocksize": "4bit", "nested": "4bit", "prepack": "4bit", "scaling": "fp8"}
    given = {
        "quant_type": quant_type is not None,
        "blocksize": blocksize is not None,
        "nested": nested,
        "prepack": prepack,
        "scaling": scaling is not None,
    }
    for option, owner in owners.items():
        if given[option] and kind != owner:
            raise ValueError(f"{option} is given; it is an option of format={owner!r}, not of {kind!r}")
    if scaling is not None and scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling!r}; allowed: {', '.join(SCALINGS)}")
    quant_type = quant_type or DEFAULT_QUANT_TYPE
    fmt = formats.get_format(quant_type)
    if blocksize is not None and blocksize not in fmt.blocksizes:
        raise ValueError(f"blocksize={blocksize!r}; allowed for {quant_type}: {', '.join(map(str, fmt.blocksizes))}")
    if not isinstance(nested, bool):
        raise ValueError(f"nested={nested!r}; allowed: True, False")
    if nested and quant_type == "e2m1":
        raise ValueError("nested=True; e2m1 scales are 8 bits already, allowed: False")


class _Choice:
    """Which layers are converted."""

    def __init__(self, model: torch.nn.Module, include: tuple[str, ...] | None, exclude: tuple[str, ...]) -> None:
        names = [name for name, _ in model.named_modules(remove_duplicate=False)]
        names += [name for name, parameter in model.named_parameters() if parameter.dim() == 3]
        for option, patterns in (("include", include or ()), ("exclude", exclude)):
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in names):
                    raise ValueError(f"{option}={pattern!r}; it matches no module of {type(model).__name__}")
        self.model = model
        self.include = include
        self.exclude = exclude
        self.owners: dict[int, list[str]] = {}
        for name, parameter in _parameters_by_module(model):
            self.owners.setdefault(id(parameter), []).append(name)

    def reason_to_skip(self, name: str, module: torch.nn.Module, quant_type: str) -> str | None:
        """Why the layer stays; None if it is converted."""
        if self.include is not None and not _matches(name, self.include):
            return "matches no pattern of include"
        if _matches(name, self.exclude):
            return "matches a pattern of exclude"
        if self.include is None and _matches(name, DEFAULT_EXCLUDE):
            return "is the output layer; name it in include to convert it"
        if isinstance(module, Linear4bit):
            return f"is {module.quant_type} already"
        if isinstance(module, LinearFP8 | LinearNVFP4):
            return f"is {'fp8' if isinstance(module, LinearFP8) else 'nvfp4'} already"
        if type(module) is not torch.nn.Linear:
            return f"is a {type(module).__name__}, which may compute something else than torch.nn.Linear"
        return self._unfit(name, module, quant_type)

    def stacks(self) -> dict[str, str]:
        """Parameters [experts, N, K] that a module of the model multiplies by in its own way."""
        found = {}
        for name, module in self.model.named_modules():
            if type(module).__module__.startswith("torch.nn."):
                continue  # convolutions, attention: no stacks of weights
            for key, parameter in module._parameters.items():
                full = f"{name}.{key}" if name else key
                if parameter is None or parameter.dim() != 3 or min(parameter.shape[1:]) < _STACKED:
                    continue
                if (self.include is None or _matches(full, self.include)) and not _matches(full, self.exclude):
                    shape = " x ".join(map(str, parameter.shape))
                    found[full] = f"is a stack of weights ({shape}) that {type(module).__name__} multiplies by itself"
        return found

    def _unfit(self, name: str, linear: torch.nn.Linear, quant_type: str) -> str | None:
        tied = [owner for owner in self.owners[id(linear.weight)] if owner != f"{name}.weight"]
        if tied:
            return f"its weight is tied to {', '.join(tied)}"
        if linear._forward_hooks or linear._forward_pre_hooks or linear._backward_hooks or linear._backward_pre_hooks:
            return "has hooks, which would be lost"
        if linear.weight.dtype not in formats.DTYPES:
            allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in formats.DTYPES)
            return f"its weight is {str(linear.weight.dtype).removeprefix('torch.')}; allowed: {allowed}"
        if linear.in_features == 0:
            return "in_features=0; it has no weights"
        if quant_type == "e2m1" and linear.in_features % 16:
            return f"in_features={linear.in_features}; e2m1 needs a multiple of 16"
        return None


def _linears(model: torch.nn.Module) -> list[tuple[list[str], torch.nn.Module]]:
    """The linear layers, each once, with all names that it has in the model."""
    found: dict[int, tuple[list[str], torch.nn.Module]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, torch.nn.Linear | Linear4bit | LinearFP8 | LinearNVFP4):
            found.setdefault(id(module), ([], module))[0].append(name)
    return list(found.values())


def _parameters_by_module(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Every parameter once for each different module that holds it."""
    return [
        (f"{name}.{key}" if name else key, parameter)
        for name, module in model.named_modules()
        for key, parameter in module._parameters.items()
        if parameter is not None
    ]


def patterns(option: str, given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """The patterns of an option, None for None. ValueError for what is no text."""
    if given is None:
        return None
    found = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(pattern, str) for pattern in found):
        raise ValueError(f"{option}={given!r}; expected names of modules such as '*.mlp.*'")
    return found


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _size(model: torch.nn.Module) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in [*model.parameters(), *model.buffers()])
