"""Which columns, streams, state and source positions each query of a parsed SELECT has,
and what it must not do to a stream.

Every query of the tree becomes a `Relation`, from its tables up to the outermost
SELECT; findings are added on the way. Names are resolved as Spark does:
case-insensitive, common table expressions before views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.errors import did_you_mean
from lakesql.select.carry import carry_through
from lakesql.select.columns import added_columns, group_keys, read_columns, renamed
from lakesql.select.ctes import cte_tokens
from lakesql.select.functions import FORBIDDEN_FUNCTIONS, PATH_FORMATS, TABLE_FUNCTIONS
from lakesql.select.generators import generated_columns
from lakesql.select.grouped import check_grouped
from lakesql.select.groups import distinct_groups, groups_of, groups_through
from lakesql.select.joins import (
    check_bounds,
    check_times,
    refuse_nested,
    refuse_windows,
)
from lakesql.select.ordinals import check_ordinals
from lakesql.select.pivot import check_pivot, pivoted
from lakesql.select.refusals import (
    refuse_above_aggregate,
    refuse_added,
    refuse_alias,
    refuse_foreign,
    refuse_in_aggregate,
    refuse_in_stream,
    refuse_inside,
    refuse_on_stream,
    refuse_order,
    refuse_session_alone,
)
from lakesql.select.relation import (
    Carried,
    Group,
    Names,
    QueryColumn,
    Relation,
    Scope,
    Sources,
    StreamShape,
    Walk,
    columns_side_by_side,
    last_mark,
    mark_of,
    offset_of,
    start_of,
)
from lakesql.select.resolve import check_expressions, check_join, check_names, scope_of
from lakesql.select.sqltext import READS_SEEN_ONLY, Findings, Text, clause, projections
from lakesql.select.stateful import columns_of, shape_of, shapes_below
from lakesql.select.ungrouped import find_event_time
from lakesql.stream.types import parse_type
from lakesql.words import suggest


def read_relation(
    tree: exp.Query,
    text: Text,
    streams: Mapping[str, StreamShape],
    tables: Mapping[tuple[str, ...], tuple[QueryColumn, ...]],
    findings: Findings,
) -> tuple[Relation, Walk]:
    """The relation of a model's whole SELECT, and the `Walk` with everything that was
    noted on the way. Adds a finding for each query in a place where it cannot be
    read."""
    known = {name.lower(): (shape.of or name, shape) for name, shape in streams.items()}
    walk = Walk(text, known, findings, tables=tables)
    walk.ctes = cte_tokens(text, tree)
    relation = _query(tree, {}, walk)
    for mark in (
        sorted(text.inserts.keys() - walk.seen) if not findings.problems else ()
    ):
        findings.add(
            "sql-syntax",
            text.tokens[mark].start,
            "A query cannot be read in this place.",
            fix="Use a join.",
        )
    return relation, walk


def _query(query: exp.Expr, names: Names, walk: Walk) -> Relation:
    names = _with(query, names, walk)
    match query:
        case exp.Select():
            return _select(query, names, walk)
        case exp.Union():
            return _union(query, names, walk)
        case exp.SetOperation():
            return _other_set_operation(query, names, walk)
        case exp.Subquery():
            inner = _query(query.this, names, walk)
            check_ordinals(query, inner.columns, walk)
            if inner.streams:
                refuse_order(query, query, walk)
            return inner
        case _:
            offset = offset_of(query)
            walk.findings.add(
                "not-a-select", offset, f"{query.key.upper()} is not a SELECT."
            )
            return Relation()


def _with(query: exp.Expr, names: Names, walk: Walk) -> Names:
    with_ = query.args.get("with_")
    if with_ is None:
        return names
    if with_.args.get("recursive"):
        offset = (
            offset_of(with_.expressions[0].args["alias"]) if with_.expressions else 0
        )
        walk.findings.add(
            "recursive-cte",
            offset,
            "A recursive common table expression cannot be read.",
        )
        return {**names, **{cte.alias.lower(): Relation() for cte in with_.expressions}}
    known = dict(names)
    for cte in with_.expressions:
        known[cte.alias.lower()] = _named(
            _query(cte.this, known, walk), cte.args["alias"], walk
        )
    return known


def _select(select: exp.Select, names: Names, walk: Walk) -> Relation:
    mark = mark_of(select)
    if mark is None:
        walk.findings.add(
            "not-a-select", offset_of(select), "This query has no SELECT of its own."
        )
        return Relation()
    walk.seen.add(mark)
    refuse_foreign(select, walk.text.tokens[mark].start, walk)
    from_ = select.args.get("from_")
    sources = (
        _joined(_tables(from_.this, [], names, walk), select, [], names, walk)
        if from_ is not None
        else []
    )
    walk.sources[mark] = select, sources
    columns = read_columns(select, mark, sources, walk)
    offered = None
    if columns is None:
        known = [
            (name, replace(source, columns=source.named)) for name, source in sources
        ]
        offered = read_columns(select, mark, known, walk)
    given = offered if columns is None else columns
    are_numbers_right = check_ordinals(select, columns, walk)
    _read_subqueries(select, sources, given, names, walk)
    if check_names(select, sources, given, walk) and are_numbers_right:
        check_grouped(select, mark, sources, walk)
    flowing = [source for _, source in sources if source.streams]
    if not flowing:
        return Relation(columns, offered=offered)
    walk.flowing[mark] = select, sources
    walk.filters |= any(select.args.get(key) for key in ("where", "having"))
    read = _together(flowing)
    kind = _Kind(
        aggregated=mark in walk.text.aggregates
        or any(select.args.get(key) for key in ("group", "having")),
        distinct=bool(select.args.get("distinct")),
        joined=len(flowing) > 1,
    )
    _refuse(select, mark, sources, read, kind, walk)
    _note_state(select, mark, sources, columns, read, kind, walk)
    return replace(
        read,
        columns=columns,
        stateful=read.stateful or kind.aggregated or kind.distinct,
        aggregated=read.aggregated or kind.aggregated,
        nested=read.nested or (kind.aggregated and read.aggregated),
        by_event_time=read.by_event_time
        or any(key.event_time for key in _keys(select, sources, columns, kind)),
        carried=None
        if kind.joined
        else carry_through(select, mark, sources, flowing[0], walk),
        groups=_groups(select, mark, sources, columns, read, kind, walk),
        selects=read.selects | {mark},
        offered=offered,
        added=frozenset[str]().union(
            *(added_columns(each, sources) for each in select.expressions)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """Whether a SELECT over streams aggregates, is DISTINCT, or joins streams with each
    other."""

    aggregated: bool
    distinct: bool
    joined: bool

    @property
    def keeps_state(self) -> bool:
        """Whether Spark keeps rows or groups of the SELECT between two batches."""
        return self.aggregated or self.distinct or self.joined


def _refuse(
    select: exp.Select,
    mark: int,
    sources: Sources,
    read: Relation,
    kind: _Kind,
    walk: Walk,
) -> None:
    """Adds findings for what a SELECT over streams must not do. `read` is what all of
    its streams are together."""
    refuse_in_stream(select, mark, walk)
    groups_by_all = bool((select.args.get("group") or exp.Group()).args.get("all"))
    if kind.distinct or groups_by_all:
        _check_stars(select, mark, sources, walk)
    if kind.aggregated or kind.distinct:
        refuse_session_alone(select, mark, read, walk)
    if kind.aggregated:
        refuse_in_aggregate(select, mark, read, walk)
        return
    first = next(source for _, source in sources if source.streams)
    refuse_above_aggregate(select, mark, replace(read, groups=first.groups), walk)


def _note_state(
    select: exp.Select,
    mark: int,
    sources: Sources,
    columns: tuple[QueryColumn, ...] | None,
    read: Relation,
    kind: _Kind,
    walk: Walk,
) -> None:
    """Notes the state that a SELECT keeps between two batches, and the event time that
    it groups by."""
    if kind.distinct:
        walk.noted.setdefault("distinct", walk.text.tokens[mark].start)
    if kind.aggregated:
        walk.counted |= read.selects | {mark}
        walk.noted.setdefault(
            "watermark-missing", _aggregate_offset(select, mark, walk)
        )
    if kind.keeps_state:
        shape = shape_of(
            select,
            mark,
            walk,
            aggregated=kind.aggregated,
            distinct=kind.distinct,
            joined=kind.joined,
        )
        walk.shapes[mark] = "\n".join((shape, *shapes_below(shape, read.selects, walk)))
    if kind.aggregated != kind.distinct:
        walk.event_times[mark] = find_event_time(select, mark, sources, columns, walk)


def _keys(
    select: exp.Select,
    sources: Sources,
    columns: tuple[QueryColumn, ...] | None,
    kind: _Kind,
) -> tuple[QueryColumn, ...]:
    """The columns by which a SELECT groups: the keys of its GROUP BY, and all of its
    columns if it is DISTINCT."""
    keys = group_keys(select, sources, columns) if kind.aggregated else ()
    return (*keys, *(columns or ())) if kind.distinct else keys


def _groups(
    select: exp.Select,
    mark: int,
    sources: Sources,
    columns: tuple[QueryColumn, ...] | None,
    read: Relation,
    kind: _Kind,
    walk: Walk,
) -> tuple[Group, ...] | None:
    """The keys of the groups that the rows of a SELECT are, each with the columns that
    determine it; None where these cannot be known, as in a join of streams."""
    named = None if columns is None else tuple(column.name or "" for column in columns)
    if kind.distinct:
        return distinct_groups(select, named, sources)
    if kind.aggregated:
        return groups_of(select, mark, named, sources, read, walk)
    if kind.joined:
        return None
    return groups_through(select, named, sources, walk)


def _check_stars(select: exp.Select, mark: int, sources: Sources, walk: Walk) -> None:
    """Adds a finding for each star of a DISTINCT or GROUP BY ALL that includes
    `_record` or `_change`."""
    spans = projections(walk.text, mark)
    for index, expression in enumerate(select.expressions):
        if isinstance(expression, exp.Star | exp.Column) and expression.is_star:
            first = spans[index][0] if len(spans) == len(select.expressions) else mark
            refuse_added(
                added_columns(expression, sources), walk.text.tokens[first].start, walk
            )


def _aggregate_offset(select: exp.Select, mark: int, walk: Walk) -> int:
    """The offset at which a SELECT groups: of its GROUP BY, else of its first
    aggregate."""
    found = (
        clause(walk.text, mark, frozenset({TokenType.GROUP_BY}))
        if select.args.get("group")
        else None
    )
    return walk.text.tokens[
        found[0] if found else min(walk.text.aggregates.get(mark, (mark,)))
    ].start


def _tables(table: exp.Expr, left: Sources, names: Names, walk: Walk) -> Sources:
    """One table of a FROM with the tables that are joined to it, in brackets, by a
    later ON, or in `FROM … SELECT`.

    `left` are the sources to the left of it, whose columns a LATERAL may name.
    """
    if _is_bracketed(table) and not table.alias and not table.args.get("pivots"):
        sources = _tables(table.this, left, names, walk)
    else:
        sources = [_table(table, left, names, walk)]
    return _joined(sources, table, left, names, walk)


def _is_bracketed(table: exp.Expr) -> bool:
    return isinstance(table, exp.Subquery) and isinstance(table.this, exp.Table)


def _joined(
    sources: Sources, around: exp.Expr, left: Sources, names: Names, walk: Walk
) -> Sources:
    """The given sources, followed by those of the joins and the lateral views of a
    SELECT or a table, in order."""
    for join in around.args.get("joins") or ():
        refuse_foreign(join, offset_of(join.this), walk)
        right = _tables(join.this, left + sources, names, walk)
        check_join(join, sources, right, walk)
        refuse_windows(join, walk)
        check_bounds(join, sources, right, around.args.get("where"), walk)
        refuse_nested(join, sources, right, walk)
        _check_sides(join, sources, right, walk)
        sources = sources + _right_side(join, sources, right)
        for pivot in (
            *(join.args.get("pivots") or ()),
            *(join.this.args.get("pivots") or ()),
        ):
            check_pivot(pivot, sources, walk)  # of the whole join, for Spark
            sources = [
                (name, replace(source, columns=None, source=None, offered=None))
                for name, source in sources
            ]
    for lateral in around.args.get("laterals") or ():
        sources = [*sources, _lateral(lateral, left + sources, names, walk)]
    return sources


def _is_hidden(join: exp.Join) -> bool:
    """Whether the right side of a join gives no columns, as in a SEMI or ANTI join,
    which only filters the left side."""
    return join.kind.upper() in ("SEMI", "ANTI")


def _check_sides(join: exp.Join, left: Sources, right: Sources, walk: Walk) -> None:
    """Adds a finding for an outer join that gives rows which no record made, and notes
    whether the join may leave out rows of a stream."""
    side, kind = join.side.upper(), join.kind.upper()
    left_flows = any(source.streams for _, source in left)
    right_flows = any(source.streams for _, source in right)
    keeps_left = side in ("LEFT", "FULL") and not _is_hidden(join)
    keeps_right = side in ("RIGHT", "FULL")
    if left_flows and right_flows:
        if side or _is_hidden(join):
            check_times(join, left + right, walk)
    elif (left_flows and keeps_right) or (
        right_flows and (side in ("LEFT", "FULL") or _is_hidden(join))
    ):
        walk.findings.add(
            "outer-join",
            offset_of(join.this),
            f"This {' '.join(filter(None, (side, kind, 'JOIN')))} gives rows that no record of the stream made.",
            "Such a row would come again with every batch.",
        )
    walk.filters |= (left_flows and not keeps_left) or (right_flows and not keeps_right)


def _right_side(join: exp.Join, left: Sources, right: Sources) -> Sources:
    """The sources of a join's right side as the query around the join sees them:
    without columns after SEMI and ANTI, with the shared columns noted after USING and
    NATURAL."""
    if _is_hidden(join):
        return [
            ("", replace(source, columns=(), source=None, added=frozenset()))
            for _, source in right
        ]
    if join.args.get("using") or join.method.upper() == "NATURAL":
        return [
            (name, replace(source, using=_shared(source, join, left)))
            for name, source in right
        ]
    return right


def _shared(right: Relation, join: exp.Join, sources: Sources) -> tuple[str, ...]:
    """The names, in lower case, of the columns that the two sides of a USING or NATURAL
    join share."""
    if using := join.args.get("using"):
        names = [identifier.name.lower() for identifier in using]
    else:
        names = [
            column.folded for _, source in sources for column in source.named or ()
        ]
    there = names if right.named is None else [column.folded for column in right.named]
    return tuple(name for name in dict.fromkeys(names) if name in there)


def _table(
    table: exp.Expr, left: Sources, names: Names, walk: Walk
) -> tuple[str, Relation]:
    """One entry of a FROM: the name that qualifies its columns ('' for none), and its
    relation."""
    name = table.alias
    match table:
        case exp.Table() if isinstance(table.this, exp.Func):
            relation = _table_function(table.this, walk)
        case exp.Table():
            refuse_foreign(table, offset_of(table), walk)
            name = name or table.name
            relation = _named_table(table, names, walk)
        case exp.Subquery() if _is_bracketed(table):
            inner = [source for _, source in _tables(table.this, left, names, walk)]
            relation = inner[0]
            if len(inner) > 1:
                named = [replace(source, columns=source.named) for source in inner]
                relation = replace(
                    _together(inner),
                    columns=columns_side_by_side(inner),
                    offered=columns_side_by_side(named),
                )
            if len(inner) > 1 and relation.stateful:
                walk.shapes.setdefault(-offset_of(table), "join")
        case exp.Subquery():
            relation = _query(table.this, names, walk)
        case exp.Lateral():
            return _lateral(table, left, names, walk)
        case exp.Values():
            relation = Relation(_values_columns(table))
        case _:
            relation = Relation()
    if relation.streams:
        refuse_on_stream(table, walk)
    relation = _distinct_from_others(relation, walk)
    if (path := _path_of(table)) != relation.path:
        relation = replace(relation, path=path)
    pivots = table.args.get("pivots") or ()
    for pivot in pivots:
        relation = pivoted(pivot, name, relation, walk)
        name = pivot.alias or name
    return name, _named(relation, table.args.get("alias"), walk)


def _path_of(table: exp.Expr) -> tuple[str, ...]:
    """The catalog, namespace and table name, in lower case, that may qualify a table's
    columns; empty where it has an alias or a single name."""
    if not isinstance(table, exp.Table) or table.alias or len(table.parts) < 2:
        return ()
    return tuple(part.name.lower() for part in table.parts)


def _distinct_from_others(relation: Relation, walk: Walk) -> Relation:
    """The relation; with columns of a new identity if the query reads the same relation
    a second time, so that a name in both is ambiguous."""
    if id(relation.named) not in walk.read:
        walk.read[id(relation.named)] = relation.named
        return relation
    fresh = (
        None
        if relation.named is None
        else tuple(replace(column, made=object()) for column in relation.named)
    )
    return (
        replace(relation, offered=fresh)
        if relation.columns is None
        else replace(relation, columns=fresh)
    )


def _named_table(table: exp.Table, names: Names, walk: Walk) -> Relation:
    parts = [part.name for part in table.parts]
    offset = offset_of(table.parts[0])
    if len(parts) == 1:
        if (relation := names.get(parts[0].lower())) is not None:
            return relation
        if (known := walk.streams.get(parts[0].lower())) is not None:
            return replace(_stream(*known, offset), added=walk.text.added)
        walk.findings.add(
            "unknown-table",
            offset,
            f"'{parts[0]}' is neither a stream of this model nor a common table expression.",
            did_you_mean(
                parts[0], {*names, *(name for name, _ in walk.streams.values())}
            ),
            f"Write {{{{ stream('{parts[0]}') }}}} or {{{{ ref('{parts[0]}') }}}}, or the table's whole name.",
        )
        return Relation()
    if len(parts) == 2 and parts[0].lower() not in PATH_FORMATS and "." not in parts[0]:
        walk.findings.add(
            "unknown-table",
            offset,
            f"'{'.'.join(parts)}' does not say which catalog it is of.",
            fix="Write its whole name, catalog.namespace.table, or {{ ref('…') }} for a model's.",
        )
    path = any(character in part for part in parts for character in "/:\\")
    if path or (
        len(parts) == 2 and (parts[0].lower() in PATH_FORMATS or "." in parts[0])
    ):
        what = f"{'.'.join(parts)} reads files by their path."
        walk.findings.add("path-in-from", offset, what, READS_SEEN_ONLY)
    walk.reads_tables = True
    return Relation(offered=walk.tables.get(tuple(part.lower() for part in parts)))


def _stream(name: str, shape: StreamShape, offset: int) -> Relation:
    watermark = (shape.watermark or "").lower()
    carried = Carried("star", 0)
    if shape.columns is None:
        return Relation(None, (name,), carried=carried, source=name)
    columns = tuple(
        QueryColumn(
            column,
            offset,
            name,
            column,
            event_time=column.lower() == watermark,
            type=kind,
        )
        for column, kind in zip_longest(shape.columns, map(parse_type, shape.types))
    )
    return Relation(columns, (name,), carried=Carried("known star", len(columns)))


def _table_function(function: exp.Expr, walk: Walk) -> Relation:
    offset = function.meta.get("start")
    written = (
        walk.text.sql[offset : function.meta["end"] + 1]
        if offset is not None
        else function.key
    )
    called = written.strip("`").lower()
    if called not in TABLE_FUNCTIONS and called not in FORBIDDEN_FUNCTIONS:
        what = f"{written}() is no function that a FROM of a model may read."
        walk.findings.add(
            "forbidden-function",
            offset or 0,
            what,
            fix=suggest("function", called, TABLE_FUNCTIONS),
        )
    return Relation(generated_columns(function, offset or 0, Scope()))


def _values_columns(values: exp.Values) -> tuple[QueryColumn, ...]:
    """The columns of VALUES, with Spark's names: `col1`, `col2`, …."""
    first = values.expressions[0]
    parts = first.expressions if isinstance(first, exp.Tuple) else [first]
    return tuple(
        QueryColumn(f"col{number}", 0, is_made_up=True)
        for number in range(1, len(parts) + 1)
    )


