"""How the aggregates of a GROUP BY are kept by difference: which values are stored for
a group, and how they follow from the rows that have come and left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from lakesql.identifiers import identifier
from lakesql.select.relation import unaliased
from lakesql.select.sqltext import projections
from lakesql.views.aggregates import AggregateCall, read_calls
from lakesql.views.changed_rows import ROW, ChangedRows
from lakesql.views.number_types import Columns, number_type
from lakesql.views.read_view import ViewText
from lakesql.views.signed_rows import SignedRows, signed_block
from lakesql.views.units import group_is_plain, window_of
from lakesql.views.view_tree import (
    CannotKeepError,
    Span,
    ViewBlock,
    ViewInput,
    ViewItem,
    ViewQuery,
    ViewSet,
)

DELTA = "_lakesql_delta"
"""The view of what a refresh adds to each group and subtracts from it."""

TARGET = "_lakesql_target"
"""The view of the rows that the view's table has."""

JOINED = "_lakesql_joined"
"""The view of what a refresh does to each group, with the group's row in the table: two
structs, named like the views that they are made of."""

ROWS = "_lakesql_rows"
"""The column with the number of rows of a group."""


EXACT_BELOW = 2**53
"""Doubles represent all whole numbers below this one exactly. The average of a larger
sum depends on the order in which values are added."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of rows of a group, as SQL: what it `was` before a refresh, and its
    `change`."""

    was: str
    change: str

    @property
    def now(self) -> str:
        """The number after the refresh, as SQL."""
        return f"({self.was} + {self.change})"


_COUNTED_ROWS = Counted(f"coalesce({TARGET}.{ROWS}, 0)", f"{DELTA}.{ROWS}")


@dataclass(frozen=True, slots=True)
class HiddenColumn:
    """A column of the table that the SELECT does not have, and its expression in the
    SELECT over all rows."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Part:
    """A value that is stored for a group in a `column` of the table, and how a refresh
    computes it.

    `added` are columns of the delta, by name and expression. `value` is the new value,
    `differs` a condition under which it is another one than before. `recompute` is a
    condition under which it follows only from the rows of the group ('' for never). All
    are SQL.
    """

    column: str
    value: str
    added: tuple[tuple[str, str], ...]
    differs: str
    recompute: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a block that groups is kept by difference.

    `values` are the expressions of the outputs, over the delta and the table's row.
    `unit` are the outputs that identify the group, `groups` the tokens of their
    expressions. `arguments` are the expressions of a row that the parts aggregate.
    `hidden` are the additional columns of the table. `is_whole`: there is no GROUP BY,
    and so exactly one row.
    """

    block: ViewBlock
    outputs: tuple[str, ...]
    unit: tuple[str, ...]
    groups: tuple[Span, ...]
    arguments: tuple[str, ...]
    parts: tuple[Part, ...]
    values: Mapping[str, str]
    hidden: tuple[HiddenColumn, ...]
    is_whole: bool

    @property
    def recomputes(self) -> bool:
        """Whether a group may have to be computed from its rows."""
        return any(part.recompute for part in self.parts)

    def delta(self, view: ViewText, changed: Collection[int]) -> str:
        """The SELECT of the view `_lakesql_delta`: what is added to each group and
        subtracted from it, one row a group."""
        rows = ChangedRows(view, frozenset(changed))
        terms = [self._term(rows, term) for term in signed_block(rows, self.block)]
        names = ", ".join(map(identifier, self.unit))
        added = [f"coalesce(sum(_lakesql_sign), 0) AS {ROWS}"]
        added += [
            f"{text} AS {name}" for part in self.parts for name, text in part.added
        ]
        listed = ",\n  ".join([*([names] if names else []), *added])
        united = "\nUNION ALL\n".join(f"({term})" for term in terms)
        grouped = f"\nGROUP BY {names}" if names else ""
        return f"SELECT {listed}\nFROM (\n{united}\n) AS {ROW}{grouped}"

    def _term(self, rows: ChangedRows, term: SignedRows) -> str:
        groups = [
            f"{rows.render(span, term.world)} AS {identifier(name)}"
            for name, span in zip(self.unit, self.groups, strict=True)
        ]
        arguments = [
            f"{one} AS _lakesql_a{number}"
            for number, one in enumerate(self.arguments, 1)
        ]
        listed = ", ".join([*groups, *arguments, f"{term.sign} AS _lakesql_sign"])
        return f"SELECT {listed}\n{term.text}"

    @property
    def recompute(self) -> str:
        """The SELECT of the view `_lakesql_touched`: the units of the groups that are
        computed from their rows."""
        named = (
            ", ".join(f"{DELTA}.{identifier(name)}" for name in self.unit)
            or "true AS _lakesql_any"
        )
        return f"SELECT {named}\nFROM {JOINED}\nWHERE {self._is_recomputed}"

    @property
    def adjusted(self) -> str:
        """The SELECT of the new rows of the groups that have changed and are not
        computed from their rows, with the hidden columns. A group that leaves has 0 in
        `_lakesql_rows`."""
        shown = [f"{self.values[name]} AS {identifier(name)}" for name in self.outputs]
        states = {part.column: part.value for part in self.parts} | {
            ROWS: _COUNTED_ROWS.now
        }
        shown += [f"{states[column.name]} AS {column.name}" for column in self.hidden]
        differs = " OR ".join(
            [f"{DELTA}.{ROWS} <> 0", *(part.differs for part in self.parts)]
        )
        was_there = (
            ""
            if self.is_whole
            else f"\n  AND NOT ({TARGET}.{ROWS} IS NULL AND {DELTA}.{ROWS} = 0)"
        )
        kept = f"\n  AND NOT ({self._is_recomputed})" if self.recomputes else ""
        listed = ",\n  ".join(shown)
        return f"SELECT {listed}\nFROM {JOINED}\nWHERE ({differs}){was_there}{kept}"

    @property
    def _is_recomputed(self) -> str:
        """The condition that a group is computed from its rows. It is false for a group
        that leaves; without GROUP BY none leaves."""
        needed = [
            f"coalesce({part.recompute}, false)"
            for part in self.parts
            if part.recompute
        ]
        condition = " OR ".join(needed) or "false"
        return (
            condition if self.is_whole else f"{_COUNTED_ROWS.now} > 0 AND ({condition})"
        )

    @property
    def joined(self) -> str:
        """The SELECT of the view `_lakesql_joined`: the groups of the delta with their
        rows in the table."""
        added = [name for part in self.parts for name, _ in part.added]
        kept = [part.column for part in self.parts]
        same = [
            f"{TARGET}.{identifier(name)} <=> {DELTA}.{identifier(name)}"
            for name in self.unit
        ]
        return (
            f"SELECT {_struct(DELTA, [*self.unit, ROWS, *added])},\n  {_struct(TARGET, [ROWS, *kept])}\n"
            f"FROM {DELTA}\nLEFT JOIN {TARGET} ON {' AND '.join(same) or 'true'}"
        )


