"""Threads, streams, graphs, children and interpreters without a lock: the same results as alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tilewright

from .support import needs_gpu, run_python, weight

THREADS, STREAMS = 16, 8


def wrong_on_streams(turns: int, check: Callable[[int], object]) -> list[object]:
    """What `check` finds wrong in turns of every thread, started together, each on one of the streams.

    `check` takes thread + turn, and gives None where all is right.
    """
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]
    barrier, wrong = threading.Barrier(THREADS), []

    def work(number: int) -> None:
        barrier.wait()
        with torch.cuda.stream(streams[number % STREAMS]):
            for turn in range(turns):
                found = check(number + turn)
                if found is not None:
                    wrong.append((number, found))
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_sixteen_threads_on_the_cpu() -> None:
    """Values, and the record of the last decision, which every thread has for itself."""
    packed, state, exact = weight(96, 256)
    inputs = [torch.randn(M, 256) for M in range(1, THREADS + 1)]
    barrier = threading.Barrier(THREADS)

    def work(x: torch.Tensor) -> bool:
        barrier.wait()
        right = True
        for _ in range(40):
            got = tilewright.gemm_4bit(x, packed, state)
            last = tilewright.last_decision("cpu")
            right &= torch.allclose(got, x @ exact.T, atol=1e-5) and last is not None and x.shape[0] == last.M
        return right

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(work, inputs))


def test_threads_that_quantise_build_tables_and_explain_at_once() -> None:
    barrier = threading.Barrier(THREADS)

    def work(number: int) -> tuple[float, str]:
        barrier.wait()
        packed, state = tilewright.quantize_4bit(torch.eye(64), quant_type=("nf4", "fp4", "e2m1")[number % 3])
        back = tilewright.dequantize_4bit(packed, state)
        return float((back - torch.eye(64)).abs().max()), str(tilewright.explain(16, 4096, 4096, arch="sm90").tile)

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(work, range(THREADS)))
    assert max(error for error, _ in found) < 1e-6
    assert len({tile for _, tile in found}) == 1


@pytest.mark.gpu
@needs_gpu
def test_sixteen_threads_and_eight_streams_on_a_card() -> None:
    shapes = [(1, 1024, 4096), (7, 4096, 1024), (16, 512, 2048), (40, 1536, 1536), (128, 1024, 1024), (300, 768, 4096)]
    weights = {(N, K): weight(N, K, "cuda") for _, N, K in shapes}
    inputs = {s: torch.randn(s[0], s[2], device="cuda", dtype=torch.float16) for s in shapes}
    alone = {s: tilewright.gemm_4bit(inputs[s], *weights[s[1:]][:2]) for s in shapes}
    torch.cuda.synchronize()

    def check(at: int) -> object:
        shape = shapes[at % len(shapes)]
        got = tilewright.gemm_4bit(inputs[shape], *weights[shape[1:]][:2], static_weights=at % 4 > 0)
        last = tilewright.last_decision()
        right = last is not None and shape[0] == last.M and torch.equal(got, alone[shape])
        return None if right else shape

    assert wrong_on_streams(60, check) == []


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 16, 64, 600])
def test_a_graph_of_one_stream_is_replayed_on_others(M: int) -> None:
    packed, state, _ = weight(2048, 4096, "cuda")
    x = torch.randn(M, 4096, device="cuda", dtype=torch.bfloat16)
    capture, others = torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=capture):
        out = tilewright.gemm_4bit(x, packed, state, static_weights=True)
    for stream in (*others, capture, torch.cuda.default_stream()):
        x.normal_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.replay()
        stream.synchronize()
        assert torch.equal(out, tilewright.gemm_4bit(x, packed, state))


def fp8_call(M: int, N: int, K: int, kind: str) -> Callable[[], torch.Tensor]:
    """A product in FP8 of seeded operands on the card."""
    a, scale_a = tilewright.quantize_fp8(torch.randn(M, K, device="cuda"), kind)
    b, scale_b = tilewright.quantize_fp8(torch.randn(N, K, device="cuda"), kind if kind != "block" else "block128x128")
    torch.cuda.synchronize()
    return lambda: tilewright.gemm_fp8(a, b, scale_a, scale_b, fast_accum=kind == "tensor", static_weights=True)


@pytest.mark.gpu
@needs_gpu
def test_sixteen_threads_and_eight_streams_of_fp8_on_a_card() -> None:
    """Products of all scalings, and quantisers, against the same call alone."""
    kinds = ("tensor", "row", "block")
    shapes = [(1, 1024, 4096), (16, 512, 2048), (64, 1536, 1536), (300, 768, 4096)]
    calls = [fp8_call(*shape, kind) for shape in shapes for kind in kinds]
    values = torch.randn(257, 1040, device="cuda", dtype=torch.bfloat16)
    calls += [lambda kind=kind: tilewright.quantize_fp8(values, kind)[0].view(torch.uint8) for kind in kinds]
    calls += [lambda: tilewright.quantize_nvfp4(values).scales]
    alone = [call() for call in calls]

    def check(at: int) -> object:
        at %= len(calls)
        return None if torch.equal(calls[at](), alone[at]) else at

    assert wrong_on_streams(64, check) == []


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", ["tensor", "row", "block"])
@pytest.mark.parametrize("M", [1, 16, 64, 600])
def test_a_graph_of_fp8_is_replayed_on_other_streams(M: int, kind: str) -> None:
    call = fp8_call(M, 2048, 4096, kind)
    wanted = call()
    capture, others = torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=capture):
        out = call()
    for stream in (*others, capture, torch.cuda.default_stream()):
        out.fill_(float("nan"))
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.replay()
        stream.synchronize()
        assert torch.equal(out, wanted)


@pytest.mark.gpu
@needs_gpu
def test_graphs_on_two_streams_at_once() -> None:
    packed, state, _ = weight(4096, 4096, "cuda")
    runs = []
    for M in (4, 48):
        x = torch.randn(M, 4096, device="cuda", dtype=torch.bfloat16)
        expected = tilewright.gemm_4bit(x, packed, state)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = tilewright.gemm_4bit(x, packed, state, static_weights=True)
        runs.append((graph, out, expected, torch.cuda.Stream()))
    torch.cuda.synchronize()
    for _ in range(200):
        for graph, _, _, stream in runs:
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for _, out, expected, _ in runs:
        assert torch.equal(out, expected)


FREE_THREADED = [name for name in ("python3.14t", "python3.13t") if shutil.which(name)]


NO_LOCK = """
import sys, threading, torch, tilewright
assert not sys._is_gil_enabled()
torch.set_num_threads(1)
packed, state = tilewright.quantize_4bit(torch.randn(96, 256), nested=True)
b, scale_b = tilewright.quantize_fp8(torch.randn(96, 256))
second = tilewright.quantize_nvfp4(torch.randn(96, 256))
inputs = [torch.randn(M, 256) for M in range(1, 17)]

