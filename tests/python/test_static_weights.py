"""Who tells a product that its weight is static: callers who say so, and layers that know."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import tilewright
from tilewright import Linear4bit, LinearFP8, LinearNVFP4, _ops, _settled, fp8, gemm, nvfp4

ROOT = Path(__file__).parents[2]
GEMMS = ("gemm_4bit", "gemm_fp8", "gemm_fp8_grouped", "gemm_nvfp4")
Call = Callable[..., torch.Tensor]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the ops were told, one entry a call."""
    found: list[bool] = []

    def watch(module: Any, name: str) -> None:
        op = getattr(module, name)
        names = [argument.name for argument in op._schema.arguments]

        def call(*arguments: Any) -> Any:
            found.append(dict(zip(names, arguments, strict=False)).get("static_weights", False))
            return op(*arguments)

        monkeypatch.setattr(module, name, call)

    for module, name in ((gemm, "_gemm_op"), (fp8, "_gemm_op"), (fp8, "_grouped_op"), (nvfp4, "_gemm_op")):
        watch(module, name)
    return found


def functions() -> dict[str, Call]:
    """Every function that multiplies, its flag open."""
    x, w = torch.randn(4, 64), torch.randn(32, 64)
    packed, state = tilewright.quantize_4bit(w)
    (a, scale_a), (b, scale_b) = tilewright.quantize_fp8(x, "row"), tilewright.quantize_fp8(w, "row")
    rows, weight = tilewright.quantize_nvfp4(x), tilewright.quantize_nvfp4(w)
    ends = torch.tensor([4], dtype=torch.int32)
    own = a, b[None], scale_a, scale_b[None]
    return {
        "gemm_4bit": lambda **flag: tilewright.gemm_4bit(x, packed, state, **flag),
        "gemm_4bit, gradients": lambda **flag: tilewright.gemm_4bit(x.requires_grad_(), packed, state, **flag),
        "gemm_fp8": lambda **flag: tilewright.gemm_fp8(a, b, scale_a, scale_b, **flag),
        "gemm_fp8, three dimensions": lambda **flag: tilewright.gemm_fp8(a[None], b, scale_a[None], scale_b, **flag),
        "gemm_fp8_grouped": lambda **flag: tilewright.gemm_fp8_grouped(*own, group_ends=ends, **flag),
        "scaled_mm": lambda **flag: tilewright.scaled_mm(a, b.t(), scale_a, scale_b.t(), **flag),
        "gemm_nvfp4": lambda **flag: tilewright.gemm_nvfp4(rows, weight, **flag),
    }


@pytest.mark.parametrize("name", functions())
def test_a_function_says_what_it_is_told(name: str, told: list[bool]) -> None:
    call = functions()[name]
    results = [call(), call(static_weights=False), call(static_weights=True)]
    assert told == [False, False, True]
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("name", GEMMS)
def test_the_argument_is_the_last_one_and_false_by_default(name: str) -> None:
    for schema in [s for s in _ops.SCHEMAS if s.split("(")[0] in (name, f"_{name}_torch", f"_noop_{name}")]:
        assert schema.split(") ->")[0].endswith(", bool static_weights=False"), schema
    last = getattr(torch.ops.tilewright, name).default._schema.arguments[-1]
    assert (last.name, str(last.type), last.default_value) == ("static_weights", "bool", False)


def test_the_specs_show_the_schemas_of_the_ops() -> None:
    schemas = {" ".join(schema.split()) for schema in _ops.SCHEMAS}
    for family in ("gemm_4bit", "gemm_fp8", "gemm_nvfp4"):
        text = (ROOT / f"specs/families/{family}/family.yaml").read_text()
        assert " ".join(yaml.safe_load(text)["op"].split()) in schemas


MAKERS: dict[str, Callable[[torch.nn.Linear], Any]] = {
    "4bit": Linear4bit.from_linear,
    "4bit, nested": lambda linear: Linear4bit.from_linear(linear, nested=True),
    "4bit, e2m1": lambda linear: Linear4bit.from_linear(linear, quant_type="e2m1"),
    "4bit, prepacked": lambda linear: Linear4bit.from_linear(linear, prepack=True),
    "fp8": LinearFP8.from_linear,
    "fp8, input scale": lambda linear: LinearFP8.from_linear(linear, input_scale=torch.tensor(0.1)),
    "nvfp4": LinearNVFP4.from_linear,
}
X = torch.randn(3, 64)


def layer(kind: str) -> Any:
    """A layer outside of training."""
    torch.manual_seed(0)
    return MAKERS[kind](torch.nn.Linear(64, 32)).eval()


