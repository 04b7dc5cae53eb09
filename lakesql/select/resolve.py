"""Whether the names in a SELECT exist: its columns, the aliases that qualify them, the
fields of structs.

Names are resolved as Spark does: case-insensitive, a query's own relations before those
of the query around it, columns before the aliases of the SELECT. What cannot be known
is not checked: where a relation has columns that only the catalog knows, any name may
be one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlglot import exp

from lakesql.errors import did_you_mean
from lakesql.names import RECORD
from lakesql.select.columns import add_aliases, aliases_of, starred
from lakesql.select.derive import (
    WINDOW,
    derive_shape,
    field_of,
    lambdas_of,
    with_variables,
)
from lakesql.select.lookup import find_columns, find_unqualified, is_called
from lakesql.select.relation import (
    QueryColumn,
    Relation,
    Scope,
    Sources,
    Walk,
    offset_of,
)
from lakesql.stream.types import SparkType, find_field
from lakesql.words import suggest

_WITH_ALIASES = (
    "group",
    "having",
    "qualify",
    "order",
    "sort",
    "distribute",
    "cluster",
    "windows",
)
"""The clauses that may name a column of the SELECT itself. WHERE may not; an expression
of the SELECT may name those before it."""

_WORDS = frozenset(
    {
        "current_user",
        "user",
        "session_user",
        "current_catalog",
        "current_database",
        "current_schema",
        "current_time",
    }
    | {
        "localtimestamp",
        "current_timezone",
        "grouping__id",
        "session",
        "system",
        "builtin",
        "all",
    }
)
"""Functions that Spark calls without brackets, and the qualifiers of its variables."""

_WINDOWS = frozenset({"window", "session_window"})
"""The columns that GROUP BY adds for a window of time."""

_UNIT_FUNCTIONS = frozenset(
    {
        "timediff",
        "timestampdiff",
        "timestampadd",
        "datediff",
        "date_diff",
        "dateadd",
        "date_add",
    }
)
"""Functions whose first argument may be a unit such as DAY, which is no column."""

_WITHOUT_FIELDS = frozenset(
    {
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
    }
    | {"timestamp_ntz", "string", "binary", "decimal", "char", "varchar", "interval"}
)
"""The types whose values have no fields and no elements."""


def scope_of(
    select: exp.Select, sources: Sources, columns: tuple[QueryColumn, ...] | None
) -> Scope:
    """The scope of a SELECT for the queries inside its expressions. It accepts any name
    if there is a SEMI or ANTI join, whose ON may name columns that the SELECT itself
    does not see."""
    if any(source.columns == () for _, source in sources):
        return Scope(is_open=True)
    return Scope(tuple(sources), aliases_of(columns or ()), is_open=columns is None)


def check_names(
    select: exp.Select,
    sources: Sources,
    columns: tuple[QueryColumn, ...] | None,
    walk: Walk,
) -> bool:
    """Adds a finding for each unknown or ambiguous name in a SELECT's own expressions;
    returns whether there is none. Names in joins are checked by `check_join`.

    `columns` are the columns of the SELECT, as far as they can be named.
    """
    before = len(walk.findings.problems)
    plain = Scope(tuple(sources), _windows_of(select))
    check_expressions([select.args.get("where")], Scope(tuple(sources)), walk)
    earlier = dict(plain.aliases)
    before_item = replace(plain, aliases=earlier)
    given = _columns_of_items(select, columns)
    for item in select.expressions:
        if item.is_star and isinstance(item, exp.Star | exp.Column):
            check_expressions([item], Scope(tuple(sources)), walk)
            _check_excepted(item, sources, walk)
        else:
            check_expressions([item], before_item, walk)
        is_named = isinstance(item, exp.Alias | exp.Aliases)
        add_aliases(
            earlier,
            given.get(id(item), ()) if is_named else _field_of_item(item, plain),
        )
    everything = replace(
        plain, aliases={**plain.aliases, **aliases_of(_aliased(columns))}
    )
    is_open = columns is None or any(
        column.name is None and column.is_made_up for column in columns
    )
    named = replace(everything, is_open=is_open)
    check_expressions(
        [found for key in _WITH_ALIASES if (found := select.args.get(key))], named, walk
    )
    return len(walk.findings.problems) == before


def check_join(join: exp.Join, left: Sources, right: Sources, walk: Walk) -> None:
    """Adds a finding for each unknown or ambiguous name in a join's ON, and for each
    column of USING that a side lacks."""
    if (on := join.args.get("on")) is not None:
        check_expressions([on], Scope(tuple(left + right)), walk)
    for name in join.args.get("using") or ():
        for side, sources in (("left", left), ("right", right)):
            _check_shared(name, side, sources, walk)


def _check_shared(name: exp.Expr, side: str, sources: Sources, walk: Walk) -> None:
    """Adds a finding if one side of a join lacks a column of USING, or has it twice."""
    found, is_known = find_unqualified(name.name.lower(), sources)
    if len(found) > 1:
        _note_ambiguous(name, walk)
    elif not found and is_known:
        there = [column for _, source in sources for column in source.named or ()]
        what = f"There is no column '{name.name}' on the {side} side of this JOIN."
        walk.findings.add(
            "unknown-column",
            offset_of(name),
            what,
            "USING names columns of both.",
            _suggest(name, there),
        )


def check_expressions(nodes: Iterable[object], scope: Scope, walk: Walk) -> None:
    """Adds a finding for each name in the expressions that has no meaning in the scope
    or in those of the queries around it."""
    for node in nodes:
        _check(node, scope, walk)


def _check(node: object, scope: Scope, walk: Walk) -> None:
    if isinstance(node, exp.Column):
        _check_column(node, scope, walk)
    elif isinstance(node, list):
        check_expressions(node, scope, walk)
    elif isinstance(node, exp.Query | exp.Star) or not isinstance(node, exp.Expr):
        return
    elif isinstance(node, exp.Dot):
        _check(node.this, scope, walk)
        if isinstance(node.expression, exp.Identifier):
            _check_field(node, scope, walk)
        else:
            _check(node.expression, scope, walk)
    elif isinstance(node, exp.Anonymous) and node.name.lower() in _UNIT_FUNCTIONS:
        check_expressions(node.expressions[1:], scope, walk)
    else:
        if isinstance(node, exp.Bracket):
            _check_item(node, scope, walk)
        if isinstance(node, exp.Format) or (
            isinstance(node, exp.Anonymous) and node.name.lower() == "printf"
        ):
            _check_formatted(node, scope, walk)
        found = lambdas_of(node) if isinstance(node, exp.Func) else ()
        for inner in found:
            _check(inner.this, with_variables(inner, node, scope), walk)
        for part in node.iter_expressions():
            if not isinstance(part, exp.Lambda):
                _check(part, scope, walk)


def _check_field(node: exp.Dot, scope: Scope, walk: Walk) -> None:
    """Adds a finding for a field that the type of an expression does not have."""
    path = [node.expression]
    kind = derive_shape(node.this, scope)
    if kind is not None:
        _check_fields(_called(node.this), kind, path, walk)


def _check_formatted(call: exp.Expr, scope: Scope, walk: Walk) -> None:
    """Adds a finding for bytes as an argument of a format: Java would write the
    object's identity, another one each time."""
    for value in call.expressions:
        is_key = isinstance(value, exp.Column) and [
            part.name.lower() for part in value.parts[-2:]
        ] == [RECORD, "key"]
        kind = derive_shape(value, scope)
        if is_key or (kind is not None and kind.name == "binary"):
            what = f"{value.sql('spark')} is bytes, of which a format writes the name of an object of Java's."
            fix = f"Make text of it: CAST({value.sql('spark')} AS string)."
            walk.findings.add("wrong-type", offset_of(value), what, fix=fix)


