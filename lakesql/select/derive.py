"""The type of an expression, as far as it follows from the types of columns without
asking Spark.

Parts of a type may be known and others not: of `named_struct('a', f(x))` the name of
the field and not its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeAlias

from sqlglot import exp

from lakesql.select.lookup import find_columns
from lakesql.select.relation import Scope, Sources
from lakesql.stream.types import (
    WHOLE_TYPES,
    SparkType,
    array_of,
    find_field,
    known,
    map_of,
    parse_type,
    struct_of,
    whole,
)

_KindOf: TypeAlias = Callable[[exp.Expr | None], SparkType | None]

_BOOLEANS = (
    *(
        exp.EQ,
        exp.NEQ,
        exp.GT,
        exp.GTE,
        exp.LT,
        exp.LTE,
        exp.NullSafeEQ,
        exp.NullSafeNEQ,
        exp.And,
        exp.Or,
        exp.Not,
    ),
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
"""Expressions that always have the same type."""

_NAMED = {
    "hash": "int",
    "xxhash64": "bigint",
    "forall": "boolean",
    "window_time": "timestamp",
}
"""The same for functions that sqlglot has no class for."""

_SAME = (
    *(
        exp.Paren,
        exp.Min,
        exp.Max,
        exp.AnyValue,
        exp.First,
        exp.Last,
        exp.FirstValue,
        exp.LastValue,
        exp.Neg,
    ),
    *(
        exp.ArgMax,
        exp.ArgMin,
        exp.ArrayFilter,
        exp.ArraySort,
        exp.ArrayDistinct,
        exp.ArraySlice,
        exp.ArrayCompact,
    ),
    *(
        exp.Window,
        exp.Filter,
        exp.IgnoreNulls,
        exp.RespectNulls,
        exp.NthValue,
        exp.Nullif,
    ),
)
"""Expressions that have the type of their first operand."""

_COLLECTING = (exp.ArrayAgg, exp.ArrayUniqueAgg)


def derive_type(expression: exp.Expr, sources: Sources) -> SparkType | None:
    """The type of an expression over `sources`; None where a part of it is not
    known."""
    return whole(derive_shape(expression, Scope(tuple(sources))))


def derive_shape(expression: exp.Expr, scope: Scope) -> SparkType | None:
    """What is known of the type of an expression; None where nothing is known."""

    def kind_of(inner: exp.Expr | None) -> SparkType | None:
        found = derive_shape(inner, scope) if inner is not None else None
        return None if found is None else known(found)

    if (fixed := _FIXED.get(type(expression))) is not None:
        return parse_type(fixed)
    match expression:
        case exp.Column():
            return _column_type(expression, scope)
        case exp.Identifier():
            return scope.variables.get(expression.name.lower())
        case exp.Literal():
            return _literal_type(expression)
        case exp.Dot() if isinstance(expression.expression, exp.Identifier):
            return field_of(kind_of(expression.this), expression.expression.name)
        case exp.Bracket() if len(expression.expressions) == 1:
            return _item_type(kind_of(expression.this), expression.expressions[0])
        case exp.Lambda():
            return kind_of(expression.this)
        case exp.Anonymous():
            return _function_type(expression, kind_of, scope)
        case exp.Coalesce():
            return _common([expression.this, *expression.expressions], kind_of)
        case exp.If():
            return _common(
                [
                    expression.args["true"],
                    *filter(None, [expression.args.get("false")]),
                ],
                kind_of,
            )
        case exp.Case():
            branches = [branch.args["true"] for branch in expression.args["ifs"]]
            return _common(
                [*branches, *filter(None, [expression.args.get("default")])], kind_of
            )
        case exp.Sum():
            return sum_type(kind_of(expression.this))
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic_type(kind_of(expression.left), kind_of(expression.right))
        case _ if isinstance(expression, _SAME) and isinstance(
            expression.this, exp.Expr
        ):
            return kind_of(expression.this)
        case _:
            return _nested_type(expression, kind_of, scope)


def _nested_type(
    expression: exp.Expr, kind_of: _KindOf, scope: Scope
) -> SparkType | None:
    """The type of an expression that makes structs, arrays or maps, or reads elements
    of them."""
    match expression:
        case exp.Struct():
            return _struct_type(expression, kind_of)
        case exp.Array():
            return array_of(_common(expression.expressions, kind_of))
        case exp.VarMap():
            keys, values = expression.args["keys"], expression.args["values"]
            return map_of(
                _common(keys.expressions, kind_of), _common(values.expressions, kind_of)
            )
        case exp.FromJson():
            return read_schema(expression.args.get("expression"))
        case exp.Cast():
            kind = parse_type(_type_text(expression.to))
            # sqlglot reads char(3) as a string too
            return None if kind is not None and kind.name == "string" else kind
        case exp.Transform():
            return array_of(_lambda_type(expression, scope))
        case exp.Reduce():
            finish = expression.args.get("finish")
            return (
                _lambda_type(expression, scope)
                if finish is not None
                else kind_of(expression.args.get("initial"))
            )
        case exp.ArrayMax() | exp.ArrayMin() | exp.Flatten():
            return element_of(kind_of(expression.this))
        case exp.MapKeys():
            kind = kind_of(expression.this)
            return array_of(
                kind.fields[0].type if kind is not None and kind.name == "map" else None
            )
        case _ if isinstance(expression, _COLLECTING):
            return array_of(kind_of(_without_distinct(expression.this)))
        case _:
            return None


def _type_text(kind: exp.DataType) -> str:
    """A type in Spark's words."""
    numbers = tuple(
        each.this.name
        for each in kind.expressions
        if isinstance(each, exp.DataTypeParam) and each.this.is_int
    )
    others = kind.args.keys() - {"this", "expressions"}
    if len(numbers) < len(kind.expressions) or any(map(kind.args.get, others)):
        return kind.sql("spark")
    return _plain_type_text(kind.this, numbers)


