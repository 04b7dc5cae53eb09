"""Which columns a name in a SELECT is made of: a column of what it reads, or of the
query around it, or an alias of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from lakesql.names import CHANGE, RECORD
from lakesql.select.lineage_edges import NOTHING, Made, column_itself, through


@dataclass(frozen=True, slots=True)
class LineageOutputs:
    """The columns that a query gives to the query that reads it.

    `columns` are in order, with names in lower case. `open` are the relations of which
    any column may be passed on too; `rest` is what every other column is made of.
    `rows` decides which rows there are.
    """

    columns: tuple[tuple[str, Made], ...] = ()
    open: frozenset[str] = frozenset()
    rest: Made = NOTHING
    rows: Made = NOTHING


@dataclass(frozen=True, slots=True)
class LineageEntry:
    """An entry of a FROM. `name` and `path` qualify its columns, in lower case; `using`
    are the columns that it shares with the entries to its left. `is_hidden`: it gives
    no columns, but the join's condition may name them (SEMI and ANTI). `is_blurred`: it
    is not known which relation a column is of."""

    name: str
    outputs: LineageOutputs
    path: tuple[str, ...] = ()
    using: frozenset[str] = frozenset()
    is_hidden: bool = False
    is_blurred: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns that are known."""
        return tuple(name for name, _ in self.outputs.columns)

    def is_called(self, qualifier: list[str]) -> bool:
        """Whether a qualifier means this entry: its alias, or its name with namespace
        and catalog."""
        if self.is_blurred:
            return True
        if len(qualifier) == 1:
            return bool(self.name) and self.name == qualifier[0]
        return bool(qualifier) and list(self.path[-len(qualifier) :]) == qualifier


@dataclass(frozen=True, slots=True)
class LineageScope:
    """What names may mean in one place. `outer` is the scope of the query around it;
    `variables` are those of lambda functions."""

    frames: tuple[LineageEntry, ...]
    outer: LineageScope | None
    aliases: Mapping[str, Made] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()

    def beside(self, frames: tuple[LineageEntry, ...]) -> LineageScope:
        """The scope with further entries, as in a join."""
        return replace(self, frames=(*self.frames, *frames))


def find_made(parts: list[str], scope: LineageScope) -> Made:
    """The columns that a name is made of, given by its parts in lower case; none for a
    name without meaning, such as Spark's keywords.

    A known column of any query around precedes a column that a relation with unknown
    columns may have.
    """
    if parts[0] in scope.variables:
        return NOTHING
    scopes = [*_outwards(scope)]
    for each in scopes:
        if (made := _known(parts, each)) is not None:
            return made
    for each in scopes:
        if made := _guessed(parts, each):
            return made
    return NOTHING


def _outwards(scope: LineageScope | None) -> Iterator[LineageScope]:
    while scope is not None:
        yield scope
        scope = scope.outer


def _known(parts: list[str], scope: LineageScope) -> Made | None:
    """The columns that a name is made of, by its qualifier, a known column or an alias;
    None if it is none of these."""
    for depth in range(1, min(len(parts), 4)):
        called = [frame for frame in scope.frames if frame.is_called(parts[:depth])]
        found = [
            made
            for frame in called
            if (made := _column(frame, parts[depth:])) is not None
        ]
        if found:
            return frozenset().union(*found)
    declared = [frame for frame in scope.frames if parts[0] in frame.names]
    if declared:
        return frozenset().union(
            *(_column(frame, parts) or NOTHING for frame in declared)
        )
    alias = scope.aliases.get(parts[0])
    if alias is None:
        return None
    return (alias if len(parts) == 1 else through(alias, "transformation")) | _guessed(
        parts, scope
    )


def _guessed(parts: list[str], scope: LineageScope) -> Made:
    """The columns that a name may be made of in relations whose columns are not all
    known."""
    return frozenset().union(
        *(_column(frame, parts) or NOTHING for frame in scope.frames)
    )


def _column(frame: LineageEntry, parts: list[str]) -> Made | None:
    """The columns that a column of an entry, or a field of one, is made of; None if the
    entry has no such column."""
    name, *fields = parts
    found = [made for column, made in frame.outputs.columns if column == name]
    if not found and not frame.outputs.open and not frame.outputs.rest:
        return None
    opened = column_itself(frame.outputs.open, name)
    made: Made = frozenset().union(*found) if found else opened | frame.outputs.rest
    if name in (RECORD, CHANGE) and fields:
        return frozenset(
            (of, f"{column}.{fields[0]}" if column == name else column, kind)
            for of, column, kind in made
        )
    return through(made, "transformation") if fields else made


def of_table(
    path: tuple[str, ...], columns: Mapping[str, tuple[str, ...] | None]
) -> LineageOutputs:
    """The columns of a table or a stream: those that are known, or any column if they
    are not."""
    relation = ".".join(path)
    known = columns.get(relation)
    if known is None:
        return LineageOutputs(open=frozenset({relation}))
    return LineageOutputs(
        tuple((name, column_itself((relation,), name)) for name in known)
    )


def of_frames(
    over: tuple[LineageEntry, ...], frames: tuple[LineageEntry, ...]
) -> LineageOutputs:
    """The columns of a star over some entries of a FROM. A column that entries share by
    USING or NATURAL occurs once."""
    columns: list[tuple[str, Made]] = []
    for frame in over:
        if frame.is_hidden:
            continue
        for name, made in frame.outputs.columns:
            if name in frame.using and len(over) > 1:
                continue
            shared = [
                other for other in frames if name in other.using and not other.is_hidden
            ]
            same = [
                it
                for other in shared
                for column, it in other.outputs.columns
                if column == name
            ]
            columns.append((name, frozenset().union(made, *same)))
    shown = [frame.outputs for frame in over if not frame.is_hidden]
    return LineageOutputs(
        tuple(columns),
        frozenset[str]().union(*(it.open for it in shown)),
        frozenset().union(*(it.rest for it in shown)),
        frozenset().union(*(it.rows for it in shown)),
    )


def renamed_outputs(outputs: LineageOutputs, alias: exp.Expr | None) -> LineageOutputs:
    """The outputs under the list of columns of a table alias, if it has one."""
    names = (
        [column.name.lower() for column in alias.columns]
        if isinstance(alias, exp.TableAlias)
        else []
    )
    if not names:
        return outputs
    unknown = outputs.rest | column_itself(outputs.open, "*")
    columns = tuple(
        (
            name,
            outputs.columns[number][1]
            if number < len(outputs.columns) and not outputs.open
            else unknown,
        )
        for number, name in enumerate(names)
    )
    return LineageOutputs(columns, frozenset(), NOTHING, outputs.rows)
