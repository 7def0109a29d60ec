"""E201 to E204: every arch has a complete list of rules in every layer, and no sibling is forgotten."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Layer, Rule, Section
from .context import Context, listed


def check(context: Context) -> None:
    for family, layer in context.layers():
        asked = [arch for arch in context.tree.archs if family.may_ask(layer, arch)]
        missing = check_e202(context, layer, asked)
        check_e201(context, layer, [arch for arch in asked if arch not in missing])
        check_e203(context, layer)
        check_e204(context, layer)
    check_e204_groups(context)


def check_e201(context: Context, layer: Layer, archs: list[str]) -> None:
    """No unconditional last rule for (layer, arch)."""
    open_at: dict[str, list[str]] = {}
    for arch in archs:
        found = layer.effective(arch)
        if all(r.conds for r in found):
            open_at.setdefault(found[-1].id, []).append(arch)
    rules = {r.id: r for s in layer.sections for r in s.rules}
    for rule_id, archs in open_at.items():
        context.sink.add(
            "E201",
            rules[rule_id].location,
            f"on {listed(archs)} the last rule of layer '{layer.name}' is '{rule_id}', which has a condition; "
            "a last rule without `when` is expected.",
            f"end with a section for: [{listed(archs)}] whose rule has no `when`",
        )


def check_e202(context: Context, layer: Layer, asked: list[str]) -> list[str]:
    """Arch absent from a layer that it asks."""
    missing = [a for a in asked if not layer.effective(a)]
    if missing:
        context.sink.add(
            "E202",
            layer.location,
            f"layer '{layer.name}' has no section for {listed(missing)}; every arch needs its list.",
            f"add {listed(missing)} to the `for` of its sections",
        )
    return missing


def check_e203(context: Context, layer: Layer) -> None:
    """Rule after an unconditional one."""
    ends: dict[str, Rule] = {}
    for section in layer.sections:
        ended = {a: ends[a] for a in context.tree.archs if section.covers(a) and a in ends}
        if ended:
            _section_after_end(context, section, ended)
        end: Rule | None = None
        for rule in section.rules:
            if end is not None:
                context.sink.add(
                    "E203",
                    rule.location,
                    f"rule '{rule.id}' follows '{end.id}' (line {end.location.line}), which has no `when`; "
                    "it can never fire.",
                    "move it up, or give the earlier rule a condition",
                )
            elif not rule.conds:
                end = rule
        if end is not None:
            for arch in context.tree.archs:
                if section.covers(arch):
                    ends.setdefault(arch, end)


def _section_after_end(context: Context, section: Section, ended: Mapping[str, Rule]) -> None:
    by_rule: dict[str, list[str]] = {}
    for arch, rule in ended.items():
        by_rule.setdefault(rule.id, []).append(arch)
    for rule_id, archs in by_rule.items():
        line = ended[archs[0]].location.line
        hint = f"take {listed(archs)} out of `for`" if section.archs else "name in `for` the archs that get here"
        context.sink.add(
            "E203",
            section.for_location,
            f"section '{section.name}' covers {listed(archs)}, whose list has ended with rule '{rule_id}' "
            f"(line {line}); its rules can never fire there.",
            hint,
        )


def check_e204(context: Context, layer: Layer) -> None:
    """Group sibling omitted without a reason."""
    ended: set[str] = set()
    for section in layer.sections:
        forgotten = [a for a in siblings(context, section) if a not in ended and a not in section.omits]
        if forgotten:
            groups = list(dict.fromkeys(context.tree.archs[a].profile.group for a in forgotten))
            shared = f"same group{'s' if len(groups) > 1 else ''} {listed(groups)}"
            context.sink.add(
                "E204",
                section.for_location,
                f"section '{section.name}' lists {listed(section.archs or ())} but not {listed(forgotten)} "
                f"({shared}, and the list has not ended before this section).",
                f"add {listed(forgotten)} to `for`, or state the reason: "
                f"omits: {{{listed(f'{a}: ...' for a in forgotten)}}}",
            )
        if any(not r.conds for r in section.rules):
            ended |= {a for a in context.tree.archs if section.covers(a)}


def siblings(context: Context, section: Section) -> list[str]:
    """Archs of the same groups that the section does not list; none for `all` and for a section of one arch."""
    if section.archs is None or len(section.archs) == 1:
        return []
    archs = context.tree.archs
    groups = {archs[a].profile.group for a in section.archs}
    return [a for a in archs if archs[a].profile.group in groups and a not in section.archs]


def check_e204_groups(context: Context) -> None:
    """An arch alone in its group has no sibling whose absence anybody would notice."""
    members: dict[str, list[str]] = {}
    for name, arch in context.tree.archs.items():
        members.setdefault(arch.profile.group, []).append(name)
    if len(context.tree.archs) < 2:
        return
    for profile, document in context.sources.archs:
        if len(members[profile.group]) == 1:
            others = listed(g for g in members if g != profile.group)
            context.sink.add(
                "E204",
                document.locate(("group",)),
                f"{profile.name} is alone in group '{profile.group}'; nothing would notice its absence from a section.",
                f"groups are a partition; put it beside its siblings, in one of: {others}",
            )