def _lateral(
    lateral: exp.Expr, left: Sources, names: Names, walk: Walk
) -> tuple[str, Relation]:
    """The alias and the relation of a LATERAL query or of a generator. Both may name
    columns of the sources to the `left`."""
    walk.filters |= not lateral.args.get("outer")
    scope = Scope(tuple(left))
    if isinstance(lateral.this, exp.Subquery):
        walk.around.append(scope)
        relation = _query(lateral.this, names, walk)
        walk.around.pop()
        if relation.streams:
            refuse_inside(start_of(lateral.this, walk), relation, walk)
            relation = Relation()
    else:
        check_expressions([lateral.this], scope, walk)
        relation = Relation(
            generated_columns(lateral.this, offset_of(lateral.this), scope)
        )
    return lateral.alias, _named(relation, lateral.args.get("alias"), walk)


def _named(relation: Relation, alias: exp.Expr | None, walk: Walk) -> Relation:
    """The relation under a table alias; the alias's list of columns, if there is one,
    renames its columns."""
    if not isinstance(alias, exp.TableAlias):
        return relation
    refuse_alias(alias.args.get("this"), walk)
    if not alias.columns:
        return relation
    if relation.streams:
        walk.findings.add(
            "column-list",
            offset_of(alias.columns[0]),
            "A list of columns cannot rename what comes from a stream, which has columns of lakesql's beside its own.",
        )
        return replace(relation, columns=None, offered=None)
    for column in alias.columns:
        refuse_alias(column, walk)
    known = (
        relation.named
        if relation.named is not None and len(relation.named) == len(alias.columns)
        else ()
    )
    return replace(relation, columns=tuple(renamed(known, alias.columns)))


