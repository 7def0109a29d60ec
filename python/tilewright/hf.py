"""transformers: load any model with linear layers in 4 or 8 bits, and open quantised checkpoints with our kernels.

Importing this module imports transformers and registers the method "tilewright" at its extension point; importing
tilewright does neither.

    AutoModelForCausalLM.from_pretrained(name, quantization_config=TilewrightConfig())   # quantises while loading
    AutoModelForCausalLM.from_pretrained(path, config=open_config(path))                 # bitsandbytes, NVFP4, FP8
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

from . import _hf_layers
from ._dense import QUANTISED, Quantised, dense_linear
from .convert import DEFAULT_QUANT_TYPE, DEFAULT_SCALING, FORMATS, check_options, convert, patterns
from .formats import get_format
from .linear_fp8 import LinearFP8, LinearNVFP4

__all__ = ["TilewrightConfig", "TilewrightHfQuantizer", "open_config"]

METHOD = _hf_layers.OWN


@register_quantization_config(METHOD)
class TilewrightConfig(QuantizationConfigMixin):  # type: ignore[misc]  # transformers has no types here
    """How linear layers are held in 4 or 8 bits; the arguments are those of `tilewright.convert`.

    format: "4bit", with quant_type, blocksize and nested; "fp8", with scaling; "nvfp4". None stands for the default.
    include, exclude: patterns of module names. The output layer and tied layers stay dense unless include names them.
    source: the format of the checkpoint, and input_scale: whether its FP8 layers hold the scale of their inputs; both
    are set by `open_config` and on saving, not by hand. ValueError for a wrong option.
    """

    def __init__(
        self,
        quant_type: str | None = None,
        blocksize: int | None = None,
        nested: bool = False,
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] = (),
        source: str = METHOD,
        format: str = FORMATS[0],  # noqa: A002
        scaling: str | None = None,
        input_scale: bool = False,
        **unknown: Any,
    ) -> None:
        check_options(format, quant_type, blocksize, nested, False, scaling)
        if source not in _hf_layers.SOURCES:
            raise ValueError(f"source={source!r}; allowed: {', '.join(_hf_layers.SOURCES)}")
        if input_scale and (format != "fp8" or scaling == "block"):
            raise ValueError("input_scale=True; it goes with format='fp8' and scaling 'tensor' or 'row'")
        unknown.pop("quant_method", None)
        if unknown:
            raise ValueError(f"unknown options of TilewrightConfig: {', '.join(sorted(unknown))}")
        if format == "4bit":
            quant_type = DEFAULT_QUANT_TYPE if quant_type is None else quant_type
            blocksize = get_format(quant_type).default_blocksize if blocksize is None else blocksize
        self.quant_method = METHOD
        self.format = format
        self.quant_type = quant_type
        self.blocksize = blocksize
        self.nested = nested
        self.scaling = DEFAULT_SCALING if format == "fp8" and scaling is None else scaling
        self.input_scale = input_scale
        wanted = patterns("include", include)
        self.include = None if wanted is None else list(wanted)
        self.exclude = list(patterns("exclude", exclude) or ())
        self.source = source


def open_config(path: str, **options: Any) -> Any:
    """The config of a quantised checkpoint, changed so that its layers run here; pass it as `config=`.

    Knows bitsandbytes 4-bit, NVFP4 and FP8 of compressed-tensors and ModelOpt, and fine-grained FP8. The options are
    those of AutoConfig.from_pretrained. ValueError for a checkpoint that is not quantised so.
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
        "compressed-tensors": "nvfp4-pack-quantized" in text or "float-quantized" in text,
        "modelopt": "nvfp4" in text or "fp8" in text,
        "fp8": fields.get("expert_dtype", "fp8") == "fp8",
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
        names = {"weight": list(_hf_layers.SOURCES[quantization_config.source])}
        self.serialized_names: dict[str, list[str]] = names if self.foreign else {}

    @property
    def foreign(self) -> bool:
        """True for a checkpoint in the format of another library."""
        return bool(_hf_layers.SOURCES[self.quantization_config.source])

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
            format=options.format,
            quant_type=options.quant_type,
            blocksize=options.blocksize,
            nested=options.nested,
            scaling=options.scaling,
            include=options.include,
            exclude=stay,
        )
        if options.input_scale:
            for layer in _layers(model).values():
                layer.input_scale = torch.empty((), dtype=torch.float32, device="meta")

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        if self.foreign:
            self._describe(model)
        return model

    def _describe(self, model: Any) -> None:
        """Makes the config say what the model holds now, in the format that save_pretrained writes."""
        layers = _layers(model)
        kinds = {tuple(_kind(layer).items()) for layer in layers.values()}
        if len(kinds) == 1:
            self.quantization_config = TilewrightConfig(include=list(layers), **dict(kinds.pop()))
            model.config.quantization_config = self.quantization_config
            # The reverse of the loading, which save_pretrained would run, does not apply to our own format.
            conversions = model._weight_conversions or []
            model._weight_conversions = [c for c in conversions if not _hf_layers.is_ours(c)]

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        """True for the weight of a layer that is quantised while loading."""
        head, last = param_name.rpartition(".")[::2]
        module = model.get_submodule(head)
        return isinstance(module, QUANTISED) and last in module._buffers

    def get_quantize_ops(self) -> ConversionOps:
        """The operation that quantises one weight."""
        return _hf_layers.Quantize()

    def get_load_operations(self) -> dict[str, Any]:
        """The operations that read weights of another library's checkpoint: of a layer, and of a stack of them."""
        return {"deserialize": _hf_layers.Deserialize, "dequantize": _hf_layers.Expand} if self.foreign else {}

    def is_serializable(self) -> bool:
        """save_pretrained writes the quantised layers; one with layers of several formats is for checkpoint.save."""
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
        # transformers hands over the name of the dtype once the model was saved.
        wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype or torch.float32
        for name, layer in _layers(model).items():
            model.set_submodule(name, dense_linear(layer, wanted))
        return model


def _layers(model: Any) -> dict[str, Quantised]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, QUANTISED)}


def _kind(layer: Quantised) -> dict[str, Any]:
    """The options of TilewrightConfig that make such layers."""
    if isinstance(layer, LinearFP8):
        return {"format": "fp8", "scaling": layer.scaling, "input_scale": layer.input_scale is not None}
    if isinstance(layer, LinearNVFP4):
        return {"format": "nvfp4"}
    return {"quant_type": layer.quant_type, "blocksize": layer.blocksize, "nested": layer.state.nested}
