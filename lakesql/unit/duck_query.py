"""Translates a model's SELECT to DuckDB's SQL, with the types of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlglot import exp

from lakesql.stream.types import parse_type
from lakesql.unit.allow_list import ALLOWED
from lakesql.unit.duck_names import SPELLED, DuckTable, resolve_condition, resolve_query
from lakesql.unit.duck_scope import (
    DuckRelation,
    DuckScope,
    Typed,
    describe,
    field_text,
    refuse_others,
)
from lakesql.unit.duck_types import (
    VOID,
    NeedsSparkError,
    common_type,
    element_type,
    is_compared,
    key_type,
    quote,
)
from lakesql.unit.duck_values import condition_text

Tables = Mapping[str, Mapping[str, str]]
"""The columns, by name, of each table or query of a WITH that a query may read."""


@dataclass(frozen=True, slots=True)
class TranslatedQuery:
    """A query in DuckDB's SQL. `columns` are its output columns in order, with Spark's
    names of their types."""

    text: str
    columns: Mapping[str, str]


def translate_query(
    sql: str, tables: Mapping[tuple[str, ...], DuckTable], now: datetime | None
) -> TranslatedQuery:
    """The SELECT in DuckDB's SQL. `tables` are by the parts of their names in Spark, in
    lower case. `now` is the time of the test, if it sets one.

    Raises `NeedsSparkError` for everything that is not known to mean the same in both
    engines.
    """
    tree = resolve_query(sql, tables)
    made = _query(
        tree,
        _InQuery(
            {table.name.lower(): table.columns for table in tables.values()}, now, None
        ),
    )
    for name in made.columns:
        if re.fullmatch(r"_col_\d+", name):
            raise NeedsSparkError("a column without a name")
    return made


def translate_condition(
    text: str, relations: tuple[DuckRelation, ...], now: datetime | None
) -> str:
    """A condition of the configuration in DuckDB's SQL, in parentheses. Raises
    `NeedsSparkError` for everything that is not known to mean the same in both
    engines."""
    made = DuckScope(ALLOWED, relations, now).translate(
        resolve_condition(text, relations)
    )
    if made.type != "boolean":
        raise NeedsSparkError(f"{text} is a {made.type} and no condition")
    return f"({made.text})"


@dataclass(frozen=True, slots=True)
class _InQuery:
    """The context of a query: the tables that it may read by name, the time of the
    test, and the scope of the query around it."""

    tables: Tables
    now: datetime | None
    outer: DuckScope | None


def _query(node: exp.Expr, place: _InQuery) -> TranslatedQuery:
    match node:
        case exp.Select():
            return _select(node, place)
        case exp.SetOperation():
            return _set_operation(node, place)
        case exp.Subquery() | exp.Paren():
            refuse_others(node, "this", "alias")
            return _query(node.this, place)
        case exp.Values():
            return _values(node, place)
        case _:
            raise NeedsSparkError(describe(node))


def _select(node: exp.Select, place: _InQuery) -> TranslatedQuery:
    refuse_others(
        node,
        *(
            "expressions",
            "from_",
            "joins",
            "laterals",
            "where",
            "group",
            "having",
            "order",
            "distinct",
            "with_",
        ),
        *("sort", "cluster", "distribute", "windows", "hint"),
    )
    place, ctes = _with(node, place)
    sources, scope = _from(node, place)
    outputs, scope = _outputs(node, scope)
    parts = [f"SELECT {_distinct(node, outputs)}{_chosen(outputs)}"]
    parts += [f"FROM {sources}"] if sources else []
    if node.args.get("where"):
        parts.append(
            f"WHERE {condition_text(_without_aliases(scope).translate(node.args['where'].this), node)}"
        )
    parts += _group(node, scope, outputs)
    if node.args.get("having"):
        _refuse_doubtful_names(node.args["having"], scope)
        parts.append(
            f"HAVING {condition_text(scope.translate(node.args['having'].this), node)}"
        )
    _check_order(node, scope)
    return TranslatedQuery(
        f"{ctes}{' '.join(parts)}", {name: made.type for name, made in outputs.items()}
    )


def _chosen(outputs: Mapping[str, Typed]) -> str:
    return ", ".join(f"{made.text} AS {quote(name)}" for name, made in outputs.items())


def _distinct(node: exp.Select, outputs: Mapping[str, Typed]) -> str:
    said = node.args.get("distinct")
    if said is None:
        return ""
    refuse_others(said)
    _refuse_not_compared("DISTINCT", outputs.values())
    return "DISTINCT "


def _refuse_not_compared(what: str, values: Iterable[Typed]) -> None:
    for value in values:
        if not is_compared(value.type):
            raise NeedsSparkError(f"{what} of values of type {value.type}")


# --- outputs


def _outputs(node: exp.Select, scope: DuckScope) -> tuple[dict[str, Typed], DuckScope]:
    """The output columns of a SELECT by their names, and the scope in which they can be
    read too."""
    node = _with_windows(node)
    outputs: dict[str, Typed] = {}
    for expression in node.expressions:
        for name, made in _columns_of(expression, scope):
            if name.lower() in (known.lower() for known in outputs):
                raise NeedsSparkError(f"two columns {name}")
            outputs[name] = made
            if made.type != VOID:
                scope = replace(scope, aliases={**scope.aliases, name.lower(): made})
    return outputs, scope


def _columns_of(node: exp.Expr, scope: DuckScope) -> list[tuple[str, Typed]]:
    inner = node.this if isinstance(node, exp.Alias) else node
    if isinstance(inner, exp.Star) or (
        isinstance(inner, exp.Column | exp.Dot) and inner.is_star
    ):
        return _fields_of_star(inner, scope)
    if not isinstance(node, exp.Alias):
        raise NeedsSparkError(f"{describe(node)} has no name")
    made = scope.translate(inner)
    return [(_spelled(node, scope), made)]


def _spelled(node: exp.Alias, scope: DuckScope) -> str:
    """The name of an output column with the capitals that its author has used; if it
    comes from a `*`, with those of the relation."""
    said = str(node.args["alias"].meta_get(SPELLED) or "")
    # the names differ if the relation around the query renames its columns
    if said.lower() == node.alias.lower():
        return said
    of = node.this
    if isinstance(of, exp.Column):
        for relation in scope.relations:
            found = relation.find(of.name)
            is_of = found is not None and relation.alias.lower() == of.table.lower()
            if is_of and found is not None and found[0].lower() == node.alias.lower():
                return found[0]
    return node.alias


def _fields_of_star(node: exp.Expr, scope: DuckScope) -> list[tuple[str, Typed]]:
    """The fields of a struct, as `value.*` selects them."""
    if isinstance(node, exp.Star):
        raise NeedsSparkError("a * whose columns are not known")
    if isinstance(node, exp.Dot):
        value = scope.translate(node.this)
    else:
        names = [
            part
            for part in node.find_all(exp.Identifier, bfs=False)
            if isinstance(part, exp.Identifier)
        ]
        value = scope.translate(
            exp.Column(
                this=names[-1].copy(), table=names[0].copy() if len(names) > 1 else None
            )
        )
    kind = parse_type(value.type)
    if kind is None or kind.name != "struct":
        raise NeedsSparkError(f"the fields of a {value.type}")
    return [(field.name, field_text(value, field.name)) for field in kind.fields]


def _with_windows(node: exp.Select) -> exp.Select:
    """The SELECT with the definition of each named window in the place of its name."""
    named = {window.name.lower(): window for window in node.args.get("windows") or ()}
    for call in list(node.find_all(exp.Window)):
        if call.args.get("alias") is None:
            continue
        window = named.get(call.alias.lower())
        if window is None:
            raise NeedsSparkError(f"the window {call.alias}")
        call.set("alias", None)
        for name in ("partition_by", "order", "spec"):
            call.set(name, window.args.get(name))
    return node


# --- FROM


def _from(node: exp.Select, place: _InQuery) -> tuple[str, DuckScope]:
    """The text after FROM, and the scope of the columns that it brings."""
    scope = DuckScope(
        ALLOWED,
        (),
        place.now,
        place.outer,
        lambda query, around: _inner(query, around, place),
    )
    said = node.args.get("from_")
    if said is None:
        return "", scope
    text, relation = _source(said.this, place, scope)
    relations, sources = [relation], [text]
    for lateral in node.args.get("laterals") or ():
        text, relation = _lateral(lateral, replace(scope, relations=tuple(relations)))
        relations.append(relation)
        sources.append(f"CROSS JOIN {text}")
    hidden: set[str] = set()
    for join in node.args.get("joins") or ():
        text, relation = _join(join, place, scope, tuple(relations))
        sources.append(text)
        relations.append(relation)
        if join.kind.upper() in ("SEMI", "ANTI"):
            hidden.add(relation.alias)
    seen = [relation.alias.lower() for relation in relations]
    if len({*seen}) < len(seen):
        raise NeedsSparkError("two relations of one name")
    visible = tuple(relation for relation in relations if relation.alias not in hidden)
    return " ".join(sources), replace(scope, relations=visible)


def _inner(
    node: exp.Expr, around: DuckScope, place: _InQuery
) -> tuple[str, Mapping[str, str]]:
    made = _query(node, replace(place, outer=around))
    return made.text, made.columns


_JOINS = {
    "": "INNER",
    "INNER": "INNER",
    "CROSS": "CROSS",
    "LEFT": "LEFT",
    "LEFT OUTER": "LEFT",
}
_JOINS |= {
    "RIGHT": "RIGHT",
    "RIGHT OUTER": "RIGHT",
    "FULL": "FULL",
    "FULL OUTER": "FULL",
}
_JOINS |= {"SEMI": "SEMI", "LEFT SEMI": "SEMI", "ANTI": "ANTI", "LEFT ANTI": "ANTI"}


def _join(
    join: exp.Join, place: _InQuery, scope: DuckScope, before: tuple[DuckRelation, ...]
) -> tuple[str, DuckRelation]:
    refuse_others(join, "this", "side", "kind", "on")
    words = _JOINS.get(" ".join(filter(None, (join.side.upper(), join.kind.upper()))))
    if words is None:
        raise NeedsSparkError(f"a join of the kind {join.side} {join.kind}")
    on = join.args.get("on")
    if isinstance(join.this, exp.Lateral):
        text, relation = _lateral(join.this, replace(scope, relations=before))
    else:
        text, relation = _source(join.this, place, scope)
    if on is None or (words == "INNER" and isinstance(on, exp.Boolean) and on.this):
        if words not in ("INNER", "CROSS"):
            raise NeedsSparkError(f"a join of the kind {words} without ON")
        return f"CROSS JOIN {text}", relation
    inside = replace(scope, relations=(*before, relation))
    return (
        f"{words} JOIN {text} ON {condition_text(inside.translate(on), on)}",
        relation,
    )


def _source(
    node: exp.Expr, place: _InQuery, scope: DuckScope
) -> tuple[str, DuckRelation]:
    alias = node.args.get("alias")
    if alias is not None:
        refuse_others(alias, "this", "columns")
    renamed = (
        [column.name for column in alias.args.get("columns") or ()]
        if alias is not None
        else []
    )
    match node:
        case exp.Subquery():
            refuse_others(node, "this", "alias")
            made = _query(node.this, replace(place, outer=None))
            return _named(
                f"({made.text})",
                node.alias,
                _renamed(made.columns, renamed),
                bool(renamed),
            )
        case exp.Values():
            made = _values(node, place)
            return _named(
                f"({made.text})", node.alias, _renamed(made.columns, renamed), True
            )
        case exp.Table() if not isinstance(node.this, exp.Func):
            refuse_others(node, "this", "alias")
            columns = place.tables.get(node.name.lower())
            if columns is None:
                raise NeedsSparkError(f"{node.name} is no stream and no ref")
            return _named(
                quote(node.name), node.alias, _renamed(columns, renamed), bool(renamed)
            )
        case _:
            raise NeedsSparkError(describe(node))


def _named(
    text: str, alias: str, columns: Mapping[str, str], is_renamed: bool
) -> tuple[str, DuckRelation]:
    name = alias or "_lakesql_subquery"
    names = f" ({', '.join(map(quote, columns))})" if is_renamed else ""
    return f"{text} AS {quote(name)}{names}", DuckRelation(name, columns)


def _renamed(columns: Mapping[str, str], names: Sequence[str]) -> Mapping[str, str]:
    if not names:
        return columns
    if len(names) != len(columns):
        raise NeedsSparkError("other names for some columns of a relation")
    return dict(zip(names, columns.values(), strict=True))


def _lateral(node: exp.Lateral, scope: DuckScope) -> tuple[str, DuckRelation]:
    """The translation of a LATERAL VIEW that explodes an array. A row whose array is
    empty is dropped."""
    refuse_others(node, "this", "view", "alias")
    call, alias = node.this, node.args.get("alias")
    if not isinstance(call, exp.Explode) or alias is None:
        raise NeedsSparkError(f"LATERAL of {describe(call)}")
    array = scope.translate(call.this)
    if not array.type.startswith("array<") or key_type(array.type):
        raise NeedsSparkError(f"{describe(call)} of a {array.type}")
    names = [column.name for column in alias.args.get("columns") or ()] or ["col"]
    if len(names) != 1:
        raise NeedsSparkError(f"{describe(call)} as several columns")
    return _named(
        f"(SELECT unnest({array.text}))",
        alias.name,
        {names[0]: element_type(array.type)},
        True,
    )


def _values(node: exp.Values, place: _InQuery) -> TranslatedQuery:
    """The translation of VALUES."""
    refuse_others(node, "expressions", "alias")
    scope = DuckScope(ALLOWED, (), place.now)
    rows = [
        [
            scope.translate(item)
            for item in (row.expressions if isinstance(row, exp.Tuple) else [row])
        ]
        for row in node.expressions
    ]
    if len({len(row) for row in rows}) != 1:
        raise NeedsSparkError("VALUES of several widths")
    kinds = [
        common_type((value.type for value in column), "VALUES")
        for column in zip(*rows, strict=True)
    ]
    lines = [
        f"({', '.join(value.cast(kind) for value, kind in zip(row, kinds, strict=True))})"
        for row in rows
    ]
    columns = {f"col{at}": kind for at, kind in enumerate(kinds, start=1)}
    return TranslatedQuery(
        f"SELECT * FROM (VALUES {', '.join(lines)}) AS v ({', '.join(columns)})",
        columns,
    )


# --- GROUP BY and ORDER BY


def _group(
    node: exp.Select, scope: DuckScope, outputs: Mapping[str, Typed]
) -> list[str]:
    group = node.args.get("group")
    if group is None:
        return []
    refuse_others(group, "expressions", "all", "rollup", "cube")
    if group.args.get("all"):
        keys = [
            made
            for made, output in zip(outputs.values(), node.expressions, strict=True)
            if not _aggregates(output)
        ]
        _refuse_not_compared("GROUP BY", keys)
        return [f"GROUP BY {', '.join(key.text for key in keys)}"] if keys else []
    items = [_group_item(item, scope) for item in group.expressions]
    if len(items) > 1 and any(
        isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets)
        for item in group.expressions
    ):
        raise NeedsSparkError("GROUP BY of a key and of grouping sets")
    for name, word in (("rollup", "ROLLUP"), ("cube", "CUBE")):
        if group.args.get(name):  # WITH ROLLUP
            items = [f"{word} ({', '.join(items)})"]
    return [f"GROUP BY {', '.join(items)}"]


_SETS: dict[type[exp.Expr], str] = {
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
}


def _group_item(node: exp.Expr, scope: DuckScope) -> str:
    if isinstance(node, exp.Tuple) or type(node) in _SETS:
        inner = ", ".join(_group_item(item, scope) for item in node.expressions)
        return f"{_SETS.get(type(node), '')} ({inner})"
    made = scope.translate(node.unnest())
    _refuse_not_compared("GROUP BY", [made])
    return made.text


def _aggregates(node: exp.Expr) -> bool:
    return node.find(exp.AggFunc) is not None


def _check_order(node: exp.Expr, scope: DuckScope) -> None:
    """Raise `NeedsSparkError` for an ORDER BY of more than columns. Rows in a table
    have no order, so it is left out, but an expression in it might raise an error."""
    for name in ("order", "sort", "cluster", "distribute"):
        said = node.args.get(name)
        for item in said.expressions if said is not None else ():
            of = item.this if isinstance(item, exp.Ordered) else item
            # the resolver writes a column of USING as a coalesce
            read = [of.this, *of.expressions] if isinstance(of, exp.Coalesce) else [of]
            if not all(
                isinstance(it, exp.Column | exp.Literal | exp.Var) for it in read
            ):
                raise NeedsSparkError(f"ORDER BY {describe(of)}")


def _without_aliases(scope: DuckScope) -> DuckScope:
    return replace(scope, aliases={})


def _refuse_doubtful_names(node: exp.Expr, scope: DuckScope) -> None:
    """Raise `NeedsSparkError` for a name in HAVING that both a column and an output
    have: which one Spark takes depends on where the name stands."""
    for column in node.find_all(exp.Column):
        has_column = any(
            relation.find(column.name) is not None for relation in scope.relations
        )
        alias = scope.aliases.get(column.name.lower())
        if (
            has_column
            and alias is not None
            and alias.text != scope.find_column(column).text
        ):
            raise NeedsSparkError(
                f"the name {column.name} in HAVING, which a column and an output have"
            )


# --- WITH and set operations


def _set_operation(node: exp.SetOperation, place: _InQuery) -> TranslatedQuery:
    refuse_others(node, "this", "expression", "distinct", "with_", "order")
    place, ctes = _with(node, place)
    if node.args.get("order") is not None:
        _check_order(node, DuckScope(ALLOWED, ()))
    word = type(node).__name__.upper()
    is_all = node.args.get("distinct") is False
    left, right = _query(node.this, place), _query(node.expression, place)
    if len(left.columns) != len(right.columns):
        raise NeedsSparkError(f"{word} of several widths")
    both = zip(left.columns.values(), right.columns.values(), strict=True)
    kinds = [common_type(pair, word) for pair in both]
    if not is_all:
        _refuse_not_compared(word, [Typed("", kind) for kind in kinds])
    columns = dict(zip(left.columns, kinds, strict=True))
    sides = [_cast_side(side, columns) for side in (left, right)]
    return TranslatedQuery(
        f"{ctes}{sides[0]} {word}{' ALL' if is_all else ''} {sides[1]}", columns
    )


def _cast_side(side: TranslatedQuery, columns: Mapping[str, str]) -> str:
    """One side of a set operation, with its columns cast and named as those of the
    result."""
    own = {f"c{at}": kind for at, kind in enumerate(side.columns.values())}
    chosen = ", ".join(
        f"{Typed(quote(name), kind).cast(wanted)} AS {quote(output)}"
        for (name, kind), (output, wanted) in zip(
            own.items(), columns.items(), strict=True
        )
    )
    return (
        f"(SELECT {chosen} FROM ({side.text}) AS side ({', '.join(map(quote, own))}))"
    )


def _with(node: exp.Expr, place: _InQuery) -> tuple[_InQuery, str]:
    """The context inside a WITH, and the text of the WITH; '' if there is none."""
    clause = node.args.get("with_")
    if clause is None:
        return place, ""
    refuse_others(clause, "expressions")
    parts = []
    for cte in clause.expressions:
        refuse_others(cte, "this", "alias")
        refuse_others(cte.args["alias"], "this", "columns")
        made = _query(cte.this, place)
        renamed = [
            column.name for column in cte.args["alias"].args.get("columns") or ()
        ]
        columns = _renamed(made.columns, renamed)
        names = f" ({', '.join(map(quote, columns))})" if renamed else ""
        parts.append(f"{quote(cte.alias)}{names} AS ({made.text})")
        place = replace(place, tables={**place.tables, cte.alias.lower(): columns})
    return place, f"WITH {', '.join(parts)} "
