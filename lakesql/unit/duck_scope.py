"""What an expression of a unit test may read, and what becomes of it: DuckDB's text
with Spark's type."""

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
    """An expression in DuckDB's text, which needs no brackets around it, and its type
    in Spark's words."""

    text: str
    type: str

    def cast(self, kind: str) -> str:
        """The text as a type that Spark widens its own to without a loss. Raises
        `NeedsSparkError` for any other."""
        if self.type == kind:
            return self.text
        if self.type == VOID or can_widen(self.type, kind):
            return f"CAST({self.text} AS {duck_type(kind)})"
        raise NeedsSparkError(f"a {self.type} where a {kind} is wanted")


@dataclass(frozen=True, slots=True)
class DuckRelation:
    """What a name in FROM stands for: the types of its columns, by their names as they
    are spelled."""

    alias: str
    columns: Mapping[str, str]

    def find(self, name: str) -> tuple[str, str] | None:
        """A column as it is spelled, and its type, whatever the capitals of the name;
        None where there is none."""
        for known, kind in self.columns.items():
            if known.lower() == name.lower():
                return known, kind
        return None


Rule: TypeAlias = Callable[[exp.Expr, "DuckScope"], Typed]
"""What makes DuckDB's text of an expression of one class. It raises
`NeedsSparkError`."""


@dataclass(frozen=True, slots=True)
class DuckScope:
    """What an expression may read.

    `aliases` are the outputs before it in the same SELECT, `variables` those of the
    lambda functions around it, and `outer` what the query around its own reads. `now`
    is the time of the test, if it has one.
    """

    rules: Mapping[type[exp.Expr], Rule]
    relations: tuple[DuckRelation, ...]
    now: datetime | None = None
    outer: DuckScope | None = None
    query: Callable[[exp.Expr, DuckScope], tuple[str, Mapping[str, str]]] | None = None
    aliases: Mapping[str, Typed] = field(default_factory=dict)
    variables: Mapping[str, Typed] = field(default_factory=dict)

    def translate(self, node: exp.Expr) -> Typed:
        """The expression in DuckDB's SQL. Raises `NeedsSparkError` for whatever is not
        proved to mean the same."""
        rule = self.rules.get(type(node))
        if rule is None:
            raise NeedsSparkError(
                f"{describe(node)} is not among what is known to mean the same without Spark"
            )
        return rule(node, self)

    def with_variables(self, variables: Mapping[str, Typed]) -> DuckScope:
        """The scope inside a lambda function."""
        return replace(self, variables={**self.variables, **variables})

    def find_column(self, column: exp.Column) -> Typed:
        """The column, which `names.resolve` has given its relation unless it is the
        name of an output or an outer one.

        Spark looks among the columns first, then among the outputs, then around the
        query.
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
    """What a person calls an expression: its function, or its text."""
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
    """Refuse an expression that says more than these arguments."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, [], ""):
            raise NeedsSparkError(
                f"{name.strip('_').upper().replace('_', ' ')} in {describe(node)}"
            )


def by_sqlglot(node: exp.Expr, **arguments: str) -> str:
    """What sqlglot writes for an expression of this class in DuckDB's SQL, over
    arguments that are in it already."""
    made = node.copy()
    for name, text in arguments.items():
        made.set(name, exp.Var(this=text))
    return f"({made.sql(dialect='duckdb')})"


def field_text(value: Typed, name: str) -> Typed:
    """A field of a struct; of an array of structs the array of them; of a map the value
    of a key."""
    found = field_of(value.type, name)
    if found is None:
        raise NeedsSparkError(f"the field {name} of a {value.type}")
    spelled, kind = found
    duck_type(kind)
    return Typed(f"({value.text}).{quote(spelled)}", kind)
