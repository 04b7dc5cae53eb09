"""Translation rules for structs, arrays, maps and the functions over them that mean the
same in Spark and in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from lakesql.stream.types import array_of, map_of, parse_type, struct_of
from lakesql.unit.duck_rules import rule
from lakesql.unit.duck_scope import (
    DuckScope,
    Rule,
    Typed,
    describe,
    field_text,
    refuse_others,
)
from lakesql.unit.duck_types import (
    VOID,
    NeedsSparkError,
    common_type,
    duck_type,
    element_type,
    guarded,
    is_compared,
    is_flat,
    key_type,
    quote,
)
from lakesql.unit.duck_values import condition_text, exists_text


def array_type(element: str) -> str:
    """The type of an array with elements of this type."""
    return array_of(parse_type(element)).text


def _map_type(key: str, value: str) -> str:
    return map_of(parse_type(key), parse_type(value)).text


def _array_of(node: exp.Expr, scope: DuckScope, name: str = "this") -> Typed:
    """The argument of this name, translated. Raises `NeedsSparkError` if it is no
    array."""
    value = scope.translate(node.args[name])
    if not value.type.startswith("array<"):
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    return value


# --- making


def _array(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "expressions")
    return _list_text([scope.translate(item) for item in node.expressions], node)


def _list_text(items: Sequence[Typed], node: exp.Expr) -> Typed:
    element = common_type((item.type for item in items), describe(node))
    if element == VOID:
        raise NeedsSparkError("an array without a value whose type it would have")
    kind = array_type(element)
    return Typed(
        f"CAST([{', '.join(item.cast(element) for item in items)}] AS {duck_type(kind)})",
        kind,
    )


def _map(node: exp.Expr, scope: DuckScope) -> Typed:
    """`map(…)` of keys and values that are written out. A duplicate key is an error in
    both engines."""
    refuse_others(node, "keys", "values")
    sides = [node.args[name] for name in ("keys", "values")]
    if not all(isinstance(side, exp.Array) and side.expressions for side in sides):
        raise NeedsSparkError(describe(node))
    keys, values = (
        _list_text([scope.translate(item) for item in side.expressions], node)
        for side in sides
    )
    key = element_type(keys.type)
    if not is_compared(key):
        raise NeedsSparkError(f"{describe(node)} with keys of type {key}")
    return Typed(
        f"map({keys.text}, {values.text})", _map_type(key, element_type(values.type))
    )


def _struct(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "expressions")
    parts: dict[str, Typed] = {}
    for part in node.expressions:
        if not isinstance(part, exp.PropertyEQ) or not isinstance(
            part.this, exp.Identifier
        ):
            raise NeedsSparkError(f"{describe(node)} with a field that has no name")
        if part.name.lower() in map(str.lower, parts):
            raise NeedsSparkError(f"{describe(node)} with two fields {part.name}")
        parts[part.name] = scope.translate(part.expression)
        if parts[part.name].type == VOID:
            raise NeedsSparkError(f"{describe(node)} with a field that is NULL")
    if not parts:
        raise NeedsSparkError(f"{describe(node)} without a field")
    inner = ", ".join(f"{quote(name)} := {value.text}" for name, value in parts.items())
    kind = struct_of(
        [(name, parse_type(value.type)) for name, value in parts.items()]
    ).text
    return Typed(f"struct_pack({inner})", kind)


# --- taking apart


def _bracket(node: exp.Expr, scope: DuckScope) -> Typed:
    """`value[index]` and `element_at`. An index beyond the ends of an array needs
    Spark; a key that a map lacks gives NULL."""
    refuse_others(node, "this", "expressions", "offset", "safe")
    value, (index,) = scope.translate(node.this), node.expressions
    is_text = isinstance(index, exp.Literal) and index.is_string
    if value.type.startswith("struct<") and is_text:
        return field_text(value, index.name)
    if value.type.startswith("array<struct<") and is_text:
        return _field_of_each(value, index.name)
    place = scope.translate(index)
    if (
        value.type.startswith("map<")
        and place.type == key_type(value.type)
        and is_compared(place.type)
    ):
        return Typed(f"({value.text})[{place.text}]", element_type(value.type))
    if not value.type.startswith("array<") or place.type != "int":
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    return _item(value, place, node)


def _item(value: Typed, place: Typed, node: exp.Expr) -> Typed:
    size = f"len({value.text})"
    if node.args.get("offset") == 1:
        is_beyond = f"{place.text} = 0 OR abs({place.text}) > {size}"
        at = place.text
    else:
        is_beyond = f"{place.text} < 0 OR {place.text} >= {size}"
        at = f"{place.text} + 1"
    item = f"({value.text})[{at}]"
    return Typed(
        guarded(is_beyond, f"{describe(node)} beyond the array", item),
        element_type(value.type),
    )


def _field_of_each(value: Typed, name: str) -> Typed:
    field = field_text(Typed("element", element_type(value.type)), name)
    return Typed(
        f"list_transform({value.text}, lambda element: {field.text})",
        array_type(field.type),
    )


def _size(node: exp.Expr, scope: DuckScope) -> Typed:
    """The number of elements of an array or a map; NULL for NULL, as under Spark's ANSI
    rules."""
    value = scope.translate(node.this)
    if value.type.startswith("map<"):
        return Typed(f"CAST(cardinality({value.text}) AS INTEGER)", "int")
    return Typed(f"CAST(len({_array_of(node, scope).text}) AS INTEGER)", "int")


def _contains(node: exp.Expr, scope: DuckScope) -> Typed:
    """`array_contains`. NULL if the array lacks the value but has NULLs, where DuckDB
    itself would give false."""
    refuse_others(node, "this", "expression", "ensure_variant")
    array, value = _array_of(node, scope), scope.translate(node.args["expression"])
    if value.type != element_type(array.type) or not is_compared(value.type):
        raise NeedsSparkError(f"{describe(node)} of a {array.type} and a {value.type}")
    whens = (
        f"WHEN {array.text} IS NULL OR {value.text} IS NULL THEN NULL "
        f"WHEN list_contains({array.text}, {value.text}) THEN true "
        f"WHEN len({array.text}) <> list_count({array.text}) THEN NULL"
    )
    return Typed(f"(CASE {whens} ELSE false END)", "boolean")


def _sorted(node: exp.Expr, scope: DuckScope) -> Typed:
    """`array_sort`, which puts NULLs last, and `sort_array`, which puts them first."""
    refuse_others(node, "this", "asc", "nulls_first")
    array, nulls = _array_of(node, scope), node.args.get("nulls_first")
    if node.args.get("asc") is not None or not is_compared(element_type(array.type)):
        raise NeedsSparkError(f"{describe(node)} of a {array.type}")
    place = "NULLS FIRST" if nulls is not None and nulls.this else "NULLS LAST"
    return Typed(f"list_sort({array.text}, 'ASC', '{place}')", array.type)


def _extreme(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this")
        array = _array_of(node, scope)
        element = element_type(array.type)
        if not is_compared(element):
            raise NeedsSparkError(f"{describe(node)} of a {array.type}")
        return Typed(f"{word}({array.text})", element)

    return make


def _sequence(node: exp.Expr, scope: DuckScope) -> Typed:
    """`sequence` of whole numbers, ascending or descending."""
    refuse_others(node, "start", "end", "is_end_exclusive")
    ends = [scope.translate(node.args[name]) for name in ("start", "end")]
    kind = common_type((end.type for end in ends), describe(node))
    if kind not in ("int", "bigint"):
        raise NeedsSparkError(f"{describe(node)} of a {kind}")
    start, end = (value.cast(kind) for value in ends)
    up, down = (
        f"generate_series({start}, {end})",
        f"generate_series({start}, {end}, -1)",
    )
    wanted = array_type(kind)
    said = f"CAST(CASE WHEN {start} <= {end} THEN {up} WHEN {start} > {end} THEN {down} END AS {duck_type(wanted)})"
    return Typed(
        guarded(
            f"abs(CAST({start} AS HUGEINT) - {end}) > 10000", "a long sequence", said
        ),
        wanted,
    )


def _map_part(word: str) -> Rule:
    """The rule for the keys or the values of a map, in the map's order."""

    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        value = scope.translate(
            node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
        )
        if not value.type.startswith("map<"):
            raise NeedsSparkError(f"{describe(node)} of a {value.type}")
        kind = key_type(value.type) if word == "map_keys" else element_type(value.type)
        return Typed(f"{word}({value.text})", array_type(kind))

    return make


