"""Translation rules for functions that are described by the types of their arguments
and result alone."""

from __future__ import annotations

from sqlglot import exp

from lakesql.unit.duck_scope import (
    DuckScope,
    Rule,
    Typed,
    by_sqlglot,
    describe,
    refuse_others,
)
from lakesql.unit.duck_types import VOID, NeedsSparkError, guarded


def rule(arguments: str, takes: str, gives: str, form: str = "") -> Rule:
    """The rule of a function.

    `arguments` are sqlglot's names of the arguments, in order, and `takes` the types
    that each may have: several are separated by `|`, and `ascii` is a string that needs
    Spark if it has characters beyond ASCII. `gives` is the type of the result, or `=`
    for that of the first argument. `form` is DuckDB's text, with `{0}` for the first
    argument; it is given if sqlglot's own translation would mean something else or have
    another type.
    """
    names, kinds = arguments.split(), takes.split()

    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, *names)
        given = [name for name in names if node.args.get(name) is not None]
        if len(given) != len(names):
            raise NeedsSparkError(f"{describe(node)} with {len(given)} arguments")
        values = [scope.translate(node.args[name]) for name in names]
        texts = [
            take(value, kind, node) for value, kind in zip(values, kinds, strict=True)
        ]
        kind = values[0].type if gives == "=" else gives
        if form:
            return Typed(form.format(*texts), kind)
        return Typed(by_sqlglot(node, **dict(zip(names, texts, strict=True))), kind)

    return make


def take(value: Typed, kinds: str, node: exp.Expr) -> str:
    """The text of an argument that may have these types. Raises `NeedsSparkError` if it
    has another."""
    for kind in kinds.split("|"):
        if kind == "ascii" and value.type == "string":
            return ascii_text(value.text, describe(node))
        if kind == value.type:
            return value.text
    raise NeedsSparkError(
        f"{describe(node)} of a {'NULL' if value.type == VOID else value.type}"
    )


def ascii_text(text: str, what: str) -> str:
    """The text of a string, guarded: DuckDB raises an error if the string has
    characters beyond ASCII, which the engines treat differently."""
    return guarded(
        f"strlen({text}) <> length({text})", f"{what} of a text beyond ASCII", text
    )