def _union(union: exp.Union, names: Names, walk: Walk) -> Relation:
    """The relation of a UNION ALL or a UNION. Branches are read from left to right;
    sqlglot nests them to the left."""
    branches: list[exp.Expr] = []
    distinct = bool(union.args.get("distinct"))
    node: exp.Expr = union
    while isinstance(node, exp.Union) and bool(node.args.get("distinct")) == distinct:
        if node is not union and node.args.get("with_"):
            break
        refuse_foreign(node, start_of(node.expression, walk), walk)
        branches.append(node.args["expression"])
        node = node.this
    branches = [node, *reversed(branches)]
    relations = [_query(branch, names, walk) for branch in branches]
    columns = _agreed([relation.columns for relation in relations])
    offered = _agreed([relation.named for relation in relations])
    _check_order(union, Relation(columns, offered=offered), walk)
    read = _together(relations, joined=False)
    if not read.streams:
        return Relation(columns, offered=offered)
    refuse_order(union, branches[-1], walk)
    for branch, relation in zip(branches, relations, strict=True):
        if not relation.streams:
            what = "This branch of the UNION reads no stream, so every batch would add its rows again."
            walk.findings.add("union-without-stream", start_of(branch, walk), what)
    stateful = distinct or read.stateful
    carried = {relation.carried for relation in relations if relation.streams}
    if not stateful and (len(carried) > 1 or carried == {None}):
        what = "The branches of the UNION put the stream's own columns in different places."
        why = "A * over a stream brings columns of lakesql's with it."
        walk.findings.add("union-star", start_of(branches[1], walk), what, why)
    if distinct:
        for branch, relation in zip(branches, relations, strict=True):
            refuse_added(relation.added, start_of(branch, walk), walk)
        walk.noted.setdefault("distinct", start_of(branches[-1], walk))
        walk.shapes[last_mark(union)] = "\n".join(
            ("union distinct", *columns_of(read.selects, walk))
        )
    by_event_time = read.by_event_time or (
        distinct and any(column.event_time for column in columns or ())
    )
    return replace(
        read,
        columns=columns,
        stateful=stateful,
        by_event_time=by_event_time,
        offered=offered,
    )


