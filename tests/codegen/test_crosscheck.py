"""The interpreter, the generated Python and the generated C++ must decide alike."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright_codegen.data import templates_folder
from tilewright_codegen.evaluate import decide
from tilewright_codegen.images import Image
from tilewright_codegen.ir import Family, SpecTree
from tilewright_codegen.render import render
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
TREES = {"ours": ROOT / "specs", "bitsandbytes": ROOT / "specs" / "examples" / "bitsandbytes-0.50"}

WRAPPER = """
#include "tilewright/generated/gemm_4bit_select.h"
using namespace tilewright::gemm_4bit;
extern "C" void decide_all(int arch, int64_t count, const int64_t* inputs, int16_t* values, int16_t* rules) {
  for (int64_t i = 0; i < count; ++i) {
    Problem problem;
    const int64_t* row = inputs + i * INPUTS;
    FILL
    const Decision decision = select(static_cast<Arch>(arch), problem);
    for (int k = 0; k < kLayerCount; ++k) {
      values[i * kLayerCount + k] = decision.values[k];
      rules[i * kLayerCount + k] = decision.rules[k];
    }
  }
}
"""


class Evaluators:
    """One tree's three evaluators behind one call each."""

    def __init__(self, root: Path, build: Path) -> None:
        self.tree: SpecTree = load_tree(root)
        self.family: Family = self.tree.families["gemm_4bit"]
        self.rule_ids = list(self.family.rule_by_id)
        image = Image("sm80", "kSm80", (8, 0), "")
        render(self.tree, [image]).outputs.write(build)
        self.python = _import(build / "python" / "gemm_4bit_dispatch.py")
        self.cpp = self._compile(build)

    def _compile(self, build: Path) -> Any:
        fill = []
        for index, item in enumerate(self.family.inputs):
            kind = f"static_cast<decltype(problem.{item.name})>"
            fill.append(f"problem.{item.name} = {kind}(row[{index}]);")
        source = build / "wrapper.cpp"
        text = WRAPPER.replace("INPUTS", str(len(self.family.inputs))).replace("FILL", "\n    ".join(fill))
        source.write_text(text)
        flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-fno-rtti", "-shared", "-fPIC"]
        includes = [f"-I{build}", f"-I{templates_folder() / 'include'}"]
        library = build / "wrapper.so"
        subprocess.run(["g++", *flags, *includes, str(source), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))

    def interpreted(self, arch: str, problem: dict[str, Any]) -> dict[str, tuple[Any, str | None]]:
        decision = decide(self.family, arch, problem)
        return {n: (r.value, r.rule.id if r.rule else None) for n, r in decision.results.items()}

    def generated_python(self, arch: str, problem: dict[str, Any]) -> dict[str, tuple[Any, str | None]]:
        result: dict[str, tuple[Any, str | None]] = self.python.decide(arch, *self._codes(problem))
        return result

    def generated_cpp(self, arch: str, problems: list[dict[str, Any]]) -> list[dict[str, tuple[Any, str | None]]]:
        inputs = np.array([self._codes(p) for p in problems], dtype=np.int64)
        shape = (len(problems), len(self.family.layers))
        values, rules = np.empty(shape, np.int16), np.empty(shape, np.int16)
        self.cpp.decide_all(
            list(self.tree.archs).index(arch),
            ctypes.c_int64(len(problems)),
            *(ctypes.c_void_p(a.ctypes.data) for a in (inputs, values, rules)),
        )
        return [self._words(v, r) for v, r in zip(values.tolist(), rules.tolist(), strict=True)]

    def _codes(self, problem: dict[str, Any]) -> list[int]:
        return [i.words.index(problem[i.name]) if i.is_enum else problem[i.name] for i in self.family.inputs]

    def _words(self, values: list[int], rules: list[int]) -> dict[str, tuple[Any, str | None]]:
        result: dict[str, tuple[Any, str | None]] = {}
        for layer, value, rule in zip(self.family.layers, values, rules, strict=True):
            names = [t.id for t in self.family.tiles] if layer.kind == "tile" else layer.values
            result[layer.name] = (None, None) if rule < 0 else (names[value], self.rule_ids[rule])
        return result

    def problem(self, **given: Any) -> dict[str, Any]:
        """A problem with every enumerated input set."""
        return {i.name: given.get(i.name, i.words[0] if i.is_enum else 64) for i in self.family.inputs}


def _import(path: Path) -> ModuleType:
    module = ModuleType(path.stem)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module", params=TREES)
def evaluators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Evaluators:
    return Evaluators(TREES[request.param], tmp_path_factory.mktemp(request.param))


M_VALUES = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    16,
    17,
    23,
    24,
    32,
    33,
    47,
    48,
    64,
    65,
    96,
    128,
    129,
    192,
    256,
    320,
    384,
    512,
    1536,
    1537,
)
N_VALUES = (64, 896, 1344, 1536, 3072, 3456, 4096, 8960, 14336, 128256)
K_VALUES = (64, 96, 704, 1024, 1536, 4096, 4160, 14336)


def test_all_three_agree_on_the_grid(evaluators: Evaluators) -> None:
    for name, arch in evaluators.tree.archs.items():
        problems = [
            evaluators.problem(M=M, N=N, K=K, num_sms=sms, dtype=dtype)
            for sms, dtype, M, N, K in itertools.product(
                arch.profile.sm_counts, evaluators.family.dtypes, M_VALUES, N_VALUES, K_VALUES
            )
        ]
        if "layout" in evaluators.family.input_by_name:
            problems += [{**problem, "layout": "prepacked"} for problem in problems[::7]]
        for problem, cpp in zip(problems, evaluators.generated_cpp(name, problems), strict=True):
            python = evaluators.generated_python(name, problem)
            assert python == cpp, (name, problem)
        for problem in problems[:: max(1, len(problems) // 700)]:
            python = evaluators.generated_python(name, problem)
            assert evaluators.interpreted(name, problem) == python, (name, problem)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_all_three_agree_anywhere(evaluators: Evaluators, data: st.DataObject) -> None:
    arch = data.draw(st.sampled_from(list(evaluators.tree.archs)))
    problem = {
        item.name: data.draw(
            st.sampled_from(item.words)
            if item.is_enum
            else st.one_of(st.integers(1, min(item.limit, 300)), st.integers(1, item.limit)),
            label=item.name,
        )
        for item in evaluators.family.inputs
    }
    expected = evaluators.interpreted(arch, problem)
    assert evaluators.generated_python(arch, problem) == expected
    assert evaluators.generated_cpp(arch, [problem])[0] == expected
