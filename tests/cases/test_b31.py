"""B31: the import reads the card: it fails where there is none, makes a context, and forked workers cannot use CUDA."""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics

import pytest

from .support import needs_gpu, run_python

HIDDEN = [{}, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "-1"}, {"CUDA_MODULE_LOADING": "EAGER"}]


@pytest.mark.parametrize("environment", HIDDEN, ids=str)
def test_the_import_makes_no_context(environment: dict[str, str]) -> None:
    code = "import tilewright, torch; print(torch.cuda.is_initialized())"
    assert run_python(code, **environment).stdout.split() == ["False"]


def test_the_import_takes_little_beside_that_of_torch() -> None:
    """Least of five: half a second is allowed."""
    code = "import time, torch\nstart = time.process_time()\nimport tilewright\nprint(time.process_time() - start)\n"
    times = [float(run_python(code).stdout) for _ in range(5)]
    assert min(times) < 0.5, statistics.median(times)


def test_the_generator_needs_neither_torch_nor_a_card() -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from click.testing import CliRunner\n"
        "from tilewright_codegen.cli import main\n"
        "for words in (['--help'], ['explain', '16', '4096', '4096', '--arch', 'sm90'], ['validate']):\n"
        "    result = CliRunner().invoke(main, words)\n"
        "    assert result.exit_code == 0, (words, result.output, result.exception)\n"
        "print('fine')\n"
    )
    done = run_python(code, CUDA_VISIBLE_DEVICES="")
    assert done.stdout.split() == ["fine"], done.stderr


def test_torch_without_a_driver_is_named_by_the_call_and_not_by_the_import() -> None:
    code = (
        "import torch, tilewright\n"
        "packed, state = tilewright.quantize_4bit(torch.ones(2, 64))\n"
        "try:\n"
        "    packed.cuda()\n"
        "except (RuntimeError, AssertionError) as error:\n"
        "    print('torch')\n"
        "print(tilewright.gemm_4bit(torch.ones(1, 64), packed, state).tolist())\n"
    )
    done = run_python(code, CUDA_VISIBLE_DEVICES="")
    assert done.stdout.splitlines() == ["torch", "[[64.0, 64.0]]"], done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_every_kind(method: str) -> None:
    code = (
        "import multiprocessing, sys, torch, tilewright\n"
        "def child(queue):\n"
        "    packed, state = tilewright.quantize_4bit(torch.ones(2, 64))\n"
        "    queue.put(tilewright.gemm_4bit(torch.ones(1, 64), packed, state).tolist())\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context(sys.argv[1])\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=child, args=(queue,))\n"
        "    process.start()\n"
        "    print(json.dumps(queue.get(timeout=120)))\n"
        "    process.join()\n"
    )
    assert method in multiprocessing.get_all_start_methods()
    import subprocess
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.py")
        with open(script, "w", encoding="utf-8") as stream:
            stream.write("import json\n" + code)
        done = subprocess.run([sys.executable, script, method], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout) == [[64.0, 64.0]], done.stderr[-2000:]


@pytest.mark.gpu
@needs_gpu
def test_a_forked_child_may_use_the_card_when_the_parent_only_imported() -> None:
    code = (
        "import os, torch, tilewright\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    packed, state = tilewright.quantize_4bit(torch.ones(2, 64, device='cuda'))\n"
        "    out = tilewright.gemm_4bit(torch.ones(1, 64, device='cuda'), packed, state)\n"
        "    os._exit(0 if out.tolist() == [[64.0, 64.0]] else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = run_python(code)
    assert done.stdout.split() == ["0"], done.stderr
