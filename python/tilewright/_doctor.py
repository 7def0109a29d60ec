"""`python -m tilewright doctor`: what runs here, what does not, and why, as one text to paste into a report."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch

from . import _machine, _ops, info
from .gemm import dequantize_4bit, gemm_4bit, quantize_4bit

# Rows that stand for one token, a small batch, and a prompt.
_ROWS = (1, 16, 2048)
_SIZE = 4096
_LIMIT = 2e-2


@dataclass(frozen=True)
class Finding:
    """One card. runs: "kernels" or "plain torch". decisions: rows -> the tile, for a 4096 x 4096 weight in bfloat16.

    arch and image: whose rules it runs, and the code it takes; "compute_89" is PTX, which the driver translates.
    """

    device: _machine.Device
    arch: str | None
    image: str | None
    runs: str
    decisions: dict[int, str]
    problem: str | None


@dataclass(frozen=True)
class Report:
    """All that `doctor` found. missing: what is not there and what would mend it."""

    build: dict[str, Any]
    machine: _machine.Machine
    findings: tuple[Finding, ...]
    check: str
    missing: tuple[str, ...]
    healthy: bool

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(asdict(self), indent=2, default=str)


def examine(machine: _machine.Machine | None = None, *, run: bool = True) -> Report:
    """Looks at the machine (or at a description of one), decides typical problems and, with `run`, checks the op.

    Never raises for what it finds; what is broken is in the report.
    """
    machine = _machine.look() if machine is None else machine
    findings = tuple(_finding(device, run) for device in machine.devices)
    checks = _run_checks(machine) if run else {}
    broken = {where: text for where, text in checks.items() if text != "right"}
    missing = _missing(machine, findings) + [f"the op is wrong on {where}: {text}" for where, text in broken.items()]
    summary = ", ".join(f"{where} {text}" for where, text in checks.items()) or "not run"
    return Report(info.build_info(), machine, findings, summary, tuple(missing), not broken)


def _finding(device: _machine.Device, run: bool) -> Finding:
    native = _ops.NATIVE
    arch, image = native.arch_for(*device.cc), native.image_for(*device.cc)
    if arch is None:
        cc = "{}.{}".format(*device.cc)
        images = ", ".join(native.images())
        problem = f"no machine code for compute capability {cc} in {images}" if native.loaded else native.reason
        return Finding(device, None, None, "plain torch", {}, problem)
    refusal = native.refusal(device.index) if run else None
    if refusal is not None:
        return Finding(device, None, image, "plain torch", {}, refusal)
    try:
        return Finding(device, arch, image, "kernels", _decide(arch, device.num_sms), None)
    except Exception as error:  # the generator may be missing or its specs changed; the kernels run all the same
        return Finding(device, arch, image, "kernels", {}, f"explain does not work: {error}")


def _decide(arch: str, num_sms: int) -> dict[int, str]:
    from .explain import explain

    return {
        M: explain(M, _SIZE, _SIZE, arch=arch, num_sms=num_sms).tile or "fallback: dequantise, then linear"
        for M in _ROWS
    }


def _run_checks(machine: _machine.Machine) -> dict[str, str]:
    """Device -> "right" or what went wrong, of one small product against plain torch on the CPU."""
    places = ["cpu", *(f"cuda:{device.index}" for device in machine.devices)]
    return {place: _run_check(torch.device(place)) for place in places}


def _run_check(device: torch.device) -> str:
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(256, 256, generator=generator), torch.randn(4, 256, generator=generator)
    packed, state = quantize_4bit(weight)
    wanted = x @ dequantize_4bit(packed, state).T
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # plain torch instead of kernels: the report says so
            found = gemm_4bit(x.to(device), packed.to(device), state.to(device)).cpu()
    except Exception as error:  # whatever it is, the report must come out
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    off = float((found - wanted).norm() / wanted.norm())
    return "right" if off < _LIMIT else f"relative error {off:.2g}"


def _missing(machine: _machine.Machine, findings: tuple[Finding, ...]) -> list[str]:
    native = _ops.NATIVE
    out = []
    if not native.loaded:
        out.append(f"native library: {native.reason}; install a wheel that has it, or build one with pip install .")
    if machine.torch_cuda is None:
        out.append("CUDA in torch: install a torch built for CUDA, see pytorch.org")
    if machine.driver is None:
        out.append("NVIDIA driver: libcuda.so.1 does not load; without it everything runs on the CPU")
    elif not machine.devices:
        out.append(f"CUDA device: {machine.no_devices}")
    for finding in findings:
        if finding.problem is not None and finding.image is not None and finding.arch is None:
            out.append(finding.problem)
        elif finding.problem is not None and native.loaded and finding.arch is None:
            out.append(f"cuda:{finding.device.index}: {finding.problem}; {_remedy(finding.device.cc)}")
        elif finding.problem is not None and finding.arch is not None:
            out.append(f"cuda:{finding.device.index}: {finding.problem}")
    absent = [f"{name} ({_machine.OPTIONAL[name]})" for name, version in machine.packages.items() if version is None]
    if absent:
        out.append(f"optional packages: {', '.join(absent)}")
    return out


def _remedy(cc: tuple[int, int]) -> str:
    """What to do about a card without machine code."""
    try:
        from .explain import _tree

        targets = [arch.profile.gencode for arch in _tree().archs.values() if arch.profile.cc == cc]
    except Exception:  # the generator may be missing; the report must come out
        return "build for it, see TILEWRIGHT_ARCHS"
    found = next(filter(None, targets), None)
    return "the specs have no machine code for it" if found is None else f"build with TILEWRIGHT_ARCHS={found}"


def _lines(report: Report) -> list[str]:
    build, machine = report.build, report.machine
    present = [f"{name} {version}" for name, version in machine.packages.items() if version is not None]
    cuda = f"CUDA {machine.torch_cuda}" if machine.torch_cuda else "no CUDA"
    driver = f"{machine.driver}, CUDA {machine.driver_cuda}" if machine.driver else "none"
    rows = [
        ("tilewright", f"{build['version']}, specs {(build['spec_digest'] or 'unknown')[:12]}"),
        ("kernels", build["statement"]),
        ("tiles", f"{len(build['tiles'])} in the library"),
        ("torch", f"{machine.torch}, {cuda}"),
        ("python", f"{machine.python}, {machine.system}"),
        ("driver", driver),
        ("packages", ", ".join(present) or "none of the optional ones"),
        ("variables", ", ".join(f"{name}={value}" for name, value in machine.variables.items()) or "none set"),
    ]
    lines = [f"{name:<11} {text}" for name, text in rows]
    for finding in report.findings:
        lines += _finding_lines(finding)
    if not report.findings:
        lines.append(f"{'devices':<11} none: {machine.no_devices}")
    lines.append(f"{'op check':<11} {report.check}")
    lines += [f"{'missing':<11} {text}" for text in report.missing] or [f"{'missing':<11} nothing"]
    return lines


def _finding_lines(finding: Finding) -> list[str]:
    device = finding.device
    cc = "{}.{}".format(*device.cc)
    memory = f"{device.memory_bytes / 2**30:.0f} GiB"
    ptx = f"; translated by the driver from {finding.image}" if (finding.image or "").startswith("compute_") else ""
    runs = f"kernels, by the rules of {finding.arch}{ptx}" if finding.arch else f"plain torch: {finding.problem}"
    lines = [
        f"{f'cuda:{device.index}':<11} {device.name}, compute capability {cc}, {device.num_sms} SMs, {memory}",
        f"{'':<11} runs {runs}",
    ]
    return lines + [f"{'':<11} M={M}: {tile}" for M, tile in finding.decisions.items()]