def _called(value: exp.Expr) -> str:
    """How a message calls a value: by its name, or as "This value"."""
    return (
        value.name if isinstance(value, exp.Column | exp.Identifier) else "This value"
    )


def _check_item(node: exp.Bracket, scope: Scope, walk: Walk) -> None:
    """Adds a finding for a struct's field by text, `address['city']`, that it does not
    have."""
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(index, exp.Literal) or not index.is_string:
        return
    kind = derive_shape(node.this, scope)
    if (
        kind is None
        or kind.name != "struct"
        or find_field(kind, index.name) is not None
    ):
        return
    _note_field(_called(node.this), index.name, kind, offset_of(node), walk)


def _check_column(column: exp.Column, scope: Scope, walk: Walk) -> None:
    """Adds a finding for the first part of a name that is unknown or ambiguous: column,
    qualifier or field."""
    parts = [part for part in column.parts if not isinstance(part, exp.Star)]
    names = [part.name.lower() for part in parts]
    if not names or not names[0]:
        return
    lacking: tuple[str, Relation] | None = None
    scopes = [scope, *reversed(walk.around)]
    for each in scopes:
        if column.is_star and any(
            is_called(name, source, names) for name, source in each.sources
        ):
            return
        found = find_columns(names, each)
        if len(found.columns) > 1:
            _note_ambiguous(parts[found.used - 1], walk)
            return
        if found.columns:
            (one,) = found.columns
            if one.known is not None:
                _check_fields(one.name or "", one.known, parts[found.used :], walk)
            return
        if not found.is_known:
            return
        lacking = lacking or found.lacking
    if not _is_spark_word(parts):
        _note_unknown(parts, len(column.parts) > 1, lacking, scopes, walk)


def _windows_of(select: exp.Select) -> dict[str, tuple[QueryColumn, ...]]:
    """The columns `window` and `session_window` that a SELECT with GROUP BY has if it
    calls these functions."""
    if select.args.get("group") is None:
        return {}
    called = {
        call.name.lower()
        for call in select.find_all(exp.Anonymous)
        if call.name.lower() in _WINDOWS
    }
    return {name: (QueryColumn(name, 0, shape=WINDOW),) for name in called}


