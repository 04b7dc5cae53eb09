"""Which columns a SELECT makes, each with its expression, and whether two expressions
are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from lakesql.select.left_out import LeftOut, left_out_of, qualifiers_of
from lakesql.views.view_tree import (
    OutputColumn,
    OutputColumns,
    ViewItem,
    ViewJoin,
    items_of,
)


def columns_of_select(select: exp.Select, joins: tuple[ViewJoin, ...]) -> OutputColumns:
    """The columns between SELECT and FROM. A star is expanded if the columns of the
    entries of FROM are known."""
    columns: list[OutputColumn] = []
    is_open = False
    open_stars: list[frozenset[str]] = []
    for expression in select.expressions:
        if isinstance(expression, exp.Star | exp.Column) and expression.is_star:
            starred = _starred(expression, joins)
            is_open = is_open or starred is None
            columns += starred or ()
            if starred is None:
                open_stars += _changed_by(expression, joins)
        elif isinstance(expression, exp.Aliases):
            is_open = True
        else:
            columns.append(OutputColumn(expression.alias_or_name, expression.unalias()))
    return OutputColumns(tuple(columns), is_open, tuple(open_stars))


def _starred(star: exp.Expr, joins: tuple[ViewJoin, ...]) -> list[OutputColumn] | None:
    """The columns that a star stands for; None where they are not known."""
    if _has_other_options(star):
        return None
    if any(join.is_natural or join.is_by_name for join in joins):
        return None
    columns: list[OutputColumn] = []
    shown = _shown_by(star, joins)
    if not shown:  # the fields of a struct
        return None
    for item in shown:
        left_out = _left_out(star, item, joins)
        if item.names is None or left_out.fields:
            return None
        columns += [
            OutputColumn(name, exp.column(name, table=item.alias))
            for name in item.names
            if name.lower() not in left_out.columns
        ]
    return columns


def _changed_by(
    star: exp.Expr, joins: tuple[ViewJoin, ...]
) -> Iterator[frozenset[str]]:
    """The names, in lower case, that a star over entries of FROM does not pass on
    unchanged; nothing for the star of a struct, which passes on no column."""
    shown = _shown_by(star, joins)
    if shown and not _has_other_options(star):
        left_out = [_left_out(star, item, joins) for item in shown]
        yield frozenset[str]().union(
            *(it.columns | it.without_fields for it in left_out)
        )


def _left_out(star: exp.Expr, one: ViewItem, joins: tuple[ViewJoin, ...]) -> LeftOut:
    """What the EXCEPT of a star leaves out of one entry of FROM."""
    named = [(item.alias, item.path) for item in items_of(joins)]
    return left_out_of(star, [(one.alias, one.path)], named)


def _has_other_options(star: exp.Expr) -> bool:
    """Whether a star has more than an EXCEPT, such as the REPLACE of other engines."""
    inner = star.this if isinstance(star, exp.Column) else star
    return any(value for key, value in inner.args.items() if key != "except_")


def _shown_by(star: exp.Expr, joins: tuple[ViewJoin, ...]) -> list[ViewItem]:
    """The entries of FROM whose columns a star stands for; none for the star of a
    struct."""
    table = star.table.lower() if isinstance(star, exp.Column) else ""
    hidden = {
        id(item)
        for join in joins
        if join.kind in ("semi", "anti")
        for item in items_of((join,))
    }
    return [
        item
        for item in items_of(joins)
        if id(item) not in hidden and table in ("", item.alias.lower())
    ]


def find_expression(
    wanted: exp.Expr, outputs: OutputColumns, items: Sequence[ViewItem], by_name: bool
) -> OutputColumn | None:
    """The output that is the expression `wanted` over the entries of a FROM; None if
    none is. With a star whose columns are not known over a single entry, each column
    that the star does not leave out and that is not another output's name counts as an
    output."""
    text = spelled_expression(wanted, items, by_name)
    for column in outputs.columns:
        if spelled_expression(column.expression, items, by_name) == text:
            return column
    is_whole = len(items) == 1 and _is_whole_column(wanted, items[0])
    is_passed = is_whole and outputs.passes(wanted.name)
    if is_passed and outputs.find(wanted.name) is None:
        return OutputColumn(wanted.name, wanted)
    return None


def _is_whole_column(node: exp.Expr, item: ViewItem) -> bool:
    """Whether an expression names a column of the only entry of a FROM, and no field of
    a column."""
    if not isinstance(node, exp.Column) or node.is_star:
        return False
    qualifier = tuple(part.name.lower() for part in node.parts[:-1])
    return not qualifier or qualifier in qualifiers_of(item.alias, item.path)


def spelled_expression(node: exp.Expr, items: Sequence[ViewItem], by_name: bool) -> str:
    """An expression as a text, in which each column is qualified by the entry that it
    certainly belongs to, so that equal expressions have equal texts. `by_name`: entries
    are joined by USING or NATURAL, so that a name may mean columns of two."""

    def qualified(inner: exp.Expr) -> exp.Expr:
        if not isinstance(inner, exp.Column) or inner.is_star:
            return inner
        path = [part.name.lower() for part in inner.parts]
        aliases = {item.alias.lower() for item in items}
        if len(path) == 1 or path[0] not in aliases:
            path = [*_owner(path[0], items, by_name), *path]
        return exp.Column(this=exp.to_identifier(".".join(path), quoted=True))

    return node.copy().transform(qualified).sql("spark")


def _owner(name: str, items: Sequence[ViewItem], by_name: bool) -> Iterator[str]:
    """The alias of the one entry that has a column; nothing if there is not exactly
    one, or if columns are not known."""
    if len(items) == 1:
        yield items[0].alias.lower()
        return
    if by_name or any(item.names is None for item in items):
        return
    owners = [
        item for item in items if name in (known.lower() for known in item.names or ())
    ]
    if len(owners) == 1:
        yield owners[0].alias.lower()
