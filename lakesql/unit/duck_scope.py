"""The scope of an expression in a unit test, and its translation to DuckDB's SQL, with
its type in Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from sqlglot import exp

from lakesql.unit.duck_types import (
    VOID,
    NeedsSparkError,
    can_widen,
    duck_type,
    field_of,
    quote,
)


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression in DuckDB's SQL, which can be used as an operand without more
    parentheses, and Spark's name of its type."""

    text: str
    type: str

    def cast(self, kind: str) -> str:
        """The text, cast to a type to which Spark widens its own without a loss. Raises
        `NeedsSparkError` for any other type."""
        if self.type == kind:
            return self.text
        if self.type == VOID or can_widen(self.type, kind):
            return f"CAST({self.text} AS {duck_type(kind)})"
        raise NeedsSparkError(f"a {self.type} where a {kind} is wanted")


@dataclass(frozen=True, slots=True)
class DuckRelation:
    """A relation of the FROM clause: its alias, and the types of its columns by
    name."""

    alias: str
    columns: Mapping[str, str]

    def find(self, name: str) -> tuple[str, str] | None:
        """A column by its name in any capitals: the name as the relation spells it, and
        its type. None if there is no such column."""
        for known, kind in self.columns.items():
            if known.lower() == name.lower():
                return known, kind
        return None


Rule: TypeAlias = Callable[[exp.Expr, "DuckScope"], Typed]
"""The translation of expressions of one sqlglot class to DuckDB's SQL. It raises
`NeedsSparkError` for an expression that might mean something else there."""


@dataclass(frozen=True, slots=True)
class DuckScope:
    """The names that an expression may use, and the rules that translate it.

    `aliases` are the outputs before it in the same SELECT, `variables` those of the
    lambda functions around it, and `outer` is the scope of the query around its own.
    `now` is the time of the test, None if it sets none. `query` translates a query
    inside an expression to its text and columns; None where a query may not stand.
    """

    rules: Mapping[type[exp.Expr], Rule]
    relations: tuple[DuckRelation, ...]
    now: datetime | None = None
    outer: DuckScope | None = None
    query: Callable[[exp.Expr, DuckScope], tuple[str, Mapping[str, str]]] | None = None
    aliases: Mapping[str, Typed] = field(default_factory=dict)
    variables: Mapping[str, Typed] = field(default_factory=dict)

    def translate(self, node: exp.Expr) -> Typed:
        """The expression in DuckDB's SQL. Raises `NeedsSparkError` for an expression
        that is not known to mean the same there."""
        rule = self.rules.get(type(node))
        if rule is None:
            raise NeedsSparkError(
                f"{describe(node)} is not among what is known to mean the same without Spark"
            )
        return rule(node, self)

    def with_variables(self, variables: Mapping[str, Typed]) -> DuckScope:
        """The scope of the body of a lambda function that has these variables."""
        return replace(self, variables={**self.variables, **variables})

    def find_column(self, column: exp.Column) -> Typed:
        """The column that a name means. `duck_names` has added the relation to the
        name, unless the name is that of an output or of a column of the outer query.

        Like Spark, it looks among the columns first, then among the outputs, then in
        the outer query. Raises `NeedsSparkError` if there is no such column, or
        several.
        """
        names = [part.name for part in column.parts]
        for relation in self.relations:
            if len(names) > 1 and relation.alias.lower() != names[0].lower():
                continue
            path = names[1:] if len(names) > 1 else names
            if len(path) == 1 and (found := relation.find(path[0])) is not None:
                self._refuse_ambiguous(path[0], is_alone=len(names) == 1)
                name, kind = found
                duck_type(kind)
                return Typed(f"{quote(relation.alias)}.{quote(name)}", kind)
        if len(names) == 1 and names[0].lower() in self.aliases:
            return self.aliases[names[0].lower()]
        if self.outer is not None:
            return self.outer.find_column(column)
        raise NeedsSparkError(
            f"the column {'.'.join(names)}, which is not one of what the test gives"
        )

    def _refuse_ambiguous(self, name: str, *, is_alone: bool) -> None:
        if (
            is_alone
            and len([it for it in self.relations if it.find(name) is not None]) > 1
        ):
            raise NeedsSparkError(f"the column {name}, which several relations have")


def describe(node: exp.Expr) -> str:
    """How messages call an expression: by its function, or else by its text."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name.lower()}()"
    if isinstance(node, exp.Func) and not isinstance(
        node, exp.Cast | exp.Case | exp.If
    ):
        return f"{node.sql_name().lower()}()"
    said = node.copy()
    for column in [said] if isinstance(said, exp.Column) else said.find_all(exp.Column):
        column.set("table", None)  # which the resolution of names has added
    text = said.sql(dialect="spark", identify=False).replace("`", "")
    return text if len(text) <= 60 else f"{text[:60]}…"


def refuse_others(node: exp.Expr, *names: str) -> None:
    """Raise `NeedsSparkError` if the expression has other arguments or clauses than
    those named."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, [], ""):
            raise NeedsSparkError(
                f"{name.strip('_').upper().replace('_', ' ')} in {describe(node)}"
            )


def by_sqlglot(node: exp.Expr, **arguments: str) -> str:
    """sqlglot's translation of an expression to DuckDB's SQL, with arguments whose
    texts are already in DuckDB's SQL."""
    made = node.copy()
    for name, text in arguments.items():
        made.set(name, exp.Var(this=text))
    return f"({made.sql(dialect='duckdb')})"


def field_text(value: Typed, name: str) -> Typed:
    """A field of a struct. Raises `NeedsSparkError` if the value is no struct, or has
    no such field."""
    found = field_of(value.type, name)
    if found is None:
        raise NeedsSparkError(f"the field {name} of a {value.type}")
    spelled, kind = found
    duck_type(kind)
    return Typed(f"({value.text}).{quote(spelled)}", kind)
