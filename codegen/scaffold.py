"""Textual edits of spec files that keep every comment and every other line as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .diagnostics import Location, Sink
from .ir import Arch, Family, SpecTree
from .loader import Document, load_documents
from .tree import load_tree, spec_files

_ARCH_NAME = re.compile(r"sm([1-9]\d{0,2})(\d)\Z")


class ScaffoldError(ValueError):
    """The edit makes no sense; the text says why."""


@dataclass(frozen=True)
class Insertion:
    """Text to put at a place of a file (before the character there)."""

    place: Location
    text: str


@dataclass(frozen=True)
class ArchPlan:
    """What adding an arch does: the new profile and the insertions into rule files."""

    profile_path: Path
    profile_text: str
    insertions: tuple[Insertion, ...]
    joined: tuple[str, ...]


def plan_arch(tree: SpecTree, name: str, like: Arch, sm_counts: tuple[int, ...] | None = None) -> ArchPlan:
    """Add arch `name` (such as sm122) wherever `like` is listed.

    Raises ScaffoldError for a name that is taken or states no compute capability, and for more SMs than a family takes.
    """
    match = _ARCH_NAME.match(name)
    if match is None:
        raise ScaffoldError(f"'{name}' states no compute capability; a name such as sm122 is expected")
    if name in tree.archs:
        raise ScaffoldError(f"arch '{name}' exists already")
    most = min((f.input_by_name["num_sms"].limit for f in tree.families.values()), default=max(sm_counts or (1,)))
    if sm_counts and max(sm_counts) > most:
        raise ScaffoldError(f"{max(sm_counts)} SMs are more than the families' limit of {most}")
    insertions, joined = [], []
    for file in spec_files(Path(tree.root)):
        for document in load_documents(file, str(file), Sink()):
            if isinstance(document.value, dict) and document.value.get("schema") == "layer/1":
                found, sections = _join_sections(tree, document, file, name, like.name)
                insertions += _reasons(tree, document, name, like)
                insertions += found
                joined += sections
    cc = (int(match[1]), int(match[2]))
    text = _profile_text(name, cc, like, sm_counts or like.profile.sm_counts)
    return ArchPlan(Path(tree.root) / "archs" / f"{name}.yaml", text, tuple(insertions), tuple(joined))


def _join_sections(
    tree: SpecTree, document: Document, file: Path, name: str, like: str
) -> tuple[list[Insertion], list[str]]:
    lines = file.read_text("utf-8").splitlines()
    insertions, joined = [], []
    for index, section in enumerate(document.value["sections"]):
        listed = section.get("for")
        if isinstance(listed, list) and like in listed:
            at = sum(_before(tree, arch, name) for arch in listed)
            place = document.locate(("sections", index, "for", max(at - 1, 0)))
            insertions.append(_after_item(place, lines, listed[at - 1], name) if at else _first(place, lines, name))
            joined.append(f"{document.value['layer']}/{section['section']}")
        reason = section.get("omits", {}).get(like)
        if reason is not None:
            place = document.locate_key(("sections", index, "omits", like))
            text = f"{name}: {json.dumps(f'as {like}: {reason}')}"
            insertions.append(Insertion(place, text + _separator(place, lines)))
    return insertions, joined


def _reasons(tree: SpecTree, document: Document, name: str, like: Arch) -> list[Insertion]:
    """`omits` for sections that were `like`'s alone: with two archs they must say why siblings are not listed."""
    forgotten = _siblings_there(tree, like)
    insertions = []
    for index, section in enumerate(document.value["sections"]):
        archs = forgotten.get(document.locate(("sections", index)))
        if section.get("for") == [like.name] and archs and not section.get("omits"):
            keys = list(section)
            place = document.locate_key(("sections", index, keys[keys.index("for") + 1]))
            reason = json.dumps(f"the section was {like.name}'s alone until {name} joined it")
            text = f"omits: {{{', '.join(f'{arch}: {reason}' for arch in archs)}}}"
            insertions.append(Insertion(place, text + "\n" + " " * (place.column - 1)))
    return insertions


def _siblings_there(tree: SpecTree, like: Arch) -> dict[Location, list[str]]:
    """By section: archs in the group of `like` whose list has not ended before it."""
    group = [n for n, a in tree.archs.items() if a.profile.group == like.profile.group and n != like.name]
    found = {}
    for layer in (y for family in tree.families.values() for y in family.layers):
        ended: set[str] = set()
        for section in layer.sections:
            found[section.location] = [a for a in group if a not in ended]
            if any(not r.conds for r in section.rules):
                ended |= {a for a in group if section.covers(a)}
    return found


def _before(tree: SpecTree, arch: str, name: str) -> bool:
    """Whether an arch of the tree stands before the new one in lists: ascending, `unknown` last."""
    match, cc = _ARCH_NAME.match(name), tree.archs[arch].profile.cc
    assert match is not None
    return cc is not None and cc < (int(match[1]), int(match[2]))


