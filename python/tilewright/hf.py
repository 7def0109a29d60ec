"""transformers: load any model with 4-bit linear layers, and open quantised checkpoints of others with our kernels.

Importing this module imports transformers and registers the method "tilewright" at its extension point; importing
tilewright does neither.

    AutoModelForCausalLM.from_pretrained(name, quantization_config=TilewrightConfig())   # quantises while loading
    AutoModelForCausalLM.from_pretrained(path, config=open_config(path))                 # bitsandbytes, NVFP4
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from transformers import AutoConfig
from transformers.core_model_loading import ConversionOps
from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer
from transformers.quantizers.quantizers_utils import should_convert_module
from transformers.utils.quantization_config import QuantizationConfigMixin

from . import _bitsandbytes, _nvfp4, formats
from .convert import convert
from .gemm import dequantize_4bit, quantize_4bit
from .linear import Linear4bit

__all__ = ["TilewrightConfig", "TilewrightHfQuantizer", "open_config"]

METHOD = "tilewright"
_BUFFERS = ("weight", "absmax", "nested_absmax", "nested_code", "offset")
# Format of the checkpoint -> the keys that make up one weight. "tilewright" is what save_pretrained writes.
_SOURCES: dict[str, tuple[str, ...]] = {
    METHOD: (),
    "bitsandbytes": (
        "weight",
        "weight.absmax",
        "weight.quant_map",
        "weight.nested_absmax",
        "weight.nested_quant_map",
        "weight.quant_state.bitsandbytes__nf4",
        "weight.quant_state.bitsandbytes__fp4",
    ),
    "compressed-tensors": ("weight", *_nvfp4.COMPRESSED_TENSORS.keys[:-1]),
    "modelopt": _nvfp4.MODELOPT.keys[:-1],
}


@register_quantization_config(METHOD)
class TilewrightConfig(QuantizationConfigMixin):  # type: ignore[misc]  # transformers has no types here
    """How linear layers are held in 4 bits; the arguments are those of `tilewright.convert`.

    include, exclude: patterns of module names. The output layer and tied layers stay dense unless include names them.
    source: the format of the checkpoint; set by `open_config`, not by hand. ValueError for a wrong option.
    """

    def __init__(
        self,
        quant_type: str = "nf4",
        blocksize: int | None = None,
        nested: bool = False,
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] = (),
        source: str = METHOD,
        **unknown: Any,
    ) -> None:
        fmt = formats.get_format(quant_type)
        blocksize = fmt.default_blocksize if blocksize is None else blocksize
        if blocksize not in fmt.blocksizes:
            raise ValueError(f"blocksize={blocksize}; allowed for {quant_type}: {', '.join(map(str, fmt.blocksizes))}")
        if nested and quant_type == "e2m1":
            raise ValueError("nested=True; e2m1 scales are 8 bits already, allowed: False")
        if source not in _SOURCES:
            raise ValueError(f"source={source!r}; allowed: {', '.join(_SOURCES)}")
        unknown.pop("quant_method", None)
        if unknown:
            raise ValueError(f"unknown options of TilewrightConfig: {', '.join(sorted(unknown))}")
        self.quant_method = METHOD
        self.quant_type = quant_type
        self.blocksize = blocksize
        self.nested = nested
        self.include = [include] if isinstance(include, str) else None if include is None else list(include)
        self.exclude = [exclude] if isinstance(exclude, str) else list(exclude)
        self.source = source


def open_config(path: str, **options: Any) -> Any:
    """The config of a quantised checkpoint, changed so that its 4-bit layers run here; pass it as `config=`.

    Knows bitsandbytes 4-bit, and NVFP4 of compressed-tensors and ModelOpt. The options are those of
    AutoConfig.from_pretrained. ValueError for a checkpoint that is not quantised so.
    """
    config = AutoConfig.from_pretrained(path, **options)
    found = getattr(config, "quantization_config", None)
    if found is None:
        raise ValueError(f"{path} is not quantised; pass quantization_config=TilewrightConfig() to from_pretrained")
    fields = found if isinstance(found, dict) else found.to_dict()
    method = getattr(fields.get("quant_method"), "value", fields.get("quant_method"))
    if method == METHOD:
        return config
    text = str(fields).lower()
    fits = {
        "bitsandbytes": bool(fields.get("load_in_4bit") or fields.get("_load_in_4bit")),
        "compressed-tensors": "nvfp4-pack-quantized" in text,
        "modelopt": "nvfp4" in text,
    }
    if not fits.get(str(method), False):
        raise ValueError(
            f"{path} is quantised by {method} in a format that does not run here; allowed: {', '.join(fits)}"
        )
    config.quantization_config = TilewrightConfig(source=str(method)).to_dict()
    return config


@register_quantizer(METHOD)
class TilewrightHfQuantizer(HfQuantizer):  # type: ignore[misc]  # transformers has no types here
    """Replaces linear layers before the weights are loaded and quantises each weight as it arrives."""

    requires_calibration = False

    def __init__(self, quantization_config: TilewrightConfig, **options: Any) -> None:
        super().__init__(quantization_config, **options)
        names = {"weight": list(_SOURCES[quantization_config.source])}
        self.serialized_names: dict[str, list[str]] = names if self.foreign else {}

    @property
    def foreign(self) -> bool:
        """True for a checkpoint in the format of another library."""
        return bool(_SOURCES[self.quantization_config.source])

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
        if self.foreign:
            return  # the checkpoint says which layers are quantised; each is replaced when its weight arrives
        options = self.quantization_config
        stay = list(options.exclude)
        if options.include is None:
            keys = self.get_modules_to_not_convert(model, None, model._keep_in_fp32_modules)
            # transformers names the last parameter; of a classifier with a bias that is the bias.
            keys = [key.removesuffix(".bias") for key in keys]
            stay += [name for name, _ in model.named_modules() if name and not should_convert_module(name, keys)]
        convert(
            model,
            quant_type=options.quant_type,
            blocksize=options.blocksize,
            nested=options.nested,
            include=options.include,
            exclude=stay,
        )

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        if self.foreign:
            self._describe(model)
        return model

    def _describe(self, model: Any) -> None:
        """Makes the config say what the model holds now, in the format that save_pretrained writes."""
        layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, Linear4bit)}
        kinds = {(layer.quant_type, layer.blocksize, layer.state.nested) for layer in layers.values()}
        if len(kinds) == 1:
            quant_type, blocksize, nested = kinds.pop()
            self.quantization_config = TilewrightConfig(quant_type, blocksize, nested, include=list(layers))
            model.config.quantization_config = self.quantization_config
            # The reverse of the loading, which save_pretrained would run, does not apply to our own format.
            model._weight_conversions = [c for c in model._weight_conversions or [] if not _is_ours(c)]

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        """True for the weight of a layer that is quantised while loading."""
        head, last = param_name.rpartition(".")[::2]
        return last in _BUFFERS and isinstance(model.get_submodule(head), Linear4bit)

    def get_quantize_ops(self) -> ConversionOps:
        """The operation that quantises one weight."""
        return _Quantize()

    def get_load_operations(self) -> dict[str, Any]:
        """The operation that reads one weight of another library's checkpoint."""
        return {"deserialize": _Deserialize} if self.foreign else {}

    def is_serializable(self) -> bool:
        """save_pretrained writes the 4-bit layers; a model with layers of several formats is for checkpoint.save."""
        return not self.foreign

    @property
    def is_trainable(self) -> bool:
        """The weights are constants."""
        return False

    @property
    def is_compileable(self) -> bool:
        """torch.compile takes the layers without a graph break."""
        return True

    def _dequantize(self, model: Any, dtype: torch.dtype | str | None = None) -> Any:
        for name, layer in list(model.named_modules()):
            if isinstance(layer, Linear4bit):
                # transformers hands over the name of the dtype once the model was saved.
                wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype or torch.float32
                model.set_submodule(name, _dense(layer, wanted))
        return model


