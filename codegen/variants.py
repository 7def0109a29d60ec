"""Binds the documents about wheels: named arch sets and budgets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from .archs import NAMED_SETS, BuildArch, parse_arch_tokens, portable
from .diagnostics import Sink, did_you_mean
from .ir import Arch, SpecTree
from .loader import Document, ValuePath
from .models.wheels import BudgetFile, WheelsFile, WheelVariant

ALL = "all"
"""Arch set that needs no document: every arch with machine code."""


def bind_variants(
    files: Sequence[tuple[WheelsFile, Document]], archs: Mapping[str, Arch], sink: Sink
) -> tuple[WheelVariant, ...]:
    """The variants of the tree. Archs must exist and have a gencode, names must differ, one is for the index."""
    found: dict[str, WheelVariant] = {}
    for file, document in files:
        for index, variant in enumerate(file.variants):
            path: ValuePath = ("variants", index)
            if variant.name in found:
                sink.add("E206", document.locate((*path, "name")), f"variant '{variant.name}' is defined twice.")
            if (variant.name == ALL) != (variant.archs == ALL):
                sink.add("E104", document.locate((*path, "archs")), "the variant 'all' is the one with all archs.")
            _check_archs(variant, archs, document, path, sink)
            found.setdefault(variant.name, variant)
    published = [v.name for v in found.values() if v.published == "index"]
    if files and len(published) != 1:
        place = files[0][1].locate(("variants",))
        sink.add("E104", place, f"one variant is published on the index; found {', '.join(published) or 'none'}.")
    return tuple(found.values())


def _check_archs(
    variant: WheelVariant, archs: Mapping[str, Arch], document: Document, path: ValuePath, sink: Sink
) -> None:
    built = [name for name, arch in archs.items() if arch.profile.gencode is not None]
    if variant.archs != ALL:
        built = list(variant.archs)
        _check_names(built, archs, document, (*path, "archs"), sink)
    _check_names(variant.ptx, archs, document, (*path, "ptx"), sink)
    for number, name in enumerate(variant.ptx):
        place = document.locate((*path, "ptx", number))
        if name in archs and name not in built:
            sink.add("E301", place, f"PTX of '{name}' is kept without its machine code; list it under archs.")
        elif name in archs and not portable(archs[name].profile):
            gencode = archs[name].profile.gencode
            sink.add("E301", place, f"PTX of {gencode} runs on no later device.", "a target without 'a' or 'f' does")


def _check_names(
    names: Sequence[str], archs: Mapping[str, Arch], document: Document, path: ValuePath, sink: Sink
) -> None:
    for number, name in enumerate(names):
        place = document.locate((*path, number))
        if name not in archs:
            sink.add("E301", place, f"there is no arch '{name}'.", did_you_mean(name, archs))
        elif archs[name].profile.gencode is None:
            sink.add("E301", place, f"no machine code is built for arch '{name}'.")
        if name in names[:number]:
            sink.add("E206", place, f"arch '{name}' is listed twice.")


def bind_budget(
    files: Sequence[tuple[BudgetFile, Document]], families: Collection[str], archs: Mapping[str, Arch], sink: Sink
) -> BudgetFile | None:
    """The budget of the tree, if it has one. Families and images must exist."""
    for _, document in files[1:]:
        sink.add("E206", document.locate(), f"the tree has one budget; first at {files[0][1].locate()}.")
    if not files:
        return None
    budget, document = files[0]
    ccs = [f"{p.cc[0]}{p.cc[1]}" for a in archs.values() if (p := a.profile).cc is not None]
    images = {f"{kind}_{cc}" for cc in ccs for kind in ("sm", "compute")}
    for index, item in enumerate(budget.families):
        path: ValuePath = ("families", index)
        if item.family not in families:
            place = document.locate((*path, "family"))
            sink.add("E301", place, f"there is no family '{item.family}'.", did_you_mean(item.family, families))
        for image in item.images:
            if image.rstrip("af") not in images:
                place = document.locate_key((*path, "images", image))
                sink.add("E301", place, f"no arch has the image '{image}'.", did_you_mean(image, images))
    return budget


def named_sets(tree: SpecTree) -> dict[str, str]:
    """The words that stand for arch tokens in this tree, with their tokens."""
    sets = dict(NAMED_SETS)
    for variant in tree.variants:
        names = variant.ptx if variant.archs == ALL else variant.archs
        tokens = [str(tree.archs[name].profile.gencode) + ("+PTX" if name in variant.ptx else "") for name in names]
        sets[variant.name] = " ".join(tokens)
    return sets


def parse_archs(text: str, tree: SpecTree, note: Callable[[str], None] = lambda message: None) -> tuple[BuildArch, ...]:
    """`parse_arch_tokens` with the profiles and the variants of a tree. ArchTokenError as there."""
    return parse_arch_tokens(text, [arch.profile for arch in tree.archs.values()], note, named_sets(tree))
