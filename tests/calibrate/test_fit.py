"""Fitting on tables whose best rules are known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from tilewright_codegen.calibrate.features import Space, Term, wave_facts
from tilewright_codegen.calibrate.fit import fit
from tilewright_codegen.calibrate.holdout import defended_fit, support
from tilewright_codegen.calibrate.judge import Judged, judge_cells
from tilewright_codegen.calibrate.proposals import Fitted, Guards
from tilewright_codegen.calibrate.records import Method
from tilewright_codegen.expr import format_node, parse_cond
from tilewright_codegen.ir import FALLBACK, Layer, SpecTree

from .conftest import choice, rechecks

SHAPES = ((4096, 4096), (6144, 4096), (11008, 4096), (14336, 4096), (8192, 8192), (8960, 1536))
ROWS = (17, 24, 32, 40, 48, 64)
GUARDS = Guards()


def table(
    tree: SpecTree,
    layer: str,
    ratio: Callable[[int, int, int, str], float],
    shapes: Sequence[tuple[int, int]] = SHAPES,
    rows: Sequence[int] = ROWS,
) -> list[Judged]:
    """Cells in which every challenger has the given ratio in seven passes, exactly."""
    chosen = [choice(tree, layer, M, N, K) for N, K in shapes for M in rows]
    passes = []
    for c in chosen:
        M, (N, K) = c.cell.M, c.cell.shape
        passes += rechecks(c, {n: [ratio(M, N, K, n)] * 7 for n in c.challengers})
    return judge_cells(chosen, passes, Method())


def layer_of(tree: SpecTree, name: str) -> Layer:
    return tree.families["gemm_4bit"].layer_by_name[name]


def test_nothing_to_gain_gives_no_rule(tree: SpecTree) -> None:
    cells = table(tree, "engine", lambda M, N, K, n: 0.8)
    fitted = fit(cells, layer_of(tree, "engine"))
    assert fitted.rules == ()
    assert fitted.regret_before == fitted.regret_after == 0


def test_one_threshold_of_m_is_found(tree: SpecTree) -> None:
    cells = table(tree, "engine", lambda M, N, K, n: 1.3 if M <= 32 else 0.7)
    fitted = fit(cells, layer_of(tree, "engine"))
    assert [(r.outcome, [t.text for t in r.terms]) for r in fitted.rules] == [("simt", ["M <= 32"])]
    assert fitted.regret_after == pytest.approx(0)
    assert fitted.regret_before == pytest.approx(math.log(1.3) / 2)


def test_two_thresholds_are_found(tree: SpecTree) -> None:
    both = table(
        tree, "engine", lambda M, N, K, n: 1.3 if M <= 32 and K <= 4096 else 0.7, shapes=[*SHAPES, (5120, 13824)]
    )
    found = fit(both, layer_of(tree, "engine"))
    assert {t.text for t in found.rules[0].terms} == {"M <= 32", "K <= 4096"}
    assert found.regret_after == pytest.approx(0)


def test_a_single_shape_makes_no_rule(tree: SpecTree) -> None:
    cells = table(tree, "engine", lambda M, N, K, n: 1.5 if N == 8960 else 0.7)
    fitted = fit(cells, layer_of(tree, "engine"))
    assert fitted.rules == ()
    assert any("1 shape" in r.reason for r in fitted.rejected)
    assert sum(r.reason.startswith("a proven win that no") for r in fitted.rejected) == len(ROWS)


def test_a_rule_slows_no_measured_cell_by_more_than_it_may(tree: SpecTree) -> None:
    def ratio(M: int, N: int, K: int, name: str) -> float:
        return 0.9 if (M, N) == (32, 14336) else 1.3

    fitted = fit(table(tree, "engine", ratio), layer_of(tree, "engine"))
    for rule in fitted.rules:
        assert rule.worst >= math.log(0.97)
    assert any("makes a measured cell slower: 0.900" in r.reason for r in fitted.rejected)


def test_small_gains_do_not_pay_for_a_rule(tree: SpecTree) -> None:
    cells = table(tree, "engine", lambda M, N, K, n: 1.02 if M == 32 else 0.9)
    assert fit(cells, layer_of(tree, "engine"), Guards(term_cost=0.01)).rules == ()
    assert len(fit(cells, layer_of(tree, "engine"), Guards(term_cost=0.0005)).rules) == 1


def test_a_cap_stops_below_the_first_row_with_a_loser(tree: SpecTree) -> None:
    def ratio(M: int, N: int, K: int, name: str) -> float:
        kernel_wins = M <= 768 or (M <= 1024 and N != 4096)
        faster = 1.4 if kernel_wins else 0.7
        return 1 / faster if name == FALLBACK else faster

    cells = table(tree, "path", ratio, rows=(64, 300, 384, 512, 768, 1024, 1200))
    fitted = fit(cells, layer_of(tree, "path"), extend=("K-", "K+", "waves+"))
    assert [r.cap for r in fitted.rules] == [768]
    assert fitted.rules[0].forgone == 5
    assert any(r.where.endswith("M <= 1024") and "slower" in r.reason for r in fitted.rejected)


def test_rules_are_bounded_by_what_was_measured(tree: SpecTree) -> None:
    cells = table(tree, "engine", lambda M, N, K, n: 1.3 if M <= 32 else 0.7)
    rule = fit(cells, layer_of(tree, "engine")).rules[0]
    stated = {t.text for t in rule.stated}
    assert {"M >= 17", "M <= 32", "K >= 1536", "K <= 8192"} <= stated
    opened = fit(cells, layer_of(tree, "engine"), extend=("K-", "K+")).rules[0]
    assert not any(t.axis == "K" for t in opened.stated)
    assert {t.text for t in opened.box} == {t.text for t in rule.box}


def test_a_pair_of_scattered_wins_does_not_survive_leaving_a_shape_out(tree: SpecTree) -> None:
    points = ((24, 8192, 8192), (64, 5120, 13824), (40, 14336, 4096), (48, 6144, 4096), (32, 4096, 4096))
    chosen = [choice(tree, "engine", M, N, K) for M, N, K in points]
    series = [1.25, 1.25, 1.001, 1.001, 1.001]
    passes = [p for c, r in zip(chosen, series, strict=True) for p in rechecks(c, {c.challengers[0]: [r] * 7})]
    cells, layer = judge_cells(chosen, passes, Method()), layer_of(tree, "engine")
    assert [r.text for r in fit(cells, layer).rules] == ["K >= 8192"]
    fitted, held_out = defended_fit(cells, layer, GUARDS)
    assert fitted.rules == ()
    assert any("0 of 2 shapes keep one" in r.reason for r in fitted.rejected)
    assert len(held_out) == len(points)


def test_a_broad_win_survives(tree: SpecTree) -> None:
    cells = table(tree, "engine", lambda M, N, K, n: 1.3 if M <= 32 else 0.7)
    layer = layer_of(tree, "engine")
    fitted, held_out = defended_fit(cells, layer, GUARDS)
    assert support(fitted.rules[0], cells, held_out) == (len(SHAPES), len(SHAPES))
    assert all(h.gain == pytest.approx(h.possible) for h in held_out)


def test_the_order_of_cells_does_not_matter(tree: SpecTree) -> None:
    generator = random.Random(3)
    noise: dict[tuple[int, int, int, str], float] = {}

    def ratio(*key: object) -> float:
        return noise.setdefault(key, math.exp(generator.gauss(0, 0.2)))  # type: ignore[arg-type]

    cells = table(tree, "tile", ratio)
    layer = layer_of(tree, "tile")
    texts = []
    for seed in range(3):
        shuffled = cells[:]
        random.Random(seed).shuffle(shuffled)
        texts.append(summary(fit(shuffled, layer)))
    assert texts[0] == texts[1] == texts[2]


def summary(fitted: Fitted) -> list[str]:
    return [f"{r.outcome} {r.text} {r.gain:.9f} {[t.text for t in r.stated]}" for r in fitted.rules] + [
        f"{r.outcome} {r.where} {r.reason}" for r in fitted.rejected
    ]


def test_rules_never_raise_the_regret(tree: SpecTree) -> None:
    for seed in range(5):
        draw = random.Random(seed).gauss
        cells = table(tree, "tile", lambda *_, draw=draw: math.exp(draw(0, 0.15)), shapes=SHAPES[:4], rows=(24, 48))
        fitted = fit(cells, layer_of(tree, "tile"))
        assert fitted.regret_after <= fitted.regret_before + 1e-12
        assert fitted.regret_after >= -1e-12


@pytest.mark.parametrize("layer", ["path", "engine", "tile_m", "tile"])
def test_terms_are_canonical_conjuncts_that_agree_with_their_masks(tree: SpecTree, layer: str) -> None:
    from tilewright_codegen.evaluate import holds

    cells = table(tree, layer, lambda *_: 1.0, shapes=SHAPES[:3], rows=(24, 64))
    space, found = Space(cells, layer_of(tree, layer)), layer_of(tree, layer)
    assert space.facts == wave_facts(found) != []
    terms: list[Term] = [t for t, _ in space.terms()]
    terms += space.bounds(space.all_of(()), ("waves-", "waves+"), space.facts[0])
    assert len(terms) >= 10
    for term in terms:
        cond = parse_cond(term.text)
        assert format_node(cond) == term.text
        assert [holds(found, cond, c.choices.env) for c in cells] == space.mask(term).tolist()
