"""Spec files as bytes in: every value located, every YAML trap a finding, never an exception."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright_codegen.diagnostics import Location, Sink
from tilewright_codegen.loader import MAX_BYTES, MAX_DEPTH, Document, load_documents
from tilewright_codegen.validate import validate

ERRORS = Path(__file__).parents[1] / "golden" / "errors"


def _load(data: bytes, folder: Path) -> tuple[list[Document], list[tuple[str, int, int]]]:
    file = folder / "a.yaml"
    file.write_bytes(data)
    sink = Sink()
    documents = load_documents(file, "a.yaml", sink)
    return documents, [(d.code, d.location.line, d.location.column) for d in sink.diagnostics]


def test_values_and_places(tmp_path: Path) -> None:
    text = b'a: 1\nb: [x, {c: true, d: null}]\n---\ne: 4_194_304\nf: 1.25\ng: "12.10"\n'
    (first, second), found = _load(text, tmp_path)
    assert found == []
    assert first.value == {"a": 1, "b": ["x", {"c": True, "d": None}]}
    assert second.value == {"e": 4194304, "f": 1.25, "g": "12.10"}
    assert first.locate(("b", 1, "c")) == Location("a.yaml", 2, 12)
    assert first.locate_key(("b", 1, "c")) == Location("a.yaml", 2, 9)
    assert second.locate(("e",)) == Location("a.yaml", 4, 4)
    assert second.locate(("nowhere", 3)) == second.locate()


@pytest.mark.parametrize(
    "word",
    ["on", "Off", "YES", "no", "True", "~", "Null", "0x1F", "010", "0o17", "1:30", "1e3", "+5", "1__0", ".inf", "1.",
     ".5", "2026-08-01", "y", "n", "1_0.5", "-.nan"],
)  # fmt: skip
def test_traps_of_yaml(word: str, tmp_path: Path) -> None:
    _, found = _load(f"a: {word}\n".encode(), tmp_path)
    assert found == [("E103", 1, 4)]
    documents, found = _load(f'a: "{word}"\n'.encode(), tmp_path)
    assert found == []
    assert documents[0].value == {"a": word}


@pytest.mark.parametrize(
    "word", ["sm_90a", "n_blocks", "32x64-128", "yess", "onward", "nothing", "v1.2.3", "N * K < 4"]
)
def test_plain_text_stays_text(word: str, tmp_path: Path) -> None:
    documents, found = _load(f"a: {word}\n".encode(), tmp_path)
    assert (documents[0].value, found) == ({"a": word}, [])


def test_duplicate_keys_are_found_at_any_depth(tmp_path: Path) -> None:
    documents, found = _load(b"a:\n  - {b: 1, c: 2, b: 3}\na: 4\n", tmp_path)
    assert found == [("E102", 2, 18), ("E102", 3, 1)]
    assert documents[0].value == {"a": [{"b": 1, "c": 2}]}


def test_size_limit(tmp_path: Path) -> None:
    _, found = _load(b"a: " + b"x" * MAX_BYTES, tmp_path)
    assert found == [("E100", 1, 1)]
    _, found = _load(b"a: " + b"x" * (MAX_BYTES - 3), tmp_path)
    assert found == []


def test_unreadable_file(tmp_path: Path) -> None:
    sink = Sink()
    assert load_documents(tmp_path / "missing.yaml", "missing.yaml", sink) == []
    assert [d.code for d in sink.diagnostics] == ["E100"]


def test_list_as_key(tmp_path: Path) -> None:
    _, found = _load(b"? [a, b]\n: 1\n", tmp_path)
    assert found == [("E104", 1, 3)]


@pytest.mark.parametrize(
    ("data", "place", "words"),
    [
        (b"a: 1\nb: [1, 2\nc: 3\n", (3, 2), "did not find expected ',' or ']'"),
        (b"a: 1\nb: x\x07\n", (2, 5), "the control character U+0007 is not allowed"),
        (b"a: 1\n\tb: 2\n", (2, 1), "found a tab character"),
        (b"a: 'x\n", (2, 1), "found unexpected end of stream"),
    ],
)
def test_what_is_no_yaml_is_located(data: bytes, place: tuple[int, int], words: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(data)
    sink = Sink()
    assert load_documents(tmp_path / "a.yaml", "a.yaml", sink) == []
    (found,) = sink.diagnostics
    assert (found.code, found.location) == ("E100", Location("a.yaml", *place))
    assert found.message.startswith("this is not valid YAML: ") and words in found.message
    assert (found.hint is not None) == (b"\t" in data)


def test_depth_limit(tmp_path: Path) -> None:
    for depth, codes in ((MAX_DEPTH, []), (MAX_DEPTH + 1, ["E100"])):
        _, found = _load(b"a: " + b"[" * (depth - 1) + b"x" + b"]" * (depth - 1) + b"\n", tmp_path)
        assert [code for code, _, _ in found] == codes


def test_column_counts_characters_before_a_bad_byte(tmp_path: Path) -> None:
    _, found = _load(b"ok: 1\nbad: \xff\n", tmp_path)
    assert found == [("E100", 2, 6)]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=80) | st.text("ab:-[]{}&*!|>'\"%@`#,? \n\t0.~<\u00e9", max_size=60).map(str.encode))
def test_any_bytes_give_findings_not_exceptions(data: bytes, tmp_path: Path) -> None:
    documents, found = _load(data, tmp_path)
    assert documents or found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(p.relative_to(ERRORS / "base").as_posix() for p in (ERRORS / "base").rglob("*.yaml"))),
    cut=st.integers(0, 2000),
    insert=st.sampled_from(["", "\n", " ", "[", "}", ": ", "\t", "'", "- ", "null", "7", "*", "&a ", "!!x "]),
    drop=st.integers(0, 12),
)
def test_damaged_specs_never_raise(name: str, cut: int, insert: str, drop: int, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ERRORS / "base", folder)
    file = folder / name
    text = file.read_text()
    cut %= len(text)
    file.write_text(text[:cut] + insert + text[cut + drop :])
    validate(folder / "specs")
