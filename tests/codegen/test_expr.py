"""The rule grammar: text and tree are one to one, bounds are sound, scalar and array evaluation agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright_codegen.expr import (
    COMPARE,
    INT64_MAX,
    Bin,
    CeilDiv,
    Compare,
    Cond,
    Expr,
    ExprError,
    Int,
    Name,
    Pred,
    evaluate_expr,
    format_node,
    interval,
    largest_intermediate,
    names,
    parse_cond,
    parse_expr,
)
from tilewright_codegen.vector import evaluate_arrays

NAMES = ("M", "N", "K", "num_sms", "n_blocks", "tile.kc")
name = st.sampled_from(NAMES).map(Name)
factor = st.integers(0, 10**6).map(Int) | name | st.builds(CeilDiv, name, st.integers(1, 4096))


def _product(left: Expr, steps: list[tuple[str, Expr, int]]) -> Expr:
    for op, right, divisor in steps:
        left = Bin("*", left, right) if op == "*" else Bin(op, left, Int(divisor))  # type: ignore[arg-type]
    return left


step = st.tuples(st.sampled_from(["*", "//", "%"]), factor, st.integers(1, 5000))
product = st.builds(_product, factor, st.lists(step, max_size=3))


def _sum(parts: list[Expr]) -> Expr:
    total = parts[0]
    for part in parts[1:]:
        total = Bin("+", total, part)
    return total


expr = st.lists(product, min_size=1, max_size=3).map(_sum)
predicate = st.builds(Pred, st.sampled_from(["full_wave", "small"]), st.booleans())
cond = st.builds(Compare, st.sampled_from(sorted(COMPARE)), expr, expr) | predicate
values = st.fixed_dictionaries({n: st.integers(1, 2000) for n in NAMES})


@given(expr)
def test_print_then_parse_gives_the_same_expression(node: Expr) -> None:
    assert parse_expr(format_node(node)) == node


@given(cond)
def test_print_then_parse_gives_the_same_condition(node: Cond) -> None:
    text = format_node(node)
    assert parse_cond(text) == node
    assert format_node(parse_cond(text)) == text


@given(expr, st.data())
def test_interval_holds_every_value(node: Expr, data: st.DataObject) -> None:
    bounds = {}
    env = {}
    for n in NAMES:
        low = data.draw(st.integers(0, 500))
        high = data.draw(st.integers(low, 2000))
        bounds[n] = (low, high)
        env[n] = data.draw(st.integers(low, high))
    low, high = interval(node, bounds)
    value = evaluate_expr(node, env)
    assert low <= value <= high <= largest_intermediate(node, bounds)


def _steps(node: Expr, env: dict[str, int]) -> list[int]:
    """Every value that the evaluation passes through."""
    if isinstance(node, CeilDiv):
        return [env[node.name.name] + node.divisor - 1, evaluate_expr(node, env)]
    inner = [*_steps(node.left, env), *_steps(node.right, env)] if isinstance(node, Bin) else []
    return [*inner, evaluate_expr(node, env)]


@given(expr, values)
def test_largest_intermediate_bounds_every_step(node: Expr, env: dict[str, int]) -> None:
    assert max(_steps(node, env)) <= largest_intermediate(node, dict.fromkeys(NAMES, (1, 2000)))


@settings(max_examples=50)
@given(expr, st.lists(values, min_size=1, max_size=8))
def test_arrays_agree_with_scalars(node: Expr, envs: list[dict[str, int]]) -> None:
    if largest_intermediate(node, dict.fromkeys(NAMES, (1, 2000))) > INT64_MAX:
        return
    arrays = {n: np.array([e[n] for e in envs], np.int64) for n in NAMES}
    expected = [evaluate_expr(node, e) for e in envs]
    assert np.broadcast_to(evaluate_arrays(node, arrays), (len(envs),)).tolist() == expected


@given(expr)
def test_names_are_those_that_evaluation_reads(node: Expr) -> None:
    class Reads(dict[str, int]):
        def __missing__(self, key: str) -> int:
            self[key] = 1
            return 1

    env = Reads()
    evaluate_expr(node, env)
    assert set(names(node)) == set(env)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0), ("M - 1 < 4", 2), ("M < ", 4), ("M <= 4 or N", 7), ("M // 0 == 1", 5), ("M // N == 1", 5),
        ("(M) < 4", 0), ("ceil_div(4, 2) < 1", 9), ("ceil_div(M, 0) < 1", 12), ("M + 1", 5), ("04 < M", 0),
        ("1__0 < M", 0), ("9223372036854775808 < M", 0), ("not M < 4", 6), ("not not small", 4), ("M < 4 < 5", 6),
        ("M == 'a'", 5), ("M.Kc < 4", 1),
    ],
)  # fmt: skip
def test_outside_the_grammar(text: str, offset: int) -> None:
    with pytest.raises(ExprError) as caught:
        parse_cond(text)
    assert caught.value.offset == offset


@given(st.text("MNK0123456789 +*/%<>=!(),_.abcdt", max_size=30))
def test_any_text_parses_or_is_rejected_with_a_place(text: str) -> None:
    try:
        node = parse_cond(text)
    except ExprError as error:
        offset = error.offset
    else:
        offset = 0
        assert parse_cond(format_node(node)) == node
    assert 0 <= offset <= len(text)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (9999, "9999"), (10_000, "10_000"), (4_194_304, "4_194_304")])
def test_integers_are_grouped_from_ten_thousand_on(value: int, text: str) -> None:
    assert format_node(Int(value)) == text
    assert parse_expr(text) == Int(value)
