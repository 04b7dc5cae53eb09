"""Translation rules for literals, columns, conditions, CASE and the like, where they
mean the same in Spark and in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

from sqlglot import exp

from lakesql.unit.duck_scope import (
    DuckScope,
    Rule,
    Typed,
    describe,
    field_text,
    refuse_others,
)
from lakesql.unit.duck_types import (
    MAX_DIGITS,
    VOID,
    WHOLE_DIGITS,
    NeedsSparkError,
    common_type,
    decimal_digits,
    duck_type,
    is_compared,
    text_literal,
)


def _literal(node: exp.Expr, scope: DuckScope) -> Typed:
    text = str(node.this)
    if node.args.get("is_string"):
        if set("\\'\"") & set(text) or not text.isprintable():
            raise NeedsSparkError(
                "a text with an escape, a quote or a control character"
            )
        return Typed(text_literal(text), "string")
    if re.fullmatch(r"\d{1,19}", text) and int(text) < 2**63 and int(text) != 2**31:
        kind = "int" if int(text) < 2**31 else "bigint"
        return Typed(f"CAST({int(text)} AS {duck_type(kind)})", kind)
    if re.fullmatch(r"\d*\.\d*", text) and text != "." and len(text) <= MAX_DIGITS:
        whole, _, fraction = text.partition(".")
        precision = max(len((whole + fraction).lstrip("0")), len(fraction), 1)
        kind = f"decimal({precision},{len(fraction)})"
        return Typed(
            f"CAST('{whole or '0'}.{fraction or '0'}' AS {kind.upper()})", kind
        )
    raise NeedsSparkError(f"the number {text}")


def _null(node: exp.Expr, scope: DuckScope) -> Typed:
    return Typed("NULL", VOID)


def _boolean(node: exp.Expr, scope: DuckScope) -> Typed:
    return Typed("true" if node.this else "false", "boolean")


def _column(node: exp.Expr, scope: DuckScope) -> Typed:
    assert isinstance(node, exp.Column)
    return scope.find_column(node)


def _variable(node: exp.Expr, scope: DuckScope) -> Typed:
    """A variable of a lambda function."""
    found = scope.variables.get(node.name.lower())
    if found is None:
        raise NeedsSparkError(f"the name {node.name}")
    return found


def _paren(node: exp.Expr, scope: DuckScope) -> Typed:
    return scope.translate(node.this)


# --- conditions


def condition_text(value: Typed, node: exp.Expr) -> str:
    """The text of an expression that must be a condition. Raises `NeedsSparkError` if
    it is of another type than boolean."""
    if value.type not in ("boolean", VOID):
        raise NeedsSparkError(f"{describe(node)} is a {value.type} and no condition")
    return f"CAST({value.text} AS BOOLEAN)" if value.type == VOID else value.text


def _logic(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this", "expression")
        sides = [
            condition_text(scope.translate(node.args[name]), node)
            for name in ("this", "expression")
        ]
        return Typed(f"({sides[0]} {word} {sides[1]})", "boolean")

    return make


def _not(node: exp.Expr, scope: DuckScope) -> Typed:
    return Typed(f"(NOT {condition_text(scope.translate(node.this), node)})", "boolean")


def _comparison(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this", "expression")
        left, right = (
            scope.translate(node.args["this"]),
            scope.translate(node.args["expression"]),
        )
        return Typed(compare_text(left, right, word, node), "boolean")

    return make


def compare_text(left: Typed, right: Typed, word: str, node: exp.Expr) -> str:
    """The comparison of two values whose types are the same or widen to one, or of a
    date or time with a string literal. Raises `NeedsSparkError` for any others."""
    left, right = _as_time(left, right), _as_time(right, left)
    kind = common_type((left.type, right.type), describe(node))
    if not is_compared(kind) and kind not in ("double", VOID):
        raise NeedsSparkError(f"{describe(node)} compares values of type {kind}")
    return f"({left.cast(kind)} {word} {right.cast(kind)})"


_DATE = re.compile(r"'(\d{4}-\d{2}-\d{2})'\Z")
_TIME = re.compile(r"'(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)Z?'\Z")


def _as_time(value: Typed, other: Typed) -> Typed:
    """A string literal that is compared with a date or a time, as a literal of that
    type; any other value unchanged."""
    if value.type != "string" or other.type not in ("date", "timestamp"):
        return value
    found = time_literal(value.text, other.type)
    if found is None:
        raise NeedsSparkError(f"a string where a {other.type} is wanted")
    return found


def time_literal(text: str, kind: str) -> Typed | None:
    """The literal of a date or a timestamp, from a string in quotes that both engines
    read alike; None for any other string."""
    day, moment = _DATE.match(text), _TIME.match(text)
    try:
        if kind == "date" and day:
            return Typed(f"DATE '{date.fromisoformat(day[1]).isoformat()}'", kind)
        if kind == "timestamp" and (day or moment):
            words = (
                f"{moment[1]} {moment[2]}"
                if moment
                else f"{day[1]} 00:00:00"
                if day
                else ""
            )
            datetime.fromisoformat(words)
            return Typed(f"TIMESTAMP '{words}'", kind)
    except ValueError:
        return None
    return None


def _is(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression")
    value, of = scope.translate(node.args["this"]), node.args["expression"]
    match of:
        case exp.Null():
            return Typed(f"({value.text} IS NULL)", "boolean")
        case exp.Boolean():
            return Typed(
                f"({condition_text(value, node)} IS {'TRUE' if of.this else 'FALSE'})",
                "boolean",
            )
        case _:
            raise NeedsSparkError(describe(node))


def _in(node: exp.Expr, scope: DuckScope) -> Typed:
    if node.args.get("query") is not None:
        return _in_query(node, scope)
    refuse_others(node, "this", "expressions")
    value = scope.translate(node.this)
    items = [scope.translate(item) for item in node.expressions]
    kinds = sorted({item.type for item in (value, *items)})
    if len({*kinds} - {VOID}) > 1 and not all(
        decimal_digits(each) or each in (*WHOLE_DIGITS, VOID) for each in kinds
    ):
        raise NeedsSparkError(f"{describe(node)} mixes {' and '.join(kinds)}")
    kind = common_type(kinds, describe(node))
    if not is_compared(kind) and kind not in ("double", VOID):
        raise NeedsSparkError(f"{describe(node)} compares values of type {kind}")
    return Typed(
        f"({value.cast(kind)} IN ({', '.join(item.cast(kind) for item in items)}))",
        "boolean",
    )


def _in_query(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "query")
    text, columns = _read_query(node.args["query"], scope)
    of = node.this.unnest()
    values = [
        scope.translate(it)
        for it in (of.expressions if isinstance(of, exp.Tuple) else [of])
    ]
    if [value.type for value in values] != list(columns.values()):
        raise NeedsSparkError(
            f"{describe(node)} compares {', '.join(value.type for value in values)} with other types"
        )
    if len(values) > 1 or not all(is_compared(value.type) for value in values):
        raise NeedsSparkError(
            f"{describe(node)} compares several values, or some of type {values[0].type}"
        )
    return Typed(f"({values[0].text} IN ({text}))", "boolean")


def exists_text(node: exp.Expr, scope: DuckScope) -> Typed:
    """EXISTS with a query."""
    text, _ = _read_query(node.this, scope)
    return Typed(f"EXISTS ({text})", "boolean")


def _scalar_query(node: exp.Expr, scope: DuckScope) -> Typed:
    """A query in parentheses as a value. More than one row is an error in both
    engines."""
    refuse_others(node, "this")
    text, columns = _read_query(node, scope)
    if len(columns) != 1:
        raise NeedsSparkError("a query of several columns as a value")
    (kind,) = columns.values()
    return Typed(f"({text})", kind)


def _read_query(node: exp.Expr, scope: DuckScope) -> tuple[str, dict[str, str]]:
    if scope.query is None:
        raise NeedsSparkError("a query in a condition")
    text, columns = scope.query(
        node.unnest() if isinstance(node, exp.Subquery) else node, scope
    )
    return text, dict(columns)


def _between(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "low", "high")
    value, low, high = (
        scope.translate(node.args[name]) for name in ("this", "low", "high")
    )
    above, below = (
        compare_text(value, low, ">=", node),
        compare_text(value, high, "<=", node),
    )
    return Typed(f"({above} AND {below})", "boolean")


# --- choices


def _case(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "ifs", "default")
    subject = scope.translate(node.args["this"]) if node.args.get("this") else None
    tests, values = [], []
    for branch in node.args["ifs"]:
        test = scope.translate(branch.this)
        tests.append(
            compare_text(subject, test, "=", node)
            if subject
            else condition_text(test, branch)
        )
        values.append(scope.translate(branch.args["true"]))
    default = (
        scope.translate(node.args["default"])
        if node.args.get("default")
        else Typed("NULL", VOID)
    )
    return _choose(tests, [*values, default], node)


def _if(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "true", "false")
    if not node.args.get("false"):
        raise NeedsSparkError(describe(node))
    test = condition_text(scope.translate(node.this), node)
    return _choose(
        [test],
        [scope.translate(node.args["true"]), scope.translate(node.args["false"])],
        node,
    )


def _nvl2(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "true", "false")
    test = f"{scope.translate(node.this).text} IS NOT NULL"
    return _choose(
        [test],
        [scope.translate(node.args["true"]), scope.translate(node.args["false"])],
        node,
    )


def _choose(tests: Sequence[str], values: Sequence[Typed], node: exp.Expr) -> Typed:
    kind = common_type((value.type for value in values), describe(node))
    *made, default = (value.cast(kind) for value in values)
    whens = " ".join(
        f"WHEN {test} THEN {value}" for test, value in zip(tests, made, strict=True)
    )
    return Typed(f"(CASE {whens} ELSE {default} END)", kind)


def _coalesce(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expressions", "is_nvl", "is_null")
    values = [scope.translate(item) for item in (node.this, *node.expressions)]
    kind = common_type((value.type for value in values), describe(node))
    return Typed(f"coalesce({', '.join(value.cast(kind) for value in values)})", kind)


def _extreme(word: str) -> Rule:
    """The rule for `greatest` and `least`, which ignore NULLs."""

    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this", "expressions", "ignore_nulls")
        values = [scope.translate(item) for item in (node.this, *node.expressions)]
        kind = common_type((value.type for value in values), describe(node))
        if not is_compared(kind):
            raise NeedsSparkError(f"{describe(node)} of values of type {kind}")
        return Typed(f"{word}({', '.join(value.cast(kind) for value in values)})", kind)

    return make


def _nullif(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression")
    value, other = (
        scope.translate(node.args["this"]),
        scope.translate(node.args["expression"]),
    )
    test = compare_text(value, other, "=", node)
    return Typed(f"(CASE WHEN {test} THEN NULL ELSE {value.text} END)", value.type)


def _anonymous_is_null(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        (value,) = (scope.translate(item) for item in node.expressions)
        return Typed(f"({value.text} {word})", "boolean")

    return make


def _dot(node: exp.Expr, scope: DuckScope) -> Typed:
    """`value.name`: a field of a struct; for an array of structs the array of that
    field, and for a map the value of that key."""
    if not isinstance(node.args["expression"], exp.Identifier):
        raise NeedsSparkError(describe(node))
    value, name = scope.translate(node.this), node.args["expression"].name
    of_parts = (
        scope.rules[exp.Bracket] if value.type.startswith(("array<", "map<")) else None
    )
    if of_parts is not None:
        return of_parts(
            exp.Bracket(this=node.this.copy(), expressions=[exp.Literal.string(name)]),
            scope,
        )
    return field_text(value, name)


NAMED: dict[str, Rule] = {
    "isnull": _anonymous_is_null("IS NULL"),
    "isnotnull": _anonymous_is_null("IS NOT NULL"),
}
"""Rules for functions that sqlglot has no class for, by name."""

RULES: dict[type[exp.Expr], Rule] = {
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Column: _column,
    exp.Identifier: _variable,
    exp.Dot: _dot,
    exp.Paren: _paren,
    exp.And: _logic("AND"),
    exp.Or: _logic("OR"),
    exp.Not: _not,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.NullSafeEQ: _comparison("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _comparison("IS DISTINCT FROM"),
    exp.Is: _is,
    exp.In: _in,
    exp.Subquery: _scalar_query,
    exp.Between: _between,
    exp.Case: _case,
    exp.If: _if,
    exp.Nvl2: _nvl2,
    exp.Coalesce: _coalesce,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Nullif: _nullif,
}
