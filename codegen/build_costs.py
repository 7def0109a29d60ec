"""Tables of costs of a family: read once, and the facts and rules that a layer gets from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .costs import Candidate, cheapest_rules, cost_facts
from .defined_names import Names
from .diagnostics import Location, Sink, did_you_mean
from .expr import INT64_MAX, Compare, Cond, EnumWord, Expr, Pred, interval, largest_intermediate
from .ir import AnyCond, Fact, Predicate, Rule, Tile, Value
from .loader import Document
from .models import CostFile, LayerDecl, LayerFile
from .models.layers import CHEAPEST
from .resolve import Scope


class CostTables:
    """The tables of one family by name."""

    def __init__(self, files: Iterable[tuple[CostFile, Document]], tiles: Mapping[str, Tile], sink: Sink) -> None:
        self.tiles, self.sink = tiles, sink
        self.tables = self._read(files)

    def facts(self, decl: LayerDecl, gate: tuple[Cond, ...], file: LayerFile, scope: Scope) -> Iterable[Fact]:
        """Facts of the tables that the layer's rules use, each once; no text of the layer can read them."""
        tables = [r.outcome.value for s in file.sections for r in s.rules if r.outcome.key == CHEAPEST]
        bounds, made = dict(scope.bounds), dict[str, Expr]()
        for table in dict.fromkeys(str(t) for t in tables if t in self.tables):
            for fact in cost_facts(table, self._candidates(decl, gate, table)):
                if fact.name in made:
                    if made[fact.name] != fact.expr:
                        text = f"{fact.name} stands for another cost, too."
                        self.sink.add("E206", fact.location, text, f"give table '{table}' another name")
                    continue
                made[fact.name] = fact.expr
                greatest = largest_intermediate(fact.expr, bounds)
                if greatest > INT64_MAX:
                    self.sink.add("E303", fact.location, f"{fact.name} can reach {greatest}; 63 bits hold {INT64_MAX}.")
                bounds[fact.name] = interval(fact.expr, bounds)
                yield fact

    def rules(
        self,
        decl: LayerDecl,
        table: str,
        rule: Rule,
        place: Location,
        gate: tuple[Cond, ...],
        terms: Mapping[str, tuple[Cond | AnyCond, ...]],
    ) -> tuple[tuple[Rule, ...], tuple[Predicate, ...]]:
        """The rules that one of `cheapest: table` stands for, and the predicates that they read.

        gate: the conditions of the layer. terms: those of its predicates, by name.
        """
        if table not in self.tables:
            self.sink.add("E301", place, f"there is no table of costs '{table}'.", did_you_mean(table, self.tables))
            return (), ()
        candidates = self._candidates(decl, gate, table)
        if not candidates:
            self.sink.add("E301", place, f"no tile of table '{table}' is an outcome of layer '{decl.name}'.")
            return (), ()
        named = (t for c in rule.conds if isinstance(c, Pred) and not c.negated for t in terms.get(c.name, ()))
        met = (*gate, *(t for t in named if not isinstance(t, AnyCond)))
        rules, escapes = cheapest_rules(table, rule, candidates, met)
        return tuple(rules), tuple(escapes)

    def _read(self, files: Iterable[tuple[CostFile, Document]]) -> dict[str, tuple[CostFile, Document]]:
        tables = Names("table of costs", self.sink)
        found: dict[str, tuple[CostFile, Document]] = {}
        for model, document in files:
            if tables.define(model.table, document.locate(("table",))):
                found[model.table] = model, document
            entries = Names("cost of tile", self.sink)
            for index, entry in enumerate(model.costs):
                place = document.locate(("costs", index, "id"))
                entries.define(entry.id, place)
                if entry.id not in self.tiles:
                    self.sink.add("E301", place, f"there is no tile '{entry.id}'.", did_you_mean(entry.id, self.tiles))
        return found

    def _candidates(self, decl: LayerDecl, gate: Iterable[Cond], table: str) -> tuple[Candidate, ...]:
        """The tiles of a table that a layer may yield: of the engine that its gate asks for, or as engines."""
        model, document = self.tables[table]
        wanted = {c.right.word for c in gate if isinstance(c, Compare) and isinstance(c.right, EnumWord)}
        found = []
        for index, entry in enumerate(model.costs):
            tile = self.tiles.get(entry.id)
            if tile is None:
                continue
            value: Value = tile.id if decl.outcome_kind == "tile" else tile.engine
            if tile.engine in wanted or (isinstance(decl.outcome, tuple) and value in decl.outcome):
                found.append(Candidate(entry, tile, value, document.locate(("costs", index))))
        return tuple(found)
