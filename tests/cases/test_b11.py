"""B11: a large block of shared memory is asked for once for all devices; a kernel runs on the wrong device.

Two cards are needed for the whole of it; on one machine without them, injected devices stand for the bookkeeping.
"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
import torch

import tilewright
from tilewright import _ops

from .support import HOST, ROOT, needs_compiler, needs_gpu, weight

needs_two = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.device_count() < 2 or not _ops.NATIVE.loaded, reason="needs two cards"
)


@needs_compiler
def test_shared_memory_is_asked_for_on_every_device_and_only_raised(tmp_path: Path) -> None:
    program = tmp_path / "smem"
    includes = [HOST, ROOT / "csrc_templates/include"]
    flags = ["-std=c++17", "-O1", "-Wall", "-Werror", "-pthread", *(f"-I{path}" for path in includes)]
    subprocess.run(["g++", *flags, str(HOST / "smem.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "0: 65536", "1: 65536", "2: 0 refused, asked again: 65536", "threads: 0 below what was asked for",
    ]  # fmt: skip


@pytest.mark.parametrize("argument", ["b", "bias", "absmax"])
def test_tensors_on_two_devices_are_refused_by_name(argument: str) -> None:
    packed, state, _ = weight(8, 64)
    call = {"a": torch.ones(2, 64), "b": packed, "absmax": state.absmax, "bias": torch.zeros(8)}
    call[argument] = call[argument].to("meta")
    with pytest.raises(RuntimeError, match=r"\b[ab] is on cpu and " + argument + " is on meta; all tensors must be on"):
        torch.ops.tilewright.gemm_4bit(**call, n=8, k=64, blocksize=64, quant_type=0)


@pytest.mark.gpu
@needs_gpu
def test_two_threads_with_kernels_of_small_and_large_blocks() -> None:
    """Each alternates between tiles of its own; results stay those of a lone thread."""
    packed, state, exact = weight(512, 4096, "cuda")
    x = torch.randn(17, 4096, device="cuda", dtype=torch.float16)
    expected = x.float() @ exact.T
    failed: list[object] = []

    def work(M: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(200):
                got = tilewright.gemm_4bit(x[:M], packed, state)
            torch.cuda.current_stream().synchronize()
            error = (got.float() - expected[:M]).norm() / expected[:M].norm()
            if not error < 2e-3:
                failed.append((M, float(error)))

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(M,)) for M in (1, 17, 4, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.gpu
@needs_two
def test_two_cards_give_the_same_and_the_current_one_stays() -> None:
    packed, state, exact = weight(1024, 4096)
    x = torch.randn(64, 4096, dtype=torch.float16)
    found = []
    for card in ("cuda:1", "cuda:0"):
        found.append(tilewright.gemm_4bit(x.to(card), packed.to(card), state.to(card)).cpu())
        assert torch.cuda.current_device() == 0
    assert torch.equal(found[0], found[1])
    assert (found[0].float() - x.float() @ exact.T).norm() < 2e-3 * (x.float() @ exact.T).norm()
    with pytest.raises(RuntimeError, match="a is on cuda:0 and b is on cuda:1; all tensors must be on one device"):
        tilewright.gemm_4bit(x.to("cuda:0"), packed.to("cuda:1"), state.to("cuda:1"))
