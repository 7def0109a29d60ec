"""transformers: quantising while loading, saving, and opening checkpoints of others, on a tiny random model."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import tilewright
from tilewright import Linear4bit, LinearFP8, LinearNVFP4, checkpoint
from tilewright._dense import dense_weight

transformers = pytest.importorskip("transformers", minversion="5.0", reason="needs transformers", exc_type=ImportError)
hf = pytest.importorskip("tilewright.hf")
safetensors_torch = pytest.importorskip("safetensors.torch")

IDS = torch.arange(8)[None]
AutoModel = transformers.AutoModelForCausalLM


@pytest.fixture(scope="module")
def dense_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama with attention biases, saved in bfloat16."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attention_bias=True,
    )
    path = tmp_path_factory.mktemp("dense")
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    return path


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(IDS).logits
    return result


def layers(model: Any) -> dict[str, Any]:
    kinds = (Linear4bit, LinearFP8, LinearNVFP4)
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, kinds)}


def raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().reshape(-1).contiguous().view(torch.uint8)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"quant_type": "fp4", "blocksize": 32},
        {"nested": True},
        {"quant_type": "e2m1"},
        {"format": "fp8"},
        {"format": "fp8", "scaling": "tensor"},
        {"format": "fp8", "scaling": "block"},
        {"format": "nvfp4"},
    ],
    ids=["nf4", "fp4", "nested", "e2m1", "fp8", "fp8-tensor", "fp8-block", "nvfp4"],
)
def test_quantises_while_loading_and_saves(dense_path: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    model = AutoModel.from_pretrained(dense_path, quantization_config=hf.TilewrightConfig(**options))
    assert len(layers(model)) == 14
    assert isinstance(model.lm_head, torch.nn.Linear)
    expected = AutoModel.from_pretrained(dense_path)
    report = tilewright.convert(expected, **options)
    assert set(report.converted) == set(layers(model))
    assert torch.equal(logits(model), logits(expected))
    model.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path)
    described = again.config.quantization_config
    assert described.quant_type == options.get("quant_type", None if "format" in options else "nf4")
    assert (described.format, described.scaling) == (model.config.quantization_config.format, scaling_of(options))
    assert torch.equal(logits(again), logits(model))
    for name, layer in layers(model).items():
        twin = layers(again)[name]
        assert repr(twin) == repr(layer)
        for key, buffer in layer.named_buffers():
            assert twin.get_buffer(key).dtype == buffer.dtype
            assert torch.equal(raw(twin.get_buffer(key)), raw(buffer)), (name, key)


def scaling_of(options: dict[str, Any]) -> str | None:
    return options.get("scaling", "row") if options.get("format") == "fp8" else None


def test_include_and_exclude(dense_path: Path) -> None:
    options = hf.TilewrightConfig(include="*.mlp.*", exclude=["*.down_proj"])
    model = AutoModel.from_pretrained(dense_path, quantization_config=options)
    names = [f"model.layers.{index}.mlp.{name}" for index in (0, 1) for name in ("gate_proj", "up_proj")]
    assert list(layers(model)) == names
    with pytest.raises(ValueError, match=r"exclude='\*\.gate'; it matches no module"):
        AutoModel.from_pretrained(dense_path, quantization_config=hf.TilewrightConfig(exclude=["*.gate"]))


def test_classifiers_and_what_must_stay_in_fp32_stay(tmp_path: Path) -> None:
    small = {"vocab_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    bert = transformers.BertConfig(hidden_size=64, intermediate_size=128, **small)
    transformers.BertForSequenceClassification(bert).save_pretrained(tmp_path / "bert")
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(tmp_path / "bert", quantization_config=hf.TilewrightConfig())
    assert len(layers(model)) == 7
    assert type(model.classifier) is torch.nn.Linear
    t5 = transformers.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4, vocab_size=64)
    transformers.T5ForConditionalGeneration(t5).save_pretrained(tmp_path / "t5")
    kind = transformers.AutoModelForSeq2SeqLM
    model = kind.from_pretrained(tmp_path / "t5", quantization_config=hf.TilewrightConfig())
    dense = {name.rpartition(".")[2] for name, module in model.named_modules() if type(module) is torch.nn.Linear}
    assert dense == {"wo", "lm_head"}


@pytest.mark.parametrize("kind", ["4bit", "fp8", "nvfp4"])
def test_dequantize_gives_dense_layers(dense_path: Path, kind: str) -> None:
    model = AutoModel.from_pretrained(dense_path, quantization_config=hf.TilewrightConfig(format=kind))
    before = logits(model)
    weights = {name: dense_weight(layer, torch.bfloat16) for name, layer in layers(model).items()}
    model.dequantize()
    assert layers(model) == {}
    assert not hasattr(model.config, "quantization_config")
    assert all(torch.equal(model.get_submodule(name).weight, weight) for name, weight in weights.items())
    off = (logits(model) - before).float().norm() / before.float().norm()
    assert off < {"4bit": 0.01, "fp8": 0.1, "nvfp4": 0.3}[kind]


def test_wrong_options() -> None:
    cases = {
        "quant_type='int4'": {"quant_type": "int4"},
        "blocksize=64; allowed for e2m1: 16": {"quant_type": "e2m1", "blocksize": 64},
        "nested=True": {"quant_type": "e2m1", "nested": True},
        "source='gptq'": {"source": "gptq"},
        "format='fp16'": {"format": "fp16"},
        "scaling='column'": {"format": "fp8", "scaling": "column"},
        "scaling is given; it is an option of format='fp8', not of '4bit'": {"scaling": "row"},
        "quant_type is given; it is an option of format='4bit', not of 'fp8'": {"format": "fp8", "quant_type": "nf4"},
        "input_scale=True": {"format": "fp8", "scaling": "block", "input_scale": True},
        "include=5; expected names of modules": {"include": 5},
        r"exclude=\[3\]; expected names of modules": {"exclude": [3]},
        "nested='yes'; allowed: True, False": {"nested": "yes"},
        "blocksize='64'; allowed for nf4": {"blocksize": "64"},
        "unknown options of TilewrightConfig: bits": {"bits": 4},
    }
    for message, options in cases.items():
        with pytest.raises(ValueError, match=message):
            hf.TilewrightConfig(**options)


def write(path: Path, dense_path: Path, tensors: dict[str, torch.Tensor], quantization: dict[str, Any]) -> None:
    """A checkpoint folder as another library would leave it."""
    config = json.loads((dense_path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}))
    tensors = {key: tensor.contiguous() for key, tensor in tensors.items()}
    safetensors_torch.save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


BITSANDBYTES = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
FORMATS = {
    "bitsandbytes": ({"nested": True}, None, BITSANDBYTES),
    "compressed-tensors": (
        {"quant_type": "e2m1"},
        "compressed-tensors",
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
    ),
    "modelopt": ({"quant_type": "e2m1"}, "modelopt", {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
}


@pytest.mark.parametrize("source", FORMATS)
def test_opens_checkpoints_of_others(dense_path: Path, tmp_path: Path, source: str) -> None:
    options, naming, quantization = FORMATS[source]
    expected = AutoModel.from_pretrained(dense_path)
    tilewright.convert(expected, exclude="*.layers.1.mlp.up_proj", **options)  # a dense layer among the others
    tensors = checkpoint.state_dict(expected, nvfp4=naming)
    first = "model.layers.0.mlp.up_proj."
    if naming is not None:
        extra = {"modelopt": "input_scale", "compressed-tensors": "input_global_scale"}[naming]
        tensors[first + extra] = torch.tensor([0.5])
    write(tmp_path, dense_path, tensors, quantization)
    model = AutoModel.from_pretrained(tmp_path, config=hf.open_config(str(tmp_path)))
    assert set(layers(model)) == set(layers(expected))
    assert torch.allclose(logits(model), logits(expected), rtol=1e-2, atol=1e-3)
    again = checkpoint.state_dict(model)
    assert again.keys() == tensors.keys()
    for key, tensor in tensors.items():
        assert torch.equal(again[key].reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8)), key
    own = tmp_path / "own"
    model.save_pretrained(own)
    assert torch.equal(logits(AutoModel.from_pretrained(own)), logits(model))


FINE_GRAINED = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
FP8_FORMATS = {
    "block": ("block", "weight_scale_inv", torch.float32, None, FINE_GRAINED),
    "block, E8M0": ("block", "weight_scale_inv", torch.float8_e8m0fnu, None, FINE_GRAINED | {"scale_fmt": "ue8m0"}),
    "static": ("row", "weight_scale_inv", torch.float32, "activation_scale", FINE_GRAINED),
    "channel": (
        "row",
        "weight_scale",
        torch.bfloat16,
        None,
        {"quant_method": "compressed-tensors", "format": "float-quantized"},
    ),
    "modelopt": (
        "tensor",
        "weight_scale",
        torch.float32,
        "input_scale",
        {"quant_method": "modelopt", "quant_algo": "FP8"},
    ),
}


@pytest.mark.parametrize("kind", FP8_FORMATS)
def test_opens_fp8_checkpoints_of_others(dense_path: Path, tmp_path: Path, kind: str) -> None:
    """Weights stay as they are: the layers hold the very bytes of the file, and write them again."""
    scaling, key, dtype, input_key, quantization = FP8_FORMATS[kind]
    dense = AutoModel.from_pretrained(dense_path)
    tensors = dict(dense.state_dict())
    for name, linear in list(dense.named_modules()):
        if isinstance(linear, torch.nn.Linear) and name not in ("lm_head", "model.layers.1.mlp.up_proj"):
            given = None if input_key is None else torch.tensor(0.05)
            layer = LinearFP8.from_linear(linear, scaling=scaling, input_scale=given)
            # Rounded up to a power of two, the one thing that all these types of scales hold.
            layer.weight_scale.copy_(layer.weight_scale.log2().ceil().exp2())
            dense.set_submodule(name, layer)
            tensors |= {f"{name}.weight": layer.weight, f"{name}.{key}": layer.weight_scale.to(dtype)}
            tensors |= {} if given is None else {f"{name}.{input_key}": given}
    write(tmp_path, dense_path, tensors, quantization)
    model = AutoModel.from_pretrained(tmp_path, config=hf.open_config(str(tmp_path)))
    assert set(layers(model)) == set(layers(dense))
    assert torch.equal(logits(model), logits(dense))
    again = checkpoint.state_dict(model)
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (again[name].dtype, again[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(raw(again[name]), raw(tensor)), name
    own = tmp_path / "own"
    model.save_pretrained(own)
    assert torch.equal(logits(AutoModel.from_pretrained(own)), logits(model))


@pytest.mark.parametrize("kind", ["bitsandbytes", "compressed-tensors", "fp8"])
def test_experts_that_the_model_stacks_are_expanded(tmp_path: Path, kind: str) -> None:
    """transformers holds experts as one parameter: their weights become dense, the other layers stay quantised."""
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=128,
        moe_intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_experts=4,
        num_experts_per_tok=2,
    )
    dense = transformers.Qwen3MoeForCausalLM(config).to(torch.bfloat16)
    dense.requires_grad_(False).save_pretrained(tmp_path)
    tensors = checkpoint.read_tensors(tmp_path)
    options, quantization = {
        "bitsandbytes": ({}, BITSANDBYTES),
        "compressed-tensors": ({"quant_type": "e2m1"}, FORMATS["compressed-tensors"][2]),
        "fp8": ({"format": "fp8", "scaling": "block"}, FINE_GRAINED),
    }[kind]
    for name, weight in list(tensors.items()):
        if name.endswith("_proj.weight"):
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            linear.weight = torch.nn.Parameter(weight)
            single = torch.nn.ModuleDict({"it": linear})
            tilewright.convert(single, **options)
            del tensors[name]
            own = checkpoint.state_dict(single)
            tensors |= {name.removesuffix("weight") + key.removeprefix("it."): value for key, value in own.items()}
    write(tmp_path, tmp_path, tensors, quantization)
    model = AutoModel.from_pretrained(tmp_path, config=hf.open_config(str(tmp_path)))
    assert {name.rpartition(".")[2] for name in layers(model)} == {"q_proj", "k_proj", "v_proj", "o_proj"}
    experts = model.model.layers[0].mlp.experts
    wanted = dense.model.layers[0].mlp.experts
    for name in ("gate_up_proj", "down_proj"):
        found, exact = getattr(experts, name).detach(), getattr(wanted, name).detach()
        assert found.dtype == torch.bfloat16
        assert 0 < float((found - exact).float().norm() / exact.float().norm()) < 0.15
    assert torch.isfinite(logits(model)).all()


def test_opens_a_checkpoint_of_the_real_bitsandbytes(dense_path: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns at import on a machine without a GPU
        bnb = pytest.importorskip("bitsandbytes", reason="needs the real bitsandbytes", exc_type=ImportError)
    dense = AutoModel.from_pretrained(dense_path)
    tensors = dict(dense.state_dict())
    for name, linear in list(dense.named_modules()):
        if isinstance(linear, torch.nn.Linear) and name != "lm_head":
            bias = linear.bias is not None
            theirs = bnb.nn.Linear4bit(linear.in_features, linear.out_features, bias, quant_type="nf4")
            theirs.load_state_dict(linear.state_dict())
            theirs = theirs.to(torch.bfloat16).to("cpu")
            tensors |= {f"{name}.{key}": tensor for key, tensor in theirs.state_dict().items()}
            weight = bnb.functional.dequantize_4bit(theirs.weight.data, theirs.weight.quant_state)
            linear.weight.data.copy_(weight)
    write(tmp_path, dense_path, tensors, BITSANDBYTES)
    model = AutoModel.from_pretrained(tmp_path, config=hf.open_config(str(tmp_path)))
    assert len(layers(model)) == 14
    assert torch.allclose(logits(model), logits(dense), rtol=0.05, atol=0.01)


def test_what_does_not_open_is_refused(dense_path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not quantised; pass quantization_config=TilewrightConfig"):
        hf.open_config(str(dense_path))
    tensors = dict(AutoModel.from_pretrained(dense_path).state_dict())
    for quantization in (
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        {"quant_method": "compressed-tensors", "format": "pack-quantized"},
        {"quant_method": "fp8", "expert_dtype": "fp4"},
        {"quant_method": "gptq", "bits": 4},
    ):
        write(tmp_path, dense_path, tensors, quantization)
        with pytest.raises(ValueError, match=f"quantised by {quantization['quant_method']} in a format"):
            hf.open_config(str(tmp_path))


def test_a_damaged_checkpoint_is_not_loaded(dense_path: Path, tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(dense_path)
    tilewright.convert(model)
    tensors = checkpoint.state_dict(model)
    del tensors["model.layers.0.mlp.up_proj.weight.absmax"]
    write(tmp_path, dense_path, tensors, BITSANDBYTES)
    with pytest.raises(RuntimeError, match="conver"):
        AutoModel.from_pretrained(tmp_path, config=hf.open_config(str(tmp_path)))


def test_importing_tilewright_leaves_transformers_alone() -> None:
    code = "import sys, tilewright; print([name for name in ('transformers', 'safetensors') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
