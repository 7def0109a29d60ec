"""Text of single expressions in the target languages, where whole trees would not show a slip."""

from __future__ import annotations

import keyword

import pytest

from tilewright_codegen import emit_cpp, emit_py
from tilewright_codegen.expr import parse_cond, parse_expr
from tilewright_codegen.ir import AnyCond


def _either() -> AnyCond:
    return AnyCond((parse_cond("M == 1"), parse_cond("N == 1")))


def test_any_binds_before_and() -> None:
    conds = (parse_cond("K == 1"), _either())
    assert eval(emit_py.conjunction(conds), {"M": 2, "N": 1, "K": 2}) is False
    assert eval(emit_py.conjunction(conds), {"M": 2, "N": 1, "K": 1}) is True
    assert emit_cpp.conjunction(conds) == "K == 1 && (M == 1 || N == 1)"


@pytest.mark.parametrize("word", [*keyword.kwlist, "static_cast", "typename", "thread_local", "concept", "bitor"])
def test_no_word_of_a_target_language_is_a_name(word: str) -> None:
    assert emit_cpp.identifier(word) == f"{word}_"


def test_literals_alone_are_not_computed_in_32_bits() -> None:
    assert emit_cpp.expr(parse_expr("65_536 * 65_536 * M")) == "int64_t{65536} * 65536 * M"
    assert emit_cpp.expr(parse_expr("M + 65_536 * 65_536")) == "M + int64_t{65536} * 65536"
    assert emit_cpp.expr(parse_expr("2 * M")) == "2 * M"