class _Quantize(ConversionOps):  # type: ignore[misc]  # transformers has no types here
    """A dense weight to the buffers of its Linear4bit."""

    def convert(self, input_dict: dict[str, Any], model: Any = None, **_: Any) -> dict[str, torch.Tensor]:
        out: dict[str, torch.Tensor] = {}
        for key, value in input_dict.items():
            weight = value[0] if isinstance(value, list) else value
            head = key.rpartition(".")[0]
            layer = model.get_submodule(head)
            packed, state = quantize_4bit(
                weight, quant_type=layer.quant_type, blocksize=layer.blocksize, nested=layer.nested_absmax is not None
            )
            values = (packed, state.absmax, state.nested_absmax, state.nested_code, state.offset)
            pairs = zip(_BUFFERS, values, strict=True)
            out |= {f"{head}.{name}": value for name, value in pairs if value is not None}
        return out


class _Deserialize(ConversionOps):  # type: ignore[misc]  # transformers has no types here
    """The keys of one layer of a foreign checkpoint to a Linear4bit, which takes the dense layer's place."""

    def __init__(self, hf_quantizer: TilewrightHfQuantizer) -> None:
        self.hf_quantizer = hf_quantizer
        self.source = hf_quantizer.quantization_config.source

    def convert(
        self, input_dict: dict[str, Any], model: Any = None, full_layer_name: str = "", **_: Any
    ) -> dict[str, torch.Tensor]:
        tensors = {key: value[0] if isinstance(value, list) else value for key, value in input_dict.items()}
        head = full_layer_name.rpartition(".")[0]
        old = model.get_submodule(head)
        if len(tensors) == 1:  # a dense layer, an embedding or a norm of the same checkpoint
            (value,) = tensors.values()
            dtype = old.weight.dtype
            return {full_layer_name: value.to(dtype) if value.is_floating_point() else value}
        if self.source == "bitsandbytes":
            layer = _bitsandbytes.read(tensors, "")
        else:
            layer = _nvfp4.read(tensors, "", _nvfp4.NAMINGS[self.source])
        if (old.out_features, old.in_features) != (layer.out_features, layer.in_features):
            found, wanted = list(layer.state.shape), [old.out_features, old.in_features]
            raise ValueError(f"{full_layer_name}: the checkpoint has {found}, the model {wanted}")
        layer.register_parameter("bias", old.bias)
        layer.train(old.training)
        model.set_submodule(head, layer)
        values = {name: getattr(layer, name) for name in _BUFFERS}
        return {f"{head}.{name}": value for name, value in values.items() if value is not None}


def _is_ours(conversion: Any) -> bool:
    return any(isinstance(operation, _Deserialize) for operation in getattr(conversion, "operations", ()))


def _dense(layer: Linear4bit, dtype: torch.dtype) -> torch.nn.Linear:
    dense = torch.nn.Linear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
    dense.weight = torch.nn.Parameter(dequantize_4bit(layer.weight, layer.state, dtype=dtype), requires_grad=False)
    if layer.bias is not None:
        dense.bias = torch.nn.Parameter(layer.bias.detach().to(dtype), requires_grad=False)
    return dense
