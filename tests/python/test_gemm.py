"""gemm_4bit on the CPU: values, layouts, refusals, gradients, autocast, torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import tilewright

op = torch.ops.tilewright.gemm_4bit.default
FORMATS = [("nf4", False), ("nf4", True), ("fp4", False), ("fp4", True), ("e2m1", False)]
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-6}


def make(N: int, K: int, quant_type: str = "nf4", nested: bool = False, blocksize: int | None = None) -> Any:
    weight = torch.randn(N, K, generator=torch.Generator().manual_seed(N * K))
    packed, state = tilewright.quantize_4bit(weight, quant_type=quant_type, nested=nested, blocksize=blocksize)
    return packed, state, tilewright.dequantize_4bit(packed, state)


def arguments(packed: torch.Tensor, state: tilewright.QuantState) -> tuple[Any, ...]:
    return (packed, state.absmax, *state.shape, state.blocksize, state.quant_code)


def nrmse(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


@pytest.mark.parametrize(("quant_type", "nested"), FORMATS)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("bias", [False, True])
def test_values(quant_type: str, nested: bool, dtype: torch.dtype, bias: bool) -> None:
    packed, state, weight = make(40, 192, quant_type, nested)
    x = torch.randn(7, 192, generator=torch.Generator().manual_seed(1)).to(dtype)
    b = torch.arange(40.0).to(dtype) if bias else None
    out = tilewright.gemm_4bit(x, packed, state, b)
    expected = F.linear(x.double(), weight.double(), None if b is None else b.double())
    assert (out.dtype, out.shape) == (dtype, (7, 40))
    assert nrmse(out, expected) <= TOLERANCE[dtype]
    assert torch.equal(out, tilewright.gemm_4bit(x, packed, state, b))


@pytest.mark.parametrize("K", [63, 65, 100, 4127])
def test_k_that_no_block_divides(K: int) -> None:
    packed, state, weight = make(9, K)
    x = torch.randn(3, K)
    torch.testing.assert_close(tilewright.gemm_4bit(x, packed, state), x @ weight.t())


def test_strided_and_misaligned_activations() -> None:
    packed, state, weight = make(24, 64)
    flat = torch.randn(5000)
    views = {
        "slice of rows": flat[: 8 * 128].view(4, 2, 128)[:, ::2, :64],
        "transposed": flat[: 64 * 5].view(64, 5).t(),
        "expanded": flat[:64].expand(6, 64),
        "odd offset": flat[1 : 1 + 3 * 64].view(3, 64),
        "one dimension": flat[:64],
        "four dimensions": flat[: 2 * 3 * 4 * 64].view(2, 3, 4, 64),
    }
    for name, x in views.items():
        expected = F.linear(x, weight)
        torch.testing.assert_close(tilewright.gemm_4bit(x, packed, state), expected, msg=lambda m, n=name: f"{n}: {m}")


def test_strided_weight_and_scales() -> None:
    packed, state, weight = make(24, 64)
    wide = torch.zeros(packed.numel(), 2, dtype=torch.uint8)
    wide[:, 1] = packed
    scales = torch.zeros(state.absmax.numel(), 3)
    scales[:, 2] = state.absmax
    x = torch.randn(2, 64)
    out = op(x, wide[:, 1], scales[:, 2], 24, 64, 64, 0)
    torch.testing.assert_close(out, F.linear(x, weight))


@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_no_rows(shape: tuple[int, ...]) -> None:
    packed, state, _ = make(24, 64)
    x = torch.zeros(shape, requires_grad=True)
    bias = torch.zeros(24, requires_grad=True)
    out = tilewright.gemm_4bit(x, packed, state, bias)
    assert out.shape == (*shape[:-1], 24)
    out.sum().backward()
    assert x.grad is not None and x.grad.shape == shape
    assert bias.grad is not None and torch.equal(bias.grad, torch.zeros(24))


def test_accumulator_is_scaled_before_it_is_rounded() -> None:
    """Partial sums pass the largest fp16 number; the scaled result does not."""
    weight = torch.full((4, 4096), 6e-3)
    packed, state = tilewright.quantize_4bit(weight, quant_type="e2m1")
    x = torch.full((2, 4096), 6.0, dtype=torch.float16)
    out = tilewright.gemm_4bit(x, packed, state)
    assert out.tolist() == [[pytest.approx(147.456, rel=1e-3)] * 4] * 2
    large, large_state = tilewright.quantize_4bit(weight * 1000, quant_type="e2m1")
    assert torch.isinf(tilewright.gemm_4bit(x, large, large_state)).all()


WRONG = [
    ("dtype of a", lambda t: t | {"a": t["a"].double()}, "a has dtype float64; allowed: float16, bfloat16, float32"),
    ("k", lambda t: t | {"a": t["a"][:, :63]}, "the last dimension of a is 63; expected k=64"),
    ("dtype of b", lambda t: t | {"b": t["b"].int()}, "b has dtype int32; allowed: uint8"),
    ("length of b", lambda t: t | {"b": t["b"][:-1]}, "b has 767 elements; expected 768"),
    ("dtype of absmax", lambda t: t | {"absmax": t["absmax"].half()}, "absmax has dtype float16; allowed: float32"),
    ("length of absmax", lambda t: t | {"absmax": t["absmax"][1:]}, "absmax has 23 elements; expected 24"),
    ("blocksize", lambda t: t | {"blocksize": 63}, "blocksize=63; allowed for nf4: 32, 64, 128"),
    ("quant_type", lambda t: t | {"quant_type": 3}, r"quant_type=3; allowed: 0 \(nf4\), 1 \(fp4\), 2 \(e2m1\)"),
    ("dtype of bias", lambda t: t | {"bias": torch.zeros(24).half()}, "bias has dtype float16; allowed: float32"),
    ("length of bias", lambda t: t | {"bias": torch.zeros(1)}, "bias has 1 elements; expected 24"),
    ("stray offset", lambda t: t | {"offset": torch.zeros(1)}, "offset is given; it must be None without nested"),
    ("n", lambda t: t | {"n": -1}, "n=-1, k=64; allowed: n >= 0"),
    ("device", lambda t: t | {"b": t["b"].to("meta")}, "a is on cpu and b is on meta"),
]


@pytest.mark.parametrize(("change", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_refusals_name_argument_value_and_what_is_allowed(change: Any, message: str) -> None:
    packed, state, _ = make(24, 64)
    call = {"a": torch.ones(2, 64), "b": packed, "absmax": state.absmax, "n": 24, "k": 64, "blocksize": 64}
    with pytest.raises(RuntimeError, match=f"gemm_4bit: {message}"):
        op(**change(call | {"quant_type": 0}))


@pytest.mark.parametrize(("quant_type", "nested"), FORMATS)
def test_opcheck(quant_type: str, nested: bool) -> None:
    packed, state, _ = make(24, 64, quant_type, nested)
    scales = (state.nested_absmax, state.nested_code, state.offset)
    call = arguments(packed, state)
    torch.library.opcheck(op, (torch.randn(3, 64), *call, torch.ones(24), *scales))
    torch.library.opcheck(torch.ops.tilewright.dequantize_4bit.default, (*call, 1, *scales))
    torch.library.opcheck(torch.ops.tilewright.quantize_4bit.default, (torch.randn(3, 64), *call[4:]))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_gradients(dtype: torch.dtype) -> None:
    packed, state, weight = make(24, 64)
    x = torch.randn(5, 64).to(dtype).requires_grad_()
    bias = torch.randn(24).to(dtype).requires_grad_()
    grad = torch.randn(5, 24).to(dtype)
    tilewright.gemm_4bit(x, packed, state, bias).backward(grad)
    assert x.grad is not None and bias.grad is not None
    assert (x.grad.dtype, bias.grad.dtype) == (dtype, dtype)
    assert nrmse(x.grad, grad.double() @ weight.double()) <= TOLERANCE[dtype] * 2
    assert nrmse(bias.grad, grad.double().sum(0)) <= TOLERANCE[dtype] * 2


def test_gradient_of_the_bias_alone() -> None:
    packed, state, _ = make(24, 64)
    bias = torch.zeros(24, requires_grad=True)
    tilewright.gemm_4bit(torch.ones(5, 64), packed, state, bias).sum().backward()
    assert bias.grad is not None and torch.equal(bias.grad, torch.full((24,), 5.0))


def test_second_derivatives() -> None:
    first = tilewright.Linear4bit.from_linear(torch.nn.Linear(32, 64))
    second = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 1))
    weights = [tilewright.dequantize_4bit(m.weight, m.state) for m in (first, second)]

    def ours(x: torch.Tensor) -> torch.Tensor:
        return second(torch.tanh(first(x))).sum()

    def plain(x: torch.Tensor) -> torch.Tensor:
        return F.linear(torch.tanh(F.linear(x, weights[0], first.bias)), weights[1], second.bias).sum()

    x = torch.randn(3, 32)
    found, expected = (torch.autograd.functional.hessian(f, x) for f in (ours, plain))
    torch.testing.assert_close(found, expected)


def test_overwriting_the_weight_between_forward_and_backward_raises() -> None:
    packed, state, _ = make(24, 64)
    x = torch.randn(2, 64, requires_grad=True)
    out = tilewright.gemm_4bit(x, packed, state)
    packed.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_checkpoint_recomputes_with_the_weight_of_that_moment() -> None:
    packed, state, _ = make(24, 64)
    x = torch.randn(2, 64, requires_grad=True)
    out = checkpoint(lambda v: tilewright.gemm_4bit(v, packed, state), x, use_reentrant=False)
    packed.copy_(packed.flip(0))
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, tilewright.dequantize_4bit(packed, state).sum(0).expand(2, 64))


def test_autocast_casts_as_linear_does() -> None:
    packed, state, _ = make(24, 64)
    x = torch.randn(2, 64, requires_grad=True)
    bias = torch.zeros(24, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = tilewright.gemm_4bit(x, packed, state, bias)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert x.grad is not None and bias.grad is not None
    assert (x.grad.dtype, bias.grad.dtype) == (torch.float32, torch.float32)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_decides_at_run_time() -> None:
    """One graph for every M, and the op is asked with the M of the call, not of the trace."""
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 32))
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(layer, backend=count, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for M in (8, 2048, 3):
            x = torch.randn(M, 64)
            torch.testing.assert_close(compiled(x), layer(x))
            compiled(x)
            decision = tilewright.last_decision("cpu")
            assert decision is not None
            assert (decision.M, decision.N, decision.K, decision.path) == (M, 32, 64, "torch")
    assert len(graphs) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_with_gradients() -> None:
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 32))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    x, y = torch.randn(4, 64, requires_grad=True), torch.randn(4, 64, requires_grad=True)
    y.data.copy_(x.data)
    compiled(x).sum().backward()
    layer(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_export_keeps_the_op() -> None:
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 32))
    batch = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(layer, (torch.randn(4, 64),), dynamic_shapes=({0: batch},))
    assert any(node.target is op for node in program.graph.nodes)
    x = torch.randn(9, 64)
    torch.testing.assert_close(program.module()(x), layer(x))