def _map_contains(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "key")
    value, key = scope.translate(node.this), scope.translate(node.args["key"])
    if not value.type.startswith("map<") or key.type != key_type(value.type):
        raise NeedsSparkError(f"{describe(node)} of a {value.type} and a {key.type}")
    return Typed(f"list_contains(map_keys({value.text}), {key.text})", "boolean")


# --- lambda functions


def _lambda(
    node: exp.Expr, kinds: Sequence[str], scope: DuckScope
) -> tuple[str, Typed]:
    """The text of DuckDB's lambda function, and its translated body. `kinds` are the
    types of its variables."""
    if not isinstance(node, exp.Lambda) or not 1 <= len(node.expressions) <= len(kinds):
        raise NeedsSparkError(f"{describe(node)} in the place of a lambda function")
    names = [variable.name for variable in node.expressions]
    own = [f"lakesql_{name}_{len(scope.variables)}" for name in names]
    variables = {}
    for name, text, kind in zip(names, own, kinds, strict=False):
        index = Typed(f"CAST({quote(text)} - 1 AS INTEGER)", "int")
        variables[name.lower()] = index if kind == _INDEX else Typed(quote(text), kind)
    body = scope.with_variables(variables).translate(node.this)
    return f"lambda {', '.join(map(quote, own))}: {body.text}", body


