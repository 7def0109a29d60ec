"""The mutants themselves, and what is recorded of them. `python tests/mutation/run.py` tries them."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EVIDENCE = ROOT / "evidence" / "mutation-python.json"
sys.path.insert(0, str(HERE))
from mutate import chosen, mutants  # noqa: E402

sys.path.pop(0)
SOURCE = '''
def f(x: int = 3) -> int:
    """Text with 4 in it."""
    if x < 5 and not x == 7:
        raise ValueError(f"no {x + 1}")
    return x // 2
'''


def test_each_changes_one_thing_and_still_parses() -> None:
    found = list(mutants(SOURCE))
    sources = [m.source for m in found]
    assert len(set(sources)) == len(sources) and ast.unparse(ast.parse(SOURCE)) not in sources
    for source in sources:
        ast.parse(source)
    names = [m.name for m in found]
    assert names == [
        "f: 3 -> another",
        "f: if x < 5 and (not x == 7) -> inverted",
        "f: x < 5 and (not x == 7) -> or",
        "f: x < 5 -> LtE",
        "f: 5 -> another",
        "f: not x == 7 -> without not",
        "f: x == 7 -> NotEq",
        "f: 7 -> another",
        "f: raise ValueError(f'no {x + 1}') -> left out",
        "f: return x // 2 -> None",
        "f: x // 2 -> Mult",
        "f: 2 -> another",
    ]


def test_the_sample_does_not_depend_on_the_rest_of_the_file() -> None:
    more = SOURCE + "\n\ndef g(y):\n    return y % 3\n"
    assert {m.name for m in chosen("a.py", SOURCE, 4)} <= {m.name for m in chosen("a.py", more, 8)}


@pytest.mark.skipif(not EVIDENCE.is_file(), reason="nothing is recorded")
def test_what_is_recorded_is_enough_and_every_survivor_has_a_reason() -> None:
    found = json.loads(EVIDENCE.read_text("utf-8"))
    reasons = yaml.safe_load((HERE / "survivors.yaml").read_text("utf-8")) or {}
    assert found["tried"] >= 70
    assert found["killed"] / found["tried"] >= 0.85
    for row in found["modules"]:
        assert (ROOT / row["module"]).is_file()
        for name in row["survivors"]:
            assert reasons[row["module"]][name], (row["module"], name)
