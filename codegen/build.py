"""Assemble models into a SpecTree: bind names across documents and report what does not fit together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .build_costs import CostTables
from .declarations import check_declarations, check_words
from .defined_names import Names
from .diagnostics import Location, Sink, did_you_mean
from .emit_cpp import enumerator, identifier
from .engine_needs import ENGINE_NEEDS
from .expr import (
    Cond,
    format_node,
    names,
    parse_cond,
)
from .ir import (
    ALWAYS,
    NEVER,
    PATH_VALUES,
    UNCHANGED,
    AnyCond,
    Arch,
    Cap,
    Choice,
    Claim,
    Fact,
    Family,
    Input,
    Keep,
    Layer,
    Outcome,
    Predicate,
    Rule,
    Section,
    SpecTree,
    Tile,
    Value,
)
from .loader import Document, ValuePath
from .models import (
    AnyOf,
    ArchProfile,
    EvidenceRecord,
    FamilyFile,
    LayerDecl,
    LayerFile,
    RuleModel,
    SectionModel,
    TileBase,
)
from .models.layers import CHEAPEST
from .resolve import Resolver, Scope, input_scope
from .sources import Sources
from .variants import bind_budget, bind_variants


def build_tree(sources: Sources, sink: Sink) -> SpecTree:
    """Resolve everything. The result is only sound when the sink has no errors afterwards."""
    arch_names = Names("arch", sink)
    archs = {
        model.name: Arch(model, doc.locate())
        for model, doc in sorted(sources.archs, key=lambda pair: _arch_order(pair[0]))
        if arch_names.define(model.name, doc.locate(("name",)))
    }
    evidence_names = Names("evidence", sink)
    evidence = {m.id: m for m, doc in sources.evidence if evidence_names.define(m.id, doc.locate(("id",)))}
    families: dict[str, Family] = {}
    family_names = Names("family", sink)
    for file, document, folder in sources.families:
        if family_names.define(file.name, document.locate(("name",))):
            builder = _FamilyBuilder(file, document, sources, folder, archs, evidence, sink)
            families[file.name] = builder.build()
    _check_folders(sources, sink)
    grid_names = Names("grid", sink)
    grids = {m.name: m for m, doc in sources.grids if grid_names.define(m.name, doc.locate(("name",)))}
    claims = () if sink.has_errors else _bind_claims(sources, archs, families, sink)
    variants = bind_variants(sources.wheels, archs, sink)
    budget = bind_budget(sources.budgets, families, archs, sink)
    return SpecTree(sources.root, archs, families, evidence, grids, claims, variants, budget)


def _bind_claims(
    sources: Sources, archs: dict[str, Arch], families: dict[str, Family], sink: Sink
) -> tuple[Claim, ...]:
    if not sources.claims:
        return ()
    from .claims import bind_claims

    return bind_claims(sources.claims, archs, families, sink)


def _arch_order(profile: ArchProfile) -> tuple[int, tuple[int, int], str]:
    return (1, (0, 0), profile.name) if profile.cc is None else (0, profile.cc, profile.name)


def _check_folders(sources: Sources, sink: Sink) -> None:
    folders = {folder for _, _, folder in sources.families}
    found = [(d, f) for _, _, d, f in sources.tiles] + [(d, f) for _, d, f in (*sources.layers, *sources.costs)]
    for document, folder in found:
        if folder not in folders:
            sink.add("E207", document.locate(), f"folder '{folder}' has no family/1 document.")


class _FamilyBuilder:
    """Builds one family from the documents in its folder."""

    def __init__(
        self,
        file: FamilyFile,
        document: Document,
        sources: Sources,
        folder: str,
        archs: dict[str, Arch],
        evidence: dict[str, EvidenceRecord],
        sink: Sink,
    ) -> None:
        self.file, self.document, self.archs, self.evidence, self.sink = file, document, archs, evidence, sink
        self.tile_files = [(t, m, d) for t, m, d, f in sources.tiles if f == folder]
        self.layer_files = [(m, d) for m, d, f in sources.layers if f == folder]
        self.cost_files = [(m, d) for m, d, f in sources.costs if f == folder]
        self.inputs = _inputs(file)
        self.rule_ids = Names("rule", sink, "E205")
        self.layers: dict[str, Layer] = {}

    def build(self) -> Family:
        check_declarations(self.file, self.document, self.sink)
        self.tiles = {tile.id: tile for tile in self._tiles()}
        self.costs = CostTables(self.cost_files, self.tiles, self.sink)
        found = self._match_layer_files()
        scope = input_scope(self.inputs)
        declared = {decl.name for decl in self.file.layers}
        for index, decl in enumerate(self.file.layers):
            scope.later = declared - set(self.layers) - {decl.name}
            if decl.name in found:
                layer = self._layer(decl, index, *found[decl.name], scope)
                self.layers[decl.name] = layer
                publish(layer, self.tiles, scope)
        return Family(
            self.file.name,
            self.file.op,
            self.file.dtypes,
            self.inputs,
            tuple(self.tiles.values()),
            tuple(self.layers.values()),
            self.document.locate(),
            self.file.default,
        )

    def _match_layer_files(self) -> dict[str, tuple[LayerFile, Document]]:
        names = Names("layer", self.sink)
        files = {m.layer: (m, d) for m, d in self.layer_files if names.define(m.layer, d.locate(("layer",)))}
        declared = Names("layer", self.sink)
        for index, decl in enumerate(self.file.layers):
            place = self.document.locate(("layers", index, "name"))
            declared.define(decl.name, place)
            if decl.name not in files:
                self.sink.add("E207", place, f"layer '{decl.name}' has no layer/1 document in this folder.")
        for name, (_, document) in files.items():
            if name not in declared.seen:
                hint = did_you_mean(name, declared.seen)
                self.sink.add("E207", document.locate(("layer",)), f"the family declares no layer '{name}'.", hint)
        return files

    def _tiles(self) -> Iterable[Tile]:
        names = Names("tile", self.sink, generated=enumerator)
        for file, models, document in self.tile_files:
            resolver = Resolver(document, self.sink)
            requires = {
                kc: resolver.conds(texts, ("requires", kc), input_scope(self.inputs))
                for kc, texts in file.requires.items()
            }
            for index, model in enumerate(models):
                place = document.locate(("tiles", index))
                if model is not None and names.define(model.id, place):
                    stated = requires.get(getattr(model, "kc", 0), ())
                    needed = tuple(c for c in self._kernel_requires(model, index, resolver) if c not in stated)
                    yield Tile(model.id, file.engine, model, (*stated, *needed), place)

    def _kernel_requires(self, model: TileBase, index: int, resolver: Resolver) -> tuple[Cond, ...]:
        """What the engine's kernels ask of a problem, where the family has the inputs it speaks of."""
        entry = ENGINE_NEEDS.get(type(model))
        conds = [parse_cond(text) for text in entry.requires(model)] if entry else []
        known = {item.name for item in self.inputs}
        words = {word for item in self.inputs for word in item.words}
        texts = [format_node(c) for c in conds if (known | words).issuperset(names(c))]
        return resolver.conds(texts, ("tiles", index), input_scope(self.inputs))

    def _layer(self, decl: LayerDecl, index: int, file: LayerFile, document: Document, outer: Scope) -> Layer:
        gate = Resolver(self.document, self.sink).conds(decl.when, ("layers", index, "when"), outer.child())
        scope = outer.child()
        resolver = Resolver(document, self.sink)
        facts, predicates = self._definitions(file, document, resolver, scope)
        facts = (*facts, *self.costs.facts(decl, gate, file, scope))
        self.met, self.escapes = gate, list[Predicate]()
        self.terms = {p.name: p.terms for p in predicates}
        sections = self._sections(decl, file, document, resolver, scope)
        predicates = (*predicates, *self.escapes)
        layer = Layer(
            decl.name,
            decl.outcome_kind,
            decl.site,
            self._values(decl, sections),
            gate,
            decl.repairs,
            facts,
            predicates,
            sections,
            document.locate(),
        )
        self._check_gate(layer, index)
        return layer

    def _definitions(
        self, file: LayerFile, document: Document, resolver: Resolver, scope: Scope
    ) -> tuple[tuple[Fact, ...], tuple[Predicate, ...]]:
        names = Names("name", self.sink, generated=identifier)
        for name in sorted(scope.values):
            names.define(name, self.document.locate())
        check_words(file.facts, document, ("facts",), self.sink)
        check_words(file.predicates, document, ("predicates",), self.sink)
        pending = list(file.facts) + list(file.predicates)
        scope.later = scope.later | set(pending)
        facts: list[Fact] = []
        for name, text in file.facts.items():
            names.define(name, document.locate_key(("facts", name)))
            fact = resolver.fact(name, text, ("facts", name), scope)
            scope.later.discard(name)
            if fact is not None:
                facts.append(fact)
            else:
                scope.bounds.setdefault(name, (0, 1))
        predicates: list[Predicate] = []
        for name, terms in file.predicates.items():
            place = document.locate_key(("predicates", name))
            names.define(name, place)
            texts = [(t.any if isinstance(t, AnyOf) else t, ("predicates", name, i)) for i, t in enumerate(terms)]
            predicates.append(resolver.predicate(name, texts, place, scope))
            scope.later.discard(name)
        return tuple(facts), tuple(predicates)

    def _sections(
        self, decl: LayerDecl, file: LayerFile, document: Document, resolver: Resolver, scope: Scope
    ) -> tuple[Section, ...]:
        names = Names("section", self.sink)
        sections = []
        for index, model in enumerate(file.sections):
            path: ValuePath = ("sections", index)
            place = document.locate(path)
            names.define(model.section, document.locate((*path, "section")))
            archs = None if model.for_ == "all" else tuple(model.for_)
            self._check_archs(archs or (), document, (*path, "for"))
            self._check_archs(model.omits, document, (*path, "omits"))
            rules: list[Rule] = []
            for i, each in enumerate(model.rules):
                at: ValuePath = (*path, "rules", i)
                rule = self._rule(decl, model, each, document, at, resolver, scope)
                if each.outcome.key == CHEAPEST:
                    rules += self._cheapest(decl, rule, document.locate((*at, CHEAPEST)))
                else:
                    rules.append(rule)
            for_place = document.locate_key((*path, "for"))
            sections.append(Section(model.section, archs, dict(model.omits), tuple(rules), place, for_place))
        return tuple(sections)

    def _check_archs(self, names: Iterable[str], document: Document, path: ValuePath) -> None:
        seen: set[str] = set()
        for index, name in enumerate(names):
            place = document.locate((*path, index if path[-1] == "for" else name))
            if name not in self.archs:
                self.sink.add("E301", place, f"there is no arch '{name}'.", did_you_mean(name, self.archs))
            if name in seen:
                self.sink.add("E206", place, f"arch '{name}' is listed twice.")
            seen.add(name)

    def _cheapest(self, decl: LayerDecl, rule: Rule, place: Location) -> tuple[Rule, ...]:
        """The rules that one of `cheapest: table` stands for."""
        assert isinstance(rule.outcome, Choice)
        table = str(rule.outcome.value)
        rules, escapes = self.costs.rules(decl, table, rule, place, self.met, self.terms)
        self.escapes += escapes
        for made in rules:
            self.rule_ids.define(made.id, rule.location)
        return rules

    def _rule(
        self,
        decl: LayerDecl,
        section: SectionModel,
        model: RuleModel,
        document: Document,
        path: ValuePath,
        resolver: Resolver,
        scope: Scope,
    ) -> Rule:
        self.rule_ids.define(model.id, document.locate((*path, "id")))
        evidence = model.evidence or section.evidence
        for name in evidence:
            if name not in self.evidence:
                owner = path if model.evidence else path[:2]
                place = document.locate((*owner, "evidence", evidence.index(name)))
                self.sink.add("E301", place, f"there is no evidence '{name}'.", did_you_mean(name, self.evidence))
        return Rule(
            model.id,
            section.section,
            resolver.conds(model.when, (*path, "when"), scope),
            self._outcome(decl, model, document, path),
            model.basis or section.basis,
            evidence,
            model.issue or section.issue,
            model.why or section.why,
            document.locate(path),
        )

    def _outcome(self, decl: LayerDecl, model: RuleModel, document: Document, path: ValuePath) -> Outcome:
        key, value = model.outcome.key, model.outcome.value
        place = document.locate((*path, key))

        def reject(text: str, hint: str | None) -> None:
            self.sink.add("E301", place, text, hint)

        kind = decl.outcome_kind
        if key == CHEAPEST:
            return Choice(value)  # until the table's tiles stand in its place
        if key == "m_cap" and kind == "m_cap":
            if isinstance(value, int) or value in (ALWAYS, NEVER):
                return Cap(value if isinstance(value, int) else None if value == ALWAYS else 0)
            reject(f"m_cap is '{value}'; an integer, always or never is expected.", None)
        elif kind == "tile" and key in ("tile", decl.name):
            if value == UNCHANGED and decl.repairs:
                return Keep(decl.repairs)
            if value in self.tiles:
                return Choice(value)
            reject(f"there is no tile '{value}'.", did_you_mean(str(value), self.tiles))
        elif kind != "tile" and key == decl.name:
            allowed: tuple[Value, ...] = PATH_VALUES if kind == "m_cap" else tuple(decl.outcome)
            if value in allowed:
                return Choice(value)
            words = ", ".join(str(v) for v in allowed)
            reject(f"'{value}' is not an outcome of layer '{decl.name}'.", f"outcomes: {words}")
        else:
            reject(f"a rule of layer '{decl.name}' cannot yield '{key}'.", None)
        return Choice(value)

    def _values(self, decl: LayerDecl, sections: tuple[Section, ...]) -> tuple[Value, ...]:
        kind = decl.outcome_kind
        if kind == "m_cap":
            return PATH_VALUES
        if kind == "choice":
            return tuple(decl.outcome)
        picked = {r.outcome.value for s in sections for r in s.rules if isinstance(r.outcome, Choice)}
        if decl.repairs in self.layers:
            picked |= set(self.layers[str(decl.repairs)].values)
        return tuple(t for t in self.tiles if t in picked)

    def _check_gate(self, layer: Layer, index: int) -> None:
        """A layer may only read outcomes that its own gate guarantees."""
        own = {format_node(c) for c in layer.gate}
        for name in sorted(_read_layers(layer, self.layers)):
            missing = [c for c in map(format_node, self.layers[name].gate) if c not in own]
            if missing:
                self.sink.add(
                    "E305",
                    self.document.locate(("layers", index)),
                    f"layer '{layer.name}' reads '{name}', which has no outcome unless {' and '.join(missing)}.",
                    f"add to its `when`: {', '.join(missing)}",
                )


