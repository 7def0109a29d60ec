"""Importing: quick, without a driver, without a context, and the same without the native library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilewright
from tilewright import _ops

PACKAGE = Path(tilewright.__file__).parent
# An editable install finds the package through an importer of its own, an instance, before any folder of sys.path.
FROM_FOLDER = (
    "import sys; sys.path.insert(0, {!r}); sys.meta_path[:] = [f for f in sys.meta_path if isinstance(f, type)]"
)


def run_python(code: str, **extra: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **extra}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("devices", [None, "", "-1", "GPU-00000000-0000-0000-0000-000000000000"])
def test_import_asks_no_driver(devices: str | None) -> None:
    code = "import tilewright, torch; print(torch.cuda.is_initialized(), tilewright.build_info()['version'])"
    done = run_python(code, **({} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}))
    assert done.stdout.split() == ["False", tilewright.__version__], done.stderr


def test_import_before_torch_and_in_a_forked_child() -> None:
    code = (
        "import tilewright, os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    import torch\n"
        "    p, s = tilewright.quantize_4bit(torch.ones(2, 64))\n"
        "    os._exit(0 if tilewright.gemm_4bit(torch.ones(1, 64), p, s).tolist() == [[64.0, 64.0]] else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = run_python(code)
    assert done.stdout.strip() == "0", done.stderr


def test_import_leaves_the_generator_alone() -> None:
    code = (
        "import sys, tilewright\n"
        "heavy = ('tilewright_codegen', 'pydantic', 'jinja2', 'yaml', 'z3', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert run_python(code).stdout.strip() == "[]"


def test_the_command_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from tilewright_codegen.cli import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "print('torch' in sys.modules)"
    )
    assert run_python(code).stdout.strip() == "False"


def test_schemas_are_the_same_with_and_without_the_native_library() -> None:
    for schema in _ops.SCHEMAS:
        name = schema.split("(")[0]
        found = str(getattr(torch.ops.tilewright, name).default._schema)
        assert found == str(torch._C.parse_schema(f"tilewright::{schema}"))


def test_without_the_native_library(tmp_path: Path) -> None:
    """A copy of the package without _native.so answers everything in plain torch, and says so."""
    copy = tmp_path / "tilewright"
    copy.mkdir()
    for file in PACKAGE.glob("*.py"):
        (copy / file.name).write_bytes(file.read_bytes())
    code = (
        f"{FROM_FOLDER.format(str(tmp_path))}\n"
        "import torch, tilewright\n"
        "assert tilewright.__file__.startswith(sys.path[0]), tilewright.__file__\n"
        "p, s = tilewright.quantize_4bit(torch.eye(64))\n"
        "assert torch.equal(tilewright.gemm_4bit(torch.eye(64), p, s), torch.eye(64))\n"
        "info = tilewright.build_info()\n"
        "print(info['native'], info['images'], info['statement'])\n"
    )
    done = run_python(code)
    expected = "no CUDA kernels: every op runs in plain torch (this install has no native library)"
    assert done.stdout.strip() == f"False [] {expected}", done.stderr


def test_a_library_that_does_not_load_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "tilewright"
    copy.mkdir()
    for file in PACKAGE.glob("*.py"):
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / "_native.so").write_bytes(b"not a library")
    code = f"{FROM_FOLDER.format(str(tmp_path))}\nimport tilewright; print(tilewright.build_info()['statement'])"
    done = run_python(code)
    assert "every op runs in plain torch (_native.so does not load:" in done.stdout, done.stderr


def test_unknown_tiles_raise() -> None:
    with pytest.raises(ValueError, match="tile='no-such-tile'"), tilewright.force_tile("no-such-tile"):
        pass
    done = run_python("import tilewright", TILEWRIGHT_FORCE_TILE="no-such-tile")
    assert done.returncode == 1
    assert "ValueError: TILEWRIGHT_FORCE_TILE: tile='no-such-tile'" in done.stderr


def test_forcing_the_fallback_is_always_possible() -> None:
    with tilewright.force_tile("fallback"), tilewright.force_tile(None):
        packed, state = tilewright.quantize_4bit(torch.ones(2, 64))
        assert tilewright.gemm_4bit(torch.ones(1, 64), packed, state).tolist() == [[64.0, 64.0]]


def test_explain_names_rules_and_refuses_nonsense() -> None:
    found = tilewright.explain(16, 4096, 4096, arch="sm90")
    assert (found.arch, found.num_sms) == ("sm90", 132)
    assert all(rule is None or rule in str(found) for rule in found.rules.values())
    with pytest.raises(ValueError, match="arch='sm91'; allowed: sm80"):
        tilewright.explain(16, 4096, 4096, arch="sm91")
    with pytest.raises(ValueError, match="M is 0; allowed: 1 to"):
        tilewright.explain(0, 4096, 4096, arch="sm90")
    with pytest.raises(ValueError, match=r"dtype=torch\.float64; allowed"):
        tilewright.explain(1, 4096, 4096, arch="sm90", dtype=torch.float64)


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a device that is there")
def test_explain_without_a_device() -> None:
    with pytest.raises(ValueError, match="name an arch"):
        tilewright.explain(1, 4096, 4096)
