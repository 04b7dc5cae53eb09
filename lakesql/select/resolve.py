"""Whether the names in a SELECT mean anything: its columns, the aliases that qualify them, the fields of structs.

Names follow Spark: without regard to capitals, a query's own relations before those of the query around it, columns
before the aliases of the SELECT. What cannot be known is not checked: where a relation has columns that only the
catalog knows, any name may be one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sqlglot import exp

from lakesql.errors import did_you_mean
from lakesql.select.functions import TABLE_FUNCTIONS
from lakesql.select.relation import Column, Scope, Sources, Walk, offset_of
from lakesql.stream.types import find_field

_WITH_ALIASES = ("laterals", "group", "having", "qualify", "order", "sort", "distribute", "cluster", "windows")
"""The clauses that may name a column of the SELECT itself, as its expressions may. WHERE may not."""

_WORDS = frozenset(
    {"current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "current_time"}
    | {"localtimestamp", "current_timezone", "grouping__id", "session", "system", "builtin", "all"}
    | {"window", "session_window"}
)
"""What Spark reads without brackets, the qualifiers of its variables, and the columns that grouping by time makes."""

_UNIT_FUNCTIONS = frozenset(
    {"timediff", "timestampdiff", "timestampadd", "datediff", "date_diff", "dateadd", "date_add"}
)
"""Functions whose first argument may be the word of a unit."""

UNKNOWN = Scope((("", None),))
"""Where any name may mean something."""


def scope_of(select: exp.Select, sources: Sources) -> Scope:
    """The scope of a SELECT, for the queries inside its expressions. What a semi join hides may be named in its ON."""
    if any(source.columns == () for _, source in sources):
        return UNKNOWN
    return Scope(_by_name(sources), _aliases(select))


def check_names(select: exp.Select, sources: Sources, columns: tuple[Column, ...] | None, walk: Walk) -> bool:
    """Notes the names in a SELECT's own expressions that mean nothing. Those in its joins are `check_join`'s.

    Says whether there were none.
    `columns` are what the SELECT gives, as far as they can be named.
    """
    known, before = _by_name(sources), len(walk.findings.problems)
    is_open = columns is None or any(map(_is_generator, select.expressions))
    named = Scope((*known, *UNKNOWN.sources) if is_open else known, _aliases(select))
    stars = [item for item in select.expressions if isinstance(item, exp.Column) and item.is_star]
    _check([*stars, select.args.get("where")], Scope(known), walk)
    _check([item for item in select.expressions if item not in stars] if stars else [*select.expressions], named, walk)
    _check([found for key in _WITH_ALIASES if (found := select.args.get(key))], named, walk)
    return len(walk.findings.problems) == before


def check_join(join: exp.Join, sources: Sources, walk: Walk) -> None:
    """Notes the names in a join's ON that mean nothing to what is joined."""
    if (on := join.args.get("on")) is not None:
        _check([on], Scope(_by_name(sources)), walk)


def _by_name(sources: Sources) -> tuple[tuple[str, Mapping[str, Column] | None], ...]:
    return tuple((name, source.by_name) for name, source in sources)


def _is_generator(expression: exp.Expr) -> bool:
    """Whether an expression makes columns whose names are its own affair."""
    name = expression.name if isinstance(expression, exp.Anonymous) else expression.key
    return name.lower().replace("_", "") in _GENERATORS


_GENERATORS = frozenset(name.replace("_", "") for name in TABLE_FUNCTIONS)


def _aliases(select: exp.Select) -> frozenset[str]:
    """The names that a SELECT gives. A column that is merely passed on gives none of its own."""
    names: list[str] = []
    for expression in select.expressions:
        if isinstance(expression, exp.Aliases):
            names += (alias.name.lower() for alias in expression.expressions)
        elif not isinstance(expression, exp.Column) or len(expression.parts) > 1:
            names.append(expression.alias_or_name.lower())
    return frozenset(names)


def _check(nodes: list[object], scope: Scope, walk: Walk) -> None:
    scopes = [scope, *reversed(walk.around)]
    for column in _columns_below(nodes):
        _check_column(column, scopes, walk)


def _columns_below(nodes: list[object]) -> Iterator[exp.Column]:
    """The names of columns in expressions, but for those in queries and in what a star leaves out."""
    while nodes:
        part = nodes.pop()
        if isinstance(part, exp.Column):
            yield part
        elif isinstance(part, list):
            nodes += part
        elif isinstance(part, exp.Anonymous) and part.name.lower() in _UNIT_FUNCTIONS:
            nodes += part.expressions[1:]
        elif isinstance(part, exp.Expr) and not isinstance(part, exp.Query | exp.Star):
            nodes += part.args.values()


def _check_column(column: exp.Column, scopes: list[Scope], walk: Walk) -> None:
    """Notes what of a name means nothing, if anything: the columns, then what qualifies them, then fields."""
    parts = [part for part in column.parts if not isinstance(part, exp.Star)]
    names = [part.name.lower() for part in parts]
    is_qualified = len(column.parts) > 1
    if not names or names[0] in _WORDS or "(" in names[0] or any(name.startswith("_") for name in names[:2]):
        return  # Spark's own words, names that it makes up, and columns of lakesql's or of the table format's
    named: list[str] = []
    there: list[Column] = []
    lacking: tuple[str, Mapping[str, Column]] | None = None
    is_known = True
    for scope in scopes:
        for name, columns in scope.sources:
            if is_qualified and name.lower() == names[0]:
                if columns is None or len(names) == 1:
                    return
                if names[1] in columns:
                    _check_fields(columns[names[1]], parts[2:], walk)
                    return
                lacking = lacking or (name, columns)
            if columns is None:
                is_known = False
            elif names[0] in columns:
                _check_fields(columns[names[0]], parts[1:], walk)
                return
            if name and name.lower() in names[1:3]:
                return  # a table's name in several parts
            named.append(name)
            there += (columns or {}).values()
        if names[0] in scope.aliases:
            return
    if lacking is not None:
        what = f"'{lacking[0]}' has no column '{parts[1].name}'."
        walk.findings.add("unknown-column", offset_of(parts[1]), what, fix=_suggest(parts[1].name, lacking[1].values()))
    elif is_known and is_qualified:
        what = f"Nothing that this SELECT reads is called '{parts[0].name}', and it has no such column."
        walk.findings.add(
            "unknown-alias", offset_of(parts[0]), what, fix=did_you_mean(parts[0].name, filter(None, named))
        )
    elif is_known:
        why = "" if there else "The SELECT reads nothing that has columns."
        what = f"There is no column '{parts[0].name}'."
        walk.findings.add("unknown-column", offset_of(parts[0]), what, why, _suggest(parts[0].name, there))


def _suggest(name: str, columns: Iterable[Column]) -> str:
    return did_you_mean(name, [column.name for column in columns if column.name])


def _check_fields(column: Column, fields: list[exp.Expr], walk: Walk) -> None:
    """Notes the first of the `fields` that the column's struct does not have."""
    kind = column.type
    for field in fields:
        # SQL reads the fields of an array's structs as those of a struct.
        of = kind.fields[0].type if kind is not None and kind.name == "array" else kind
        if of is None or of.name != "struct":
            return
        if (found := find_field(of, field.name)) is None:
            what = f"'{column.name}' has no field '{field.name}'."
            hint = did_you_mean(field.name, [known.name for known in of.fields])
            walk.findings.add("unknown-field", offset_of(field), what, fix=hint)
            return
        kind = found.type if kind is of else None  # of an array comes an array, whose fields are not looked into