def every_op(x):
    a, scale_a = tilewright.quantize_fp8(x)
    first = tilewright.quantize_nvfp4(x)
    return (tilewright.gemm_fp8(a, b, scale_a, scale_b), tilewright.gemm_nvfp4(first, second), first.scales,
            tilewright.quantize_4bit(x)[0], tilewright.gemm_4bit(x, packed, state))

alone, wrong = [every_op(x) for x in inputs], []

def work(number):
    for _ in range(50):
        found = every_op(inputs[number])
        last = tilewright.last_decision("cpu")
        if not all(map(torch.equal, found, alone[number])) or last.M != number + 1:
            wrong.append(number)

threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(wrong), sys._is_gil_enabled())
"""


@pytest.mark.skipif(not FREE_THREADED, reason="needs a Python without a global lock")
def test_a_python_without_a_global_lock() -> None:
    """Runs where that Python has torch and this package."""
    python = FREE_THREADED[0]
    found = subprocess.run([python, "-c", "import torch, tilewright"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"{python} lacks torch or tilewright")
    done = subprocess.run([python, "-c", NO_LOCK], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "False"], done.stderr


def test_nothing_of_the_package_turns_the_lock_back_on() -> None:
    """The library is opened by ctypes: it is no extension module, which would have to declare itself safe."""
    code = (
        "import sys, importlib.machinery, tilewright\n"
        "ours = [m for n, m in sys.modules.items() if n.split('.')[0] == 'tilewright' and m is not None]\n"
        "print([m.__name__ for m in ours if isinstance(m.__loader__, importlib.machinery.ExtensionFileLoader)])\n"
    )
    assert run_python(code).stdout.strip() == "[]"


def test_a_daemon_thread_does_not_keep_the_process() -> None:
    code = (
        "import threading, torch, tilewright\n"
        "packed, state = tilewright.quantize_4bit(torch.eye(64))\n"
        "def forever():\n"
        "    while True: tilewright.gemm_4bit(torch.eye(64), packed, state)\n"
        "threading.Thread(target=forever, daemon=True).start()\n"
        "print('bye')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "bye"
