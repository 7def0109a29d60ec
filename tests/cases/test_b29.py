"""B29: tuning while a stream is captured. Here no call tunes anything, and a first call may be a captured one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tilewright
from tilewright import _tuned

from .support import ROOT, needs_gpu, run_python

FIRST_CALL = """
import torch, tilewright
make = tilewright.Linear4bit.from_linear
layers = [make(torch.nn.Linear(K, 512, bias=False)).cuda().bfloat16() for K in (1024, 4096)]
for M in (1, 16, 64, 512):
    for layer in layers:
        x = torch.randn(M, layer.in_features, device="cuda", dtype=torch.bfloat16)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):  # the first call of this shape and of this kernel
            out = layer(x)
        for _ in range(10):
            x.normal_()
            graph.replay()
            with torch.no_grad():
                assert torch.equal(out, layer(x)), M
print("equal")
"""
BROKEN = """
import torch, tilewright
layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(1024, 512, bias=False)).cuda().bfloat16()
x = torch.randn(16, 1024, device="cuda", dtype=torch.bfloat16)
try:
    with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph()):
        layer(x)
        torch.cuda.synchronize()  # not allowed here: the capture is invalidated
except Exception as error:
    print(type(error).__name__)
with torch.no_grad():
    out = layer(x)
    torch.cuda.synchronize()
    print(float((out - layer(x)).abs().max()))
"""


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("loading", ["LAZY", "EAGER"])
def test_the_first_call_of_all_is_inside_a_capture(loading: str) -> None:
    done = run_python(FIRST_CALL, CUDA_MODULE_LOADING=loading)
    assert done.stdout.split() == ["equal"], done.stderr[-2000:]


@pytest.mark.gpu
@needs_gpu
def test_a_call_after_a_broken_capture_is_answered() -> None:
    done = run_python(BROKEN)
    assert done.stdout.split()[-1] == "0.0", done.stderr[-2000:]


@pytest.mark.gpu
@needs_gpu
def test_tables_and_campaigns_refuse_inside_a_capture(tmp_path: Path) -> None:
    from tilewright_codegen.calibrate.cuda import CaptureError, refuse_capture

    (tmp_path / "tuned.json").write_text(json.dumps({"schema": "tuned/1"}))
    x = torch.zeros(8, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.add_(1)
        with pytest.raises(tilewright.TunedTableError, match="being captured"):
            tilewright.load_tuned(tmp_path / "tuned.json")
        with pytest.raises(CaptureError):
            refuse_capture()


@pytest.mark.parametrize("answer", [True, RuntimeError("operation would make the legacy stream depend on a capture")])
def test_every_status_but_none_counts_as_capturing(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def status() -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    for name in ("is_available", "is_initialized"):
        monkeypatch.setattr(torch.cuda, name, lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", status)
    assert _tuned._capturing()


def test_a_call_neither_waits_nor_times_nor_takes_memory_of_its_own() -> None:
    """The binding and the kernels' host code call nothing that a capture forbids."""
    forbidden = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEvent", "cudaMalloc", "cudaFree", "cudaMemcpy(")
    for folder in ("src", "include/tilewright"):
        for file in (ROOT / "csrc_templates" / folder).rglob("*"):
            if file.is_file():
                text = file.read_text("utf-8")
                assert not [word for word in forbidden if word in text], file