@pytest.mark.parametrize("kind", MAKERS)
def test_a_layer_waits_in_training_and_as_it_is_told(kind: str, told: list[bool]) -> None:
    own = layer(kind).train()
    for _ in range(3):
        own(X)
    assert told == [False] * 3
    for flag in (True, False):
        for mode in (True, False):
            own.train(mode).static_weights = flag
            told.clear()
            own(X)
            own(X)
            assert told == [flag] * 2
    made = MAKERS[kind](torch.nn.Linear(64, 32).eval())
    assert not made.training
    assert MAKERS[kind](torch.nn.Linear(64, 32)).training


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if not kind.startswith("4bit")])
def test_layers_with_a_quantiser_ahead_need_not_wait(kind: str, told: list[bool]) -> None:
    own = layer(kind)
    own(X)
    own.weight.view(torch.uint8).zero_()
    own(X)
    assert told == [True, True]


def test_quantisers_are_ordinary_launches() -> None:
    """What LinearFP8 and LinearNVFP4 build on: a quantiser neither starts early nor lets its successor do so."""
    folder = ROOT / "csrc_templates/include/tilewright/quantize"
    sources = [*folder.glob("quantize_*.cuh"), folder / "greatest.cuh"]
    assert len(sources) == 4
    for source in sources:
        text = source.read_text()
        assert "return launch_kernel(" in text
        for word in ("cluster_launch", "launch_cluster_kernel", "release_dependents", "<<<", "Programmatic"):
            assert word not in text, (source.name, word)


def load(own: Linear4bit) -> None:
    own.load_state_dict(Linear4bit.from_linear(torch.nn.Linear(64, 32)).state_dict())


def assign(own: Linear4bit) -> None:
    own.load_state_dict({name: tensor.clone() for name, tensor in own.state_dict().items()}, assign=True)


def swap_storage(own: Linear4bit) -> None:
    own.weight.data = own.weight.clone()


def replace(own: Linear4bit) -> None:
    own.weight = own.weight.clone()


def through_data(own: Linear4bit) -> None:
    own.weight.data.copy_(own.weight.clone())
    torch.autograd.graph.increment_version(own.weight)


def in_training(own: Linear4bit) -> None:
    own.train()
    own.weight.data.copy_(own.weight.clone())
    own.eval()


def in_inference_mode(own: Linear4bit) -> None:
    with torch.inference_mode():
        own.absmax.mul_(2)


