"""The columns that `explode` and Spark's other generators make, with Spark's names and
types."""

from __future__ import annotations

from sqlglot import exp

from lakesql.select.derive import derive_shape, element_of
from lakesql.select.functions import TABLE_FUNCTIONS
from lakesql.select.relation import QueryColumn, Scope
from lakesql.stream.types import SparkType, known, parse_type, whole

_GENERATORS = frozenset(name.replace("_", "") for name in TABLE_FUNCTIONS)


def is_generator(expression: exp.Expr) -> bool:
    """Whether an expression is a call of a generator, which makes rows and names its
    columns itself."""
    return _name_of(expression) in _GENERATORS


def generated_columns(
    generator: exp.Expr, offset: int, scope: Scope
) -> tuple[QueryColumn, ...] | None:
    """The columns of a generator's call, whose arguments are resolved in `scope`; None
    where only Spark knows them."""
    name = _name_of(generator).removesuffix("outer")
    arguments = _arguments(generator)
    first = derive_shape(arguments[0], scope) if arguments else None
    match name:
        case "explode":
            return _exploded(first, offset)
        case "posexplode":
            exploded = _exploded(first, offset)
            return (
                None
                if exploded is None
                else (_column("pos", parse_type("int"), offset), *exploded)
            )
        case "inline":
            row = element_of(first)
            if row is None or row.name != "struct":
                return None
            return tuple(
                _column(field.name, field.type, offset) for field in row.fields
            )
        case "jsontuple":
            string = parse_type("string")
            return tuple(
                _column(f"c{number}", string, offset)
                for number in range(len(arguments) - 1)
            )
        case "stack":
            return _stacked(arguments, offset)
        case "range":
            return (_column("id", parse_type("bigint"), offset),)
        case _:
            return None


def _name_of(expression: exp.Expr) -> str:
    """The name of a function in lower case and without `_`, as sqlglot's classes have
    it."""
    name = expression.name if isinstance(expression, exp.Anonymous) else expression.key
    return name.lower().replace("_", "")


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    if isinstance(call, exp.Anonymous):
        return call.expressions
    first = [call.this] if isinstance(call.this, exp.Expr) else []
    return [*first, *call.expressions]


def _exploded(kind: SparkType | None, offset: int) -> tuple[QueryColumn, ...] | None:
    if kind is None or kind.name not in ("array", "map"):
        return None
    names = ("col",) if kind.name == "array" else ("key", "value")
    return tuple(
        _column(name, field.type, offset)
        for name, field in zip(names, kind.fields, strict=True)
    )


def _stacked(arguments: list[exp.Expr], offset: int) -> tuple[QueryColumn, ...] | None:
    """The columns of `stack(rows, …)`: as many as the values need to fill the rows."""
    if len(arguments) < 2 or not arguments[0].is_int:
        return None
    rows = int(arguments[0].name)
    count = -(-(len(arguments) - 1) // rows) if rows > 0 else 0
    return tuple(_column(f"col{number}", None, offset) for number in range(count))


def _column(name: str, kind: SparkType | None, offset: int) -> QueryColumn:
    return QueryColumn(
        name,
        offset,
        type=whole(kind),
        shape=known(kind) if kind is not None else None,
        is_made_up=True,
    )