def _columns_of_items(
    select: exp.Select, columns: tuple[QueryColumn, ...] | None
) -> dict[int, tuple[QueryColumn, ...]]:
    """The columns that the aliases of a SELECT name, by the id of the expression."""
    by_offset: dict[int, tuple[QueryColumn, ...]] = {}
    for column in columns or ():
        by_offset[column.offset] = (*by_offset.get(column.offset, ()), column)
    found = {}
    for item in select.expressions:
        names = (
            item.expressions
            if isinstance(item, exp.Aliases)
            else [item.args.get("alias")]
        )
        offsets = [offset_of(name) for name in names if isinstance(name, exp.Expr)]
        known = [column for offset in offsets for column in by_offset.get(offset, ())]
        found[id(item)] = tuple(known) or tuple(
            QueryColumn(name.name, 0) for name in names if isinstance(name, exp.Expr)
        )
    return found


def _field_of_item(item: exp.Expr, scope: Scope) -> tuple[QueryColumn, ...]:
    """The field that an expression of a SELECT is, whose name can be used like an
    alias; empty for other expressions."""
    is_path = isinstance(item, exp.Column) and len(item.parts) > 1
    if not is_path and not (
        isinstance(item, exp.Dot) and isinstance(item.expression, exp.Identifier)
    ):
        return ()
    name = item.expression.name if isinstance(item, exp.Dot) else item.name
    return (QueryColumn(name, 0, shape=derive_shape(item, scope)),)


def _aliased(columns: tuple[QueryColumn, ...] | None) -> Iterator[QueryColumn]:
    """The columns of a SELECT that its other clauses may name; of several with one
    name, the first."""
    seen: set[str] = set()
    for column in columns or ():
        if column.folded not in seen:
            seen.add(column.folded)
            yield column


def _is_spark_word(parts: list[exp.Expr]) -> bool:
    return parts[0].name.lower() in _WORDS or "(" in parts[0].name


def _note_unknown(
    parts: list[exp.Expr],
    is_qualified: bool,
    lacking: tuple[str, Relation] | None,
    scopes: list[Scope],
    walk: Walk,
) -> None:
    """Adds a finding for a name that is unknown in every scope."""
    if lacking is not None:
        name, source = lacking
        what = f"'{name}' has no column '{parts[1].name}'."
        fix = _suggest(parts[1], source.named or ())
        walk.findings.add("unknown-column", offset_of(parts[1]), what, fix=fix)
        return
    sources = [source for scope in scopes for source in scope.sources]
    if is_qualified:
        what = f"Nothing that this SELECT reads is called '{parts[0].name}', and it has no such column."
        fix = did_you_mean(parts[0].name, filter(None, [name for name, _ in sources]))
        walk.findings.add("unknown-alias", offset_of(parts[0]), what, fix=fix)
        return
    there = [column for _, source in sources for column in source.named or ()]
    there += [
        column for scope in scopes for same in scope.aliases.values() for column in same
    ]
    why = "" if there else "The SELECT reads nothing that has columns."
    what = f"There is no column '{parts[0].name}'."
    walk.findings.add(
        "unknown-column", offset_of(parts[0]), what, why, _suggest(parts[0], there)
    )


def _note_ambiguous(name: exp.Expr, walk: Walk) -> None:
    what = f"'{name.name}' may be either of two columns."
    why = "Several of what this SELECT reads have a column of that name."
    walk.findings.add("ambiguous-column", offset_of(name), what, why)


def _suggest(name: exp.Expr, columns: Iterable[QueryColumn]) -> str:
    return suggest(
        "name",
        name.name,
        dict.fromkeys(column.name for column in columns if column.name),
    )


def _check_fields(of: str, kind: SparkType, fields: list[exp.Expr], walk: Walk) -> None:
    """Adds a finding for the first of the `fields` that a value does not have. The
    fields of an array are those of the structs in it."""
    known: SparkType | None = kind
    for field in fields:
        inner = (
            known.fields[0].type
            if known is not None and known.name == "array"
            else known
        )
        if known is None or inner is None or inner.name == "map":
            return
        if inner.name == "struct" and find_field(inner, field.name) is None:
            _note_field(of, field.name, inner, offset_of(field), walk)
            return
        if inner.name in _WITHOUT_FIELDS:
            what = f"{_quoted(of)} is of type {known.text}, and has no fields."
            walk.findings.add("unknown-field", offset_of(field), what)
            return
        known = field_of(known, field.name)
        of = field.name


def _quoted(value: str) -> str:
    return value if " " in value else f"'{value}'"


def _note_field(of: str, name: str, struct: SparkType, offset: int, walk: Walk) -> None:
    hint = did_you_mean(name, [known.name for known in struct.fields])
    walk.findings.add(
        "unknown-field", offset, f"{_quoted(of)} has no field '{name}'.", fix=hint
    )


def _check_excepted(star: exp.Expr, sources: Sources, walk: Walk) -> None:
    """Adds a finding for each column in `* EXCEPT (…)` that does not exist."""
    over = starred(star, sources)
    inner = star.this if isinstance(star, exp.Column) else star
    for item in inner.args.get("except_") or () if over else ():
        of = [
            (name, source)
            for name, source in sources
            if any(source is each for each in over)
        ]
        column = item if isinstance(item, exp.Column) else exp.Column(this=item)
        _check_column(column, Scope(tuple(of)), walk)
