"""The type of an expression, where it follows from the types of the columns that are known; else Spark's to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from lakesql.select.relation import Sources
from lakesql.stream.types import WHOLE_TYPES, SparkType, find_field, parse_type

_BOOLEANS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Not),
    *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Boolean),
)
_FIXED: dict[type[exp.Expr], str] = {
    **dict.fromkeys(_BOOLEANS, "boolean"),
    **dict.fromkeys((exp.Count, exp.CountIf, exp.ApproxDistinct), "bigint"),
    **dict.fromkeys((exp.Upper, exp.Lower, exp.ConcatWs, exp.MD5), "string"),
    **dict.fromkeys((exp.Length, exp.Year, exp.Month, exp.RowNumber), "int"),
    exp.CurrentTimestamp: "timestamp",
    exp.CurrentDate: "date",
    exp.TimestampTrunc: "timestamp",
}
"""Expressions that are of one type, whatever is in them."""

_HASHES = {"hash": "int", "xxhash64": "bigint"}

_SAME = (exp.Paren, exp.Min, exp.Max, exp.AnyValue, exp.First, exp.Last, exp.Neg)
"""Expressions of the type of what is in them."""


def derive_type(expression: exp.Expr, sources: Sources) -> SparkType | None:
    """The type of an expression over `sources`; None where it is not known."""

    def kind_of(inner: exp.Expr) -> SparkType | None:
        return derive_type(inner, sources)

    if (fixed := _FIXED.get(type(expression))) is not None:
        return parse_type(fixed)
    match expression:
        case exp.Column():
            return _column_type(expression, sources)
        case exp.Literal():
            return _literal_type(expression)
        case exp.Dot() if isinstance(expression.expression, exp.Identifier):
            field = find_field(kind_of(expression.this), expression.expression.name)
            return field.type if field else None
        case exp.Bracket() if len(expression.expressions) == 1:
            kind = kind_of(expression.this)
            return kind.fields[-1].type if kind is not None and kind.name in ("array", "map") else None
        case exp.Anonymous() if (hashed := _HASHES.get(expression.name.lower())) is not None:
            return parse_type(hashed)
        case exp.Coalesce():
            return _common([expression.this, *expression.expressions], kind_of)
        case exp.Case():
            branches = [branch.args["true"] for branch in expression.args["ifs"]]
            return _common([*branches, *filter(None, [expression.args.get("default")])], kind_of)
        case exp.Sum():
            return _sum_type(kind_of(expression.this))
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic_type(kind_of(expression.left), kind_of(expression.right))
        case _ if isinstance(expression, _SAME) and isinstance(expression.this, exp.Expr):
            return kind_of(expression.this)
        case _:
            return None


def _column_type(column: exp.Column, sources: Sources) -> SparkType | None:
    """The type of the one column that a name means, or of the field in it."""
    names = [part.name.lower() for part in column.parts]
    found: list[tuple[SparkType | None, list[str]]] = []
    for name, source in sources:
        if (columns := source.by_name) is None:
            return None
        if len(names) > 1 and name.lower() == names[0] and names[1] in columns:
            found.append((columns[names[1]].type, names[2:]))
        elif names[0] in columns:
            found.append((columns[names[0]].type, names[1:]))
    if len(found) != 1:
        return None
    kind, fields = found[0]
    for name in fields:
        field = find_field(kind, name)
        kind = field.type if field else None
    return kind


def _literal_type(literal: exp.Literal) -> SparkType | None:
    if literal.is_string:
        return parse_type("string")
    if not literal.name.isdigit():
        return None
    return parse_type("int" if int(literal.name) < 2**31 else "bigint") if int(literal.name) < 2**63 else None


def _common(parts: Iterable[exp.Expr], kind_of: Callable[[exp.Expr], SparkType | None]) -> SparkType | None:
    """The type that all parts are of, NULL apart."""
    kinds = {kind_of(part) for part in parts if not isinstance(part, exp.Null)}
    return kinds.pop() if len(kinds) == 1 else None


def _sum_type(kind: SparkType | None) -> SparkType | None:
    if kind is None:
        return None
    if kind.name in WHOLE_TYPES:
        return parse_type("bigint")
    if kind.name == "decimal" and len(kind.parameters) == 2:
        precision, scale = map(int, kind.parameters)
        return parse_type(f"decimal({min(precision + 10, 38)},{scale})")
    return parse_type("double") if kind.name in ("float", "double") else None


def _arithmetic_type(left: SparkType | None, right: SparkType | None) -> SparkType | None:
    """The type of a sum or a product of whole numbers, or of one with a double."""
    names = [kind.name for kind in (left, right) if kind is not None]
    if len(names) < 2 or not {*names} <= {*WHOLE_TYPES, "double"}:
        return None
    return parse_type("double" if "double" in names else max(names, key=WHOLE_TYPES.index))