def _check_order(operation: exp.SetOperation, relation: Relation, walk: Walk) -> None:
    """Adds a finding for each name and each number in the ORDER BY of a set operation
    that is none of its columns."""
    check_ordinals(operation, relation.columns, walk)
    found = [
        operation.args[key]
        for key in ("order", "sort", "cluster", "distribute")
        if operation.args.get(key)
    ]
    check_expressions(found, Scope((("", relation),)), walk)


def _agreed(
    branches: list[tuple[QueryColumn, ...] | None],
) -> tuple[QueryColumn, ...] | None:
    """The columns of a union, with the names of the first branch and those facts on
    which all branches agree; None where the first branch's columns are not known."""
    first = branches[0]
    if first is None:
        return None
    agreed = list(first)
    for branch in branches[1:]:
        if branch is None or len(branch) != len(agreed):
            return tuple(QueryColumn(column.name, column.offset) for column in first)
        for index, (ours, theirs) in enumerate(zip(agreed, branch, strict=True)):
            plain = (ours.stream, (ours.column or "").lower()) == (
                theirs.stream,
                (theirs.column or "").lower(),
            )
            agreed[index] = replace(
                ours,
                stream=ours.stream if plain else None,
                column=ours.column if plain else None,
                cast=ours.cast if ours.cast == theirs.cast else None,
                type=ours.type if ours.type == theirs.type else None,
                event_time=ours.event_time and theirs.event_time,
            )
    return tuple(agreed)