def _struct(view: str, columns: Sequence[str]) -> str:
    """Columns of a view as one struct with the view's name, as SQL."""
    fields = ", ".join(
        f"{view}.{identifier(name)} AS {identifier(name)}"
        for name in dict.fromkeys(columns)
    )
    return f"struct({fields}) AS {view}"


def with_hidden(view: ViewText, rows: ChangedRows, difference: Difference) -> str:
    """The SELECT over the inputs as they are now, with the hidden columns after its
    own."""
    block = difference.block
    hidden = "".join(
        f", {column.expression} AS {column.name}" for column in difference.hidden
    )
    first, last = (0, block.head[1]), (block.head[1], len(view.text.tokens))
    before = rows.whole(first, "new")
    after = f"\n{rows.whole(last, 'new')}" if last[0] < last[1] else ""
    return f"{before}{hidden}{after}"


# --- from the block


def difference_of(view: ViewText, tree: ViewQuery) -> Difference:
    """How a query is kept by difference. Raises `CannotKeepError` if it cannot be."""
    if isinstance(tree, ViewSet):
        raise CannotKeepError("a set operation groups nothing", tree.span[0])
    if not tree.is_grouped:
        raise CannotKeepError("it does not group", tree.mark)
    if tree.has_windows or tree.is_distinct:
        raise CannotKeepError("DISTINCT, or a window, over groups", tree.mark)
    having = tree.select.args.get("having")
    if having is not None:
        raise CannotKeepError("HAVING says which groups there are", _having(view, tree))
    if not group_is_plain(tree):
        raise CannotKeepError(
            "GROUP BY has groups that no output says, or that a row alone does not say",
            tree.mark,
        )
    return _GroupReader(view, tree).read()


def _having(view: ViewText, block: ViewBlock) -> int:
    own = [at for at in range(*block.span) if view.text.owners[at] == block.mark]
    return next(
        (at for at in own if view.text.tokens[at].text.upper() == "HAVING"), block.mark
    )


