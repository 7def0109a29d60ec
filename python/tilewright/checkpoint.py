"""Checkpoints of others: bitsandbytes 4-bit, NVFP4 and FP8 layers to ours and back, whole models from safetensors.

Reading is strict: a key that is unknown, missing or does not fit is an error that names it. Only safetensors files are
opened, so nothing in a checkpoint is executed.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from . import _bitsandbytes, _files, _fp8, _nvfp4
from ._dense import dense_linear
from ._errors import CheckpointError, unknown_keys
from .linear import Linear4bit
from .linear_fp8 import LinearFP8

__all__ = [
    "CheckpointError",
    "LoadReport",
    "from_bitsandbytes",
    "from_nvfp4",
    "load",
    "read_tensors",
    "save",
    "state_dict",
    "to_bitsandbytes",
    "to_nvfp4",
]

_INDEX = "model.safetensors.index.json"
_QUANTISED = (Linear4bit, LinearFP8)
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class LoadReport:
    """What `load` did. Module names by format; keys that were left out on request."""

    bitsandbytes: tuple[str, ...]
    nvfp4: tuple[str, ...]
    fp8: tuple[str, ...]
    expanded_fp8: tuple[str, ...]
    ignored: tuple[str, ...]

    def __str__(self) -> str:
        counts = [
            f"{len(self.bitsandbytes)} bitsandbytes layers",
            f"{len(self.nvfp4)} NVFP4 layers",
            f"{len(self.fp8)} FP8 layers",
            f"{len(self.expanded_fp8)} FP8 layers expanded to dense ones",
            f"{len(self.ignored)} keys ignored",
        ]
        return ", ".join(text for text in counts if not text.startswith("0 ")) or "no quantised layers"


def from_bitsandbytes(tensors: Tensors, *, prefix: str = "") -> Linear4bit:
    """The layer that a bitsandbytes 4-bit state dict holds below `prefix` ("" or "model.layers.0.mlp.up_proj.").

    Shares the memory of `tensors`. CheckpointError names the key that is missing, unknown or does not fit.
    """
    return _bitsandbytes.read(tensors, prefix)


def to_bitsandbytes(
    layer: Linear4bit, *, prefix: str = "", dtype: torch.dtype | None = None
) -> dict[str, torch.Tensor]:
    """The layer as a bitsandbytes state dict: the same bytes again if `from_bitsandbytes` made it.

    dtype: of the weight before it was quantised, which the format records. ValueError for e2m1.
    """
    return _bitsandbytes.write(layer, prefix, dtype)


def from_nvfp4(tensors: Tensors, *, prefix: str = "") -> Linear4bit:
    """The e2m1 layer that an NVFP4 checkpoint of compressed-tensors or ModelOpt holds below `prefix`.

    Activation scales are kept for saving, not used. CheckpointError names the key that does not fit.
    """
    own = {key: tensor for key, tensor in tensors.items() if key.startswith(prefix)}
    naming = _nvfp4.prefixes(own).get(prefix)
    if naming is None:
        names = " or ".join(prefix + naming.global_scale for naming in _nvfp4.NAMINGS.values())
        raise CheckpointError(f"no NVFP4 layer below {prefix!r}; expected the key {names}")
    return _nvfp4.read(own, prefix, naming)


def to_nvfp4(layer: Linear4bit, *, prefix: str = "", naming: str | None = None) -> dict[str, torch.Tensor]:
    """The e2m1 layer with the keys of "compressed-tensors" or "modelopt"; None: those that it was read with.

    ValueError for nf4 and fp4.
    """
    if naming is not None and naming not in _nvfp4.NAMINGS:
        raise ValueError(f"naming={naming!r}; allowed: {', '.join(_nvfp4.NAMINGS)}")
    return _nvfp4.write(layer, prefix, None if naming is None else _nvfp4.NAMINGS[naming])


def read_tensors(path: str | Path) -> dict[str, torch.Tensor]:
    """All tensors of a .safetensors file, or of a folder with model.safetensors or its shards and their index."""
    path = Path(path)
    if path.is_dir():
        path = path / _INDEX if (path / _INDEX).is_file() else path / "model.safetensors"
    if path.name.endswith(".index.json"):
        shards = _files.shards(path)
        outside = [name for name in shards if Path(name).name != name]
        if outside:
            raise CheckpointError(f"{path.name}: the shards {', '.join(outside)} lie outside its folder")
        files = [path.parent / name for name in shards]
    else:
        files = [path]
    wrong = [file for file in files if file.suffix != ".safetensors"]
    if wrong:
        raise CheckpointError(f"{wrong[0]}: not a .safetensors file; pickled checkpoints are not opened")
    return _files.read(files)


def load(
    model: torch.nn.Module,
    source: str | Path | Tensors,
    *,
    ignore: Iterable[str] = (),
    expand_fp8: bool = False,
    dtype: torch.dtype | None = None,
) -> LoadReport:
    """Loads a checkpoint into `model`; its quantised layers replace the model's torch.nn.Linear of the same name.

    source: a file or folder for `read_tensors`, or the tensors. ignore: patterns of keys to leave out, such as
    "*.k_scale". expand_fp8: make dense layers of FP8 ones, in `dtype` (that of the layer that they replace if None),
    instead of LinearFP8, which quantises its inputs. A model on the meta device takes the tensors as they are; another
    copies them to its own devices and dtypes.
    CheckpointError names every key that the model or the format does not have, or lacks.
    """
    tensors = dict(source) if isinstance(source, Mapping) else read_tensors(source)
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    ignored = tuple(key for key in tensors if any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns))
    left_out = set(ignored)
    rest = {key: tensor for key, tensor in tensors.items() if key not in left_out}
    bitsandbytes, nvfp4, fp8 = _bitsandbytes.prefixes(rest), _nvfp4.prefixes(rest), _fp8.prefixes(rest)
    own, rest = _by_layer(rest, {*bitsandbytes, *nvfp4, *fp8})
    made: dict[str, dict[str, torch.nn.Module]] = {
        "bitsandbytes": {prefix: _bitsandbytes.read(own[prefix], prefix) for prefix in bitsandbytes},
        "nvfp4": {prefix: _nvfp4.read(own[prefix], prefix, naming) for prefix, naming in nvfp4.items()},
        "fp8": {prefix: _fp8.read(own[prefix], prefix) for prefix in fp8},
    }
    if expand_fp8:
        dense = made.pop("fp8")
        made["expanded"] = {p: dense_linear(layer, dtype or _dtype_of(model, p)) for p, layer in dense.items()}  # type: ignore[arg-type]
    layers = {prefix: layer for group in made.values() for prefix, layer in group.items()}
    # Everything is checked before the model changes.
    replaced = {prefix: _linear(model, prefix, layer) for prefix, layer in layers.items()}
    _check_keys(model, rest, layers)
    for prefix, layer in layers.items():
        _set_module(model, prefix, layer, replaced[prefix])
    _load_plain(model, rest)
    names = {group: tuple(prefix.removesuffix(".") for prefix in found) for group, found in made.items()}
    return LoadReport(names["bitsandbytes"], names["nvfp4"], names.get("fp8", ()), names.get("expanded", ()), ignored)


def state_dict(model: torch.nn.Module, *, nvfp4: str | None = None) -> dict[str, torch.Tensor]:
    """The model's tensors with every quantised layer in the checkpoint format of its kind: bitsandbytes, NVFP4 or FP8.

    nvfp4: the naming, "compressed-tensors" or "modelopt"; None keeps the one that each layer was read with. Tensors
    that share memory (tied weights) are listed once, under their first name.
    """
    out: dict[str, torch.Tensor] = {}
    prefixes = {f"{name}." if name else "": m for name, m in model.named_modules() if isinstance(m, _QUANTISED)}
    owned = {prefix + key for prefix, layer in prefixes.items() for key in layer.state_dict()}
    seen: set[tuple[int, tuple[int, ...], torch.dtype]] = set()
    for key, tensor in model.state_dict().items():
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.dtype)
        if key not in owned and (tensor.numel() == 0 or tensor.is_meta or place not in seen):
            seen.add(place)
            out[key] = tensor
    for prefix, layer in prefixes.items():
        if isinstance(layer, LinearFP8):
            out.update(_fp8.write(layer, prefix))
        elif layer.quant_type == "e2m1":
            out.update(to_nvfp4(layer, prefix=prefix, naming=nvfp4))
        else:
            out.update(_bitsandbytes.write(layer, prefix))
    return out


def save(model: torch.nn.Module, path: str | Path, *, nvfp4: str | None = None) -> None:
    """Writes `state_dict(model, nvfp4=nvfp4)` to one .safetensors file."""
    from safetensors.torch import save_file

    tensors = {key: tensor.detach().contiguous() for key, tensor in state_dict(model, nvfp4=nvfp4).items()}
    save_file(_unshared(tensors), Path(path), metadata={"format": "pt"})


def _by_layer(
    tensors: Tensors, prefixes: set[str]
) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """The tensors below each prefix, and those below none."""
    own: dict[str, dict[str, torch.Tensor]] = {prefix: {} for prefix in prefixes}
    rest = {}
    for key, tensor in tensors.items():
        prefix = _owner(key, prefixes)
        if prefix is None:
            rest[key] = tensor
        else:
            own[prefix][key] = tensor
    return own, rest


def _owner(key: str, prefixes: Collection[str]) -> str | None:
    """The shortest of the prefixes ("", "a.", "a.b.") that the key lies below."""
    if "" in prefixes:
        return ""
    end = key.find(".")
    while end >= 0:
        if key[: end + 1] in prefixes:
            return key[: end + 1]
        end = key.find(".", end + 1)
    return None


def _unshared(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    # safetensors refuses two names for one memory; quant_map of layers read from one file can be such.
    seen: set[int] = set()
    out = {}
    for key, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        out[key] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return out


def _get_module(model: torch.nn.Module, prefix: str) -> torch.nn.Module:
    try:
        return model.get_submodule(prefix.removesuffix("."))
    except AttributeError:
        raise CheckpointError(f"{prefix}*: the model has no module {prefix.removesuffix('.')}") from None


def _dtype_of(model: torch.nn.Module, prefix: str) -> torch.dtype:
    weight = getattr(_get_module(model, prefix), "weight", None)
    return weight.dtype if isinstance(weight, torch.Tensor) and weight.is_floating_point() else torch.bfloat16


def _linear(model: torch.nn.Module, prefix: str, layer: torch.nn.Module) -> torch.nn.Module:
    """The module that `layer` replaces, checked: a linear layer of the same shape."""
    module = _get_module(model, prefix)
    if not prefix:
        raise CheckpointError("the checkpoint is one layer; read it with from_bitsandbytes or from_nvfp4")
    wanted = [getattr(layer, size) for size in ("out_features", "in_features")]
    if not isinstance(module, torch.nn.Linear | Linear4bit | LinearFP8):
        raise CheckpointError(f"{prefix}*: the model has a {type(module).__name__} there; expected torch.nn.Linear")
    if [module.out_features, module.in_features] != wanted:
        shape = f"[{module.out_features}, {module.in_features}]"
        raise CheckpointError(f"{prefix}weight: the checkpoint has {wanted}, the model {shape}")
    if (module.bias is None) != (layer.bias is None):
        raise CheckpointError(f"{prefix}bias: only {'the checkpoint' if module.bias is None else 'the model'} has one")
    return module


def _set_module(model: torch.nn.Module, prefix: str, layer: torch.nn.Module, old: torch.nn.Module) -> None:
    device = next((tensor.device for tensor in [*old.parameters(), *old.buffers()]), torch.device("cpu"))
    parent, _, name = prefix.removesuffix(".").rpartition(".")
    layer.train(old.training)
    setattr(model.get_submodule(parent), name, layer if device.type == "meta" else layer.to(device))


def _check_keys(model: torch.nn.Module, rest: Tensors, layers: Collection[str]) -> None:
    """Every other key must be in the model, and every other key of the model in the checkpoint or tied to one."""
    own = {key: tensor for key, tensor in model.state_dict(keep_vars=True).items() if _owner(key, layers) is None}
    unknown = sorted(key for key in rest if key not in own)
    if unknown:
        raise unknown_keys(f"{type(model).__name__}", unknown, own)
    there = {id(own[key]) for key in rest}
    missing = sorted(key for key, tensor in own.items() if key not in rest and id(tensor) not in there)
    if missing:
        raise CheckpointError(f"missing keys of {type(model).__name__}: {', '.join(missing)}")
    for key, tensor in rest.items():
        if tensor.shape != own[key].shape:
            raise CheckpointError(f"{key}: the checkpoint has {list(tensor.shape)}, the model {list(own[key].shape)}")


def _load_plain(model: torch.nn.Module, rest: dict[str, torch.Tensor]) -> None:
    """Loads the plain tensors; a tied parameter that the checkpoint names once stays tied."""
    own = model.state_dict(keep_vars=True)
    assign = any(tensor.is_meta for tensor in own.values())
    given = {id(own[name]): name for name in rest}
    ties = {key: given[id(tensor)] for key, tensor in own.items() if key not in rest and id(tensor) in given}
    model.load_state_dict(rest, strict=False, assign=assign)
    for key, name in ties.items() if assign else ():
        head, _, last = key.rpartition(".")
        from_head, _, from_last = name.rpartition(".")
        setattr(model.get_submodule(head), last, getattr(model.get_submodule(from_head), from_last))
