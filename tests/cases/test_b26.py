"""B26: a table keyed by M is read while torch.compile traces, and the first M is frozen into the graph.

torch takes two equal sizes of the first call for one size, so M of the first call differs from K here.
"""

from __future__ import annotations

import pytest
import torch

import tilewright

from .support import DEVICES, needs_gpu

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", [(8, 2048, 8), (2048, 8, 2048)])
def test_one_graph_and_the_choice_of_each_call(order: tuple[int, ...], device: str) -> None:
    torch._dynamo.reset()
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(1024, 64 if device == "cpu" else 4096)).to(device)
    graphs = []

    def count(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(layer, backend=count, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for M in order:
            x = torch.randn(M, 1024, device=device, dtype=dtype)
            layer(x)
            eager = tilewright.last_decision(device)
            compiled(x)
            found = tilewright.last_decision(device)
            assert eager is not None and found is not None
            assert (found.M, found.path, found.tile) == (M, eager.path, eager.tile)
    assert len(graphs) == 1


def test_export_keeps_the_op_and_the_choice_is_made_when_it_runs() -> None:
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 32))
    rows_ = torch.export.Dim("rows", min=1, max=4096)
    program = torch.export.export(layer, (torch.randn(8, 64),), dynamic_shapes=({0: rows_},))
    for M in (1, 8, 2048):
        program.module()(torch.randn(M, 64))
        found = tilewright.last_decision("cpu")
        assert found is not None and found.M == M


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 8, 2048])
def test_a_capture_keeps_the_choice_of_its_own_m(M: int) -> None:
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(2048, 4096, device="cuda", dtype=torch.bfloat16))
    x = torch.randn(M, 2048, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        eager = layer(x)
        chosen = tilewright.last_decision()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layer(x)
        captured = tilewright.last_decision()
        assert chosen is not None and captured is not None and captured.tile == chosen.tile
        graph.replay()
        assert torch.equal(out, eager)
