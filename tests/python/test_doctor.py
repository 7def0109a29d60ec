"""python -m tilewright: doctor on machines of every kind, bench with a host timer, and the forwarded verbs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tilewright
from tilewright import __main__, _bench, _doctor, _library, _machine, _ops, _peers, _peers_4bit

GIB = 2**30


class FakeLibrary:
    """Answers like a native library with sm_80 and sm_90a code, and PTX for cards to come."""

    refusal = b""

    def refuse(self, index: int, text: Any, size: int) -> int:
        text.value = self.refusal
        return bool(self.refusal)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answers: dict[str, Callable[..., Any]] = {
            "tilewright_tile_count": lambda: 2,
            "tilewright_tile_name": lambda number: (b"m1", b"64x64-64")[number],
            "tilewright_spec_digest": lambda: b"0123456789abcdef",
            "tilewright_images": lambda text, size: setattr(text, "value", b"sm_80, sm_90a, compute_89"),
            "tilewright_arch_for": lambda *cc: {(9, 0): b"sm90", (8, 6): b"sm86", (13, 0): b"sm89"}.get(cc),
            "tilewright_image_for": lambda *cc: {(9, 0): 1, (8, 6): 0, (13, 0): 2}.get(cc, -1),
            "tilewright_device_refusal": self.refuse,
        }
        return answers[name]


def machine(*devices: _machine.Device, **changes: Any) -> _machine.Machine:
    facts: dict[str, Any] = {
        "python": "3.12.3",
        "system": "linux x86_64, glibc 2.39",
        "torch": "2.11.0+cu130",
        "torch_cuda": "13.0",
        "driver": "580.95.05",
        "driver_cuda": "13.0",
        "devices": devices,
        "no_devices": "" if devices else "torch for CUDA 13.0 finds no device it can use",
        "packages": {"transformers": "5.24.0", "matplotlib": None},
        "variables": {"TILEWRIGHT_FORCE_TILE": "fallback"},
    }
    return _machine.Machine(**(facts | changes))


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ops, "NATIVE", _library.Native(Path("/x/_native.so"), FakeLibrary(), ""))


@pytest.mark.usefixtures("native")
def test_cards_with_and_without_machine_code() -> None:
    h200 = _machine.Device(0, "NVIDIA H200", (9, 0), 132, 140 * GIB)
    spark = _machine.Device(1, "NVIDIA GB10", (12, 1), 48, 120 * GIB)
    turing = _machine.Device(2, "Tesla T4", (7, 5), 40, 15 * GIB)
    report = _doctor.examine(machine(h200, spark, turing), run=False)
    first, second, _ = report.findings
    assert (first.arch, first.runs, first.problem) == ("sm90", "kernels", None)
    expected = {M: tilewright.explain(M, 4096, 4096, arch="sm90").tile for M in (1, 16, 2048)}
    assert first.decisions == {M: tile or "fallback: dequantise, then linear" for M, tile in expected.items()}
    assert (second.arch, second.runs) == (None, "plain torch")
    text = str(report)
    assert "cuda:0      NVIDIA H200, compute capability 9.0, 132 SMs, 140 GiB" in text
    assert "runs kernels, by the rules of sm90" in text
    images = "sm_80, sm_90a, compute_89"
    assert f"no machine code for compute capability 12.1 in {images}; build with TILEWRIGHT_ARCHS=sm_121a" in text
    assert f"capability 7.5 in {images}; the specs have no machine code for it" in text
    assert "variables   TILEWRIGHT_FORCE_TILE=fallback" in text
    assert "specs 0123456789ab" in text
    assert "op check    not run" in text
    assert report.healthy
    parsed = json.loads(report.to_json())
    assert parsed["findings"][0]["device"]["num_sms"] == 132


@pytest.mark.usefixtures("native")
def test_a_card_that_came_later_runs_translated_kernels_or_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    card = _machine.Device(0, "NVIDIA X100", (13, 0), 200, 200 * GIB)
    monkeypatch.setattr(_doctor, "_run_checks", lambda machine: {"cuda:0": "right"})
    (found,) = (report := _doctor.examine(machine(card))).findings
    assert (found.arch, found.image, found.runs, found.problem) == ("sm89", "compute_89", "kernels", None)
    assert "runs kernels, by the rules of sm89; translated by the driver from compute_89" in str(report)
    monkeypatch.setattr(FakeLibrary, "refusal", b"cuda:0 has compute capability 13.0; the driver is too old")
    (found,) = (report := _doctor.examine(machine(card))).findings
    assert (found.arch, found.runs) == (None, "plain torch")
    assert "runs plain torch: cuda:0 has compute capability 13.0; the driver is too old" in str(report)
    assert "cuda:0 has compute capability 13.0; the driver is too old" in report.missing


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"driver": None, "driver_cuda": None}, "NVIDIA driver: libcuda.so.1 does not load"),
        ({"torch": "2.11.0+cpu", "torch_cuda": None}, "CUDA in torch: install a torch built for CUDA"),
        ({}, "CUDA device: torch for CUDA 13.0 finds no device it can use"),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, Any], expected: str) -> None:
    report = _doctor.examine(machine(**changes), run=False)
    assert any(expected in text for text in report.missing)
    assert f"missing     {expected}" in str(report)
    assert any(text == "optional packages: matplotlib (map and the picture of bench)" for text in report.missing)


def test_no_native_library_and_a_wrong_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ops, "NATIVE", _library.Native(None, None, "this install has no native library"))
    monkeypatch.setattr(_doctor, "gemm_4bit", lambda x, packed, state: 2 * tilewright.gemm_4bit(x, packed, state))
    report = _doctor.examine(machine())
    assert not report.healthy
    assert report.check == "cpu relative error 1"
    assert "the op is wrong on cpu: relative error 1" in report.missing
    assert report.missing[0].startswith("native library: this install has no native library; install a wheel")


def test_a_failing_op_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> torch.Tensor:
        raise RuntimeError("CUDA error: no kernel image is available\nmore lines")

    monkeypatch.setattr(_doctor, "gemm_4bit", fail)
    report = _doctor.examine(machine())
    assert report.check == "cpu RuntimeError: CUDA error: no kernel image is available"
    assert not report.healthy


def test_looking_at_this_machine() -> None:
    found = _machine.look()
    assert found.torch == torch.__version__
    assert set(found.packages) == set(_machine.OPTIONAL)
    assert bool(found.devices) == torch.cuda.is_available()
    assert bool(found.no_devices) != torch.cuda.is_available()


def test_doctor_on_this_machine() -> None:
    command = [sys.executable, "-m", "tilewright", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"tilewright  {tilewright.__version__}" in done.stdout
    assert "op check    cpu right" in done.stdout
    assert done.stderr == ""


def test_other_verbs_are_those_of_the_tilewright_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def here(*words: str) -> int | str | None:
        monkeypatch.setattr(sys, "argv", ["tilewright", *words])
        with pytest.raises(SystemExit) as end:
            __main__.run()
        return end.value.code

    assert here("explain", "16", "4096", "4096", "--arch", "sm90") == 0
    shown = capsys.readouterr().out.splitlines()
    rule = tilewright.explain(16, 4096, 4096, arch="sm90").rules["path"]
    assert "16 x 4096 x 4096" in shown[0] and f"rule {rule}" in shown[2]
    assert here("explian") == 2
    assert "did you mean 'explain'?" in capsys.readouterr().err
    assert here("--version") == 0
    assert here("bench", "--rows", "x") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="refuses only without a GPU")
def test_bench_refuses_without_a_gpu() -> None:
    with pytest.raises(_bench.RefusedError, match="bench needs a CUDA device, and torch finds none; python -m"):
        _bench.run([(1, 64, 64)], _bench.subject("gemm_4bit", "float16", None, None), 0)


def test_bench_names_an_option_of_another_family() -> None:
    with pytest.raises(_bench.RefusedError, match="--scaling row; it is an option of --family gemm_fp8, not of gemm_4"):
        _bench.subject("gemm_4bit", "float16", None, "row")
    with pytest.raises(_bench.RefusedError, match="--quant-type nf4; it is an option of --family gemm_4bit"):
        _bench.subject("gemm_nvfp4", "float16", "nf4", None)
    with pytest.raises(_bench.RefusedError, match="--layout prepacked; it is an option of --family gemm_4bit"):
        _bench.subject("gemm_fp8", "float16", None, None, "prepacked")


def test_bench_multiplies_by_weights_of_the_layout_that_is_named() -> None:
    found = _bench.subject("gemm_4bit", "bfloat16", None, None, "prepacked")
    assert str(found) == "gemm_4bit, bfloat16 x nf4, prepacked"
    contest = found.contest(32, 64, torch.device("cpu"), 1.0)
    assert isinstance(contest, _peers_4bit.Weights4bit)
    assert [codes.dim() for codes, _ in contest.ours] == [3] * len(contest.packed)
    call, exact = contest.make("tilewright", torch.randn(2, 64, dtype=torch.bfloat16))
    assert float((call(0).float() - exact).norm() / exact.norm()) < 0.01
    last = tilewright.last_decision("cpu")
    assert last is not None and last.layout == "prepacked"
    with pytest.raises(_bench.RefusedError, match="--layout prepacked; 40x64, where N is a multiple of 16"):
        found.contest(40, 64, torch.device("cpu"), 1.0)


@pytest.mark.parametrize(("shapes", "rows"), [(["4096"], "1"), (["4096xa"], "1"), (["64x64"], "0"), (["64x65"], "1")])
def test_bench_rejects_what_is_no_problem(shapes: list[str], rows: str) -> None:
    with pytest.raises(_bench.RefusedError, match=f"--shape {shapes[0]}"):
        _bench.problems(shapes, rows)
    assert _bench.problems(["128x64", "64X128"], "1,16") == [(1, 128, 64), (16, 128, 64), (1, 64, 128), (16, 64, 128)]


def test_bench_says_before_timing_what_it_could_not_draw(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, text in (("speed.txt", r"must end in one of .*\.svg"), ("none/speed.svg", "there is no folder .*none")):
        with pytest.raises(_bench.RefusedError, match=text):
            _bench.check_plot(tmp_path / name)
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", "bench", "--plot", str(tmp_path / name)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1 and "--plot" in done.stderr and "Traceback" not in done.stderr
    _bench.check_plot(tmp_path / "speed.SVG")


SUBJECTS = {
    "nf4": (_bench.Subject("gemm_4bit", "bfloat16", "nf4"), {"tilewright", "dense"}),
    "e2m1": (_bench.Subject("gemm_4bit", "bfloat16", "e2m1"), {"tilewright", "dense"}),
    "fp8-tensor": (
        _bench.Subject("gemm_fp8", "bfloat16", "tensor"),
        {"tilewright", "fast", "layer", "scaled_mm", "dense"},
    ),
    "fp8-row": (_bench.Subject("gemm_fp8", "bfloat16", "row"), {"tilewright", "fast", "layer", "dense"}),
    "fp8-block": (_bench.Subject("gemm_fp8", "bfloat16", "block"), {"tilewright", "layer", "dense"}),
    "nvfp4": (_bench.Subject("gemm_nvfp4", "bfloat16", ""), {"tilewright", "layer", "dense"}),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_bench_measures_and_draws(name: str, tmp_path: Path) -> None:
    """All but the CUDA timer: peers, checks of their results, table, picture."""
    subject, present = SUBJECTS[name]
    problems = _bench.problems(["128x64", "64x128"], "1,5")
    result = _bench.measure(problems, subject, torch.device("cpu"), "a CPU", 1e4, timer=_bench.time_calls)
    assert [(row.M, row.N, row.K) for row in result.rows] == problems
    for row in result.rows:
        assert present <= {peer for peer, us in row.us.items() if us is not None and us > 0}
        assert row.tile == "torch"
    assert "tilewright us" in str(result) and "128 x 64" in str(result) and subject.family in str(result)
    assert json.loads(result.to_json())["rows"][0]["N"] == 128
    assert json.loads(result.to_json())["subject"]["family"] == subject.family
    left_out = {note.partition(" ")[0] for note in result.notes}
    assert left_out == {peer for row in result.rows for peer, us in row.us.items() if us is None}
    if name == "nf4":
        pytest.importorskip("matplotlib")
        _bench.draw(result, tmp_path / "speed.png")
        assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_bench_leaves_out_wrong_and_failing_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(weights: _peers_4bit.Weights4bit, x: torch.Tensor) -> tuple[_peers.Call, torch.Tensor]:
        call, wanted = _peers_4bit._dense(weights, x)
        return lambda i: 1.2 * call(i), wanted

    def failing(weights: _peers_4bit.Weights4bit, x: torch.Tensor) -> tuple[_peers.Call, torch.Tensor]:
        raise RuntimeError("needs Triton")

    def measured() -> _bench.Result:
        subject = _bench.Subject("gemm_4bit", "float16", "nf4")
        return _bench.measure([(4, 64, 64)], subject, torch.device("cpu"), "a CPU", 1e4, _bench.time_calls)

    monkeypatch.setattr(_peers_4bit, "_bitsandbytes", wrong)
    monkeypatch.setattr(_peers_4bit, "_gemlite", failing)
    result = measured()
    assert result.rows[0].us["bitsandbytes"] is None and result.rows[0].us["gemlite"] is None
    assert result.notes == (
        "bitsandbytes is left out: its result is off by 0.2 (relative), at most 0.05 is taken",
        "gemlite is left out: RuntimeError: needs Triton",
    )
    monkeypatch.setattr(_peers_4bit, "_ours", failing)
    with pytest.raises(_bench.RefusedError, match="M=4, N=64, K=64: RuntimeError: needs Triton"):
        measured()


def test_int4_of_the_peers_is_close_to_the_weight() -> None:
    torch.manual_seed(0)
    weight = torch.randn(8, 128)
    codes, scales, zeros = _peers_4bit._int4(weight)
    assert int(codes.max()) == 15
    error = (codes.float() - zeros) * scales - weight.reshape(-1, 64)
    assert bool((error.abs() <= scales * 1.01).all())
