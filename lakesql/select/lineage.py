"""Which columns each column of a SELECT is computed from, and which columns decide
which rows it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from lakesql.names import is_reserved
from lakesql.select.functions import AGGREGATES
from lakesql.select.generators import is_generator
from lakesql.select.groups import ordinal
from lakesql.select.kept_tree import take_tree
from lakesql.select.left_out import left_out_of
from lakesql.select.lineage_edges import (
    NOTHING,
    ColumnOf,
    Kind,
    Made,
    as_rows,
    column_itself,
    columns_of,
    through,
)
from lakesql.select.lineage_names import (
    LineageEntry,
    LineageOutputs,
    LineageScope,
    find_made,
    of_frames,
    of_table,
    renamed_outputs,
)
from lakesql.select.query import parse_query
from lakesql.select.sqltext import findings_by_offset, read_text


@dataclass(frozen=True)
class Lineage:
    """The lineage of a SELECT.

    `columns` has for each column of it, in lower case, the columns that its value is
    made of; the name `*` stands for columns that are not known. `rows` are the columns
    that decide which rows there are, by conditions, joins and groups. `read` are all
    columns that it uses anywhere.
    """

    columns: Mapping[str, Made]
    rows: Made
    read: frozenset[ColumnOf]

    @cached_property
    def made_of(self) -> Mapping[str, frozenset[ColumnOf]]:
        """The columns that each column of the SELECT is computed from, directly or
        indirectly."""
        return {name: columns_of(made) for name, made in self.columns.items()}


def read_lineage(sql: str, columns: Mapping[str, tuple[str, ...] | None]) -> Lineage:
    """The lineage of a SELECT that `read_query` has read without a problem.

    `columns` are those of the relations, in order and in lower case; None for a
    relation whose columns are not known. A name that may be a column of several
    relations counts as a column of each.
    """
    walk = _LineageWalk(columns)
    tree = take_tree(sql)
    if tree is None:
        findings = findings_by_offset()
        tree = parse_query(read_text(sql, findings), sql, findings)
    outputs = _query(tree, {}, None, walk)
    made = dict(outputs.columns)
    if outputs.open:
        made["*"] = column_itself(outputs.open, "*")
    if outputs.rest:
        made["*"] = made.get("*", NOTHING) | outputs.rest
    read = frozenset(walk.read) | columns_of(outputs.rows).union(
        *map(columns_of, made.values())
    )
    return Lineage(made, outputs.rows, read)


@dataclass(slots=True)
class _LineageWalk:
    columns: Mapping[str, tuple[str, ...] | None]
    read: set[ColumnOf] = field(default_factory=set)


_Known = Mapping[str, LineageOutputs]
"""The common table expressions that a query may name, by name in lower case."""


def _query(
    query: exp.Expr, known: _Known, outer: LineageScope | None, walk: _LineageWalk
) -> LineageOutputs:
    with_ = query.args.get("with_")
    if with_ is not None:
        known = dict(known)
        for cte in with_.expressions:
            known[cte.alias.lower()] = renamed_outputs(
                _query(cte.this, known, outer, walk), cte.args["alias"]
            )
    match query:
        case exp.Select():
            return _select(query, known, outer, walk)
        case exp.SetOperation():
            return _limited(
                query, _united(query, known, outer, walk), known, outer, walk
            )
        case exp.Subquery():
            return _limited(
                query, _query(query.this, known, outer, walk), known, outer, walk
            )
        case _:
            return LineageOutputs()


def _select(
    select: exp.Select, known: _Known, outer: LineageScope | None, walk: _LineageWalk
) -> LineageOutputs:
    from_ = select.args.get("from_")
    before = LineageScope((), outer)
    frames, rows = (
        _tables(from_.this, before, known, walk) if from_ is not None else ((), NOTHING)
    )
    frames, rows = _joined(frames, rows, select, before, known, walk)
    reader = _ExpressionWalk(LineageScope(frames, outer), known, walk, _windows(select))
    columns: list[tuple[str, Made]] = []
    aliases: dict[str, Made] = {}
    # by each column the aliases of those before it, which are added below
    of_column = replace(reader, scope=replace(reader.scope, aliases=aliases))
    is_open: frozenset[str] = frozenset()
    rest = NOTHING
    for selected in select.expressions:
        if (
            isinstance(selected, exp.Star | exp.Column)
            and selected.is_star
            and (star := _star(selected, reader))
        ):
            columns += star.columns
            is_open |= star.open
            rest |= star.rest
            continue
        found, more = _selected(selected, of_column)
        columns += found
        rows |= more
        for name, made in found:
            aliases[name] = aliases.get(name, NOTHING) | made
    named = {**aliases, **{name: made for name, made in columns if name not in aliases}}
    reader = replace(reader, scope=replace(reader.scope, aliases=named))
    walk.read |= frozenset[ColumnOf]().union(*(columns_of(made) for _, made in columns))
    rows |= _filters(select, reader)
    rows |= _groups(select, columns, reader)
    if select.args.get("distinct"):
        rows |= as_rows(
            frozenset().union(rest, *(made for _, made in columns)), "group_by"
        )
    rows |= _order_of_limit(select, reader)
    return LineageOutputs(tuple(columns), is_open, rest, rows)


def _filters(select: exp.Select, reader: _ExpressionWalk) -> Made:
    """The columns by which WHERE, HAVING and QUALIFY filter rows."""
    found = [select.args.get(key) for key in ("where", "having", "qualify")]
    return as_rows(
        reader.all_of([each for each in found if each is not None]), "filter"
    )


def _groups(
    select: exp.Select, columns: list[tuple[str, Made]], reader: _ExpressionWalk
) -> Made:
    """The columns by which a GROUP BY groups rows. A key may name a column of the
    SELECT, by its name or its number."""
    group = select.args.get("group")
    if group is None:
        return NOTHING
    if group.args.get("all"):
        return as_rows(frozenset().union(*(made for _, made in columns)), "group_by")
    made = [
        reader.all_of([each])
        for each in group.args.values()
        if isinstance(each, exp.Expr)
    ]
    for key in (
        each
        for value in group.args.values()
        if isinstance(value, list)
        for each in value
    ):
        by_number = (
            [made for _, made in columns[ordinal(key)]]
            if isinstance(key, exp.Literal)
            else []
        )
        made += by_number or [reader.all_of([key])]
    return as_rows(frozenset().union(*made), "group_by")


def _order_of_limit(query: exp.Expr, reader: _ExpressionWalk) -> Made:
    """The columns by whose order LIMIT and OFFSET choose rows; none without these, as
    an order alone does not change which rows there are."""
    if not (query.args.get("limit") or query.args.get("offset")):
        return NOTHING
    orders = [query.args[key] for key in ("order", "sort") if query.args.get(key)]
    return as_rows(reader.all_of(orders), "sort")


def _limited(
    query: exp.Expr,
    outputs: LineageOutputs,
    known: _Known,
    outer: LineageScope | None,
    walk: _LineageWalk,
) -> LineageOutputs:
    scope = LineageScope((LineageEntry("", outputs),), outer)
    return replace(
        outputs,
        rows=outputs.rows
        | _order_of_limit(query, _ExpressionWalk(scope, known, walk, NOTHING_NAMED)),
    )


def _united(
    union: exp.SetOperation,
    known: _Known,
    outer: LineageScope | None,
    walk: _LineageWalk,
) -> LineageOutputs:
    """The outputs of a set operation. Columns of its queries are matched by position,
    or by name with BY NAME, and have the names of the first query."""
    left = _query(union.this, known, outer, walk)
    right = _query(union.expression, known, outer, walk)
    by_name = dict(right.columns) if union.args.get("by_name") else None
    columns: list[tuple[str, Made]] = []
    for number, (name, made) in enumerate(left.columns):
        if by_name is not None:
            columns.append((name, made | by_name.get(name, right.rest)))
            continue
        is_placed = not right.open and not left.open and number < len(right.columns)
        other = (
            right.columns[number][1]
            if is_placed
            else frozenset().union(right.rest, *(it for _, it in right.columns))
        )
        columns.append((name, made | other))
    rows = left.rows | right.rows
    if not isinstance(union, exp.Union) or union.args.get("distinct"):
        kind: Kind = "group_by" if isinstance(union, exp.Union) else "filter"
        rows |= as_rows(
            frozenset().union(*(made for _, made in (*left.columns, *right.columns))),
            kind,
        )
    return LineageOutputs(
        tuple(columns), left.open | right.open, left.rest | right.rest, rows
    )


def _tables(
    table: exp.Expr, left: LineageScope, known: _Known, walk: _LineageWalk
) -> tuple[tuple[LineageEntry, ...], Made]:
    """The entries of a table of a FROM with what is joined to it in brackets, and the
    columns that decide which rows they have."""
    bracketed = isinstance(table, exp.Subquery) and isinstance(table.this, exp.Table)
    if bracketed and not table.alias and not table.args.get("pivots"):
        frames, rows = _tables(table.this, left, known, walk)
    else:
        frame = _table(table, left, known, walk)
        frames, rows = (frame,), frame.outputs.rows
    return _joined(frames, rows, table, left, known, walk)


def _joined(
    frames: tuple[LineageEntry, ...],
    rows: Made,
    around: exp.Expr,
    left: LineageScope,
    known: _Known,
    walk: _LineageWalk,
) -> tuple[tuple[LineageEntry, ...], Made]:
    for join in around.args.get("joins") or ():
        right, more = _tables(join.this, left.beside(frames), known, walk)
        reader = _ExpressionWalk(
            left.beside((*frames, *right)), known, walk, NOTHING_NAMED
        )
        rows |= more | as_rows(
            reader.all_of([it for it in (join.args.get("on"),) if it is not None]),
            "join",
        )
        names = [each.name.lower() for each in join.args.get("using") or ()]
        if join.method.upper() == "NATURAL":
            there = {name for frame in frames for name in frame.names}
            names = [name for frame in right for name in frame.names if name in there]
        for name in names:
            rows |= as_rows(reader.named(name), "join")
        if join.kind.upper() in ("SEMI", "ANTI"):
            right = tuple(replace(frame, is_hidden=True) for frame in right)
        frames = (*frames, *(replace(frame, using=frozenset(names)) for frame in right))
        pivots = (
            *(join.args.get("pivots") or ()),
            *(join.this.args.get("pivots") or ()),
        )
        if any(pivot is not None for pivot in pivots):
            frames = (
                LineageEntry("", _blurred(of_frames(frames, frames)), is_blurred=True),
            )
    for lateral in around.args.get("laterals") or ():
        frame = _lateral(lateral, left.beside(frames), known, walk)
        frames, rows = (*frames, frame), rows | frame.outputs.rows
    return frames, rows


def _table(
    table: exp.Expr, left: LineageScope, known: _Known, walk: _LineageWalk
) -> LineageEntry:
    name, path = table.alias.lower(), tuple[str, ...]()
    match table:
        case exp.Table() if isinstance(table.this, exp.Func):
            made = _ExpressionWalk(left, known, walk, NOTHING_NAMED).all_of(
                [table.this]
            )
            outputs = LineageOutputs(
                rest=through(made, "transformation"), rows=as_rows(made, "filter")
            )
        case exp.Table():
            path = tuple(part.name.lower() for part in table.parts)
            outputs = (
                known[path[0]]
                if len(path) == 1 and path[0] in known
                else of_table(path, walk.columns)
            )
            path, name = (() if name else path), name or path[-1]
        case exp.Subquery() if isinstance(table.this, exp.Table):
            frames, rows = _tables(table.this, left, known, walk)
            outputs = replace(of_frames(frames, frames), rows=rows)
        case exp.Subquery():
            outputs = _query(table, known, left.outer, walk)
        case exp.Lateral():
            return _lateral(table, left, known, walk)
        case exp.Values():
            width = (
                len(table.expressions[0].expressions) or 1 if table.expressions else 0
            )
            outputs = LineageOutputs(
                tuple((f"col{number}", NOTHING) for number in range(1, width + 1))
            )
        case _:
            outputs = LineageOutputs(
                rest=_ExpressionWalk(left, known, walk, NOTHING_NAMED).all_of([table])
            )
    for pivot in table.args.get("pivots") or ():
        outputs = _pivoted(pivot, LineageEntry(name, outputs, path), known, walk)
        name = pivot.alias.lower() or name
    return LineageEntry(name, renamed_outputs(outputs, table.args.get("alias")), path)


def _lateral(
    lateral: exp.Expr, left: LineageScope, known: _Known, walk: _LineageWalk
) -> LineageEntry:
    """The entry of a LATERAL: a query, or a generator, whose argument also decides how
    many rows there are."""
    if isinstance(lateral.this, exp.Subquery):
        outputs = _query(lateral.this, known, left, walk)
    else:
        made = _ExpressionWalk(left, known, walk, NOTHING_NAMED).all_of([lateral.this])
        outputs = LineageOutputs(
            rest=through(made, "transformation"), rows=as_rows(made, "filter")
        )
    return LineageEntry(
        lateral.alias.lower(), renamed_outputs(outputs, lateral.args.get("alias"))
    )


def _pivoted(
    pivot: exp.Pivot, frame: LineageEntry, known: _Known, walk: _LineageWalk
) -> LineageOutputs:
    """The columns of a PIVOT or UNPIVOT: those that it does not name are passed on; the
    others are made of all columns that it names."""
    parts = [*pivot.expressions, *pivot.fields]
    reader = _ExpressionWalk(LineageScope((frame,), None), known, walk, NOTHING_NAMED)
    made = reader.all_of(parts)
    taken = {
        column.name.lower() for part in parts for column in part.find_all(exp.Column)
    }
    kept = tuple((name, of) for name, of in frame.outputs.columns if name not in taken)
    rows = frame.outputs.rows
    if not pivot.args.get("unpivot"):
        rows |= as_rows(frozenset().union(*(of for _, of in kept)), "group_by")
    rest = through(
        made, "transformation" if pivot.args.get("unpivot") else "aggregation"
    )
    return LineageOutputs(kept, frame.outputs.open, rest | frame.outputs.rest, rows)


def _blurred(outputs: LineageOutputs) -> LineageOutputs:
    """The outputs without their names: each column may be made of anything that one of
    them is made of."""
    made = frozenset().union(outputs.rest, *(made for _, made in outputs.columns))
    return LineageOutputs(
        (),
        outputs.open,
        through(made, "aggregation"),
        outputs.rows | as_rows(made, "group_by"),
    )


def _star(
    star: exp.Star | exp.Column, reader: _ExpressionWalk
) -> LineageOutputs | None:
    """The columns that a star stands for; None for the star of a struct, whose fields
    are all made of the struct."""
    frames = reader.scope.frames
    over = frames
    if isinstance(star, exp.Column):
        parts = [part.name.lower() for part in star.parts[:-1]]
        over = tuple(frame for frame in frames if frame.is_called(parts))[:1]
        if not over:
            return None
    kept = tuple(_without_excepted(frame, star, frames) for frame in over)
    found = of_frames(kept, frames)
    columns = tuple(
        (name, made) for name, made in found.columns if not is_reserved(name)
    )
    return replace(found, columns=columns)


def _without_excepted(
    entry: LineageEntry, star: exp.Expr, entries: tuple[LineageEntry, ...]
) -> LineageEntry:
    """One of the entries of a FROM without the columns that the EXCEPT of a star leaves
    out."""
    left_out = left_out_of(
        star, [(entry.name, entry.path)], [(each.name, each.path) for each in entries]
    )
    columns = tuple(
        (name, made)
        for name, made in entry.outputs.columns
        if name not in left_out.columns
    )
    return replace(entry, outputs=replace(entry.outputs, columns=columns))


def _selected(
    selected: exp.Expr, reader: _ExpressionWalk
) -> tuple[list[tuple[str, Made]], Made]:
    """The columns that one expression of a SELECT makes, and the columns that decide
    how many rows it makes, if it is a generator."""
    inner = selected.this if isinstance(selected, exp.Alias | exp.Aliases) else selected
    made = reader.made(inner)
    rows = as_rows(made, "filter") if is_generator(inner) else NOTHING
    if isinstance(selected, exp.Aliases):
        return [(alias.name.lower(), made) for alias in selected.expressions], rows
    if isinstance(inner, exp.Dot) and inner is selected:
        return [(inner.expression.name.lower(), made)], rows
    return [(selected.alias_or_name.lower(), made)], rows


def _windows(select: exp.Select) -> Mapping[str, exp.Expr]:
    """The named windows of a SELECT, by name in lower case."""
    return {each.name.lower(): each for each in select.args.get("windows") or ()}


NOTHING_NAMED: Mapping[str, exp.Expr] = {}


@dataclass(frozen=True, slots=True)
class _ExpressionWalk:
    """Finds which columns the values of expressions are made of, in one scope."""

    scope: LineageScope
    known: _Known
    walk: _LineageWalk
    windows: Mapping[str, exp.Expr]

    def all_of(self, nodes: list[exp.Expr]) -> Made:
        """The columns that any of several expressions is made of."""
        return frozenset().union(*map(self.made, nodes))

    def named(self, name: str) -> Made:
        """The columns that a name without a qualifier is made of."""
        made = find_made([name], self.scope)
        self.walk.read |= columns_of(made)
        return made

    def made(self, node: exp.Expr) -> Made:
        """The columns that the value of an expression is made of, each with the way in
        which it is."""
        match node:
            case exp.Column() if not node.is_star:
                made = find_made([part.name.lower() for part in node.parts], self.scope)
                self.walk.read |= columns_of(made)
                return made
            case exp.Column() | exp.Star():
                return self._star(node)
            case exp.Paren() | exp.Alias():
                return self.made(node.this)
            case exp.Query():
                return self._subquery(node)
            case exp.Window():
                return self._window(node)
            case exp.Case():
                return self._case(node)
            case exp.If():
                values = self._parts([node.args.get("true"), node.args.get("false")])
                return values | through(self.made(node.this), "conditional")
            case exp.Filter():
                return self.made(node.this) | through(
                    self.made(node.expression), "conditional"
                )
            case exp.WithinGroup():
                return self.made(node.this) | through(
                    self.made(node.expression), "aggregation"
                )
            case exp.Lambda():
                names = frozenset(it.name.lower() for it in node.expressions)
                scope = replace(self.scope, variables=self.scope.variables | names)
                return replace(self, scope=scope).made(node.this)
            case exp.Count() if isinstance(node.this, exp.Star):
                return NOTHING
            case _:
                kind: Kind = "aggregation" if _is_aggregate(node) else "transformation"
                return through(self._parts(node.args.values()), kind)

    def _parts(self, values: Iterable[object]) -> Made:
        """The columns that any of a node's arguments is made of. Arguments may be
        lists, and values that are no expressions."""
        made: set[tuple[str, str, Kind]] = set()
        for value in values:
            for part in value if isinstance(value, list) else (value,):
                if isinstance(part, exp.Expr):
                    made |= self.made(part)
        return frozenset(made)

    def _star(self, star: exp.Column | exp.Star) -> Made:
        """The columns that a star as an argument stands for: those of all relations, of
        one relation, or the fields of a struct."""
        found = _star(star, self)
        if found is None:
            assert isinstance(star, exp.Column)  # a * alone is never that of a struct
            return through(
                find_made([part.name.lower() for part in star.parts[:-1]], self.scope),
                "transformation",
            )
        made: Made = frozenset().union(
            found.rest,
            column_itself(found.open, "*"),
            *(made for _, made in found.columns),
        )
        self.walk.read |= columns_of(made)
        return through(made, "transformation")

    def _subquery(self, query: exp.Query) -> Made:
        """The columns that a query in an expression is made of, such as a scalar query
        or EXISTS."""
        outputs = _query(query, self.known, self.scope, self.walk)
        values = frozenset[tuple[str, str, Kind]]().union(
            outputs.rest, *(made for _, made in outputs.columns)
        )
        return through(values, "transformation") | through(outputs.rows, "conditional")

    def _case(self, case: exp.Case) -> Made:
        made = through(self._parts([case.this]), "conditional")
        for branch in case.args["ifs"]:
            made |= through(self.made(branch.this), "conditional")
            made |= through(self._parts([branch.args.get("true")]), "transformation")
        return made | through(self._parts([case.args.get("default")]), "transformation")

    def _window(self, window: exp.Window) -> Made:
        """The columns that a window function is made of, including those of its
        PARTITION BY and ORDER BY."""
        value = self.made(window.this)
        by = self._parts(part for key, part in window.args.items() if key != "this")
        named = self.windows.get(window.alias.lower())
        if named is not None:
            by |= self._parts(named.args.values())
        return value | through(by, "window")


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES
    )