_INDEX = "index"
"""The type that marks the second variable of `transform` and `filter`: the index of the
element. Spark counts from 0, DuckDB from 1."""


def _transform(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression")
    array = _array_of(node, scope)
    text, body = _lambda(
        node.args["expression"], (element_type(array.type), _INDEX), scope
    )
    if body.type == VOID:
        raise NeedsSparkError(f"{describe(node)} to NULL")
    return Typed(f"list_transform({array.text}, {text})", array_type(body.type))


def _filter(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression")
    array = _array_of(node, scope)
    text, body = _lambda(
        node.args["expression"], (element_type(array.type), _INDEX), scope
    )
    condition_text(body, node)
    return Typed(f"list_filter({array.text}, {text})", array.type)


def _quantifier(word: str, of_none: str) -> Rule:
    """The rule for `exists` and `forall`: NULL if no element decides and the condition
    is NULL for some."""

    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        is_named = isinstance(node, exp.Anonymous)
        given, function = (
            node.expressions if is_named else (node.this, node.args["expression"])
        )
        array = scope.translate(given)
        if not array.type.startswith("array<"):
            raise NeedsSparkError(f"{describe(node)} of a {array.type}")
        text, body = _lambda(function, (element_type(array.type),), scope)
        condition_text(body, node)
        tests = f"list_transform({array.text}, {text})"
        decides = "true" if of_none == "false" else "false"
        whens = (
            f"WHEN {array.text} IS NULL THEN NULL WHEN list_contains({tests}, {decides}) THEN {decides} "
            f"WHEN len({tests}) <> list_count({tests}) THEN NULL"
        )
        return Typed(f"(CASE {whens} ELSE {of_none} END)", "boolean")

    return make


def _exists(node: exp.Expr, scope: DuckScope) -> Typed:
    """`exists` over an array, or EXISTS with a query."""
    refuse_others(node, "this", "expression")
    of_array = _quantifier("exists", "false")
    return (
        of_array(node, scope)
        if node.args.get("expression") is not None
        else exists_text(node, scope)
    )


def _reduce(node: exp.Expr, scope: DuckScope) -> Typed:
    """`aggregate` and `reduce`, whose elements, initial value and result are all of one
    flat type."""
    refuse_others(node, "this", "initial", "merge", "finish")
    array, initial = _array_of(node, scope), scope.translate(node.args["initial"])
    element = element_type(array.type)
    text, body = _lambda(node.args["merge"], (initial.type, element), scope)
    if body.type != initial.type or not is_flat(element) or element != initial.type:
        raise NeedsSparkError(f"{describe(node)} of a {array.type} to a {body.type}")
    reduced = f"list_reduce({array.text}, {text}, {initial.text})"
    if node.args.get("finish") is None:
        return Typed(reduced, initial.type)
    finish = node.args["finish"]
    if not isinstance(finish, exp.Lambda) or len(finish.expressions) != 1:
        raise NeedsSparkError(describe(node))
    return scope.with_variables(
        {finish.expressions[0].name.lower(): Typed(reduced, initial.type)}
    ).translate(finish.this)


def _flatten(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this")
    array = _array_of(node, scope)
    if not element_type(array.type).startswith("array<"):
        raise NeedsSparkError(f"{describe(node)} of a {array.type}")
    has_null = f"len({array.text}) <> list_count({array.text})"
    return Typed(
        f"(CASE WHEN {has_null} THEN NULL ELSE flatten({array.text}) END)",
        element_type(array.type),
    )


def is_plain_number(node: exp.Expr) -> bool:
    """Whether an expression is a literal whole number of at most six digits."""
    return (
        isinstance(node, exp.Literal)
        and re.fullmatch(r"\d{1,6}", node.name) is not None
    )


_JOINED = "(CASE WHEN {0} IS NOT NULL THEN coalesce(array_to_string({0}, {1}), '') END)"
"""`array_join`. DuckDB's own gives NULL for an empty array, Spark's an empty string."""

NAMED: dict[str, Rule] = {
    "forall": _quantifier("forall", "true"),
    "map_values": _map_part("map_values"),
}
"""Rules for functions that sqlglot has no class for, by name."""

RULES: dict[type[exp.Expr], Rule] = {
    exp.Array: _array,
    exp.VarMap: _map,
    exp.Struct: _struct,
    exp.Bracket: _bracket,
    exp.ArraySize: _size,
    exp.ArrayContains: _contains,
    exp.ArraySort: _sorted,
    exp.ArrayMax: _extreme("list_max"),
    exp.ArrayMin: _extreme("list_min"),
    exp.GenerateSeries: _sequence,
    exp.MapKeys: _map_part("map_keys"),
    exp.MapContainsKey: _map_contains,
    exp.Transform: _transform,
    exp.ArrayFilter: _filter,
    exp.Exists: _exists,
    exp.Reduce: _reduce,
    exp.Flatten: _flatten,
    exp.ArrayToString: rule(
        "this expression", "array<string> string", "string", _JOINED
    ),
}