def _other_set_operation(
    operation: exp.SetOperation, names: Names, walk: Walk
) -> Relation:
    left = _query(operation.this, names, walk)
    right = _query(operation.expression, names, walk)
    _check_order(operation, left, walk)
    if not (left.streams or right.streams):
        return Relation(left.columns, offered=left.offered)
    what = (
        f"{operation.key.upper()} compares all rows, and a stream is never all there."
    )
    walk.findings.add("set-operation", start_of(operation.expression, walk), what)
    return replace(left, streams=left.streams or right.streams)


def _together(relations: list[Relation], joined: bool = True) -> Relation:
    """The relation that the given ones are together, `joined` or united, without its
    columns."""
    flowing = [relation for relation in relations if relation.streams]
    joined = joined and len(flowing) > 1
    return Relation(
        streams=tuple(
            dict.fromkeys(name for relation in flowing for name in relation.streams)
        ),
        stateful=joined or any(relation.stateful for relation in flowing),
        aggregated=any(relation.aggregated for relation in flowing),
        nested=any(relation.nested for relation in flowing),
        joined=joined or any(relation.joined for relation in flowing),
        by_event_time=any(relation.by_event_time for relation in flowing),
        carried=relations[0].carried,
        selects=frozenset[int]().union(*(relation.selects for relation in flowing)),
        added=frozenset[str]().union(*(relation.added for relation in flowing)),
    )


def _read_subqueries(
    select: exp.Select,
    sources: Sources,
    columns: tuple[QueryColumn, ...] | None,
    names: Names,
    walk: Walk,
) -> None:
    """Reads the queries inside the SELECT's expressions, and adds a finding for each
    that reads a stream."""
    if len(walk.seen) == len(walk.text.inserts):
        return
    walk.around.append(scope_of(select, sources, columns))
    for query in select.find_all(exp.Query):
        around = query.find_ancestor(exp.Query, exp.From, exp.With)
        if around is select and not isinstance(query.parent, exp.Join | exp.Lateral):
            relation = _query(query, names, walk)
            if relation.streams:
                refuse_inside(start_of(query, walk), relation, walk)
    walk.around.pop()