@lru_cache(maxsize=1024)
def _plain_type_text(word: exp.DType, numbers: tuple[str, ...]) -> str:
    """A type of one word and its numbers: to write it, sqlglot parses it."""
    parameters = [exp.DataTypeParam(this=exp.Literal.number(it)) for it in numbers]
    return exp.DataType(this=word, expressions=parameters).sql("spark")


def _function_type(
    call: exp.Anonymous, kind_of: _KindOf, scope: Scope
) -> SparkType | None:
    """The type of a call of a function that sqlglot has no class for."""
    name, arguments = call.name.lower(), call.expressions
    first = kind_of(arguments[0]) if arguments else None
    is_map = first is not None and first.name == "map"
    match name:
        case "window" | "session_window":
            return WINDOW
        case "get":
            return element_of(first)
        case "map_filter" | "shuffle" | "filter":
            return first
        case "map_values":
            return array_of(element_of(first)) if is_map else None
        case "map_entries" if is_map and first is not None:
            return array_of(
                struct_of(
                    [("key", first.fields[0].type), ("value", first.fields[1].type)]
                )
            )
        case "zip_with":
            return array_of(_lambda_type(call, scope))
        case "transform_values":
            return map_of(
                first.fields[0].type if is_map and first is not None else None,
                _lambda_type(call, scope),
            )
        case "from_csv" if len(arguments) > 1:
            return read_schema(arguments[1])
        case _:
            return parse_type(_NAMED[name]) if name in _NAMED else None


WINDOW = struct_of(
    [("start", parse_type("timestamp")), ("end", parse_type("timestamp"))]
)
"""The type of the result of `window` and `session_window`."""


def read_schema(schema: exp.Expr | None) -> SparkType | None:
    """The type that the schema of `from_json` and the like names: the columns of a
    struct, or any other type. None if it is no literal, or cannot be parsed."""
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        return None
    return parse_type(f"struct<{schema.name}>") or parse_type(schema.name)


def _struct_type(struct: exp.Struct, kind_of: _KindOf) -> SparkType | None:
    """The type of a struct; None where Spark may name a field otherwise than sqlglot
    does."""
    fields = []
    for part in struct.expressions:
        if not isinstance(part, exp.PropertyEQ):
            return None
        is_numbered = part.name.lower().startswith("col")
        if is_numbered and isinstance(part.expression, exp.Bracket | exp.Dot):
            return None
        fields.append((part.name, kind_of(part.expression)))
    return struct_of(fields)


def _without_distinct(argument: exp.Expr) -> exp.Expr:
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        (only,) = argument.expressions
        return only if isinstance(only, exp.Expr) else argument
    return argument


def element_of(kind: SparkType | None) -> SparkType | None:
    """The type of the elements of an array, or of the values of a map; None for other
    types."""
    return (
        known(kind.fields[-1].type)
        if kind is not None and kind.name in ("array", "map")
        else None
    )


def field_of(kind: SparkType | None, name: str) -> SparkType | None:
    """The type of a field of a struct. For an array of structs it is an array of it;
    for a map it is the type of its values."""
    if kind is not None and kind.name == "array":
        field = find_field(kind.fields[0].type, name)
        return array_of(field.type) if field else None
    if kind is not None and kind.name == "map":
        return element_of(kind)
    field = find_field(kind, name)
    return known(field.type) if field else None


def _item_type(kind: SparkType | None, index: exp.Expr) -> SparkType | None:
    """The type of `value[index]`."""
    if kind is not None and kind.name == "struct":
        is_named = isinstance(index, exp.Literal) and index.is_string
        return field_of(kind, index.name) if is_named else None
    if (
        kind is not None
        and kind.name == "array"
        and isinstance(index, exp.Literal)
        and index.is_string
    ):
        return field_of(kind, index.name)
    return element_of(kind)