@dataclass(slots=True)
class _GroupReader:
    """Reads the outputs of a block that groups, and collects the parts that are stored
    for them."""

    view: ViewText
    block: ViewBlock
    arguments: list[str] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    counts: dict[str, Counted] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)

    def read(self) -> Difference:
        block, view = self.block, self.view
        spans = projections(view.text, block.mark)
        if len(spans) != len(block.outputs.columns) or block.outputs.is_open:
            raise CannotKeepError("a star among groups", block.mark)
        calls = list(read_calls(view, block, _types_of_joins(block, view.inputs)))
        unit: list[str] = []
        groups: list[Span] = []
        values: dict[str, str] = {}
        shown: list[tuple[str, Span]] = []
        for column, expression, span in zip(
            block.outputs.columns, block.select.expressions, spans, strict=True
        ):
            plain = unaliased(expression, span, view.text)
            if any(plain[0] <= call.span[0] < plain[1] for call in calls):
                self._refuse_columns(column.expression, calls)
                shown.append((column.name, plain))
                self._store(column.name, plain, calls)
            elif window_of(column, block):
                raise CannotKeepError(
                    "a window by the name that GROUP BY gives it", plain[0]
                )
            else:
                unit.append(column.name)
                groups.append(plain)
                values[column.name] = f"{DELTA}.{identifier(column.name)}"
        self.hidden[ROWS] = "count(*)"
        for name, plain in shown:
            values[name] = self._value(plain, calls)
        hidden = tuple(HiddenColumn(name, text) for name, text in self.hidden.items())
        return Difference(
            block=block,
            outputs=tuple(column.name for column in block.outputs.columns),
            unit=tuple(unit),
            groups=tuple(groups),
            arguments=tuple(self.arguments),
            parts=tuple(self.parts.values()),
            values=values,
            hidden=hidden,
            is_whole=not block.select.args.get("group"),
        )

    def _refuse_columns(self, output: exp.Expr, calls: Sequence[AggregateCall]) -> None:
        """Raises `CannotKeepError` for an output that reads a column outside of its
        aggregates."""
        if output.find(exp.Query):
            raise CannotKeepError("a query beside an aggregate", self.block.mark)
        for column in output.find_all(exp.Column, exp.Lambda):
            start = next(
                (
                    it.meta["start"]
                    for it in column.find_all(exp.Identifier)
                    if "start" in it.meta
                ),
                None,
            )
            token = self.view.at.get(start, -1) if start is not None else -1
            if not any(call.span[0] <= token < call.span[1] for call in calls):
                raise CannotKeepError(
                    "a column beside an aggregate in one output",
                    max(token, self.block.mark),
                )

    def _store(self, name: str, plain: Span, calls: Sequence[AggregateCall]) -> None:
        """Notes an output that is a single aggregate: its own column then stores the
        value, and no hidden one is needed."""
        for call in calls:
            if call.span == plain and call.kind in ("count", "sum", "min", "max"):
                self.stored.setdefault(call.spelled(self.view), name)

    def _value(self, plain: Span, calls: Sequence[AggregateCall]) -> str:
        """The SQL of an output with the stored values in the place of its
        aggregates."""
        view = self.view
        pieces: list[str] = []
        at = view.text.tokens[plain[0]].start
        for call in sorted(calls, key=lambda call: call.span):
            if not plain[0] <= call.span[0] < plain[1]:
                continue
            start = view.text.tokens[call.span[0]].start
            pieces += [view.text.sql[at:start], self._kept(call)]
            at = view.text.tokens[call.span[1] - 1].end + 1
        return "".join(
            [*pieces, view.text.sql[at : view.text.tokens[plain[1] - 1].end + 1]]
        )

    # --- one aggregate

    def _kept(self, call: AggregateCall) -> str:
        match call.kind:
            case "count":
                return self._count(call, self.stored.get(call.spelled(self.view))).now
            case "sum":
                return self._sum(call)
            case "avg":
                return self._average(call)
            case "min" | "max":
                return self._extreme(call)
            case "or" | "and":
                return self._boolean(call)

    def _argument(self, text: str) -> str:
        """The name of the column that has an argument of each row; adds it if it is
        new."""
        if text not in self.arguments:
            self.arguments.append(text)
        return f"_lakesql_a{self.arguments.index(text) + 1}"

    def _text(self, span: Span) -> str:
        return ChangedRows(self.view, frozenset()).render(span, "new")

    def _filtered(self, call: AggregateCall, value: str) -> str:
        """The SQL of a row's value for an aggregate; NULL where the FILTER leaves the
        row out."""
        if call.condition is None:
            return value
        return f"CASE WHEN {self._text(call.condition)} THEN {value} END"

    def _present(self, call: AggregateCall) -> str:
        """The SQL that is 1 for a row that an aggregate counts, else NULL."""
        if call.is_condition:
            conditions = [f"({self._text(call.arguments[0])})"]
        else:
            conditions = [f"({self._text(one)}) IS NOT NULL" for one in call.arguments]
        conditions += (
            [f"({self._text(call.condition)})"] if call.condition is not None else []
        )
        return f"CASE WHEN {' AND '.join(conditions)} THEN 1 END" if conditions else "1"

    def _count(self, call: AggregateCall, column: str | None = None) -> Counted:
        """The number of rows that an aggregate counts."""
        present = self._present(call)
        if present == "1" and column is None:
            return _COUNTED_ROWS
        return self._counted(self._argument(present), "n", f"count({present})", column)

    def _counted(
        self, argument: str, letter: str, expression: str, column: str | None = None
    ) -> Counted:
        """The number of rows of which an argument is not NULL, stored in a `column` of
        the SELECT, or else in a hidden one with this `expression`."""
        key = f"count {argument}"
        if key in self.counts:
            return self.counts[key]
        name = column or f"_lakesql_{letter}{len(self.hidden) + 1}"
        if column is None:
            self.hidden[name] = expression
        added = f"_lakesql_count_{argument}"
        counted = (
            f"coalesce(sum(CASE WHEN {argument} IS NOT NULL THEN _lakesql_sign END), 0)"
        )
        found = self.counts[key] = Counted(
            f"coalesce({TARGET}.{identifier(name)}, 0)", f"{DELTA}.{added}"
        )
        self.parts[key] = Part(
            name, found.now, ((added, counted),), f"{found.change} <> 0"
        )
        return found

    def _total(
        self,
        call: AggregateCall,
        column: str | None,
        kind: str,
        exact_below: int | None = None,
    ) -> tuple[str, Counted]:
        """The SQL of an aggregate's sum, stored with the type `kind`, and the number of
        its values. A sum of `exact_below` or more is computed from the rows of its
        group."""
        assert call.number is not None
        count = self._count(replace(call, kind="count"))
        value = self._filtered(call, f"({self._text(call.arguments[0])})")
        argument = self._argument(
            f"CAST({value} AS DECIMAL(20, 0))" if call.number.is_whole else value
        )
        key = f"sum {argument} {kind}"
        if key in self.parts:
            return self.parts[key].value, count
        name = column or f"_lakesql_s{len(self.hidden) + 1}"
        if column is None:
            self.hidden[name] = f"CAST(sum({value}) AS {kind})"
            if kind.startswith("DECIMAL") and call.number.is_whole:
                self.hidden[name] = (
                    f"CAST(sum(CAST({value} AS DECIMAL(20, 0))) AS {kind})"
                )
        plus, minus = (
            f"_lakesql_plus{len(self.parts)}",
            f"_lakesql_minus{len(self.parts)}",
        )
        kept = f"{TARGET}.{identifier(name)}"
        wide = f"CAST({kept} AS DECIMAL(20, 0))" if kind == "BIGINT" else kept
        added = f"coalesce({DELTA}.{plus}, 0) - coalesce({DELTA}.{minus}, 0)"
        total = f"CASE WHEN {count.now} > 0 THEN CAST(coalesce({wide}, 0) + {added} AS {kind}) END"
        has_overflowed = f"{kept} IS NULL AND ({count.was}) > 0"
        self.parts[key] = Part(
            column=name,
            value=total,
            added=(
                (plus, f"sum(CASE WHEN _lakesql_sign > 0 THEN {argument} END)"),
                (minus, f"sum(CASE WHEN _lakesql_sign < 0 THEN {argument} END)"),
            ),
            differs=f"coalesce({DELTA}.{plus}, 0) <> coalesce({DELTA}.{minus}, 0)",
            recompute=has_overflowed
            if exact_below is None
            else f"({has_overflowed}) OR abs({total}) >= {exact_below}",
        )
        return total, count

    def _sum(self, call: AggregateCall) -> str:
        assert call.number is not None
        total, _ = self._total(
            call, self.stored.get(call.spelled(self.view)), call.number.sum_type
        )
        return total

    def _average(self, call: AggregateCall) -> str:
        assert call.number is not None
        if call.number.is_whole:
            total, count = self._total(call, None, "DECIMAL(32, 0)", EXACT_BELOW)
            return f"CASE WHEN {count.now} > 0 THEN CAST({total} AS DOUBLE) / {count.now} END"
        total, count = self._total(call, None, call.number.sum_type)
        divided = f"{total} / CAST({count.now} AS DECIMAL(20, 0))"
        return f"CASE WHEN {count.now} > 0 THEN CAST({divided} AS {call.number.average_type}) END"

    def _extreme(self, call: AggregateCall) -> str:
        """The SQL of the smallest or largest value. It is computed from the rows of the
        group if the stored value may have left."""
        argument = self._argument(
            self._filtered(call, f"({self._text(call.arguments[0])})")
        )
        key = f"{call.kind} {argument}"
        if key in self.parts:
            return self.parts[key].value
        column = self.stored.get(call.spelled(self.view))
        name = column or f"_lakesql_m{len(self.hidden) + 1}"
        if column is None:
            self.hidden[name] = (
                f"{call.kind}({self._filtered(call, self._text(call.arguments[0]))})"
            )
        came, left = f"_lakesql_in{len(self.parts)}", f"_lakesql_out{len(self.parts)}"
        kept = f"{TARGET}.{identifier(name)}"
        best = "least" if call.kind == "min" else "greatest"
        value = f"{best}({kept}, {DELTA}.{came})"
        nearer = "<" if call.kind == "min" else ">"
        stays = " OR ".join(
            f"coalesce({one} {nearer} {DELTA}.{left}, false)"
            for one in (kept, f"{DELTA}.{came}")
        )
        self.parts[key] = Part(
            column=name,
            value=value,
            added=(
                (came, f"{call.kind}(CASE WHEN _lakesql_sign > 0 THEN {argument} END)"),
                (left, f"{call.kind}(CASE WHEN _lakesql_sign < 0 THEN {argument} END)"),
            ),
            differs=f"NOT ({value} <=> {kept})",
            recompute=f"{DELTA}.{left} IS NOT NULL AND NOT ({stays})",
        )
        return value

    def _boolean(self, call: AggregateCall) -> str:
        """The SQL of whether any, or each, value is true, by the number of those that
        are."""
        count = self._count(replace(call, kind="count")).now
        value = self._text(call.arguments[0])
        condition = (
            f" AND ({self._text(call.condition)})" if call.condition is not None else ""
        )
        holds = f"CASE WHEN ({value}){condition} THEN 1 END"
        true = self._counted(self._argument(holds), "t", f"count({holds})").now
        is_so = f"{true} > 0" if call.kind == "or" else f"{true} = {count}"
        return f"CASE WHEN {count} > 0 THEN {is_so} END"


