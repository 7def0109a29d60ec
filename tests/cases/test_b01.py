"""B01: a card whose capability no list names falls into the branch of another one.

Reported of FP8 and NVFP4 kernels: a test for exactly 120, so that 121 ran as 100 or not at all; and a refusal that
stated an upper bound to a card beyond it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright_codegen.evaluate import decide
from tilewright_codegen.matrix import as_rows

from .support import PROFILES, host_program, needs_compiler, problem, specs

FAMILIES = sorted(specs().families)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cc", PROFILES, ids=str)
def test_every_card_is_decided_by_rules_written_for_it(family: str, cc: tuple[int, int]) -> None:
    tree = specs()
    (arch,) = (a for a in tree.archs.values() if a.profile.cc == cc)
    built = tree.families[family]
    for num_sms in arch.profile.sm_counts:
        found = decide(built, arch.name, problem(built, 16, 4096, 4096, num_sms))
        for name, result in found.results.items():
            if result.rule is not None:
                (section,) = (s for s in built.layer_by_name[name].sections if result.rule in s.rules)
                assert section.covers(arch.name)
        tile = found.tile(built)
        assert tile is None or built.tile_by_id[tile].engine in arch.profile.engines


@pytest.mark.parametrize("family", FAMILIES)
def test_the_matrix_has_a_cell_for_every_arch_so_that_a_hole_shows(family: str) -> None:
    rows = [row for row in as_rows(specs()) if row["family"] == family]
    assert {row["arch"] for row in rows} == set(specs().archs)


@needs_compiler
def test_a_card_gets_its_own_rules_or_none_and_never_those_of_another_major(tmp_path: Path) -> None:
    unknown = ["12.2", "13.0", "9.1", "8.8"]
    asked = [f"{a}.{b}" for a, b in PROFILES] + unknown
    found = dict(zip(asked, host_program("serve.cpp", "all", tmp_path)(*asked), strict=True))
    for cc in PROFILES:
        assert found["{}.{}".format(*cc)].split()[1] == "sm{}{}".format(*cc)
    # An unknown minor takes a plain image of an older one of its major; a family's image is for its members only.
    assert found["12.2"].split()[1] == found["13.0"].split()[1] == found["9.1"].split()[1] == "sm89"
    assert found["8.8"].split()[1] == "sm87"
