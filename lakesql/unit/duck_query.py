"""A model's SELECT in DuckDB's SQL, with the types of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from lakesql.unit.expressions import NeedsSparkError, Relation, Scope, Typed, describe, parse, quote, translate


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a SELECT may read: its name in DuckDB, and the types of its columns by their names."""

    name: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TranslatedQuery:
    """A query in DuckDB's SQL. `columns` are its outputs with their types in Spark's words, in order."""

    text: str
    columns: Mapping[str, str]


def translate_query(sql: str, tables: Mapping[tuple[str, ...], Table], now: datetime | None) -> TranslatedQuery:
    """The SELECT in DuckDB's SQL. `tables` are by the parts of their names, in small letters.

    Raises `NeedsSparkError` for whatever is not known to mean the same in both.
    """
    return _query(parse(sql), tables, now)


def translate_condition(text: str, relations: tuple[Relation, ...], now: datetime | None) -> str:
    """A condition of the configuration in DuckDB's SQL, in brackets. Raises `NeedsSparkError`."""
    made = translate(parse(text), Scope(relations, now))
    if made.type != "boolean":
        raise NeedsSparkError(f"{text} is a {made.type} and no condition")
    return f"({made.text})"


def _query(node: exp.Expr, tables: Mapping[tuple[str, ...], Table], now: datetime | None) -> TranslatedQuery:
    match node:
        case exp.Select():
            return _select(node, tables, now)
        case exp.Union():
            return _union(node, tables, now)
        case exp.Subquery():
            _refuse_others(node, {"this", "alias"})
            return _query(node.this, tables, now)
        case _:
            raise NeedsSparkError(describe(node))


def _select(node: exp.Select, tables: Mapping[tuple[str, ...], Table], now: datetime | None) -> TranslatedQuery:
    _refuse_others(node, {"expressions", "from_", "joins", "where", "with_"})
    tables, ctes = _with(node, tables, now)
    if node.args.get("from_") is None:
        raise NeedsSparkError("a SELECT without FROM")
    text, first = _source(node.args["from_"].this, tables, now)
    relations, sources = [first], [text]
    for join in node.args.get("joins") or ():
        _refuse_others(join, {"this", "side", "kind", "on"})
        words = " ".join(filter(None, (join.side.upper(), join.kind.upper()))) or "INNER"
        if words not in ("INNER", "LEFT", "LEFT OUTER") or join.args.get("on") is None:
            raise NeedsSparkError(f"a join of the kind {words} or without ON")
        text, joined = _source(join.this, tables, now)
        relations.append(joined)
        condition = translate(join.args["on"], Scope(tuple(relations), now))
        if condition.type != "boolean":
            raise NeedsSparkError(f"{describe(join.args['on'])} is no condition")
        sources.append(f"{words} JOIN {text} ON {condition.text}")
    scope = Scope(tuple(relations), now)
    outputs: dict[str, Typed] = {}
    for expression in node.expressions:
        for name, made in _outputs(expression, scope):
            if name.lower() in (known.lower() for known in outputs):
                raise NeedsSparkError(f"two columns {name}")
            outputs[name] = made
    where = ""
    if node.args.get("where"):
        condition = translate(node.args["where"].this, scope)
        if condition.type != "boolean":
            raise NeedsSparkError(f"{describe(node.args['where'].this)} is no condition")
        where = f" WHERE {condition.text}"
    chosen = ", ".join(f"{made.text} AS {quote(name)}" for name, made in outputs.items())
    return TranslatedQuery(
        f"{ctes}SELECT {chosen} FROM {' '.join(sources)}{where}", {name: made.type for name, made in outputs.items()}
    )


def _outputs(node: exp.Expr, scope: Scope) -> list[tuple[str, Typed]]:
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and node.is_star):
        star = node.this if isinstance(node, exp.Column) else node
        _refuse_others(star, set())
        of = node.table if isinstance(node, exp.Column) else ""
        read = [it for it in scope.relations if not of or it.alias.lower() == of.lower()]
        return [
            (name, Typed(f"{quote(relation.alias)}.{quote(name)}", kind))
            for relation in read
            for name, kind in relation.columns.items()
        ]
    inner = node.this if isinstance(node, exp.Alias) else node
    name = node.alias if isinstance(node, exp.Alias) else node.output_name
    if not name:
        raise NeedsSparkError(f"{describe(node)} has no name")
    return [(name, translate(inner, scope))]


def _union(node: exp.Union, tables: Mapping[tuple[str, ...], Table], now: datetime | None) -> TranslatedQuery:
    _refuse_others(node, {"this", "expression", "distinct", "with_"})
    if node.args.get("distinct") is not False:
        raise NeedsSparkError("a UNION that is not UNION ALL")
    tables, ctes = _with(node, tables, now)
    left, right = _query(node.this, tables, now), _query(node.expression, tables, now)
    if list(left.columns.values()) != list(right.columns.values()):
        raise NeedsSparkError("a UNION ALL of columns of several types")
    return TranslatedQuery(f"{ctes}({left.text}) UNION ALL ({right.text})", left.columns)


def _with(
    node: exp.Expr, tables: Mapping[tuple[str, ...], Table], now: datetime | None
) -> tuple[Mapping[tuple[str, ...], Table], str]:
    """The tables that can be read below a WITH, and its text."""
    clause = node.args.get("with_")
    if clause is None:
        return tables, ""
    _refuse_others(clause, {"expressions"})
    known, parts = dict(tables), []
    for number, cte in enumerate(clause.expressions):
        _refuse_others(cte, {"this", "alias"})
        _refuse_others(cte.args["alias"], {"this"})
        made = _query(cte.this, known, now)
        own = f"{cte.alias}_{number}_{len(known)}"
        known[(cte.alias.lower(),)] = Table(own, made.columns)
        parts.append(f"{quote(own)} AS ({made.text})")
    return known, f"WITH {', '.join(parts)} "


def _source(node: exp.Expr, tables: Mapping[tuple[str, ...], Table], now: datetime | None) -> tuple[str, Relation]:
    alias = node.args.get("alias")
    if alias is not None:
        _refuse_others(alias, {"this"})
    if isinstance(node, exp.Subquery):
        made = _query(node, tables, now)
        name = node.alias or "_lakesql_subquery"
        return f"({made.text}) AS {quote(name)}", Relation(name, made.columns)
    if not isinstance(node, exp.Table):
        raise NeedsSparkError(describe(node))
    _refuse_others(node, {"this", "db", "catalog", "alias"})
    path = tuple(part.name.lower() for part in node.parts)
    table = tables.get(path)
    if table is None:
        raise NeedsSparkError(f"{'.'.join(path)} is no stream and no ref")
    name = node.alias or path[-1]
    return f"{quote(table.name)} AS {quote(name)}", Relation(name, table.columns)


def _refuse_others(node: exp.Expr, allowed: set[str]) -> None:
    for name, value in node.args.items():
        if name not in allowed and value not in (None, False, [], ""):
            raise NeedsSparkError(f"{name.strip('_').upper().replace('_', ' ')} in the SELECT")