# --- types of what a FROM has


def _types_of_joins(block: ViewBlock, inputs: Sequence[ViewInput]) -> Columns:
    found: dict[tuple[str, str], str] = {}
    for item in block.items:
        for name, kind in _types_of_item(item, inputs):
            found[item.alias.lower(), name.lower()] = kind
    return found


def _types_of_item(
    item: ViewItem, inputs: Sequence[ViewInput]
) -> Iterator[tuple[str, str]]:
    """The columns of an entry of a FROM with their types; '' for a type that is not
    known."""
    if item.input is not None:
        one = inputs[item.input]
        known = item.columns or one.columns or ()
        types = one.types or ("",) * len(known)
        yield from zip(known, types, strict=False)
    elif item.query is not None:
        names = item.columns or item.renames or item.query.outputs.names or ()
        yield from zip(names, _types_of_query(item.query, inputs), strict=False)


def _types_of_query(query: ViewQuery, inputs: Sequence[ViewInput]) -> Iterator[str]:
    """The types of a query's columns: numbers by their expression, '' for all
    others."""
    if isinstance(query, ViewSet):
        branches = [list(_types_of_query(branch, inputs)) for branch in query.branches]
        yield from (
            kinds[0] if len(set(kinds)) == 1 else ""
            for kinds in zip(*branches, strict=False)
        )
        return
    columns = _types_of_joins(query, inputs)
    for column in query.outputs.columns:
        node = column.expression
        number = number_type(node, columns)
        if number is None:
            yield ""
        elif number.is_whole:
            yield number.word
        else:
            yield f"decimal({number.digits},{number.scale})"
