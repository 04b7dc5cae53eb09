"""Which columns of which relations a SELECT reads, and which of them each of its own columns is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from lakesql.select.query import parse_query
from lakesql.select.sqltext import findings_by_offset, read_text

ColumnOf = tuple[str, str]
"""A relation, by the parts of its name with dots between them, and a column; both in small letters."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a SELECT reads. `made_of` says of each of its columns, in small letters, what it is worked out from."""

    read: frozenset[ColumnOf]
    made_of: Mapping[str, frozenset[ColumnOf]]


def read_lineage(sql: str, columns: Mapping[str, frozenset[str] | None]) -> Lineage:
    """The lineage of a SELECT that `read_query` has read without a problem.

    `columns` are those of the relations, in small letters; None of one whose columns are not known. A name that may be
    of several relations is taken for a column of each.
    """
    findings = findings_by_offset()
    walk = _LineageWalk(columns)
    last: dict[str, frozenset[ColumnOf]] = {}
    for scope in traverse_scope(parse_query(read_text(sql, findings), sql, findings)):
        last = walk.outputs[id(scope)] = dict(_outputs(scope, walk))
    return Lineage(frozenset(walk.read), last)


@dataclass(slots=True)
class _LineageWalk:
    columns: Mapping[str, frozenset[str] | None]
    outputs: dict[int, dict[str, frozenset[ColumnOf]]] = field(default_factory=dict)
    read: set[ColumnOf] = field(default_factory=set)


def _outputs(scope: Scope, walk: _LineageWalk) -> Iterator[tuple[str, frozenset[ColumnOf]]]:
    if scope.set_operation_scopes:
        yield from _of_union(scope, walk)
        return
    for column in scope.columns:
        walk.read |= _resolve(column, scope, walk)
    selects = scope.expression.selects if isinstance(scope.expression, exp.Query) else []
    for selected in selects:
        if selected.is_star:
            qualifier = selected.table.lower() if isinstance(selected, exp.Column) else ""
            for name, source in scope.sources.items():
                if qualifier in ("", name.lower()):
                    for output, made_of in _all_of(source, walk):
                        walk.read |= made_of
                        yield output, made_of
            continue
        found = [_resolve(column, scope, walk) for column in selected.find_all(exp.Column)]
        queries = {id(query) for query in selected.find_all(exp.Query)}
        for inner in scope.subquery_scopes:
            if id(inner.expression) in queries:
                found += walk.outputs.get(id(inner), {}).values()
        yield selected.alias_or_name.lower(), frozenset().union(*found)


def _of_union(scope: Scope, walk: _LineageWalk) -> Iterator[tuple[str, frozenset[ColumnOf]]]:
    """The columns of a UNION are told apart by their places, and called as those of its first SELECT."""
    first, *others = (list(walk.outputs.get(id(side), {}).items()) for side in scope.set_operation_scopes)
    for number, (name, made_of) in enumerate(first):
        yield name, made_of.union(*(other[number][1] for other in others if number < len(other)))


def _all_of(source: exp.Expr | Scope, walk: _LineageWalk) -> Iterable[tuple[str, frozenset[ColumnOf]]]:
    if isinstance(source, Scope):
        return walk.outputs.get(id(source), {}).items()
    relation = _relation(source)
    known = walk.columns.get(relation)
    names = sorted(known) if known else ["*"]
    return [(name, frozenset({(relation, name)})) for name in names]


def _resolve(column: exp.Column, scope: Scope, walk: _LineageWalk) -> frozenset[ColumnOf]:
    """What a name in a scope may mean: a column, or a field of one."""
    parts = [part.name.lower() for part in column.parts]
    sources = {name.lower(): source for name, source in scope.sources.items()}
    if len(parts) > 1 and parts[0] in sources:
        return _named(sources[parts[0]], parts[1], walk)
    return frozenset().union(*(_named(source, parts[0], walk) for source in sources.values()))


def _named(source: exp.Expr | Scope, name: str, walk: _LineageWalk) -> frozenset[ColumnOf]:
    if isinstance(source, Scope):
        outputs = walk.outputs.get(id(source), {})
        return outputs.get(name, outputs.get("*", frozenset()))
    relation = _relation(source)
    known = walk.columns.get(relation)
    return frozenset({(relation, name)}) if known is None or name in known else frozenset()


def _relation(table: exp.Expr) -> str:
    return ".".join(part.name.lower() for part in table.parts) if isinstance(table, exp.Table) else ""
