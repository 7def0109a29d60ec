"""What the FP8, NVFP4, prepack, checkpoint and tuned-table functions refuse, and edges that they must not get wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import tilewright
from tilewright import checkpoint

E4M3 = torch.float8_e4m3fn
CODES, SCALE = tilewright.quantize_fp8(torch.randn(4, 512))
WEIGHT, WEIGHT_SCALE = tilewright.quantize_fp8(torch.randn(256, 512))
NVFP4 = tilewright.quantize_nvfp4(torch.randn(4, 64))


def _nvfp4(**parts: torch.Tensor) -> tilewright.NVFP4Tensor:
    return tilewright.NVFP4Tensor(
        **{"codes": NVFP4.codes, "scales": NVFP4.scales, "global_scale": NVFP4.global_scale, **parts}
    )


def _prepacked() -> torch.Tensor:
    return tilewright.prepack(torch.zeros(64 * 128 // 2, dtype=torch.uint8), 64, 128)


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    ("quantize K=0", lambda: tilewright.quantize_fp8(torch.ones(2, 3, 0)), "x has K=0"),
    ("quantize nvfp4 K=0", lambda: tilewright.quantize_nvfp4(torch.ones(2, 0)), "x has K=0"),
    (
        "scale of stacked blocks",
        lambda: tilewright.quantize_fp8(torch.ones(2, 3, 128), "block128x128", scale=torch.ones(())),
        "scale is given",
    ),
    ("no matrices", lambda: tilewright.quantize_fp8(torch.ones(0, 3, 128), "block128x128"), "x has 0 matrices"),
    ("codes of floats", lambda: tilewright.dequantize_fp8(CODES.float(), SCALE), "codes is torch.float32"),
    ("codes of bytes", lambda: tilewright.dequantize_fp8(CODES.view(torch.uint8), SCALE), "codes is torch.uint8"),
    ("scale per column", lambda: tilewright.dequantize_fp8(CODES, torch.ones(1, 512)), r"scale is \[1, 512\]"),
    ("too many blocks", lambda: tilewright.dequantize_fp8(CODES, torch.ones(3, 4)), r"scale is \[3, 4\]"),
    ("scale in fp64", lambda: tilewright.dequantize_fp8(CODES, SCALE.double()), "scale is torch.float64"),
    ("product without K", lambda: tilewright.gemm_fp8(CODES[0, 0], WEIGHT, SCALE, WEIGHT_SCALE), "a has no dimensions"),
    (
        "product of K=0",
        lambda: tilewright.gemm_fp8(CODES[:, :0].view(2, 2, 0), WEIGHT[:, :0], SCALE, WEIGHT_SCALE),
        "a has K=0",
    ),
    (
        "type of the result",
        lambda: tilewright.gemm_fp8(CODES, WEIGHT, SCALE, WEIGHT_SCALE, out_dtype=torch.float64),
        "out_dtype=torch.float64",
    ),
    ("short nvfp4 scales", lambda: tilewright.dequantize_nvfp4(_nvfp4(scales=NVFP4.scales[:-4])), "scales is"),
    ("nvfp4 codes", lambda: tilewright.dequantize_nvfp4(_nvfp4(codes=NVFP4.codes.int())), "codes is torch.int32"),
    ("nvfp4 rows", lambda: tilewright.dequantize_nvfp4(_nvfp4(codes=NVFP4.codes.flatten())), "codes is torch.uint8"),
    ("nvfp4 global", lambda: tilewright.dequantize_nvfp4(_nvfp4(global_scale=torch.ones(2))), "global_scale is"),
    ("bias of a layer", lambda: tilewright.LinearFP8(WEIGHT, torch.ones(()), torch.ones(3)), r"bias is \[3\]"),
    (
        "input scale of a layer",
        lambda: tilewright.LinearFP8(WEIGHT, torch.ones(()), input_scale=torch.ones(3)),
        "input_scale is",
    ),
    ("scaling", lambda: tilewright.LinearFP8(WEIGHT, torch.ones(()), scaling="column"), "scaling='column'; allowed"),
    ("scale of scaling", lambda: tilewright.LinearFP8(WEIGHT, torch.ones(()), scaling="row"), "as scaling='row' says"),
    ("prepacked otherwise", lambda: tilewright.prepack(_prepacked(), 128, 64), "prepacked for another weight"),
    ("unpacked blocks", lambda: tilewright.unpack(torch.zeros(2, 3, 7, dtype=torch.uint8)), "packed is torch.uint8"),
    (
        "option of another format",
        lambda: tilewright.convert(torch.nn.Sequential(torch.nn.Linear(32, 32)), format="fp8", prepack=True),
        "prepack is given; it is an option of format='4bit'",
    ),
    (
        "blocksize to explain",
        lambda: tilewright.explain(16, 64, 64, arch="sm90", blocksize=33),
        "blocksize=33; allowed",
    ),
    ("a NUL in a path", lambda: tilewright.load_tuned("a\0b"), "embedded null byte"),
]


@pytest.mark.parametrize(("call", "text"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_an_error_names_what_does_not_fit(call: Callable[[], object], text: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=text):
        call()


@pytest.mark.parametrize("scaling", ["tensor", "row", "block"])
@pytest.mark.parametrize(("N", "K"), [(1, 512), (1, 64), (64, 64), (256, 128)])
def test_a_layer_keeps_the_scaling_it_was_asked_for(scaling: str, N: int, K: int) -> None:
    dense = torch.nn.Linear(K, N)
    layer = tilewright.LinearFP8.from_linear(dense, scaling=scaling)
    assert layer.scaling == scaling
    x = torch.randn(5, K)
    x[2] *= 1e4  # under a scale for all, the other rows would round to zero
    wanted = dense(x).detach()
    if scaling != "tensor":
        assert (layer(x) - wanted)[:2].norm() < 0.1 * (x[:2].norm() * dense.weight.norm()).detach()
        assert layer(x)[:2].sub(dense.bias).abs().max() > 0


def test_one_value_beside_an_input_scale_is_per_tensor() -> None:
    layer = tilewright.LinearFP8(WEIGHT[:64, :64], torch.ones(1, 1), input_scale=torch.ones(()))
    assert layer.scaling == "tensor"


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_layer_without_inputs_is_skipped() -> None:
    for kind in ("4bit", "fp8", "nvfp4"):
        model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(0, 4))
        report = tilewright.convert(model, format=kind)
        assert (report.converted, list(report.skipped)) == (("0",), ["1"])


@pytest.mark.parametrize(("value", "given"), [(0.0, 0.0), (1.0, 0.0), (1e4, -1.0), (1.0, float("nan"))])
def test_given_global_scales_have_the_bytes_of_the_kernels(value: float, given: float) -> None:
    found = tilewright.quantize_nvfp4(torch.full((1, 16), value), global_scale=torch.tensor(given))
    expected = {(0.0, 0.0): 0x7F, (1.0, 0.0): 0x7E, (1e4, -1.0): 0xFE}.get((value, given), 0x7F)
    assert int(found.scales[0]) == expected


def _load(tensors: dict[str, torch.Tensor], N: int = 256) -> torch.nn.Sequential:
    model = torch.nn.Sequential(torch.nn.Linear(512, N, bias=False))
    checkpoint.load(model, tensors)
    return model


def test_a_checkpoint_of_one_output_under_block_scales_loads() -> None:
    model = _load({"0.weight": WEIGHT[:1], "0.weight_scale_inv": torch.full((1, 4), 0.5)}, 1)
    assert model[0].scaling == "block"
    x = torch.randn(3, 512)
    exact = x @ (WEIGHT[:1].float() * 0.5).T
    assert (model(x) - exact).norm() < 0.1 * exact.norm() + 0.05 * x.norm() * WEIGHT[:1].float().norm()


def test_scales_that_have_changed_are_not_saved_as_they_were_read() -> None:
    one = _load({"0.weight": WEIGHT, "0.weight_scale": torch.tensor(0.25)})
    assert checkpoint.state_dict(one)["0.weight_scale"].item() == 0.25
    other = _load({"0.weight": WEIGHT, "0.weight_scale": torch.tensor(0.75)})
    one.load_state_dict(other.state_dict())
    assert (checkpoint.state_dict(one)["0.weight_scale"] == 0.75).all()
    first = {"0.weight": WEIGHT, "0.weight_scale": torch.tensor(0.25), "0.input_scale": torch.tensor([0.5])}
    static = _load(first)
    assert checkpoint.state_dict(static)["0.input_scale"].shape == (1,)
    static[0].get_buffer("input_scale").fill_(2.0)
    assert checkpoint.state_dict(static)["0.input_scale"].item() == 2.0


def test_one_pattern_to_ignore_may_be_a_string() -> None:
    tensors = {"0.weight": torch.randn(4, 8), "0.k_scale": torch.ones(())}
    report = checkpoint.load(torch.nn.Sequential(torch.nn.Linear(8, 4, bias=False)), tensors, ignore="*.k_scale")
    assert report.ignored == ("0.k_scale",)


@pytest.mark.parametrize("text", ["{}", "[]", '{"weight_map": []}', '{"weight_map": {"a": 3}}', "{bad", "\xff"])
def test_an_index_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    pytest.importorskip("safetensors")
    (tmp_path / "model.safetensors.index.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(checkpoint.CheckpointError, match=r"index.json: it is no index"):
        checkpoint.read_tensors(tmp_path)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff" * 50)
    with pytest.raises(checkpoint.CheckpointError, match=r"model.safetensors: "):
        checkpoint.read_tensors(path)


def test_a_pipe_is_no_tuned_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tilewright.TunedTableError, match="it is no file"):
        tilewright.load_tuned(tmp_path / "pipe")


def test_a_path_that_cannot_be_encoded_is_no_tuned_table() -> None:
    with pytest.raises(tilewright.TunedTableError, match="surrogates"):
        tilewright.load_tuned("\ud800")


def test_ends_of_groups_may_stand_in_a_column() -> None:
    weights, scales = tilewright.quantize_fp8(torch.randn(2, 24, 512).flatten(0, 1))
    rest = (CODES, weights.view(2, 24, 512), SCALE, scales.view(2, 24))
    ends = torch.tensor([1, 4], dtype=torch.int32)
    wanted = tilewright.gemm_fp8_grouped(*rest, group_ends=ends)
    assert torch.equal(tilewright.gemm_fp8_grouped(*rest, group_ends=ends[:, None]), wanted)
