"""Checkpoints of bitsandbytes, compressed-tensors and ModelOpt: read, run, written back byte for byte."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import tilewright
from tilewright import checkpoint, formats

MARK = "weight.quant_state.bitsandbytes__"
VARIANTS = [("nf4", False), ("nf4", True), ("fp4", False), ("fp4", True)]


def blob(fields: dict[str, Any]) -> torch.Tensor:
    return torch.tensor(list(json.dumps(fields).encode()), dtype=torch.uint8)


def own_bitsandbytes(
    quant_type: str = "nf4", nested: bool = False, shape: tuple[int, int] = (24, 128)
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """A layer written from the facts of the format, not by the module under test; and its weight."""
    torch.manual_seed(0)
    N, K = shape
    codes = torch.randint(0, 16, (N * K // 2, 2))
    blocks = N * K // 64
    text = {"quant_type": quant_type, "blocksize": 64, "dtype": "bfloat16", "shape": [N, K]}
    tensors = {
        "weight": (codes[:, 0] * 16 + codes[:, 1]).to(torch.uint8)[:, None],
        "bias": torch.randn(N, dtype=torch.bfloat16),
        "weight.absmax": torch.rand(blocks),
        "weight.quant_map": torch.tensor(formats.get_format(quant_type).values),
    }
    absmax = tensors["weight.absmax"]
    if nested:
        tensors["weight.absmax"] = torch.randint(0, 256, (blocks,), dtype=torch.uint8)
        tensors["weight.nested_absmax"] = torch.rand(-(-blocks // 256))
        tensors["weight.nested_quant_map"] = torch.linspace(-1, 1, 256)
        offset = torch.tensor(0.1).item()
        text |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset}
        groups = torch.arange(blocks) // 256
        absmax = tensors["weight.nested_quant_map"][tensors["weight.absmax"].long()]
        absmax = absmax * tensors["weight.nested_absmax"][groups] + offset
    tensors[MARK + quant_type] = blob(text)
    values = tensors["weight.quant_map"][codes.reshape(-1)].reshape(blocks, 64)
    return tensors, (values * absmax[:, None]).reshape(N, K)


def same_bytes(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for key, tensor in left.items():
        assert (tensor.dtype, tensor.shape) == (right[key].dtype, right[key].shape), key
        assert torch.equal(tensor.reshape(-1).view(torch.uint8), right[key].reshape(-1).view(torch.uint8)), key


@pytest.fixture(scope="module")
def bnb() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns at import on a machine without a GPU
        return pytest.importorskip("bitsandbytes", reason="needs the real bitsandbytes", exc_type=ImportError)


@pytest.mark.parametrize(("quant_type", "nested"), VARIANTS)
@pytest.mark.parametrize("storage", [torch.uint8, torch.bfloat16, torch.float32])
def test_real_bitsandbytes_layer(bnb: Any, quant_type: str, nested: bool, storage: torch.dtype) -> None:
    theirs = bnb.nn.Linear4bit(
        256, 72, compute_dtype=torch.float32, compress_statistics=nested, quant_type=quant_type, quant_storage=storage
    ).to("cpu")
    saved = {f"up.{key}": tensor for key, tensor in theirs.state_dict().items()}
    layer = checkpoint.from_bitsandbytes(saved, prefix="up.")
    same_bytes(checkpoint.to_bitsandbytes(layer, prefix="up."), saved)
    dense = bnb.functional.dequantize_4bit(theirs.weight.data, theirs.weight.quant_state).float()
    assert torch.allclose(tilewright.dequantize_4bit(layer.weight, layer.state), dense, rtol=1e-6, atol=1e-7)
    x = torch.randn(3, 256)
    assert torch.allclose(layer(x), torch.nn.functional.linear(x, dense, theirs.bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("quant_type", "nested"), VARIANTS)
def test_bitsandbytes_reads_what_was_quantised_here(bnb: Any, quant_type: str, nested: bool) -> None:
    linear = torch.nn.Linear(256, 72)
    layer = tilewright.Linear4bit.from_linear(linear, quant_type=quant_type, nested=nested)
    written = checkpoint.to_bitsandbytes(layer, dtype=torch.float32)
    stats = {key: tensor for key, tensor in written.items() if key.startswith("weight.")}
    state = bnb.functional.QuantState.from_dict(stats, device=torch.device("cpu"))
    theirs = bnb.functional.dequantize_4bit(written["weight"], state)
    assert torch.allclose(theirs, tilewright.dequantize_4bit(layer.weight, layer.state), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("quant_type", "nested"), VARIANTS)
def test_bitsandbytes_layer_from_the_facts(quant_type: str, nested: bool) -> None:
    saved, weight = own_bitsandbytes(quant_type, nested)
    layer = checkpoint.from_bitsandbytes(saved)
    assert torch.allclose(tilewright.dequantize_4bit(layer.weight, layer.state), weight, rtol=1e-6)
    assert layer.weight.data_ptr() == saved["weight"].data_ptr()
    for twin in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        same_bytes(checkpoint.to_bitsandbytes(twin), saved)


def test_other_spelling_of_the_text_is_kept_until_the_layer_changes() -> None:
    saved, _ = own_bitsandbytes(nested=True)
    text = json.loads(bytes(saved[MARK + "nf4"].tolist()))
    spaced = torch.tensor(list(json.dumps(text, indent=1, sort_keys=True).encode()), dtype=torch.uint8)
    layer = checkpoint.from_bitsandbytes({**saved, MARK + "nf4": spaced})
    assert torch.equal(checkpoint.to_bitsandbytes(layer)[MARK + "nf4"], spaced)
    assert layer.offset is not None
    layer.offset.fill_(0.5)
    after = json.loads(bytes(checkpoint.to_bitsandbytes(layer)[MARK + "nf4"].tolist()))
    assert after == {**text, "nested_offset": 0.5}


def test_four_decimals_in_the_fp4_table_are_kept() -> None:
    saved, _ = own_bitsandbytes("fp4")
    saved["weight.quant_map"] = (saved["weight.quant_map"] * 1e4).round() / 1e4
    same_bytes(checkpoint.to_bitsandbytes(checkpoint.from_bitsandbytes(saved)), saved)


WRONG_BITSANDBYTES = [
    ({"weight.absmx": torch.zeros(1)}, r"unknown keys .*up\.weight\.absmx \(did you mean weight\.absmax\?\)"),
    ({"weight.absmax": None}, r"up\.weight\.absmax: missing"),
    ({"weight.quant_map": None}, r"up\.weight\.quant_map: missing"),
    ({"weight.absmax": torch.zeros(48, dtype=torch.float16)}, r"up\.weight\.absmax: float16 \[48\]; expected float32"),
    ({"weight.absmax": torch.zeros(47)}, r"up\.weight\.absmax: .*expected float32, 48 elements"),
    ({"weight.nested_absmax": torch.zeros(1)}, r"up\.weight\.nested_absmax: the layer's text has no nested_offset"),
    ({"weight": torch.zeros(7, 1, dtype=torch.uint8)}, r"up\.weight: 7 bytes; expected 1536 for \[24, 128\]"),
    ({"bias": torch.zeros(23)}, r"up\.bias: float32 \[23\]; expected \[24\]"),
    ({"weight.quant_map": torch.linspace(-1, 1, 16)}, r"up\.weight\.quant_map: not the nf4 table"),
    ({MARK + "fp4": blob({})}, r"expected exactly one of"),
    ({MARK + "nf4": torch.tensor([123], dtype=torch.uint8)}, r"bitsandbytes__nf4: not JSON"),
    ({MARK + "nf4": blob({"quant_type": "nf4"})}, r"blocksize, dtype, shape are missing or unknown"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_BITSANDBYTES)
def test_wrong_bitsandbytes_keys_are_named(change: dict[str, torch.Tensor | None], message: str) -> None:
    saved, _ = own_bitsandbytes()
    changed = {key: tensor for key, tensor in (saved | change).items() if tensor is not None}
    with pytest.raises(checkpoint.CheckpointError, match=message):
        checkpoint.from_bitsandbytes({f"up.{key}": tensor for key, tensor in changed.items()}, prefix="up.")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quant_type", "int4"),
        ("quant_type", "fp4"),
        ("blocksize", 48),
        ("blocksize", 64.0),
        ("dtype", "float64"),
        ("shape", [24]),
        ("shape", [24, -128]),
        ("nested_blocksize", 128),
        ("nested_dtype", "float16"),
        ("nested_offset", "0"),
    ],
)
def test_wrong_fields_are_named(field: str, value: Any) -> None:
    saved, _ = own_bitsandbytes(nested=True)
    text = json.loads(bytes(saved[MARK + "nf4"].tolist()))
    saved[MARK + "nf4"] = blob(text | {field: value})
    with pytest.raises(checkpoint.CheckpointError, match=rf"bitsandbytes__nf4: .*{field}="):
        checkpoint.from_bitsandbytes(saved)


def own_nvfp4(naming: str, N: int = 24, K: int = 64) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """An NVFP4 layer written from the facts of the naming; and its weight."""
    torch.manual_seed(1)
    codes = torch.randint(0, 16, (N, K // 2, 2))
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    packed = (codes[..., 0] + codes[..., 1] * 16).to(torch.uint8)
    scales = (torch.rand(N, K // 16) * 400).to(torch.float8_e4m3fn)
    weight = values[codes.reshape(N, K)] * scales.float().repeat_interleave(16, 1)
    common = {"weight_scale": scales, "bias": torch.randn(N)}
    if naming == "compressed-tensors":
        divisor = torch.tensor([30001.0])
        assert divisor.reciprocal().reciprocal() != divisor  # the stored value must be kept, not made again
        extra = {"weight_packed": packed, "weight_global_scale": divisor, "input_global_scale": torch.tensor([3.0])}
        return common | extra, weight / divisor
    factor = torch.tensor([0.07 / 2688])  # ModelOpt writes a scalar; some converters a row of one
    return common | {"weight": packed, "weight_scale_2": factor, "input_scale": torch.tensor(0.3)}, weight * factor


@pytest.mark.parametrize("naming", ["compressed-tensors", "modelopt"])
def test_nvfp4_layer_from_the_facts(naming: str) -> None:
    saved, weight = own_nvfp4(naming)
    layer = checkpoint.from_nvfp4(saved)
    assert (layer.quant_type, layer.blocksize) == ("e2m1", 16)
    assert torch.allclose(tilewright.dequantize_4bit(layer.weight, layer.state), weight, rtol=1e-6, atol=0)
    x = torch.randn(3, 64)
    assert torch.allclose(layer(x), torch.nn.functional.linear(x, weight, saved["bias"]), rtol=1e-4, atol=1e-5)
    same_bytes(checkpoint.to_nvfp4(layer), saved)
    same_bytes(checkpoint.to_nvfp4(copy.deepcopy(layer), naming=naming), saved)


@pytest.mark.parametrize("naming", ["compressed-tensors", "modelopt"])
def test_nvfp4_layers_change_their_naming(naming: str) -> None:
    linear = torch.nn.Linear(64, 24)
    layer = tilewright.Linear4bit.from_linear(linear, quant_type="e2m1")
    again = checkpoint.from_nvfp4(checkpoint.to_nvfp4(layer, prefix="a.", naming=naming), prefix="a.")
    x = torch.randn(5, 64)
    assert torch.allclose(again(x), layer(x), rtol=1e-5, atol=1e-6)
    for name in ("weight", "absmax"):
        assert torch.equal(getattr(again, name), getattr(layer, name))


def test_nvfp4_of_the_real_compressed_tensors() -> None:
    pytest.importorskip("compressed_tensors", reason="needs the real compressed-tensors", exc_type=ImportError)
    from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    args = QuantizationArgs(num_bits=4, type="float", group_size=16, strategy="tensor_group")
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    saved, _ = own_nvfp4("compressed-tensors")
    del saved["bias"], saved["input_global_scale"]
    theirs = NVFP4PackedCompressor.decompress(saved, scheme)["weight"]
    layer = checkpoint.from_nvfp4(saved)
    ours = tilewright.dequantize_4bit(layer.weight, layer.state)
    assert torch.allclose(ours, theirs.float(), rtol=2**-7, atol=0)  # theirs is rounded to bfloat16


WRONG_NVFP4 = [
    ("compressed-tensors", {"weight_zero_point": torch.zeros(1)}, r"unknown keys .*: up\.weight_zero_point;"),
    ("compressed-tensors", {"weight_packed": None}, r"up\.weight_packed: missing"),
    ("compressed-tensors", {"weight_global_scale": torch.zeros(1)}, "expected a positive finite divisor"),
    ("modelopt", {"weight_scale_2": torch.tensor(float("inf"))}, "expected a positive finite factor"),
    ("modelopt", {"weight_scale_2": torch.zeros(2)}, "expected one value"),
    ("modelopt", {"weight_scale": torch.zeros(24, 4)}, r"up\.weight_scale: float32 \[24, 4\]; expected float8_e4m3fn"),
    ("modelopt", {"weight_scale": torch.zeros(128, 4).to(torch.float8_e4m3fn)}, r"expected \[24, 4\], row by row"),
    ("modelopt", {"weight": torch.zeros(24, 4, dtype=torch.uint8)}, "K a multiple of 16"),
    ("modelopt", {"weight_scale_2": None}, r"no NVFP4 layer below 'up\.'"),
]


@pytest.mark.parametrize(("naming", "change", "message"), WRONG_NVFP4)
def test_wrong_nvfp4_keys_are_named(naming: str, change: dict[str, torch.Tensor | None], message: str) -> None:
    saved, _ = own_nvfp4(naming)
    changed = {key: tensor for key, tensor in (saved | change).items() if tensor is not None}
    if message.endswith("multiple of 16"):
        changed["weight"] = torch.zeros(24, 20, dtype=torch.uint8)
    with pytest.raises(checkpoint.CheckpointError, match=message):
        checkpoint.from_nvfp4({f"up.{key}": tensor for key, tensor in changed.items()}, prefix="up.")


def test_formats_do_not_mix() -> None:
    nf4 = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 24))
    e2m1 = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 24), quant_type="e2m1")
    with pytest.raises(ValueError, match="e2m1"):
        checkpoint.to_bitsandbytes(e2m1)
    with pytest.raises(ValueError, match="nf4"):
        checkpoint.to_nvfp4(nf4)
    with pytest.raises(ValueError, match="naming='vllm'; allowed: compressed-tensors, modelopt"):
        checkpoint.to_nvfp4(e2m1, naming="vllm")


class Net(torch.nn.Module):
    """Three linear layers of three formats, and a head tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(10, 128)
        self.first = torch.nn.Linear(128, 24)
        self.second = torch.nn.Linear(24, 64)
        self.third = torch.nn.Linear(64, 24)
        self.fourth = torch.nn.Linear(24, 128)
        self.head = torch.nn.Linear(128, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.third(self.second(self.first(self.embed(x))))
        result: torch.Tensor = self.head(self.fourth(x))
        return result


def mixed() -> dict[str, torch.Tensor]:
    """A checkpoint of Net with bitsandbytes, FP8, NVFP4 and plain layers."""
    torch.manual_seed(2)
    net = Net()
    first, _ = own_bitsandbytes(nested=True)
    third, _ = own_nvfp4("modelopt")
    scale = net.second.weight.detach().abs().amax(1, keepdim=True) / 448
    fp8 = (net.second.weight.detach() / scale).to(torch.float8_e4m3fn)
    second = {"weight": fp8, "weight_scale": scale, "bias": net.second.bias.detach()}
    tensors = {"embed.weight": net.embed.weight.detach(), "fourth.weight": net.fourth.weight.detach()}
    tensors["fourth.bias"] = net.fourth.bias.detach()
    for name, layer in (("first", first), ("second", second), ("third", third)):
        tensors |= {f"{name}.{key}": tensor for key, tensor in layer.items()}
    return tensors


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_load_a_mixed_model_and_save_it(device: str, tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.torch").save_file
    tensors = mixed()
    save_file(tensors, tmp_path / "model.safetensors")
    with torch.device(device):
        net = Net()
    report = checkpoint.load(net, tmp_path)
    assert (report.bitsandbytes, report.nvfp4, report.fp8) == (("first",), ("third",), ("second",))
    assert str(report) == "1 bitsandbytes layers, 1 NVFP4 layers, 1 FP8 layers"
    assert net.head.weight is net.embed.weight
    assert not any(tensor.is_meta for tensor in net.state_dict().values())
    out = net(torch.arange(4))
    assert out.shape == (4, 10) and bool(torch.isfinite(out).all())
    assert isinstance(net.second, tilewright.LinearFP8)
    checkpoint.save(net, tmp_path / "again.safetensors")
    same_bytes(checkpoint.read_tensors(tmp_path / "again.safetensors"), tensors)


def test_fp8_layers_can_be_made_dense() -> None:
    tensors, net = mixed(), Net()
    report = checkpoint.load(net, tensors, expand_fp8=True, dtype=torch.float32)
    assert (report.fp8, report.expanded_fp8) == ((), ("second",))
    assert str(report) == "1 bitsandbytes layers, 1 NVFP4 layers, 1 FP8 layers expanded to dense ones"
    dense = tensors["second.weight"].float() * tensors["second.weight_scale"]
    assert torch.equal(net.second.weight, dense)
    assert checkpoint.state_dict(net).keys() - tensors.keys() == set()


def test_a_model_that_does_not_fit_is_left_alone() -> None:
    cases = {
        "unknown keys for Net: fifth.weight": {"fifth.weight": torch.zeros(1)},
        r"first\.k_scale": {"first.k_scale": torch.zeros(1)},
        r"fourth\.weight: the checkpoint has \[1\], the model \[128, 24\]": {"fourth.weight": torch.zeros(1)},
        r"missing keys of Net: fourth\.bias": {"fourth.bias": None},
    }
    for message, change in cases.items():
        net = Net()
        changed = {key: tensor for key, tensor in (mixed() | change).items() if tensor is not None}
        before = copy.deepcopy(net.state_dict())
        with pytest.raises(checkpoint.CheckpointError, match=message):
            checkpoint.load(net, changed)
        same_bytes(dict(net.state_dict()), dict(before))
    report = checkpoint.load(Net(), mixed() | {"first.k_scale": torch.zeros(1)}, ignore=["*.k_scale"])
    assert report.ignored == ("first.k_scale",)


def test_a_layer_that_does_not_fit_the_model_is_named() -> None:
    net = Net()
    net.first = torch.nn.Linear(128, 25)
    with pytest.raises(checkpoint.CheckpointError, match=r"first\.weight: the checkpoint has \[24, 128\], the model"):
        checkpoint.load(net, mixed())
    net.first = torch.nn.Linear(128, 24, bias=False)
    with pytest.raises(checkpoint.CheckpointError, match=r"first\.bias: only the checkpoint has one"):
        checkpoint.load(net, mixed())
    net.first = torch.nn.Embedding(24, 128)  # type: ignore[assignment]
    with pytest.raises(checkpoint.CheckpointError, match="a Embedding there"):
        checkpoint.load(net, mixed())
    del net.first
    with pytest.raises(checkpoint.CheckpointError, match="the model has no module first"):
        checkpoint.load(net, mixed())


@pytest.mark.parametrize(("scale", "expected"), [((), 1), ((24, 1), 24), ((1, 2), 2), ((1, 1, 2, 1), 2)])
def test_fp8_scales(scale: tuple[int, ...], expected: int) -> None:
    weight = torch.ones(24, 200).to(torch.float8_e4m3fn)
    values = torch.arange(1, expected + 1, dtype=torch.float32).reshape(scale)
    net = torch.nn.Sequential(torch.nn.Linear(200, 24, bias=False))
    checkpoint.load(net, {"0.weight": weight, "0.weight_scale": values}, expand_fp8=True)
    dense = net[0].weight
    assert dense[0, 0] == 1
    assert dense[-1, -1] == expected
    assert dense.unique().numel() == expected
    with pytest.raises(checkpoint.CheckpointError, match=r"weight_scale: \[3\] for a weight \[24, 200\]"):
        checkpoint.load(net, {"0.weight": weight, "0.weight_scale": torch.ones(3)})
    with pytest.raises(checkpoint.CheckpointError, match=r"0\.weight_scale: uint8; expected a type of floating point"):
        checkpoint.load(net, {"0.weight": weight, "0.weight_scale": torch.ones(1, 2, dtype=torch.uint8)})
    both = {"0.input_scale": torch.ones(()), "0.activation_scale": torch.ones(())}
    with pytest.raises(checkpoint.CheckpointError, match=r"found .*; expected at most one of"):
        checkpoint.load(net, {"0.weight": weight, "0.weight_scale": torch.ones(()), **both})


@pytest.mark.parametrize(
    ("shape", "key", "static", "scaling"),
    [
        ((), "weight_scale", True, "tensor"),
        ((1,), "weight_scale", False, "row"),
        ((24, 1), "weight_scale", False, "row"),
        ((24, 1), "weight_scale", True, "row"),
        ((1, 2), "weight_scale_inv", False, "block"),
    ],
)
def test_fp8_layers_run_as_they_are(shape: tuple[int, ...], key: str, static: bool, scaling: str) -> None:
    torch.manual_seed(3)
    weight = torch.randn(24, 200).to(torch.float8_e4m3fn)
    tensors = {"0.weight": weight, f"0.{key}": torch.rand(shape) + 0.5, "0.bias": torch.randn(24)}
    if static:
        tensors["0.input_scale"] = torch.tensor(0.01)
    net = torch.nn.Sequential(torch.nn.Linear(200, 24))
    checkpoint.load(net, tensors)
    layer = net[0]
    assert isinstance(layer, tilewright.LinearFP8)
    assert layer.scaling == scaling
    dense = torch.nn.Sequential(torch.nn.Linear(200, 24))
    checkpoint.load(dense, tensors, expand_fp8=True)
    x = torch.randn(5, 200)
    wanted = dense(x).detach()
    assert float((layer(x).detach() - wanted).norm() / wanted.norm()) < 0.06
    same_bytes(checkpoint.state_dict(net), tensors)


def test_fp8_scales_of_inputs_that_do_not_fit() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(200, 24, bias=False))
    good = {"0.weight": torch.ones(24, 200).to(torch.float8_e4m3fn), "0.weight_scale_inv": torch.ones(1, 2)}
    for wrong, text in ((torch.tensor(1.0), "expected none with block scales"), (torch.ones(2), "expected none")):
        with pytest.raises(checkpoint.CheckpointError, match=rf"0\.input_scale: .*; {text}"):
            checkpoint.load(net, good | {"0.input_scale": wrong})


def test_shards_and_pickles(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.torch").save_file
    tensors = mixed()
    names = {key: f"model-{index % 2}.safetensors" for index, key in enumerate(tensors)}
    for shard in set(names.values()):
        save_file({key: tensor for key, tensor in tensors.items() if names[key] == shard}, tmp_path / shard)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    same_bytes(checkpoint.read_tensors(tmp_path), {key: tensors[key] for key in checkpoint.read_tensors(tmp_path)})
    assert checkpoint.read_tensors(tmp_path).keys() == tensors.keys()
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(checkpoint.CheckpointError, match="lie outside its folder"):
        checkpoint.read_tensors(tmp_path)
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(checkpoint.CheckpointError, match="pickled checkpoints are not opened"):
        checkpoint.read_tensors(tmp_path / "pytorch_model.bin")
