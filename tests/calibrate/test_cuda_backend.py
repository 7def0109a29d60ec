"""What of the CUDA backend can be seen without a card; with one, a whole pass."""

from __future__ import annotations

import contextlib

import pytest

torch = pytest.importorskip("torch")

from tilewright._timing import Lead  # noqa: E402
from tilewright_codegen.calibrate import cuda, cuda_inputs  # noqa: E402
from tilewright_codegen.calibrate.bench import CaptureError, run_pass  # noqa: E402
from tilewright_codegen.calibrate.records import Cell, Method  # noqa: E402


def test_it_refuses_inside_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(CaptureError, match="outside of captures"):
        cuda.refuse_capture()


def test_a_capture_of_unknown_state_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def invalidated() -> bool:
        raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", invalidated)
    with pytest.raises(CaptureError, match="previous error"):
        cuda.refuse_capture()


def test_the_gate_lets_a_capture_through_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CaptureError is no fault of a candidate."""
    from .test_bench import CELL, METHOD, Recorder

    class Capturing(Recorder):
        def check(self, candidate: str) -> object:  # type: ignore[override]
            raise CaptureError("capturing")

    with pytest.raises(CaptureError):
        run_pass(Capturing(), CELL, "a", ["b"], METHOD, stage="screen", index=0)


@pytest.mark.parametrize(
    ("line", "processes", "wanted"),
    [
        ("1980, 3201, 41, 120.55, 3", ["1"], (1980.0, 3201.0, 41.0, 120.55, 3.0, 0)),
        ("1410, [N/A], 50, [Not Supported], 99", ["1", "2"], (1410.0, None, 50.0, None, 99.0, 1)),
        ("", [], (None, None, None, None, None, 0)),
    ],
)
def test_the_state_is_read_from_nvidia_smi(line: str, processes: list[str], wanted: tuple[object, ...]) -> None:
    found = cuda.parse_state(line, processes)
    assert (
        found.sm_mhz, found.memory_mhz, found.celsius, found.watts, found.utilisation, found.other_processes
    ) == wanted  # fmt: skip


def test_a_missing_nvidia_smi_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert cuda._smi("uuid", 0) == []


@pytest.mark.parametrize(("visible", "wanted"), [("", "1"), ("3,GPU-ab", "GPU-ab"), ("5", "1")])
def test_the_card_is_named_as_nvidia_smi_knows_it(monkeypatch: pytest.MonkeyPatch, visible: str, wanted: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cuda._physical(1) == wanted


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_pass_on_a_card() -> None:
    backend = cuda.CudaBackend()
    card = backend.device()
    cell = Cell(arch=card.arch, num_sms=card.num_sms, dtype="bf16", M=16, N=1024, K=1024)
    found = run_pass(
        backend, cell, "simt-8", ["simt-4", "fallback", "no-such-tile"], Method(warmup=2, rounds=5),
        stage="screen", index=0,
    )  # fmt: skip
    assert set(found.ratios) == {"simt-4", "fallback"}
    assert set(found.rejected) == {"no-such-tile"}
    assert found.null is not None
    assert all(0.1 < t.median < 10_000 for t in found.times.values())


def on_cpu(M: int, N: int, K: int, dtype: str) -> cuda.CudaBench:
    """A bench whose tensors lie in host memory: everything but graphs and events works there."""
    cell = Cell(arch="sm90", num_sms=132, dtype=dtype, M=M, N=N, K=K, words={"quant_type": "nf4"})
    method = Method(rotate_bytes=3 * N * K // 2)
    weights = cuda_inputs.Gemm4bit(cell, method, torch.device("cpu"))
    return cuda.CudaBench("gemm_4bit", cell, method, "rotated", weights, cuda.Watch(0), Lead(torch.device("cpu")))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_inputs_and_reference_agree_with_the_public_op(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = on_cpu(4, 128, 256, dtype)
    assert len(bench.copies) == 3
    assert len({packed.data_ptr() for packed, _ in bench.copies}) == 3
    decision = type("Decision", (), {"tile": "some-tile", "path": "custom"})
    monkeypatch.setattr(cuda.tilewright, "last_decision", lambda: decision)
    found = bench._compare(bench._call(1), "some-tile")
    assert found.untouched == 0
    assert 0 <= found.nrmse < 0.005


def test_a_sentinel_left_in_the_output_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = on_cpu(4, 128, 256, "bf16")
    decision = type("Decision", (), {"tile": "some-tile", "path": "custom"})
    monkeypatch.setattr(cuda.tilewright, "last_decision", lambda: decision)
    got = bench._call(0)
    got[1:] = bench._sentinel()[1:]
    assert bench._compare(got, "some-tile").untouched == 3 * 128
    with pytest.raises(RuntimeError, match="other-tile was forced and some-tile ran"):
        bench._compare(got, "other-tile")


@pytest.mark.parametrize("scaling", ["tensor", "row", "block"])
@pytest.mark.parametrize("accumulation", ["accurate", "fast"])
def test_cells_of_gemm_fp8(scaling: str, accumulation: str) -> None:
    words = {"scaling": scaling, "accumulation": accumulation, "grouping": "none"}
    cell = Cell(arch="sm90", num_sms=132, dtype="bf16", M=5, N=256, K=384, words=words)
    method = Method(rotate_bytes=3 * 256 * 384)
    weights = cuda_inputs.FAMILIES["gemm_fp8"](cell, method, torch.device("cpu"))
    bench = cuda.CudaBench("gemm_fp8", cell, method, "rotated", weights, cuda.Watch(0), Lead(torch.device("cpu")))
    assert len(bench.copies) == 3
    got = bench._call(2)
    assert (got.shape, got.dtype) == ((5, 256), torch.bfloat16)
    assert float((got.float() - bench.reference).norm() / bench.reference.norm()) < 0.01


def test_families_that_cannot_be_made_are_named() -> None:
    with pytest.raises(RuntimeError, match="cells of gemm_nvfp4 cannot be made on a card yet; those of gemm"):
        cuda.CudaBackend(0, "gemm_nvfp4")
    cell = Cell(arch="sm90", num_sms=132, dtype="bf16", M=5, N=256, K=384, words={"grouping": "masked"})
    with pytest.raises(ValueError, match="grouped products are not calibrated"):
        cuda_inputs.GemmFp8(cell, Method(), torch.device("cpu"))


@pytest.mark.parametrize(("hot", "leading"), [(False, "lead"), (True, "replay")])
def test_candidates_share_their_number_of_calls(hot: bool, leading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is led by a read that clears the cache, or where weights stay in it by a replay of its own."""
    bench = on_cpu(4, 128, 256, "bf16")
    bench.hot, bench.lead = hot, lambda: log.append("lead")
    log: list[str] = []
    graph = type("Graph", (), {"replay": lambda self: log.append("replay")})
    monkeypatch.setattr(cuda, "refuse_capture", lambda: None)
    monkeypatch.setattr(cuda, "calls_of", lambda call, lead, us: log.append("calls") or 7)
    monkeypatch.setattr(cuda, "elapsed", lambda lead, run: [lead(), run(), 21.0][-1])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: contextlib.nullcontext(log.append("graph")))
    monkeypatch.setattr(cuda.tilewright, "force_tile", lambda name, family: contextlib.nullcontext())
    monkeypatch.setattr(bench, "_call", lambda number: log.append(str(number)))
    assert [bench.time("a"), bench.time("b"), bench.time("a")] == [3.0, 3.0, 3.0]
    captured = ["0", "graph", *"0123456"]
    timed = [leading, "replay"]
    assert log == ["calls", *captured, *timed, *captured, *timed, *timed]


