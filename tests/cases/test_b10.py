"""B10: what is known of the first device is taken for all of them; SM counts assumed from the arch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright_codegen.evaluate import decide

from .support import ROOT, host_program, needs_compiler, problem, specs

FACTS = {0: "9.0 132 sm90", 1: "12.1 48 sm121", 2: "9.0 78 sm90"}


@needs_compiler
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2, 1), (2, 2, 0), (1,)])
def test_every_device_has_its_own_facts_in_any_order(order: tuple[int, ...], tmp_path: Path) -> None:
    assert host_program("devices.cpp", "90a;121a", tmp_path)(*order) == [FACTS[i] for i in order]


@pytest.mark.parametrize("num_sms", [132, 114, 78, 16])
def test_the_number_of_sms_is_an_input_of_the_rules(num_sms: int) -> None:
    family = specs().families["gemm_4bit"]
    for M in (1, 16, 64, 512, 4096):
        assert decide(family, "sm90", problem(family, M, 4096, 4096, num_sms)).results
    picks = {
        n: [decide(family, "sm90", problem(family, M, 2048, 8192, n)).tile(family) for M in range(1, 1024, 3)]
        for n in (132, 78)
    }
    assert picks[132] != picks[78]


def test_no_sm_count_of_an_arch_stands_in_the_code() -> None:
    for file in (*ROOT.glob("csrc_templates/src/*.cpp"), *ROOT.glob("csrc_templates/include/**/*.h"),
                 *ROOT.glob("csrc_templates/include/**/*.cuh"), *ROOT.glob("csrc_templates/*.j2")):  # fmt: skip
        code = re.sub(r"//.*", "", file.read_text("utf-8"))
        if file.name == "binding_control.cpp":
            code = re.sub(r"tilewright_select_many.*", "", code, flags=re.S)  # a benchmark of the selector
        assert not re.search(r"\b(?:132|114|78|148|160|170|188|128)\s*;\s*//.*SM|num_sms\s*=\s*\d", code), file
