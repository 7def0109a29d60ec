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
from tilewright import Linear4bit, checkpoint

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


def layers(model: Any) -> dict[str, Linear4bit]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, Linear4bit)}


@pytest.mark.parametrize(
    "options",
    [{}, {"quant_type": "fp4", "blocksize": 32}, {"nested": True}, {"quant_type": "e2m1"}],
    ids=["nf4", "fp4", "nested", "e2m1"],
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
    assert again.config.quantization_config.quant_type == options.get("quant_type", "nf4")
    assert torch.equal(logits(again), logits(model))
    for name, layer in layers(model).items():
        twin = layers(again)[name]
        assert (twin.absmax.dtype, twin.blocksize) == (layer.absmax.dtype, layer.blocksize)
        assert torch.equal(twin.absmax.view(torch.uint8), layer.absmax.view(torch.uint8))


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


def test_dequantize_gives_dense_layers(dense_path: Path) -> None:
    model = AutoModel.from_pretrained(dense_path, quantization_config=hf.TilewrightConfig())
    before = logits(model)
    model.dequantize()
    assert layers(model) == {}
    assert not hasattr(model.config, "quantization_config")
    assert torch.allclose(logits(model), before, rtol=0.05, atol=0.01)


def test_wrong_options() -> None:
    cases = {
        "quant_type='int4'": {"quant_type": "int4"},
        "blocksize=64; allowed for e2m1: 16": {"quant_type": "e2m1", "blocksize": 64},
        "nested=True": {"quant_type": "e2m1", "nested": True},
        "source='gptq'": {"source": "gptq"},
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
        {"quant_method": "compressed-tensors", "format": "float-quantized"},
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
