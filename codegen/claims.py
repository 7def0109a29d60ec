"""Bind claims to a spec tree: every arch, rule, layer, value, section and condition they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from .diagnostics import Location, Sink, SpecError, did_you_mean
from .expr import Cond
from .ir import PATH_VALUES, Claim, Family, SpecTree
from .loader import Document, ValuePath
from .models.claims import CLAIM_MODELS, ClaimModel, ClaimsFile
from .resolve import Resolver, Scope

COMMAND_LINE = "--claim"


def parse_claims(file: ClaimsFile, document: Document, sink: Sink) -> list[ClaimModel | None]:
    """The typed claims of a file; None where one does not fit its kind."""
    return [_parse(value, ("claims", i), document, sink) for i, value in enumerate(file.claims)]


def _parse(value: Mapping[str, Any], path: ValuePath, document: Document, sink: Sink) -> ClaimModel | None:
    from .tree import parse_model

    kind = value.get("claim")
    model = CLAIM_MODELS.get(str(kind))
    if model is None:
        place = document.locate((*path, "claim"))
        problem = f"there is no kind of claim '{kind}'" if "claim" in value else "key 'claim' is missing"
        hint = did_you_mean(str(kind), CLAIM_MODELS) or f"kinds: {', '.join(CLAIM_MODELS)}"
        sink.add("E301" if "claim" in value else "E104", place, f"{problem}.", hint)
        return None
    found: ClaimModel | None = parse_model(model, document, path, dict(value), sink)
    return found


class Binder:
    """Checks the names in the claims of one document against a tree."""

    def __init__(self, archs: Iterable[str], family: Family, document: Document, sink: Sink) -> None:
        self.archs, self.family, self.document, self.sink = list(archs), family, document, sink
        self.scope = _outcome_scope(family)

    def bind(self, model: ClaimModel, path: ValuePath) -> Claim:
        """The claim with its conditions resolved. It is only usable when the sink has no errors afterwards."""
        archs = getattr(model, "archs", ())
        for index, name in enumerate(() if archs == "all" else archs):
            self._known("arch", name, self.archs, (*path, "archs", index))
        if hasattr(model, "rule"):
            self._known("rule", model.rule, self.family.rule_by_id, (*path, "rule"))
        layers = self.family.layer_by_name
        for index, name in enumerate(getattr(model, "layers", ())):
            self._known("layer", name, layers, (*path, "layers", index))
        if hasattr(model, "layer") and self._known("layer", model.layer, layers, (*path, "layer")):
            self._layer_values(model, path)
        for index, name in enumerate(getattr(model, "without", ())):
            self._known("section", name, _sections(self.family), (*path, "without", index))
        if getattr(model, "without", ()) and getattr(model, "base", None):
            place = self.document.locate_key((*path, "without"))
            self.sink.add("E104", place, "a claim has either `base` or `without`, not both.")
        return Claim(model.id, self.family.name, model, self._conditions(model, path), self.document.locate(path))

    def _layer_values(self, model: Any, path: ValuePath) -> None:
        layer = self.family.layer_by_name[model.layer]
        if model.claim == "monotone-in-m" and layer.kind != "m_cap":
            place = self.document.locate((*path, "layer"))
            self.sink.add("E301", place, f"layer '{layer.name}' does not choose between {' and '.join(PATH_VALUES)}.")
        for key, field in (("from", "from_"), ("to", "to")):
            if hasattr(model, field):
                self._known("outcome", getattr(model, field), layer.values, (*path, key))
        if hasattr(model, "to") and model.from_ == model.to:
            place = self.document.locate((*path, "to"))
            self.sink.add("E104", place, "`from` and `to` are the same outcome; two are expected.")

    def _conditions(self, model: ClaimModel, path: ValuePath) -> dict[str, tuple[Cond, ...]]:
        resolver = Resolver(self.document, self.sink)
        return {
            key: resolver.conds(getattr(model, key), (*path, key), self.scope)
            for key in ("where", "when", "then")
            if hasattr(model, key)
        }

    def _known(self, kind: str, name: Any, known: Iterable[Any], path: ValuePath) -> bool:
        known = list(known)
        if name in known:
            return True
        words = [str(k) for k in known]
        hint = did_you_mean(str(name), words) or (f"known: {', '.join(words)}" if len(words) < 20 else None)
        self.sink.add("E301", self.document.locate(path), f"there is no {kind} '{name}'.", hint)
        return False


def _sections(family: Family) -> list[str]:
    return [f"{layer.name}/{s.name}" for layer in family.layers for s in layer.sections]


def _outcome_scope(family: Family) -> Scope:
    from .build import publish
    from .resolve import input_scope

    scope = input_scope(family.inputs)
    for layer in family.layers:
        publish(layer, family.tile_by_id, scope)
    return scope


def bind_claims(
    sources: Iterable[tuple[ClaimsFile, list[ClaimModel | None], Document]],
    archs: Iterable[str],
    families: Mapping[str, Family],
    sink: Sink,
) -> tuple[Claim, ...]:
    """All claims of a tree. Findings go to `sink`."""
    bound: list[Claim] = []
    seen: dict[str, Location] = {}
    archs = list(archs)
    for file, models, document in sources:
        family = families.get(file.family)
        if family is None:
            hint = did_you_mean(file.family, families)
            sink.add("E301", document.locate(("family",)), f"there is no family '{file.family}'.", hint)
            continue
        binder = Binder(archs, family, document, sink)
        for index, model in enumerate(models):
            if model is None:
                continue
            place = document.locate(("claims", index, "id"))
            if model.id in seen:
                sink.add("E206", place, f"claim '{model.id}' is defined twice; first at {seen[model.id]}.")
            seen.setdefault(model.id, place)
            bound.append(binder.bind(model, ("claims", index)))
    return tuple(bound)


def parse_claim_text(text: str, tree: SpecTree, family: Family) -> Claim:
    """A claim from the command line: `KIND WORD... key=value...`, lists separated by commas, conjuncts by `and`.

    Raises SpecError with every finding when it does not fit.
    """
    sink = Sink()
    value = _words_to_keys(text, sink)
    document = Document(COMMAND_LINE, value, {}, {}, {})
    model = None if sink.has_errors else _parse(value, (), document, sink)
    claim = Binder(tree.archs, family, document, sink).bind(model, ()) if model else None
    if claim is None or sink.has_errors:
        raise SpecError(sink.diagnostics)
    return claim


def _words_to_keys(text: str, sink: Sink) -> dict[str, Any]:
    place = Location(COMMAND_LINE)
    try:
        words = shlex.split(text)
    except ValueError as error:
        sink.add("E104", place, f"the claim cannot be read: {error}.")
        return {}
    kind = words.pop(0) if words else ""
    model = CLAIM_MODELS.get(kind)
    value: dict[str, Any] = {"claim": kind, "id": re.sub("[^a-z0-9]+", "-", text.lower()).strip("-") or "claim"}
    order = list(model.positional) if model else []
    for word in words:
        key, equals, rest = word.partition("=")
        if equals and re.fullmatch(r"[a-z]+", key):
            value[key] = _value(model, key, rest)
        elif model is None:
            break
        elif order:
            key = order[0]
            is_list = _is_list(model, key)
            value[key] = [*value.get(key, []), *_value(model, key, word)] if is_list else _value(model, key, word)
            if not is_list or len(order) > 1:
                order.pop(0)
        else:
            sink.add("E104", place, f"'{word}' is one word too many.", "write further arguments as key=value")
    return value


def _is_list(model: type[ClaimModel] | None, key: str) -> bool:
    fields = {(f.alias or n): f for n, f in model.model_fields.items()} if model else {}
    return key in fields and "tuple" in str(fields[key].annotation)


def _value(model: type[ClaimModel] | None, key: str, text: str) -> Any:
    if _is_list(model, key):
        if key == "archs" and text == "all":
            return "all"
        return [part.strip() for part in (text.split(" and ") if key in ("where", "when", "then") else text.split(","))]
    return int(text) if re.fullmatch(r"[0-9]+", text) else text
