"""Which rows of a SELECT a change of its inputs can reach, as queries made of the
author's text over other tables.

Every query may return more rows than those that differ, and never fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesql.identifiers import identifier
from lakesql.views.read_view import ViewText
from lakesql.views.units import unit_of
from lakesql.views.view_tree import (
    COME,
    GONE,
    NEW,
    OLD,
    InnerQuery,
    Span,
    ViewBlock,
    ViewItem,
    ViewJoin,
    ViewQuery,
    ViewSet,
    World,
)

_WORDS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
ROW = "_lakesql_row"
"""The alias of a query whose rows are selected by their unit."""


FEW = 4
"""The number of conditions on a row up to which each gets a query of its own, in which
Spark can use joins. With more, the text would grow with the square of their number."""


@dataclass(frozen=True, slots=True)
class FromTerm:
    """A FROM whose rows include some that have changed, over the inputs of one `world`.
    `kept` are the conditions of the WHERE that still apply, `condition` is an
    additional one ('' for none)."""

    text: str
    world: World
    kept: tuple[Span, ...]
    condition: str = ""


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Writes queries for the changed rows, where the inputs with the numbers `changed`
    have changed."""

    view: ViewText
    changed: frozenset[int]

    def render(self, span: Span, world: World) -> str:
        """A part of the author's text over the inputs of one world. The queries of WITH
        take the place of their names."""
        return self._written(span, world, inline=True)

    def whole(self, span: Span, world: World) -> str:
        """A part of the author's text over the inputs of one world, with WITH as it
        is."""
        return self._written(span, world, inline=False)

    def _written(self, span: Span, world: World, inline: bool) -> str:
        tokens, view = self.view.text.tokens, self.view
        pieces: list[str] = []
        at, last = span
        start = tokens[at].start
        while at < last:
            item = view.named.get(at)
            end = at
            if item is not None and (inline or not item.by_name):
                pieces += (
                    view.text.sql[start : tokens[at].start],
                    self.core(item, world),
                )
                pieces += (f" AS {identifier(item.alias)}",) if item.adds_alias else ()
                end = item.core[1]
            elif at in view.cuts:
                pieces.append(view.text.sql[start : tokens[at].start])
                end = view.cuts[at]
            if end > at:
                start = (
                    tokens[end - 1].end + 1 if item is not None else tokens[end].start
                )
                at = end
            else:
                at += 1
        pieces.append(view.text.sql[start : tokens[last - 1].end + 1])
        return "".join(pieces)

    def table(self, number: int, world: World) -> str:
        """The name of the view of an input's rows."""
        is_old = world == "old" and number in self.changed
        return f"{OLD if is_old else NEW}{number}"

    def core(self, item: ViewItem, world: World) -> str:
        """The SQL of an entry of a FROM, without its alias."""
        if item.input is not None:
            return self.table(item.input, world)
        if item.query is None:
            return self.render(item.core, world)
        return self.named_columns(item, self.render(item.query.span, world))

    @staticmethod
    def named_columns(item: ViewItem, text: str) -> str:
        """A query in brackets, with the column names that WITH gives."""
        if not item.renames:
            return f"({text})"
        names = ", ".join(map(identifier, item.renames))
        return f"(SELECT * FROM ({text}) AS {ROW}({names}))"

    # --- entries of a FROM

    def entry(self, item: ViewItem, core: str, world: World = "new") -> str:
        """An entry of a FROM with `core` in the place of its table."""
        before = self.view.text.tokens[item.core[0]].start
        first = self.view.text.tokens[item.span[0]].start
        after = self.view.text.tokens[item.core[1] - 1].end + 1
        last = self.view.text.tokens[item.span[1] - 1].end + 1
        sql = self.view.text.sql
        alias = f" AS {identifier(item.alias)}" if item.adds_alias else ""
        return f"{sql[first:before]}{core}{alias}{sql[after:last]}"

    def entry_at(self, item: ViewItem, world: World) -> str:
        """An entry of a FROM over the inputs of one world."""
        if item.group:
            return f"({self.steps(item.group, world)})"
        return self.entry(item, self.core(item, world))

    def empty(self, item: ViewItem) -> str:
        """An entry of a FROM with the same columns and no rows."""
        if item.group:
            return f"({self._all_empty(item.group)})"
        if item.input is None and item.query is None:
            return f"(SELECT * FROM {self.core(item, 'new')} WHERE false) AS {identifier(item.alias)}"
        return self.entry(
            item, f"(SELECT * FROM {self.core(item, 'new')} AS {ROW} WHERE false)"
        )

    def changes_of(self, item: ViewItem) -> Iterator[tuple[str, World]]:
        """The entry with its changed rows only: those that have left, of the old world,
        and those that have come, of the new one. None if it reads nothing that has
        changed."""
        if not item.reads & self.changed:
            return
        if item.group:
            for term in self.from_terms(item.group, self._worlds(item.group)):
                yield f"({term[0]})", term[1]
        elif item.input is not None:
            yield self.entry(item, f"{GONE}{item.input}"), "old"
            yield self.entry(item, f"{COME}{item.input}"), "new"
        elif item.query is not None:
            for text, world in self.changes(item.query):
                yield self.entry(item, self.named_columns(item, text)), world

    def differing(self, item: ViewItem) -> str:
        """The entry with all of its changed rows, those that have left and those that
        have come. It must not be joins in brackets."""
        if item.input is not None:
            return self.entry(
                item,
                f"(SELECT * FROM {GONE}{item.input} UNION ALL SELECT * FROM {COME}{item.input})",
            )
        assert item.query is not None, "it reads what has changed"
        return self.entry(
            item,
            self.named_columns(
                item, _union([text for text, _ in self.changes(item.query)])
            ),
        )

    # --- FROM

    def steps(self, joins: Sequence[ViewJoin], world: World) -> str:
        """A FROM over the inputs of one world, without the word FROM."""
        return "\n".join(
            self.step(join, join.kind, self.entry_at(join.item, world), world)
            for join in joins
        )

    def step(self, join: ViewJoin, kind: str, item: str, world: World) -> str:
        """An entry of a FROM with the words of its join and its condition."""
        if kind == "first":
            return item
        if kind == "inner" and join.condition is None and not join.is_natural:
            return f"CROSS JOIN {item}"
        words = f"NATURAL {_WORDS[kind]}" if join.is_natural else _WORDS[kind]
        condition = (
            f" {self.render(join.condition, world)}"
            if join.condition is not None
            else ""
        )
        return f"{words} {item}{condition}"

    def _all_empty(self, joins: Sequence[ViewJoin]) -> str:
        return "\n".join(
            self.step(join, join.kind, self.empty(join.item), "new") for join in joins
        )

    def _worlds(self, joins: Sequence[ViewJoin], others: int = 0) -> tuple[World, ...]:
        """The worlds in which a changed row is searched for: the new one alone where
        only one entry has changed."""
        changed = sum(bool(join.item.reads & self.changed) for join in joins) + others
        return ("new",) if changed < 2 else ("old", "new")

    def from_terms(
        self, joins: Sequence[ViewJoin], worlds: tuple[World, ...]
    ) -> list[tuple[str, World]]:
        """FROMs that together have all rows of `joins` that differ between the old and
        the new inputs."""
        terms: list[tuple[str, World]] = []
        for number, join in enumerate(joins):
            before = joins[:number]
            terms = [
                *(self._joined(term, join) for term in terms),
                *(
                    right
                    for term in terms
                    for right in self._without_left(term, join, before, worlds)
                ),
                *self._changed_right(join, before, worlds),
            ]
        return list(dict.fromkeys(terms))

    def _joined(self, term: tuple[str, World], join: ViewJoin) -> tuple[str, World]:
        """Changed rows with the rows that are joined to them."""
        text, world = term
        kind = {"right": "inner", "full": "left"}.get(join.kind, join.kind)
        return (
            f"{text}\n{self.step(join, kind, self.entry_at(join.item, world), world)}",
            world,
        )

    def _without_left(
        self,
        term: tuple[str, World],
        join: ViewJoin,
        before: Sequence[ViewJoin],
        worlds: tuple[World, ...],
    ) -> Iterator[tuple[str, World]]:
        """The rows of the right side that join changed rows of the left one, as they
        are without a partner (RIGHT and FULL JOIN only)."""
        if join.kind not in ("right", "full"):
            return
        text, changed_in = term
        left = f"({text})" if len(before) > 1 else text
        for world in worlds:
            semi = self.step(join, "semi", left, changed_in)
            right = f"({self.entry_at(join.item, world)}\n{semi})"
            yield (
                f"{self._all_empty(before)}\n{self.step(join, join.kind, right, world)}",
                world,
            )

    def _changed_right(
        self, join: ViewJoin, before: Sequence[ViewJoin], worlds: tuple[World, ...]
    ) -> Iterator[tuple[str, World]]:
        for text, world in self.changes_of(join.item):
            if join.kind == "first":
                yield text, world
                continue
            kind = {"left": "inner", "full": "right", "anti": "semi"}.get(
                join.kind, join.kind
            )
            for at in worlds if join.kind == "anti" else (world,):
                yield f"{self.steps(before, at)}\n{self.step(join, kind, text, at)}", at
            if join.kind in ("left", "full"):
                yield from self._without_right(join, text, before, worlds)

    def _without_right(
        self,
        join: ViewJoin,
        changed: str,
        before: Sequence[ViewJoin],
        worlds: tuple[World, ...],
    ) -> Iterator[tuple[str, World]]:
        """The rows of the left side that join changed rows of the right one, as they
        are without a partner."""
        for world in worlds:
            left = f"{self.steps(before, world)}\n{self.step(join, 'semi', changed, world)}"
            yield (
                f"{left}\n{self.step(join, join.kind, self.empty(join.item), world)}",
                world,
            )

    # --- blocks

    def block_terms(self, block: ViewBlock) -> list[FromTerm]:
        """FROMs of a block that together have all rows that have changed, before the
        block groups them."""
        changed_inner = [
            inner for inner in block.inner if inner.query.reads & self.changed
        ]
        worlds = self._worlds(block.joins, len(changed_inner))
        # an unchanged row of the FROM may have another output
        if any(inner.place == "select" for inner in changed_inner):
            worlds = ("old", "new")
        every = block.conditions
        terms = [
            FromTerm(text, world, every)
            for text, world in self.from_terms(block.joins, worlds)
        ]
        spans = [inner.span for inner in changed_inner]
        kept = tuple(
            one
            for one in every
            if not any(one[0] <= span[0] < one[1] for span in spans)
        )
        for inner in changed_inner:
            for condition in self._reached_by(inner):
                terms += [
                    FromTerm(self.steps(block.joins, world), world, kept, condition)
                    for world in worlds
                ]
        return terms

    def reached_once(self, block: ViewBlock) -> Iterator[str]:
        """Conditions on a row of which exactly one is true if a query inside an
        expression may have another result for it than before, and none if not."""
        conditions: list[str] = []
        for inner in block.inner:
            if inner.query.reads & self.changed:
                conditions += self._reached_by(inner)
        if len(conditions) > FEW:
            yield f"({' OR '.join(conditions)})"
            return
        for number, condition in enumerate(conditions):
            yield " AND ".join([condition, *map(_is_not_true, conditions[:number])])

    def _reached_by(self, inner: InnerQuery) -> Iterator[str]:
        """Conditions that are true for a row if a query inside an expression may have
        another result for it than before."""
        if inner.form == "in":
            assert inner.left is not None, "the plan keeps no other"
            for text, world in self.changes(inner.query):
                left = self.render(inner.left, world)
                yield f"{left} IN ({text})"
                if not inner.is_positive:
                    yield f"{left} IS NULL AND EXISTS ({text})"
                    yield f"EXISTS (SELECT 1 FROM ({text}) AS {ROW}(_lakesql_value) WHERE _lakesql_value IS NULL)"
            return
        for block in _leaves(inner.query):
            for term in self.block_terms(block):
                yield f"EXISTS (SELECT 1 {self.from_where(block, term)})"

    def from_where(self, block: ViewBlock, term: FromTerm) -> str:
        """A FROM with the block's own LATERAL VIEWs and WHERE."""
        tail = (
            f"\n{self.render(block.tail, term.world)}" if block.tail is not None else ""
        )
        conditions = [f"({self.render(one, term.world)})" for one in term.kept]
        conditions += [term.condition] if term.condition else []
        where = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
        from_ = f"FROM {term.text}" if term.text else ""
        return f"{from_}{tail}{where}"

    def block_text(self, block: ViewBlock, term: FromTerm) -> str:
        """The block over a FROM, without HAVING, QUALIFY, ORDER BY and what follows."""
        parts = [self.render(block.head, term.world), self.from_where(block, term)]
        parts += [
            self.render(span, term.world)
            for span in (block.group, block.windows)
            if span is not None
        ]
        return "\n".join(parts)

    # --- queries

    def changes(self, query: ViewQuery) -> list[tuple[str, World]]:
        """Queries that together have all rows that have left `query` (old world) or
        have come to it (new world); empty if it reads nothing that has changed."""
        if not query.reads & self.changed:
            return []
        unit = unit_of(query)
        if unit is not None:
            touched = self.touched(query, unit)
            return [
                (self._taken(self.render(query.span, world), unit, touched), world)
                for world in ("old", "new")
            ]
        if isinstance(query, ViewSet):
            return _united(
                [
                    change
                    for branch in query.branches
                    for change in self._branch_changes(query, branch)
                ]
            )
        return _united(
            [
                (self.block_text(query, term), term.world)
                for term in self.block_terms(query)
            ]
        )

    def _branch_changes(
        self, query: ViewSet, branch: ViewQuery
    ) -> Iterator[tuple[str, World]]:
        """The changes of one query of a UNION ALL, with the column names of the first
        one."""
        names = query.outputs.names
        for text, world in self.changes(branch):
            if branch is query.branches[0] or names is None:
                yield text, world
            else:
                yield (
                    f"SELECT * FROM ({text}) AS {ROW}({', '.join(map(identifier, names))})",
                    world,
                )

    @staticmethod
    def _taken(text: str, unit: Sequence[str], touched: str) -> str:
        """The rows of a query whose unit is among those that are `touched`."""
        same = " AND ".join(
            f"{ROW}.{identifier(name)} <=> _lakesql_unit.{identifier(name)}"
            for name in unit
        )
        return f"SELECT {ROW}.* FROM ({text}) AS {ROW}\nLEFT SEMI JOIN ({touched}) AS _lakesql_unit ON {same}"

    def touched(self, query: ViewQuery, columns: Sequence[str]) -> str:
        """A SELECT of the distinct values that some outputs of a query have in the rows
        that have left it or have come to it."""
        names = ", ".join(map(identifier, columns))
        found = [
            f"SELECT {names} FROM {text}" for text in self._rows_with(query, columns)
        ]
        return f"SELECT DISTINCT {names} FROM (\n{_union(found)}\n) AS {ROW}"

    def _rows_with(self, query: ViewQuery, columns: Sequence[str]) -> Iterator[str]:
        """Entries of a FROM that have the changed rows of a query, at least these
        columns of them."""
        if isinstance(query, ViewSet):
            names = query.outputs.names
            for number, branch in enumerate(query.branches):
                if not number:
                    yield from self._rows_with(branch, columns)
                    continue
                assert names is not None, "the plan keeps no other"
                own = branch.outputs.names
                assert own is not None, "the plan keeps no other"
                listed = ", ".join(map(identifier, names))
                wanted = [own[names.index(column)] for column in columns]
                for text in self._queries_with(branch, wanted):
                    yield f"({text}) AS {ROW}({listed})"
            return
        for text in self._queries_with(query, columns):
            yield f"({text}) AS {ROW}"

    def _queries_with(self, query: ViewQuery, columns: Sequence[str]) -> list[str]:
        if isinstance(query, ViewBlock) and query.reads & self.changed:
            unit = unit_of(query)
            if unit is None or set(map(str.lower, columns)) <= set(
                map(str.lower, unit)
            ):
                return [
                    self.block_text(query, term) for term in self.block_terms(query)
                ]
        return [text for text, _ in self.changes(query)]


def _is_not_true(condition: str) -> str:
    """The condition that a condition of `reached_once` is false or NULL."""
    if condition.startswith("EXISTS "):
        return f"NOT {condition}"
    return f"NOT coalesce({condition}, false)"


def _united(changes: Sequence[tuple[str, World]]) -> list[tuple[str, World]]:
    """The changes of each world as one query."""
    worlds: tuple[World, ...] = ("old", "new")
    by_world = {
        world: [text for text, of in changes if of == world] for world in worlds
    }
    return [(_union(texts), world) for world, texts in by_world.items() if texts]


def _union(texts: Sequence[str]) -> str:
    return (
        texts[0]
        if len(texts) == 1
        else "\nUNION ALL\n".join(f"({text})" for text in texts)
    )


def _leaves(query: ViewQuery) -> Iterator[ViewBlock]:
    """The SELECTs that a query combines by set operations; itself if it is one."""
    if isinstance(query, ViewBlock):
        yield query
        return
    for branch in query.branches:
        yield from _leaves(branch)