@pytest.mark.parametrize(("layout", "dimensions"), [(None, 1), ("packed", 1), ("prepacked", 3)])
def test_copies_have_the_layout_of_the_cell(layout: str | None, dimensions: int) -> None:
    words = {"quant_type": "nf4"} | ({} if layout is None else {"layout": layout})
    cell = Cell(arch="sm90", num_sms=132, dtype="bf16", M=4, N=128, K=256, words=words)
    weights = cuda_inputs.Gemm4bit(cell, Method(rotate_bytes=3 * 128 * 128), torch.device("cpu"))
    assert [packed.dim() for packed, _ in weights.copies] == [dimensions] * 3
    bench = cuda.CudaBench("gemm_4bit", cell, Method(), "hot", weights, cuda.Watch(0), Lead(torch.device("cpu")))
    assert len(bench.copies) == 1
    got = bench._call(0)
    assert float((got.float() - bench.reference).norm() / bench.reference.norm()) < 0.01


def test_weights_of_two_layouts_are_two_weights() -> None:
    cells = [
        Cell(arch="sm90", num_sms=132, dtype="bf16", M=4, N=128, K=256, words={"quant_type": "nf4", "layout": layout})
        for layout in ("packed", "prepacked")
    ]
    assert cuda_inputs.key(cells[0]) != cuda_inputs.key(cells[1])
