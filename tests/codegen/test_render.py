"""Rendering is a pure function of specs and images, and its files are written whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright_codegen.images import Image
from tilewright_codegen.output import MARK, OutputSet
from tilewright_codegen.render import environment, render, specs_digest
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
SM80 = Image("sm80", "kSm80", (8, 0), "")
COMMAND = [sys.executable, "-m", "tilewright_codegen", "render"]


def _render(specs: Path, out: Path, **environ: str) -> None:
    subprocess.run(
        [*COMMAND, "--specs", str(specs), "--out", str(out), "--archs", "80;90a"],
        check=True,
        capture_output=True,
        env={**os.environ, **environ},
    )


def _contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_output_is_the_same_bytes_elsewhere(tmp_path: Path) -> None:
    moved = tmp_path / "a rather longer path" / "specs"
    shutil.copytree(SPECS, moved)
    _render(SPECS, tmp_path / "one", PYTHONHASHSEED="1", LC_ALL="C", TZ="UTC")
    _render(moved, tmp_path / "two", PYTHONHASHSEED="77", LC_ALL="tr_TR.UTF-8", TZ="Asia/Kolkata")
    one, two = _contents(tmp_path / "one"), _contents(tmp_path / "two")
    assert one.keys() == two.keys() and len(one) > 30
    assert [name for name in one if one[name] != two[name]] == []


def test_key_order_and_comments_do_not_reach_the_output(tmp_path: Path) -> None:
    changed = tmp_path / "specs"
    shutil.copytree(SPECS, changed)
    profile = changed / "archs" / "sm80.yaml"
    lines = profile.read_text().splitlines()
    body = [line for line in lines if not line.startswith(("#", "schema"))]
    profile.write_text("\n".join(["# another comment", "schema: arch/1", *reversed(body)]) + "\n")
    ours, theirs = (render(load_tree(s), [SM80]).outputs.files for s in (SPECS, changed))
    digest = re.compile(r"[0-9a-f]{64}")
    assert {k: digest.sub("", v) for k, v in ours.items()} == {k: digest.sub("", v) for k, v in theirs.items()}


def test_a_second_run_writes_nothing(tmp_path: Path) -> None:
    outputs = render(load_tree(SPECS), [SM80]).outputs
    assert set(outputs.write(tmp_path)) == set(outputs.files)
    assert outputs.write(tmp_path) == []


def test_a_changed_rule_touches_only_what_decides(tmp_path: Path) -> None:
    _render(SPECS, tmp_path / "out")
    before = _contents(tmp_path / "out")
    changed = tmp_path / "specs"
    shutil.copytree(SPECS, changed)
    path = changed / "families" / "gemm_4bit" / "1_path.yaml"
    text = path.read_text()
    path.write_text(re.sub(r"(id: gb10-full-wave.*?m_cap: )256", r"\g<1>192", text, count=1, flags=re.S))
    assert path.read_text() != text
    _render(changed, tmp_path / "out")
    after = _contents(tmp_path / "out")
    different = {name for name in before if before[name] != after[name]}
    assert different == {
        *(f"{family}/launch.cpp" for family in ("gemm_4bit", "gemm_fp8", "gemm_nvfp4")),  # the digest of the specs
        "python/gemm_4bit_dispatch.py",
        "tilewright/generated/gemm_4bit_select.h",
    }


def test_orphans_go_only_if_they_are_ours(tmp_path: Path) -> None:
    old = tmp_path / "gemm_4bit" / "launch_gone_bf16.cu"
    old.parent.mkdir()
    old.write_text(f"// {MARK} from specs; do not edit.\n")
    kept = tmp_path / "gemm_4bit" / "by_hand.cu"
    kept.write_text("// mine\n")
    changed = render(load_tree(SPECS), [SM80]).outputs.write(tmp_path)
    assert "gemm_4bit/launch_gone_bf16.cu" in changed and not old.exists()
    assert kept.read_text() == "// mine\n"


def test_check_shows_a_hand_edit_and_the_command_that_mends_it(tmp_path: Path) -> None:
    _render(SPECS, tmp_path)
    command = [*COMMAND, "--specs", str(SPECS), "--out", str(tmp_path), "--archs", "80;90a", "--check"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    edited = tmp_path / "gemm_4bit" / "launch.cpp"
    edited.write_text(edited.read_text().replace("cudaErrorSymbolNotFound", "cudaSuccess"))
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "-  return cudaSuccess;" in result.stdout and "+  return cudaErrorSymbolNotFound;" in result.stdout
    assert f'tilewright render --out {tmp_path} --archs "80;90a"' in result.stderr
    assert "cudaSuccess" in edited.read_text()


def test_two_generators_at_once_leave_one_sound_folder(tmp_path: Path) -> None:
    command = [*COMMAND, "--specs", str(SPECS), "--out", str(tmp_path / "both"), "--archs", "80;90a"]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    _render(SPECS, tmp_path / "alone")
    assert _contents(tmp_path / "both") == _contents(tmp_path / "alone")


def test_a_killed_generator_leaves_no_half_written_file(tmp_path: Path) -> None:
    _render(SPECS, tmp_path / "whole")
    whole = _contents(tmp_path / "whole")
    out = tmp_path / "out"
    process = subprocess.Popen([*COMMAND, "--specs", str(SPECS), "--out", str(out), "--archs", "80;90a"])
    deadline = time.monotonic() + 60
    while not any(out.rglob("*.cu")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for name, data in _contents(out).items():
        if not name.endswith(".tmp"):
            assert data == whole[name], name
    _render(SPECS, out)
    assert {k: v for k, v in _contents(out).items() if not k.endswith(".tmp")} == whole


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("a.h", f"// {MARK}\n", "twice"),
        ("x" * 101 + ".h", f"// {MARK}\n", "100 characters"),
        ("b.h", "// by hand\n", "does not say"),
    ],
)
def test_an_output_set_refuses(path: str, text: str, message: str) -> None:
    outputs = OutputSet()
    outputs.add("a.h", f"// {MARK}\n")
    with pytest.raises(ValueError, match=message):
        outputs.add(path, text)


def test_templates_fail_on_an_undefined_name() -> None:
    with pytest.raises(Exception, match="undefined"):
        environment(ROOT / "csrc_templates").from_string("{{ nothing }}").render()


def test_the_digest_changes_with_any_spec_and_with_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "specs"
    shutil.copytree(SPECS, copy)
    assert specs_digest(copy) == specs_digest(SPECS)
    (copy / "notes.txt").write_text("not a spec")
    assert specs_digest(copy) == specs_digest(SPECS)
    tiles = copy / "families" / "gemm_4bit" / "tiles.yaml"
    tiles.write_text(tiles.read_text() + "# a comment\n")
    assert specs_digest(copy) != specs_digest(SPECS)