WRITES: dict[str, Callable[[Linear4bit], object]] = {
    "in place": lambda own: own.weight.random_(0, 256),
    "copy_": lambda own: own.weight.copy_(own.weight.clone()),
    "scales in place": lambda own: own.absmax.mul_(2),
    "in inference mode": in_inference_mode,
    "a view of it": lambda own: own.weight[:4].zero_(),
    "load_state_dict": load,
    "load_state_dict, assign": assign,
    "to and back": lambda own: own.to("meta").to_empty(device="cpu"),
    "replaced": replace,
    "other storage": swap_storage,
    "data": through_data,
    "in training": in_training,
    "prepack": lambda own: own.prepack(),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_layer_waits_once_after_a_write(write: str, told: list[bool]) -> None:
    own = layer("4bit")
    for _ in range(3):
        own(X)
    assert told == [False, True, True]
    WRITES[write](own)
    told.clear()
    for _ in range(3):
        own(X)
    assert told == [False, True, True]


@pytest.mark.parametrize("name", ["nested_absmax", "nested_code", "offset"])
def test_every_part_of_a_nested_weight_counts(name: str, told: list[bool]) -> None:
    own = layer("4bit, nested")
    own(X)
    getattr(own, name).mul_(1)
    own(X)
    own(X)
    assert told == [False, False, True]


def test_parts_that_come_and_go_count(told: list[bool]) -> None:
    own = layer("4bit, nested")
    own(X)
    nested = {name: getattr(own, name) for name in ("absmax", "nested_absmax", "nested_code", "offset")}
    codes, outer, code, offset = nested.values()
    own.absmax = code[codes.int()] * outer.repeat_interleave(256)[: codes.numel()] + offset
    own.nested_absmax = own.nested_code = own.offset = None
    del nested, outer, code, offset
    own(X)
    own(X)
    assert told == [False, False, True]
    looked = own._settled.look({**own._buffers, "offset": torch.zeros(())})
    assert looked is not None and looked[0]


def test_other_tensors_do_not_count(told: list[bool]) -> None:
    own = layer("4bit")
    own(X)
    own.half().float()  # the bias alone changes; buffers are moved, as torch moves them
    told.clear()
    own(X)
    own.bias.data.zero_()
    own(X)
    own(torch.randn(2, 5, 64))
    assert told[1:] == [True, True]


def test_nothing_has_been_waited_for_of_a_copy(told: list[bool]) -> None:
    own = layer("4bit")
    own(X)
    for twin in (copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        told.clear()
        twin(X)
        twin(X)
        own(X)
        assert told == [False, True, True]


def test_weights_whose_writes_torch_does_not_count(told: list[bool]) -> None:
    with torch.inference_mode():
        own = layer("4bit")
        for _ in range(3):
            own(X)
    assert told == [False] * 3


def test_parameters_of_a_functional_call_are_others(told: list[bool]) -> None:
    own = layer("4bit")
    own(X)
    others = {"weight": own.weight.clone()}
    for _ in range(2):
        torch.func.functional_call(own, others, (X,))
        own(X)
    assert told[:3] == [False, False, False]


def test_a_launch_counts_once_it_was_made(told: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking and launching another thread may come first on the same stream."""
    own = layer("4bit")
    op = gemm._gemm_op

    def other_thread_first(*arguments: Any) -> torch.Tensor:
        monkeypatch.setattr(gemm, "_gemm_op", op)
        own(X)
        result: torch.Tensor = op(*arguments)
        return result

    monkeypatch.setattr(gemm, "_gemm_op", other_thread_first)
    own(X)
    own(X)
    assert told == [False, False, True]

    def refuse(*arguments: Any) -> torch.Tensor:
        raise RuntimeError

    own.weight.zero_()
    monkeypatch.setattr(gemm, "_gemm_op", refuse)
    with pytest.raises(RuntimeError):
        own(X)
    monkeypatch.setattr(gemm, "_gemm_op", op)
    told.clear()
    own(X)
    assert told == [False]


class Card:
    """What Settled asks of a card."""

    stream = 1
    capturing = False


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    """Tensors that seem to lie on a card."""
    made = Card()
    monkeypatch.setattr(torch.Tensor, "get_device", lambda self: 0)
    monkeypatch.setattr(_settled, "_stream", lambda device: made.stream)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.capturing)
    return made


def calls(own: Linear4bit, told: list[bool], times: int = 1) -> list[bool]:
    """What so many calls tell."""
    told.clear()
    for _ in range(times):
        own(X)
    return list(told)


def test_each_stream_waits_once(card: Card, told: list[bool]) -> None:
    own = layer("4bit")
    assert calls(own, told, 2) == [False, True]
    card.stream = 2
    assert calls(own, told, 2) == [False, True]
    card.stream = 1
    assert calls(own, told) == [True]
    own.weight.zero_()
    assert calls(own, told, 2) == [False, True]
    card.stream = 2
    assert calls(own, told) == [False]


def test_a_captured_call_is_static_after_one_on_any_stream(card: Card, told: list[bool]) -> None:
    own = layer("4bit")
    own(X)
    card.stream, card.capturing = 7, True
    assert calls(own, told, 2) == [True, True]
    own.weight.zero_()  # in the graph
    assert calls(own, told, 2) == [False, False]
    card.stream, card.capturing = 1, False
    assert calls(own, told, 2) == [False, True]


def test_a_first_call_that_is_captured_does_not_count(card: Card, told: list[bool]) -> None:
    own = layer("4bit")
    card.capturing = True
    assert calls(own, told, 2) == [False, False]
    card.capturing = False
    assert calls(own, told, 2) == [False, True]


class Flags:
    """A backend that notes what the products of a graph are told."""

    def __init__(self) -> None:
        self.found: list[bool] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        for node in graph.graph.nodes:
            for name in GEMMS:
                if node.target is getattr(torch.ops.tilewright, name).default:
                    op = node.target._schema.arguments
                    given = dict(zip([argument.name for argument in op], node.args, strict=False)) | dict(node.kwargs)
                    self.found.append(given.get("static_weights", False))
        return graph.forward


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", MAKERS)
def test_a_compiled_graph_is_told_what_holds_for_all_its_calls(kind: str) -> None:
    own = layer(kind)
    own(X)
    own(X)  # by now an eager call of Linear4bit is static
    found = {}
    for mode in (None, True, False):
        torch._dynamo.reset()
        flags, own.static_weights = Flags(), mode
        run = torch.compile(own, backend=flags, fullgraph=True)
        with torch.no_grad():
            run(X)
            run(X)
        (found[mode],) = flags.found
    torch._dynamo.reset()
    assert found == {None: not kind.startswith("4bit"), True: True, False: False}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_exported_program_waits() -> None:
    own = layer("4bit")
    own(X)
    for strict in (False, True):
        with torch.no_grad():
            program = torch.export.export(own, (X,), strict=strict)
        flags = Flags()
        flags(program.graph_module, ())
        assert flags.found == [False]
