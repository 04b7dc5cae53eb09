"""Which outputs of a query form its unit, whose rows are computed anew together, and
which are its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlglot import exp

from lakesql.select.groups import ordinal
from lakesql.views.output_columns import find_expression, spelled_expression
from lakesql.views.view_tree import (
    CannotKeepError,
    OutputColumn,
    ViewBlock,
    ViewItem,
    ViewQuery,
    ViewSet,
)


def unit_of(query: ViewQuery) -> tuple[str, ...] | None:
    """The outputs whose values those rows share that depend on the same rows of the
    inputs; None if each row of the query comes from one row of its FROM. Raises
    `CannotKeepError` if no outputs do."""
    if isinstance(query, ViewSet):
        return None if query.is_all else _all_outputs(query)
    if not (query.is_grouped or query.is_distinct or query.has_windows):
        return None
    group = _own_groups(query) if query.is_grouped else None
    if query.has_windows:
        parts = _window_outputs(query)
        return (
            parts if group is None else tuple(name for name in parts if name in group)
        )
    if group is not None:
        if query.is_distinct and len(group) < len(_group_of(query)):
            raise CannotKeepError(
                "DISTINCT over groups that no outputs tell apart", query.mark
            )
        return group
    return _all_outputs(query)


def keys_of(query: ViewQuery) -> tuple[str, ...] | None:
    """The outputs that are certainly unique together in a query; empty for a query of a
    single row, None if no outputs are."""
    if isinstance(query, ViewSet):
        return None if query.is_all else query.outputs.names
    if query.is_grouped:
        group = _grouped_outputs(query)
        return (
            group
            if len(group) == len(_group_of(query)) and not _has_sets(query)
            else None
        )
    if query.is_distinct:
        return query.outputs.names
    return _passed_keys(query)


def group_is_plain(query: ViewBlock) -> bool:
    """Whether each row belongs to exactly one group, which the row alone determines,
    and the outputs identify the groups."""
    return not _has_sets(query) and len(_own_groups(query)) == len(_group_of(query))


def is_whole(query: ViewBlock) -> bool:
    """Whether the query is an aggregate without GROUP BY, which returns one row even
    for no rows."""
    return query.is_grouped and not query.select.args.get("group")


def passed_on(query: ViewQuery) -> ViewQuery:
    """The query that `SELECT * FROM (…)` only passes on, at any depth; the query itself
    if it does more."""
    if (
        isinstance(query, ViewSet)
        or len(query.joins) != 1
        or query.tail is not None
        or query.where is not None
    ):
        return query
    item = query.joins[0].item
    is_star = (
        len(query.select.expressions) == 1
        and type(query.select.expressions[0]) is exp.Star
    )
    is_plain = is_star and not any(query.select.expressions[0].args.values())
    is_more = query.is_grouped or query.is_distinct or query.has_windows or query.inner
    if item.query is None or item.renames or item.columns or not is_plain or is_more:
        return query
    return passed_on(item.query)


def _passed_keys(query: ViewBlock) -> tuple[str, ...] | None:
    """The keys of the one query that a SELECT reads, by the names of its own outputs;
    None if it does not pass all of them on."""
    items = list(query.items)
    if len(items) != 1 or items[0].query is None or query.tail is not None:
        return None
    keys = keys_of(items[0].query)
    inner = items[0].query.outputs.names
    if keys is None or inner is None or items[0].names is None:
        return None
    passed: list[str] = []
    for key in keys:
        name = items[0].names[[known.lower() for known in inner].index(key.lower())]
        column = find_expression(exp.column(name), query.outputs, items, False)
        if column is None:
            return None
        passed.append(column.name)
    return tuple(passed)


def origins_of(query: ViewQuery, name: str) -> Iterator[tuple[int, str]]:
    """The input columns that an output equals, by the input's number and the column's
    name. The rows with a value of the output depend on no other rows of such an
    input."""
    times = Counter(inputs_read(query))
    for number, column in _origins(query, name):
        if times[number] == 1:
            yield number, column


def inputs_read(query: ViewQuery) -> Iterator[int]:
    """The numbers of the inputs that a query reads, each as often as it reads it."""
    if isinstance(query, ViewSet):
        for branch in query.branches:
            yield from inputs_read(branch)
        return
    for item in query.items:
        if item.input is not None:
            yield item.input
        elif item.query is not None:
            yield from inputs_read(item.query)
    for inner in query.inner:
        yield from inputs_read(inner.query)


def _origins(query: ViewQuery, name: str) -> Iterator[tuple[int, str]]:
    if isinstance(query, ViewSet):
        names = [known.lower() for known in query.outputs.names or ()]
        for branch in query.branches if name.lower() in names else ():
            own = branch.outputs.names or ()
            yield from (
                _origins(branch, own[names.index(name.lower())])
                if len(own) == len(names)
                else ()
            )
        return
    unit = unit_of(query)
    if unit is not None and name.lower() not in map(str.lower, unit):
        return
    output = query.outputs.find(name)
    if output is None or not isinstance(output.expression, exp.Column):
        return
    items = list(query.items)
    wanted = spelled_expression(output.expression, items, _is_by_name(query))
    for number, join in enumerate(query.joins):
        later = {other.kind for other in query.joins[number + 1 :]}
        is_kept = join.kind in ("first", "inner", "right") and not later & {
            "right",
            "full",
        }
        for known in join.item.names or ():
            column = exp.column(known, table=join.item.alias)
            if (
                is_kept
                and spelled_expression(column, items, _is_by_name(query)) == wanted
            ):
                yield from _origins_of_item(join.item, known)


def _origins_of_item(item: ViewItem, name: str) -> Iterator[tuple[int, str]]:
    place = [known.lower() for known in item.names or ()].index(name.lower())
    # with a list of column names, `name` is not the table's own name
    if item.input is not None and not item.columns:
        yield item.input, name
    elif item.query is not None:
        yield from _origins(item.query, (item.query.outputs.names or ())[place])


def _all_outputs(query: ViewQuery) -> tuple[str, ...]:
    names = query.outputs.names
    if names is None:
        raise CannotKeepError(
            "a star stands for columns that are not known", query.span[0]
        )
    return names


def _grouped_outputs(query: ViewBlock) -> tuple[str, ...]:
    """The outputs that are expressions of the GROUP BY, or the window of time that it
    groups by."""
    items = list(query.items)
    names: list[str] = []
    for one in _group_of(query):
        column = find_expression(one, query.outputs, items, _is_by_name(query))
        if column is None and isinstance(one, exp.Anonymous):
            call = one.name.lower()
            column = next(
                (
                    output
                    for output in query.outputs.columns
                    if window_of(output, query) == call
                ),
                None,
            )
        if column is not None:
            names.append(column.name)
    return tuple(dict.fromkeys(names))


def window_of(output: OutputColumn, query: ViewBlock) -> str:
    """The function of GROUP BY whose window an output is or is the bound of, as
    `window.start` is; '' for any other output."""
    if not isinstance(output.expression, exp.Column):
        return ""
    name, *bound = (part.name.lower() for part in output.expression.parts)
    is_window = name in ("window", "session_window") and bound in (
        [],
        ["start"],
        ["end"],
    )
    is_of_from = any(
        item.alias.lower() == name or _has_column(item, name) for item in query.items
    )
    return name if is_window and not is_of_from else ""


def _own_groups(query: ViewBlock) -> tuple[str, ...]:
    """The outputs of the GROUP BY that a row alone determines. The bounds of a session
    window are left out, as they depend on other rows."""
    outputs = [(name, query.outputs.find(name)) for name in _grouped_outputs(query)]
    return tuple(
        name
        for name, output in outputs
        if output is not None and not _is_session(output, query)
    )


def _is_session(output: OutputColumn, query: ViewBlock) -> bool:
    if window_of(output, query) == "session_window":
        return True
    return any(
        call.name.lower() == "session_window"
        for call in output.expression.find_all(exp.Anonymous)
    )


def _group_of(query: ViewBlock) -> list[exp.Expr]:
    """The expressions of a GROUP BY, each once. An ordinal or an alias is replaced by
    the expression of that output."""
    group = query.select.args.get("group")
    if group is None:
        return []
    if group.args.get("all") is True:
        return [
            column.expression
            for column in query.outputs.columns
            if not _aggregates(column)
        ]
    listed = list(group.expressions)
    for key in ("rollup", "cube", "grouping_sets"):
        for sets in group.args.get(key) or ():
            listed += _columns_of_sets(sets)
    plain: list[exp.Expr] = []
    for one in listed:
        plain += (
            _columns_of_sets(one)
            if isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets)
            else [one]
        )
    named = [_named_output(one, query) for one in plain]
    return list({one.sql("spark"): one for one in named}.values())


def _has_sets(query: ViewBlock) -> bool:
    group = query.select.args.get("group")
    return group is not None and bool(
        group.find(exp.Rollup, exp.Cube, exp.GroupingSets)
    )


def _columns_of_sets(sets: exp.Expr) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for one in sets.expressions:
        inner = one.unnest() if isinstance(one, exp.Paren) else one
        found += inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    return found


def _named_output(one: exp.Expr, query: ViewBlock) -> exp.Expr:
    """The expression that a term of GROUP BY means: that of the output that it names by
    its number or its alias, unless a column has that name. A number that names no known
    output stays one."""
    if isinstance(one, exp.Literal):
        columns = () if query.outputs.is_open else query.outputs.columns
        named = columns[ordinal(one)]
        return named[0].expression if named else one
    if not isinstance(one, exp.Column) or one.table:
        return one
    output = query.outputs.find(one.name)
    is_column = any(_has_column(item, one.name) for item in query.items)
    if output is None or is_column:
        return one
    uses_it = any(
        column.name.lower() == one.name.lower()
        for column in output.expression.find_all(exp.Column)
    )
    return one if uses_it else output.expression


def _has_column(item: ViewItem, name: str) -> bool:
    return name.lower() in (known.lower() for known in item.names or ())


def _aggregates(column: OutputColumn) -> bool:
    return column.expression.find(exp.AggFunc) is not None


def _window_outputs(query: ViewBlock) -> tuple[str, ...]:
    """The outputs that are in the PARTITION BY of every window of a SELECT."""
    items = list(query.items)
    named = {
        window.name.lower(): window for window in query.select.args.get("windows") or ()
    }
    common: list[str] | None = None
    for window in query.select.find_all(exp.Window):
        if (
            window.find_ancestor(exp.Query) is not query.select
            or window.parent is query.select
        ):
            continue
        said = named.get(window.alias.lower(), window) if window.alias else window
        columns = [
            find_expression(part, query.outputs, items, _is_by_name(query))
            for part in said.args.get("partition_by") or ()
        ]
        names = [column.name for column in columns if column is not None]
        common = names if common is None else [name for name in common if name in names]
    if not common:
        raise CannotKeepError(
            "a window whose PARTITION BY is none of the outputs looks at all rows",
            query.mark,
        )
    return tuple(dict.fromkeys(common))


def _is_by_name(query: ViewBlock) -> bool:
    return any(join.is_natural or join.is_by_name for join in query.joins)
