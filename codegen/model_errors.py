"""Pydantic's errors as findings: each at its place in the file, in this package's words."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from .diagnostics import Sink, did_you_mean
from .loader import Document, ValuePath
from .models import SpecModel
from .models.base import PATTERNS
from .models.layers import outcome_keys

Item = Any


def report_model_errors(
    model: type[SpecModel], document: Document, base: ValuePath, error: ValidationError, sink: Sink
) -> None:
    """Report every error once. What only follows from another finding is left out."""
    items = error.errors(include_url=False)
    hints = {item["loc"]: _hint(model, document, item) for item in items if item["type"] == "extra_forbidden"}
    for item in items:
        loc = item["loc"]
        if item["type"] == "too_short" and any(o is not item and o["loc"][: len(loc)] == loc for o in items):
            continue
        if item["type"] == "missing" and _misspelt(loc, hints):
            continue
        _report(document, base, item, hints.get(loc), sink)


def _misspelt(loc: tuple[int | str, ...], hints: dict[Any, str | None]) -> bool:
    """Whether an unknown key beside the missing one looks like it."""
    return any(other[:-1] == loc[:-1] and hint == f"did you mean '{loc[-1]}'?" for other, hint in hints.items())


def _hint(model: type[SpecModel], document: Document, item: Item) -> str | None:
    return did_you_mean(str(item["loc"][-1]), _allowed_keys(model, item["loc"], document))


def _report(document: Document, base: ValuePath, item: Item, hint: str | None, sink: Sink) -> None:
    if item["loc"][-1:] == ("[key]",):
        message, _ = _words(item)
        sink.add("E104", document.locate_key(base + item["loc"][:-1]), f"key {item['loc'][-2]}: {message}.")
        return
    path, form = _real_path(document, base + item["loc"])
    raw = document.raw.get(path)
    place = document.locate_key(path) if item["type"] == "extra_forbidden" else document.locate(path)
    if item["type"] == "missing":
        place = document.locate(path[:-1])
        if path[-1:] == ("outcome",):
            keys = ", ".join(outcome_keys(document.value.get("layer")))
            sink.add("E104", place, "the rule states no outcome.", f"give one of: {keys}")
        elif isinstance(item["loc"][-1], int):
            sink.add("E104", place, f"{path[-2]}: {item['loc'][-1] + 1} items are expected.")
        elif form is None:
            sink.add("E104", place, f"key '{path[-1]}' is missing.")
    elif sink.mentions(place):
        return
    elif item["type"] == "extra_forbidden" and hint == f"did you mean '{path[-1]}'?":
        # Known after all, as the key of a rule's outcome; another one has been taken for it.
        sink.add("E101", place, f"'{path[-1]}' is a second outcome of the rule; it has one.", "keep one of them")
    elif item["type"] == "extra_forbidden":
        sink.add("E101", place, f"key '{path[-1]}' is not known here.", hint)
    elif form is None and raw is not None and _is_number(item["input"]) and "str" in item["type"]:
        sink.add("E103", place, f"{raw} is a number where text is meant.", f'quote it: "{raw}"')
    else:
        where = ".".join(str(p) for p in path) or "document"
        message, hint = _words(item) if form is None else (f"{form} is expected", None)
        sink.add("E104", place, f"{where}: {message}.", hint)


_FORMS = {
    "for": "`all`, or a list of archs,",
    "archs": "`all`, or a list of archs,",
    "dtypes": "`all`, or a list of dtypes,",
    "num_sms": "`profile`, `first`, or a list of counts,",
    "m_cap": "an integer, `always` or `never`",
    "when": "a conjunct or a list of conjuncts",
    "outcome": "`m_cap`, `tile`, or a list of words or of integers,",
}


def _real_path(document: Document, loc: tuple[int | str, ...]) -> tuple[ValuePath, str | None]:
    """The part of a Pydantic location that exists in the file, and what is expected there where it names a union.

    Pydantic appends the alternative it tried; a rule's outcome stands in the file under a key of its own.
    """
    value = document.value
    path: list[int | str] = []
    for index, step in enumerate(loc):
        if step == "outcome" and isinstance(value, dict) and "id" in value and len(loc) > index + 1:
            keys = [k for k in outcome_keys(document.value.get("layer")) if k in value]
            path.append(keys[0] if keys else step)
            return tuple(path), _FORMS.get(str(path[-1]), "an integer or a word")
        try:
            value = value[step]
        except (LookupError, TypeError):
            rest = index < len(loc) - 1 or _is_tag(step)
            return (
                (tuple(path), _FORMS.get(str(path[-1]), "one of the allowed forms")) if rest and path else (loc, None)
            )
        path.append(step)
    return tuple(path), None


def _is_tag(step: int | str) -> bool:
    """Whether Pydantic made the step up: the name of an alternative, such as literal['all'] or constrained-str."""
    return isinstance(step, str) and ("[" in step or "-" in step or step in ("tuple", "int", "str"))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_EXPECTED = {
    "tuple_type": "a list is expected",
    "int_type": "an integer is expected",
    "float_type": "a number is expected",
    "bool_type": "true or false is expected",
    "string_type": "text is expected",
    "dict_type": "a mapping is expected",
    "model_type": "a mapping is expected",
    "too_short": "at least one item is expected",
    "string_too_short": "text is expected",
}


def _words(item: Item) -> tuple[str, str | None]:
    """What is wrong, and a hint."""
    kind, context = item["type"], item.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return f"'{item['input']}' is not {PATTERNS.get(context['pattern'], 'in the expected form')}", None
    if kind == "literal_error":
        words = [w.strip("'") for w in context["expected"].replace(" or ", ", ").split(", ")]
        return f"'{item['input']}' is not one of: {', '.join(words)}", did_you_mean(str(item["input"]), words)
    if kind == "greater_than_equal":
        return f"{item['input']} is too small; at least {context['ge']} is expected", None
    if kind == "too_long":
        return f"at most {context['max_length']} items are allowed", None
    text = _EXPECTED.get(kind, item["msg"][:1].lower() + item["msg"][1:])
    return text, None


def _allowed_keys(model: type[SpecModel], loc: tuple[int | str, ...], document: Document) -> set[str]:
    """Keys of the mapping that holds the unknown key, found by following `loc` through the models."""
    current: Any = model
    for step in loc[:-1]:
        if isinstance(step, str) and isinstance(current, type) and issubclass(current, SpecModel):
            by_alias = {(f.alias or n): f.annotation for n, f in current.model_fields.items()}
            current = _inner_model(by_alias.get(step))
    if not (isinstance(current, type) and issubclass(current, SpecModel)):
        return set()
    keys = {f.alias or n for n, f in current.model_fields.items()}
    if "outcome" in keys and isinstance(document.value, dict):
        keys = (keys - {"outcome"}) | set(outcome_keys(document.value.get("layer")))
    return keys


def _inner_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _inner_model(part)
        if found is not None:
            return found
    return None
