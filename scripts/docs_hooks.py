"""Hooks of mkdocs: the reference pages, made from the models, the specs and the docstrings while the site is built."""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_OUTSIDE = re.compile(r"\[([^\]]*)\]\((\.\./[^)]*)\)")
_MAPPED_ARCHS = ("sm80", "sm90", "sm120", "sm121")


def on_files(files: Files, config: Any) -> Files:
    """Adds the generated pages."""
    for name, make in _PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    for arch in _MAPPED_ARCHS:
        files.append(File.generated(config, f"reference/map-{arch}.png", content=_map(arch)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to files beside docs/ lead nowhere in the site: the spec keys have a page, of the others the text stays."""
    return _OUTSIDE.sub(lambda link: _inside(link[1], link[2]), markdown)


def _inside(text: str, target: str) -> str:
    return f"[{text}](reference/keys.md)" if target == "../specs/README.md" else text


def _command(*words: str) -> str:
    """What `tilewright` prints."""
    sys.path.insert(0, str(ROOT))
    try:
        from codegen.cli import main
    finally:
        sys.path.pop(0)
    done = CliRunner().invoke(main, list(words), catch_exceptions=False)
    if done.exit_code != 0:
        raise RuntimeError(f"tilewright {' '.join(words)}: {done.output}")
    return done.stdout


def _keys() -> str:
    return _command("reference").replace("(../", "(")


def _codes() -> str:
    codes = re.findall(r"^\s*([A-Z]\d{3})\b", _command("explain-code"), re.MULTILINE)
    texts = [f"## {code}\n\n```text\n{_command('explain-code', code).rstrip()}\n```\n" for code in codes]
    return "\n".join(["# Diagnostics\n", "Every code of `tilewright validate`; the command shows the same.\n", *texts])


def _matrix() -> str:
    return "# Support matrix\n\nMade by `tilewright matrix`.\n\n" + _command("matrix", "--specs", str(ROOT / "specs"))


def _maps() -> str:
    pictures = [
        f"## {arch}\n\n![Which tile answers which problem on {arch}](map-{arch}.png)\n" for arch in _MAPPED_ARCHS
    ]
    text = "Colours are tiles, grey is the fallback, hatching says how well founded a decision is.\n"
    return "\n".join(["# Decision maps\n", text, "`tilewright map` draws the other archs.\n", *pictures])


def _map(arch: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "map.png"
        _command("map", "--specs", str(ROOT / "specs"), "--arch", arch, "--out", str(picture))
        return picture.read_bytes()


def _provenance() -> str:
    """Where every number is from: the evidence records, and what each rule rests on."""
    sys.path.insert(0, str(ROOT))
    try:
        from codegen.tree import load_tree
    finally:
        sys.path.pop(0)
    tree = load_tree(str(ROOT / "specs"))
    parts = ["# Provenance\n", "Made from `specs/evidence` and from the rules.\n", "## Evidence\n"]
    parts += [_record(name, record.model_dump(exclude_none=True)) for name, record in tree.evidence.items()]
    parts.append("## Rules\n\nA rule without evidence of its own says what it is based on.\n")
    for family in tree.families.values():
        for layer in family.layers:
            rows = [_rule(section, rule) for section in layer.sections for rule in section.rules]
            parts.append(f"### {family.name}: {layer.name}\n")
            parts.append("| rule | archs | basis | evidence | why |\n|---|---|---|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def _record(name: str, fields: dict[str, Any]) -> str:
    shown = {key: value for key, value in fields.items() if key not in ("id", "kind") and value}
    rows = "".join(f"| {key} | {_cell(value)} |\n" for key, value in shown.items())
    return f"### {name}\n\n| | |\n|---|---|\n{rows}"


def _rule(section: Any, rule: Any) -> str:
    archs = "all" if section.archs is None else ", ".join(section.archs)
    cells = (f"`{rule.id}`", archs, rule.basis or "", ", ".join(rule.evidence), rule.why or "")
    return f"| {' | '.join(map(_cell, cells))} |\n"


def _cell(value: Any) -> str:
    """A value as the text of one table cell."""
    if isinstance(value, dict):
        value = ", ".join(f"{key} {_cell(part)}" for key, part in value.items())
    elif isinstance(value, list | tuple):
        value = "; ".join(map(_cell, value))
    return str(value).replace("|", "&#124;").replace("\n", " ")


def _python() -> str:
    import tilewright
    from tilewright import checkpoint

    parts = ["# Python\n", "Made from the docstrings.\n"]
    for module, names in ((tilewright, tilewright.__all__), (checkpoint, checkpoint.__all__)):
        parts.append(f"## `{module.__name__}`\n")
        parts += [_entry(name, getattr(module, name)) for name in names if callable(getattr(module, name))]
    return "\n".join(parts)


def _entry(name: str, thing: Any) -> str:
    signature = str(inspect.signature(thing)) if not inspect.isclass(thing) else ""
    text = inspect.cleandoc(thing.__doc__ or "")
    return f"### {name}\n\n```python\n{name}{signature}\n```\n\n{text}\n"


_PAGES: dict[str, Callable[[], str]] = {
    "python": _python,
    "keys": _keys,
    "codes": _codes,
    "matrix": _matrix,
    "maps": _maps,
    "provenance": _provenance,
}
