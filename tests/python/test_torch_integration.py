"""Linear4bit inside torch's machinery: compile, export, autocast, checkpointing, copies, meta device, FSDP, graphs."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import tilewright
from tilewright import Linear4bit, _ops

op = torch.ops.tilewright.gemm_4bit.default
FORMATS = [("nf4", False), ("nf4", True), ("fp4", False), ("e2m1", False)]
ON_GPU = torch.cuda.is_available() and _ops.NATIVE.loaded


class Mlp(torch.nn.Module):
    """Two linear layers and what lies between them in a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(64)  # not LayerNorm: dynamic=True takes its eps for a size, and traces twice
        self.up = torch.nn.Linear(64, 96)
        self.down = torch.nn.Linear(96, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.down(F.silu(self.up(self.norm(x))))
        return result


def converted(quant_type: str = "nf4", nested: bool = False) -> Mlp:
    torch.manual_seed(0)
    model = Mlp()
    report = tilewright.convert(model, quant_type=quant_type, nested=nested)
    assert report.converted == ("up", "down")
    return model


def expanded(model: Mlp) -> Mlp:
    """The oracle: the same model with the 4-bit weights written out."""
    dense = Mlp()
    dense.norm.load_state_dict(model.norm.state_dict())
    for name in ("up", "down"):
        layer, linear = getattr(model, name), getattr(dense, name)
        linear.weight.data.copy_(tilewright.dequantize_4bit(layer.weight, layer.state))
        if layer.bias is not None:
            linear.bias.data.copy_(layer.bias.data)
    return dense


class Counting:
    """A backend that counts the graphs it is given and the gemm_4bit calls in them."""

    def __init__(self) -> None:
        self.graphs = 0
        self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        self.calls += sum(node.target in (op, torch.ops.tilewright.gemm_4bit) for node in graph.graph.nodes)
        return graph.forward


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


compiling = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@compiling
@pytest.mark.parametrize("order", [(8, 2048, 3, 512), (2048, 8, 512, 3)])
def test_one_graph_for_every_row_count(order: tuple[int, ...]) -> None:
    model = converted().eval()
    backend = Counting()
    run = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for M in order:
            x = torch.randn(M, 64)
            torch.testing.assert_close(run(x), model(x))
            run(x)
            decision = tilewright.last_decision("cpu")
            assert decision is not None
            assert (decision.M, decision.N, decision.K) == (M, 64, 96)
    assert (backend.graphs, backend.calls) == (1, 2)


@compiling
def test_batch_and_length_may_both_change() -> None:
    model = converted().eval()
    backend = Counting()
    run = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for shape in ((2, 7, 64), (3, 5, 64), (4, 129, 64)):
            x = torch.randn(shape)
            torch.testing.assert_close(run(x), model(x))
    assert backend.graphs == 1


@compiling
def test_without_dynamic_torch_generalises_once() -> None:
    """The first M is taken as fixed, the second makes it free: two graphs, whatever follows."""
    model = converted().eval()
    backend = Counting()
    run = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        for M in (8, 16, 24, 2048, 5, 77):
            run(torch.randn(M, 64))
    assert backend.graphs == 2


@compiling
def test_training_step_compiles_once() -> None:
    model = converted()
    reference = copy.deepcopy(model)
    graphs = 0

    def count(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        from torch._dynamo.backends.debugging import aot_eager

        return aot_eager(graph, inputs)

    run = torch.compile(model, backend=count, fullgraph=True, dynamic=True)
    for M in (4, 32, 9):
        x = torch.randn(M, 64)
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        run(mine).square().sum().backward()
        reference(theirs).square().sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert model.up.bias is not None and reference.up.bias is not None
    torch.testing.assert_close(model.up.bias.grad, reference.up.bias.grad)
    assert graphs == 1


@compiling
def test_compiled_autocast_is_eager_autocast() -> None:
    model = converted().eval()
    run = torch.compile(model, backend="eager", fullgraph=True, dynamic=True)
    x = torch.randn(6, 64)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        up = model.up(x)
        found, wanted = run(x), model(x)
    assert up.dtype == torch.bfloat16
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("strict", [False, True])
@compiling
def test_export_of_a_model_survives_a_file(strict: bool) -> None:
    model = converted(nested=True).eval()
    rows = torch.export.Dim("rows", min=2, max=4096)
    with torch.no_grad():
        program = torch.export.export(model, (torch.randn(4, 64),), dynamic_shapes=({0: rows},), strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert sum(node.target is op for node in loaded.graph.nodes) == 2
    for M in (2, 9, 300):
        x = torch.randn(M, 64)
        torch.testing.assert_close(loaded.module()(x), model(x))
        decision = tilewright.last_decision("cpu")
        assert decision is not None and decision.M == M


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_gives_the_gradients_of_plain_torch(reentrant: bool) -> None:
    model = converted()
    dense = expanded(model)
    mine, theirs = (torch.arange(192.0).reshape(3, 64).div(100).requires_grad_() for _ in range(2))
    checkpoint(model, mine, use_reentrant=reentrant).square().sum().backward()
    dense(theirs).square().sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    assert model.up.bias is not None
    torch.testing.assert_close(model.up.bias.grad, dense.up.bias.grad)
    torch.testing.assert_close(model.norm.weight.grad, dense.norm.weight.grad)


def test_a_recycled_weight_never_gives_a_silently_wrong_gradient() -> None:
    """The packed buffer is overwritten after the forward: without checkpointing autograd notices."""
    model = converted()
    x = torch.randn(3, 64, requires_grad=True)
    out = model(x)
    model.down.weight.random_(0, 256)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_second_derivatives_of_a_net_of_awkward_sizes() -> None:
    """2-100-100-1, as in physics-informed nets: no size is a multiple of the blocksize."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 100), torch.nn.Linear(100, 100), torch.nn.Linear(100, 1)]
    ours = [Linear4bit.from_linear(layer) for layer in layers]
    for layer, linear in zip(ours, layers, strict=True):
        linear.weight.data.copy_(tilewright.dequantize_4bit(layer.weight, layer.state))

    def second_derivative(net: list[Any]) -> torch.Tensor:
        x = torch.linspace(-1, 1, 10).reshape(5, 2).requires_grad_()
        y = net[2](torch.tanh(net[1](torch.tanh(net[0](x)))))
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
        return second

    found = second_derivative(ours)
    assert bool(found.any())
    torch.testing.assert_close(found, second_derivative(layers))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradients_under_autocast_have_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    layer = Linear4bit.from_linear(torch.nn.Linear(64, 32).half())
    x = torch.randn(4, 64, dtype=dtype, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert x.grad is not None and layer.bias is not None and layer.bias.grad is not None
    assert (x.grad.dtype, layer.bias.grad.dtype) == (dtype, torch.float16)
    weight = tilewright.dequantize_4bit(layer.weight, layer.state)
    torch.testing.assert_close(x.grad.float(), weight.sum(0).expand(4, 64), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("M", [0, 3])
def test_bias_trains_when_the_input_does_not(M: int) -> None:
    layer = Linear4bit.from_linear(torch.nn.Linear(64, 32))
    out = layer(torch.randn(M, 64))
    assert out.shape == (M, 32)
    out.sum().backward()
    assert layer.bias is not None and layer.bias.grad is not None
    assert torch.equal(layer.bias.grad, torch.full((32,), float(M)))
    assert layer.weight.grad is None


@pytest.mark.parametrize(("quant_type", "nested"), FORMATS)
def test_copies_of_a_model(quant_type: str, nested: bool) -> None:
    model = converted(quant_type, nested)
    x = torch.randn(5, 64)
    wanted = model(x)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = converted(quant_type, nested)
    for tensor in loaded.state_dict().values():
        tensor.zero_()
    loaded.load_state_dict(torch.load(file, weights_only=True))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert torch.equal(twin(x), wanted)
        twin.up.weight.zero_()
        assert not torch.equal(twin(x), wanted)
    assert torch.equal(model(x), wanted)


def test_state_dict_is_strict() -> None:
    model = converted(nested=True)
    state = model.state_dict()
    del state["up.nested_absmax"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "up.nested_absmax"'):
        converted(nested=True).load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\).*up.nested_absmax"):
        converted().load_state_dict(model.state_dict())


@pytest.mark.parametrize(("quant_type", "nested"), FORMATS)
def test_built_on_the_meta_device_and_filled(quant_type: str, nested: bool) -> None:
    real = converted(quant_type, nested)
    with torch.device("meta"):
        hollow = Mlp()
        tilewright.convert(hollow, quant_type=quant_type, nested=nested)
    assert all(tensor.is_meta for tensor in hollow.state_dict().values())
    assert hollow(torch.empty(7, 64, device="meta")).shape == (7, 64)
    for name, tensor in real.state_dict().items():
        there = hollow.state_dict()[name]
        assert (there.shape, there.dtype) == (tensor.shape, tensor.dtype), name
    x = torch.randn(3, 64)
    assigned = copy.deepcopy(hollow)
    assigned.load_state_dict(real.state_dict(), assign=True)
    filled = hollow.to_empty(device="cpu")
    filled.load_state_dict(real.state_dict())
    assert torch.equal(assigned(x), real(x))
    assert torch.equal(filled(x), real(x))


def test_fully_sharded(tmp_path: Path) -> None:
    """FSDP shards the parameters and leaves the packed weights alone. One process is enough to meet its hooks."""
    from torch import distributed
    from torch.distributed.fsdp import fully_shard

    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    model = converted()
    reference = copy.deepcopy(model)
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        mesh = distributed.init_device_mesh("cpu", (1,))
        fully_shard(model, mesh=mesh)
        x = torch.randn(4, 64)
        out = model(x)
        torch.testing.assert_close(out, reference(x))
        out.sum().backward()
        reference(x).sum().backward()
        shard = model.up.bias
        assert shard is not None and reference.up.bias is not None
        torch.testing.assert_close(shard.grad.to_local(), reference.up.bias.grad)  # type: ignore[union-attr]
        assert model.up.weight.dtype == torch.uint8 and type(model.up.weight) is torch.Tensor
    finally:
        distributed.destroy_process_group()


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device and the native library")
@pytest.mark.parametrize("M", [1, 8, 2048])
def test_cuda_graph_keeps_the_decision_of_its_capture(M: int) -> None:
    layer = Linear4bit.from_linear(torch.nn.Linear(2048, 4096, device="cuda", dtype=torch.bfloat16))
    x = torch.randn(M, 2048, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        layer(x)
        eager = tilewright.last_decision()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layer(x)
        captured = tilewright.last_decision()
        assert eager is not None and captured is not None
        assert (captured.M, captured.path, captured.tile) == (M, eager.path, eager.tile)
        for _ in range(10):
            x.normal_()
            graph.replay()
            torch.testing.assert_close(out, layer(x))


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device and the native library")
@compiling
def test_compiled_decision_is_the_eager_one() -> None:
    layer = Linear4bit.from_linear(torch.nn.Linear(2048, 4096, device="cuda", dtype=torch.bfloat16))
    run = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for M in (8, 2048, 16, 300):
            x = torch.randn(M, 2048, device="cuda", dtype=torch.bfloat16)
            layer(x)
            eager = tilewright.last_decision()
            run(x)
            compiled = tilewright.last_decision()
            assert eager is not None and compiled is not None
            assert (compiled.path, compiled.tile, compiled.M) == (eager.path, eager.tile, M)