def publish(layer: Layer, tiles: Mapping[str, Tile], scope: Scope) -> None:
    """Let later layers read this layer's outcome."""
    if layer.kind != "tile":
        ints = [v for v in layer.values if isinstance(v, int)]
        if ints and len(ints) == len(layer.values):
            scope.bounds[layer.name] = (min(ints), max(ints))
        else:
            scope.words[layer.name] = tuple(str(v) for v in layer.values)
        return
    columns = [tiles[str(v)].fields for v in layer.values]
    shared = set.intersection(*(set(c) for c in columns)) if columns else set()
    for name in shared:
        numbers = [int(v) for c in columns if isinstance(v := c[name], int)]
        if len(numbers) == len(columns):
            scope.bounds[f"{layer.name}.{name}"] = (min(numbers), max(numbers))


def _inputs(file: FamilyFile) -> tuple[Input, ...]:
    integers = [Input(name, limit) for name, limit in file.limits.items()]
    enums = [Input(name, words=words) for name, words in file.enums.items()]
    return (*integers, Input("dtype", words=file.dtypes), *enums)


def _read_layers(layer: Layer, earlier: dict[str, Layer]) -> set[str]:
    """Earlier layers whose outcome this layer reads, in its gate too."""
    found: set[str] = set()
    conds: list[Cond] = [*layer.gate, *(c for s in layer.sections for r in s.rules for c in r.conds)]
    for predicate in layer.predicates:
        for term in predicate.terms:
            conds.extend(term.conds if isinstance(term, AnyCond) else [term])
    for node in (*conds, *(f.expr for f in layer.facts)):
        found.update(n.split(".")[0] for n in names(node))
    if layer.repairs:
        found.add(layer.repairs)
    return found & set(earlier)
