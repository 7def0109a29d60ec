"""New rules keep what old ones behind them guard: multiples of K, types."""

from __future__ import annotations

from tilewright_codegen.calibrate.analyse import analyse
from tilewright_codegen.ir import SpecTree

from .conftest import choice, header, rechecks

SHAPES = ((1024, 4096), (1024, 8192), (1536, 8960), (2048, 2048), (2048, 8192))


def test_a_rule_for_mma_in_front_of_its_guards_has_them_itself(tree: SpecTree) -> None:
    """On sm121 MMA is planted to win where SIMT is chosen today, in front of the rules for f32 and for odd K."""
    family = tree.families["gemm_4bit"]
    layer = family.layer_by_name["engine"]
    chosen = [choice(tree, "engine", M, N, K) for M in (2, 3, 4, 5, 6, 8) for N, K in SHAPES]
    chosen = [c for c in chosen if c.outcome == "simt"]
    passes = [p for c in chosen for p in rechecks(c, {n: [1.3] * 7 for n in c.challengers})]
    found = analyse(tree, family, layer, header("engine"), passes)
    assert found.patch is not None
    assert found.checked is not None
    assert found.checked.ok, found.checked
    for rule in found.patch.rules:
        assert {"dtype != f32", "K % 64 == 0"} <= set(rule.when)
