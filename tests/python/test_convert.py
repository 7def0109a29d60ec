"""convert: which layers change, why the others stay, and that the model still computes what it should."""

from __future__ import annotations

import copy

import pytest
import torch

import tilewright
from tilewright import Linear4bit


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(64, 128)
        self.down = torch.nn.Linear(128, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.down(torch.relu(self.up(x)))
        return result


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(32, 64)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.lm_head = torch.nn.Linear(64, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.lm_head(x)
        return result


LAYERS = ("blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down")


def model() -> Model:
    torch.manual_seed(0)
    return Model()


@pytest.mark.parametrize(("quant_type", "nested"), [("nf4", False), ("nf4", True), ("fp4", False), ("e2m1", False)])
def test_converts_all_but_the_output_layer(quant_type: str, nested: bool) -> None:
    net = model()
    dense = copy.deepcopy(net)
    tokens = torch.arange(8)
    report = tilewright.convert(net, quant_type=quant_type, nested=nested)
    assert report.converted == LAYERS
    assert report.skipped == {"lm_head": "is the output layer; name it in include to convert it"}
    assert report.bytes_after < report.bytes_before / 2
    assert "4 layers converted, 1 skipped" in str(report)
    for name in LAYERS:  # the oracle: the same weights, expanded, in the dense model
        layer = net.get_submodule(name)
        assert isinstance(layer, Linear4bit) and layer.quant_type == quant_type
        weight = tilewright.dequantize_4bit(layer.weight, layer.state)
        dense.get_submodule(name).weight.data.copy_(weight)  # type: ignore[union-attr, operator]
    assert torch.allclose(net(tokens), dense(tokens), rtol=1e-4, atol=1e-5)


def test_include_and_exclude() -> None:
    net = model()
    report = tilewright.convert(net, include=["*.up", "lm_head"], exclude="blocks.1.*")
    assert report.converted == ("blocks.0.up", "lm_head")
    assert report.skipped["blocks.0.down"] == "matches no pattern of include"
    assert report.skipped["blocks.1.up"] == "matches a pattern of exclude"
    again = tilewright.convert(net)
    assert again.converted == ("blocks.0.down", "blocks.1.up", "blocks.1.down")
    assert again.skipped["blocks.0.up"] == "is nf4 already"


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_pattern_without_a_module_is_an_error_and_changes_nothing(option: str) -> None:
    net = model()
    with pytest.raises(ValueError, match=rf"{option}='\*\.gate'; it matches no module of Model"):
        tilewright.convert(net, **{option: ["*.up", "*.gate"]})  # type: ignore[arg-type]
    assert not any(isinstance(module, Linear4bit) for module in net.modules())


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="quant_type='int4'; allowed: nf4, fp4, e2m1"):
        tilewright.convert(model(), quant_type="int4")
    with pytest.raises(ValueError, match="blocksize=48; allowed for nf4: 32"):
        tilewright.convert(model(), blocksize=48)
    with pytest.raises(ValueError, match="nested=True"):
        tilewright.convert(model(), quant_type="e2m1", nested=True)
    with pytest.raises(ValueError, match=r"use Linear4bit\.from_linear"):
        tilewright.convert(torch.nn.Linear(64, 64))


def test_tied_weights_stay() -> None:
    net = model()
    net.lm_head.weight = net.embed.weight
    net.blocks[1].up.weight = net.blocks[0].up.weight  # type: ignore[union-attr]
    report = tilewright.convert(net, include="*")
    assert report.skipped["lm_head"] == "its weight is tied to embed.weight"
    assert report.skipped["blocks.0.up"] == "its weight is tied to blocks.1.up.weight"
    assert report.skipped["blocks.1.up"] == "its weight is tied to blocks.0.up.weight"
    assert net.lm_head.weight is net.embed.weight


def test_one_layer_in_two_places_stays_one_layer() -> None:
    net = model()
    net.blocks[1].up = net.blocks[0].up  # type: ignore[union-attr]
    report = tilewright.convert(net)
    assert "blocks.0.up" in report.converted and "blocks.1.up" not in report.converted
    assert isinstance(net.blocks[0].up, Linear4bit)
    assert net.blocks[1].up is net.blocks[0].up


def test_layers_that_are_more_than_a_linear_layer_stay() -> None:
    net = torch.nn.ModuleDict(
        {
            "attention": torch.nn.MultiheadAttention(64, 4),
            "hooked": torch.nn.Linear(64, 64),
            "float64": torch.nn.Linear(64, 64).double(),
            "odd": torch.nn.Linear(40, 64),
            "normed": torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(64, 64)),
        }
    )
    net["hooked"].register_forward_hook(lambda *_: None)
    report = tilewright.convert(net, quant_type="e2m1")
    assert report.converted == ()
    assert report.skipped["attention.out_proj"].startswith("is a NonDynamicallyQuantizableLinear")
    assert report.skipped["hooked"] == "has hooks, which would be lost"
    assert report.skipped["float64"] == "its weight is float64; allowed: float16, bfloat16, float32"
    assert report.skipped["odd"] == "in_features=40; e2m1 needs a multiple of 16"
    assert report.skipped["normed"].startswith("is a ParametrizedLinear")
    assert net["attention"](*[torch.randn(2, 1, 64)] * 3)[0].shape == (2, 1, 64)


def test_keeps_mode_dtype_and_frozen_biases() -> None:
    net = model().half().eval()
    net.blocks[0].up.bias.requires_grad_(False)  # type: ignore[union-attr, operator]
    tilewright.convert(net)
    layers = [module for module in net.modules() if isinstance(module, Linear4bit)]
    assert not any(layer.training for layer in layers)
    assert [layer.bias.requires_grad for layer in layers if layer.bias is not None] == [False, True]
    assert layers[0].bias is not None and layers[0].bias.dtype == torch.float16
    assert net(torch.arange(3)).dtype == torch.float16


def test_on_the_meta_device() -> None:
    with torch.device("meta"):
        net = Model()
    report = tilewright.convert(net)
    assert report.converted == LAYERS
    assert all(tensor.is_meta for tensor in [*net.parameters(), *net.buffers()])
    real = model()
    tilewright.convert(real)
    net.load_state_dict(real.state_dict(), assign=True)
    assert torch.equal(net(torch.arange(4)), real(torch.arange(4)))


class Experts(torch.nn.Module):
    """Weights of experts as transformers stacks them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = torch.nn.Parameter(torch.randn(4, 128, 64))
        self.down_proj = torch.nn.Parameter(torch.randn(4, 64, 64))
        self.scale = torch.nn.Parameter(torch.ones(4, 1, 64))
        self.mix = torch.nn.Conv1d(64, 64, 16)


def test_stacked_experts_stay_and_the_report_says_so() -> None:
    model = torch.nn.ModuleDict({"experts": Experts(), "up": torch.nn.Linear(64, 64)})
    before = copy.deepcopy(model["experts"].state_dict())
    report = tilewright.convert(model)
    assert report.converted == ("up",)
    why = "is a stack of weights (4 x {} x 64) that Experts multiplies by itself"
    assert report.skipped == {"experts.gate_up_proj": why.format(128), "experts.down_proj": why.format(64)}
    assert all(torch.equal(tensor, before[key]) for key, tensor in model["experts"].state_dict().items())
    again = torch.nn.ModuleDict({"experts": Experts(), "up": torch.nn.Linear(64, 64)})
    assert tilewright.convert(again, exclude="experts.*").skipped == {}
