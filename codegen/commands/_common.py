"""What several verbs share: the specs option, loading with one report, and a family argument."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from ..diagnostics import Diagnostic
    from ..ir import Arch, Family, SpecTree

F = TypeVar("F", bound=Callable[..., Any])


def default_specs() -> str:
    """`specs` of the current folder if there is one, else the specs that came with the package."""
    from ..data import specs_folder

    return "specs" if Path("specs/archs").is_dir() else str(specs_folder())


def specs_option(function: F) -> F:
    """`--specs DIR`."""
    return click.option(
        "--specs",
        type=click.Path(file_okay=False),
        default=default_specs,
        show_default="./specs, else the packaged ones",
        help="Folder of specs.",
    )(function)


def format_option(*choices: str) -> Callable[[F], F]:
    """`--format` with the first choice as default."""
    return click.option("--format", "fmt", type=click.Choice(choices), default=choices[0], show_default=True)


def load_or_exit(specs: str, fmt: str = "text") -> SpecTree:
    """The tree, or every finding on stderr and exit status 1."""
    from ..diagnostics import RENDERERS
    from ..tree import read_tree

    tree, found = read_tree(specs)
    if tree is None:
        click.echo(RENDERERS[fmt](found), err=True)
        sys.exit(1)
    return tree


def fail(message: str, hint: str | None = None) -> NoReturn:
    """One line (and a hint) on stderr, exit status 1."""
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"  hint: {hint}", err=True)
    sys.exit(1)


def pick(kind: str, name: str, known: Iterable[str]) -> str:
    """The name if it is known, else an error with the closest one."""
    from ..diagnostics import did_you_mean

    known = list(known)
    if name not in known:
        fail(f"there is no {kind} '{name}'.", did_you_mean(name, known) or f"known: {', '.join(known)}")
    return name


def pick_family(tree: SpecTree, name: str | None) -> Family:
    """The named family; without a name, the only one there is or the one that says `default: true`."""
    if name is None:
        families = list(tree.families.values())
        chosen = families if len(families) == 1 else [f for f in families if f.default]
        if len(chosen) != 1:
            fail(f"which family? one of: {', '.join(tree.families)}")
        return chosen[0]
    return tree.families[pick("family", name, tree.families)]


def pick_arch(tree: SpecTree, name: str) -> Arch:
    """The named arch profile."""
    return tree.archs[pick("arch", name, tree.archs)]


def pick_words(family: Family, texts: Iterable[str]) -> dict[str, str]:
    """Words of the enumerated inputs besides dtype: the first of each, unless a text INPUT=WORD names another."""
    enums = {i.name: i.words for i in family.inputs if i.is_enum and i.name != "dtype"}
    words = {name: known[0] for name, known in enums.items()}
    for text in texts:
        name, _, word = text.partition("=")
        pick("further input", name, enums)
        words[name] = pick(f"word of {name}", word, enums[name])
    return words


def report(found: Iterable[Diagnostic], fmt: str) -> None:
    """Print findings in a format."""
    from ..diagnostics import RENDERERS

    text = RENDERERS[fmt](found)
    if text:
        click.echo(text)