def _first(place: Location, lines: list[str], new: str) -> Insertion:
    before = lines[place.line - 1][: place.column - 1]
    return Insertion(place, f"{new}\n{before}" if before.strip() == "-" else f"{new}, ")


def _after_item(place: Location, lines: list[str], item: str, new: str) -> Insertion:
    end = Location(place.path, place.line, place.column + len(item))
    before = lines[place.line - 1][: place.column - 1]
    return Insertion(end, f"\n{before}{new}" if before.strip() == "-" else f", {new}")


def _separator(place: Location, lines: list[str]) -> str:
    """What stands between two entries: a line break in block style, a comma in flow style."""
    before = lines[place.line - 1][: place.column - 1]
    return f"\n{before}" if not before.strip() else ", "


def _profile_text(name: str, cc: tuple[int, int], like: Arch, sm_counts: tuple[int, ...]) -> str:
    profile = like.profile
    suffix = profile.gencode[-1] if profile.gencode and profile.gencode[-1].isalpha() else ""
    rows = [
        "schema: arch/1",
        f"name: {name}",
        f"cc: [{cc[0]}, {cc[1]}]",
        "products: []",
        f"gencode: sm_{cc[0]}{cc[1]}{suffix}",
        f'min_cuda: "{profile.min_cuda}"',
        f"memory: {profile.memory}",
        f"group: {profile.group}",
        f"smem_optin_bytes: {profile.smem_optin_bytes}",
    ]
    if profile.smem_oversized_bytes is not None:
        rows.append(f"smem_oversized_bytes: {profile.smem_oversized_bytes}")
    for field in ("registers_per_sm", "max_threads_per_sm", "max_cluster"):
        if field in profile.model_fields_set:
            rows.append(f"{field}: {getattr(profile, field)}")
    if profile.tmem is not None:
        pairs = profile.tmem.model_dump(exclude_none=True).items()
        rows.append("tmem: {" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}")
    rows += [
        f"engines: [{', '.join(profile.engines)}]",
        f"features: [{', '.join(profile.features)}]",
        f"sm_counts: [{', '.join(str(c) for c in sm_counts)}]",
        "status: assumed",
        "sources: []",
    ]
    return "\n".join(rows) + "\n"


def plan_tile(
    family: Family, root: Path, name: str, like: str, changes: dict[str, str], reserve: str | None
) -> Insertion:
    """A line for tile `name` below that of tile `like`, with some fields changed. Raises ScaffoldError."""
    if name in family.tile_by_id:
        raise ScaffoldError(f"tile '{name}' exists already")
    tile = family.tile_by_id[like]
    unknown = sorted(set(changes) - set(tile.fields))
    if unknown:
        raise ScaffoldError(f"tile '{like}' has no field '{unknown[0]}'; fields: {', '.join(tile.fields)}")
    given = {k: v for k, v in tile.fields.items() if k in tile.model.model_fields_set}
    fields = {"id": name, **{k: _word(v) for k, v in given.items()}, **changes}
    if tile.model.needs:
        fields["needs"] = f"[{', '.join(tile.model.needs)}]"
    if reserve is not None:
        fields["reserve"] = json.dumps(reserve)
    text = "- {" + ", ".join(f"{k}: {v}" for k, v in fields.items()) + "}"
    lines = Path(tile.location.path).read_text("utf-8").splitlines()
    indent = len(lines[tile.location.line - 1]) - len(lines[tile.location.line - 1].lstrip())
    end = Location(tile.location.path, tile.location.line, len(lines[tile.location.line - 1]) + 1)
    return Insertion(end, "\n" + " " * indent + text)


def _word(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def try_edit(root: str, insertions: Sequence[Insertion], new: Mapping[Path, str]) -> tuple[list[str], SpecTree]:
    """Make the edit if the specs can be read after it; returns the changed files and the new tree.

    Raises SpecError with every finding, after every file is as it was before.
    """
    before = {Path(i.place.path): Path(i.place.path).read_bytes() for i in insertions}
    try:
        for path, text in new.items():
            path.write_text(text, "utf-8")
        changed = apply_insertions(insertions)
        return changed, load_tree(root)
    except BaseException:
        for path, data in before.items():
            path.write_bytes(data)
        for path in new:
            path.unlink(missing_ok=True)
        raise


def apply_insertions(insertions: Sequence[Insertion]) -> list[str]:
    """Edit the files, last place first so that earlier places stay right; returns the files changed."""
    files = sorted({i.place.path for i in insertions})
    for path in files:
        lines = Path(path).read_bytes().decode("utf-8").splitlines(keepends=True)
        for item in sorted((i for i in insertions if i.place.path == path), key=lambda i: i.place, reverse=True):
            line, column = item.place.line - 1, item.place.column - 1
            lines[line] = lines[line][:column] + item.text + lines[line][column:]
        Path(path).write_bytes("".join(lines).encode("utf-8"))
    return files