def _lambda_type(call: exp.Expr, scope: Scope) -> SparkType | None:
    """The type of the result of a call's last lambda function."""
    found = lambdas_of(call)
    if not found:
        return None
    inner = found[-1]
    return derive_shape(inner.this, with_variables(inner, call, scope))


def lambdas_of(call: exp.Expr) -> list[exp.Lambda]:
    """The lambda functions among the arguments of a call, in order."""
    arguments = (
        call.expressions if isinstance(call, exp.Anonymous) else call.args.values()
    )
    return [argument for argument in arguments if isinstance(argument, exp.Lambda)]


def with_variables(inner: exp.Lambda, call: exp.Expr, scope: Scope) -> Scope:
    """The scope inside a lambda function of a call, with the types that the call gives
    to its variables."""
    kinds = _variable_types(inner, call, scope)
    names = [variable.name.lower() for variable in inner.expressions]
    given: dict[str, SparkType | None] = dict.fromkeys(names)
    given.update(zip(names, kinds, strict=False))
    return Scope(
        scope.sources, scope.aliases, {**scope.variables, **given}, scope.is_open
    )


def _variable_types(
    inner: exp.Lambda, call: exp.Expr, scope: Scope
) -> list[SparkType | None]:
    plain = (
        call.expressions
        if isinstance(call, exp.Anonymous)
        else list(call.args.values())
    )
    first = (
        derive_shape(plain[0], scope)
        if plain and isinstance(plain[0], exp.Expr)
        else None
    )
    index = parse_type("int")
    match call:
        case exp.Transform() | exp.ArrayFilter() | exp.Exists():
            return [element_of(first), index]
        case exp.ArraySort():
            return [element_of(first), element_of(first)]
        case exp.Reduce():
            initial = call.args.get("initial")
            made = derive_shape(initial, scope) if initial is not None else None
            return [made, element_of(first)] if len(inner.expressions) > 1 else [made]
        case exp.Anonymous() if len(plain) > 1:
            return _named_variable_types(
                call.name.lower(), first, derive_shape(plain[1], scope)
            )
        case _:
            return []


def _named_variable_types(
    name: str, first: SparkType | None, second: SparkType | None
) -> list[SparkType | None]:
    if name in ("forall", "exists", "any_match"):
        return [element_of(first)]
    if name == "zip_with":
        return [element_of(first), element_of(second)]
    key = first.fields[0].type if first is not None and first.name == "map" else None
    if name in ("map_filter", "transform_keys", "transform_values"):
        return [key, element_of(first)]
    if name == "map_zip_with":
        return [key, element_of(first), element_of(second)]
    return []


def _column_type(column: exp.Column, scope: Scope) -> SparkType | None:
    """The type of the one column that a name means, or of a field of it; None where the
    column is not known."""
    names = [
        part.name.lower() for part in column.parts if not isinstance(part, exp.Star)
    ]
    found = find_columns(names, scope) if names else None
    if found is None or len(found.columns) != 1:
        return None
    kind = found.columns[0].known
    for name in names[found.used :]:
        kind = field_of(kind, name)
    return kind


def _literal_type(literal: exp.Literal) -> SparkType | None:
    if literal.is_string:
        return parse_type("string")
    if not literal.name.isdigit():
        return None
    return (
        parse_type("int" if int(literal.name) < 2**31 else "bigint")
        if int(literal.name) < 2**63
        else None
    )


def _common(parts: Iterable[exp.Expr], kind_of: _KindOf) -> SparkType | None:
    """The type that all parts except NULL have; None where they differ."""
    kinds = {kind_of(part) for part in parts if not isinstance(part, exp.Null)}
    return kinds.pop() if len(kinds) == 1 else None


def sum_type(kind: SparkType | None) -> SparkType | None:
    """The type of a sum of values of this type; None where it is not known, or there is
    none."""
    if kind is None:
        return None
    if kind.name in WHOLE_TYPES:
        return parse_type("bigint")
    if kind.name == "decimal" and len(kind.parameters) == 2:
        precision, scale = map(int, kind.parameters)
        return parse_type(f"decimal({min(precision + 10, 38)},{scale})")
    return parse_type("double") if kind.name in ("float", "double") else None


def _arithmetic_type(
    left: SparkType | None, right: SparkType | None
) -> SparkType | None:
    """The type of a sum, difference or product of whole numbers and doubles; None for
    other types."""
    names = [kind.name for kind in (left, right) if kind is not None]
    if len(names) < 2 or not {*names} <= {*WHOLE_TYPES, "double"}:
        return None
    return parse_type(
        "double" if "double" in names else max(names, key=WHOLE_TYPES.index)
    )
