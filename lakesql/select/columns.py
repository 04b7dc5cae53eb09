"""The columns of a SELECT: their names and types, and the column of a stream that each
is, where it is passed on unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.names import CHANGE, RECORD, is_reserved
from lakesql.select.derive import derive_shape
from lakesql.select.generators import generated_columns, is_generator
from lakesql.select.groups import ordinal
from lakesql.select.left_out import excepted, without_excepted
from lakesql.select.refusals import refuse_alias, refuse_foreign
from lakesql.select.relation import (
    QueryColumn,
    Relation,
    Scope,
    Sources,
    Walk,
    columns_of_one,
    columns_side_by_side,
    offset_of,
    unaliased,
)
from lakesql.select.sqltext import projections
from lakesql.stream.types import known, parse_type, whole

TIME_FUNCTIONS = frozenset({"window", "session_window", "window_time"})
"""Functions whose result carries the watermark of their first argument."""


def read_columns(
    select: exp.Select, mark: int, sources: Sources, walk: Walk
) -> tuple[QueryColumn, ...] | None:
    """The columns of a SELECT; None where a star stands for columns that are not
    known."""
    spans = projections(walk.text, mark)
    expressions = select.expressions
    if len(spans) != len(expressions):
        # a type outside of brackets has commas too, as in `x::map<int,int>`
        spans = [(mark, mark)] * len(expressions)
    columns: list[QueryColumn] = []
    known = True
    earlier: dict[str, tuple[QueryColumn, ...]] = {}
    for expression, span in zip(expressions, spans, strict=True):
        start = walk.text.tokens[min(span[0], len(walk.text.tokens) - 1)].start
        if expression.is_star and isinstance(expression, exp.Star | exp.Column):
            refuse_foreign(
                expression.this if isinstance(expression, exp.Column) else expression,
                start,
                walk,
            )
            found: list[QueryColumn] | None = _star(expression, start, sources)
        elif is_generator(
            expression.this
            if isinstance(expression, exp.Alias | exp.Aliases)
            else expression
        ):
            found = _generated(expression, start, Scope(tuple(sources), earlier), walk)
        else:
            found = [
                _single(expression, span, start, Scope(tuple(sources), earlier), walk)
            ]
        known = known and found is not None
        columns += found or ()
        add_aliases(earlier, found or ())
    return tuple(columns) if known else None


def aliases_of(columns: Iterable[QueryColumn]) -> Mapping[str, tuple[QueryColumn, ...]]:
    """The columns of a SELECT by name in lower case, as its other expressions may name
    them."""
    named: dict[str, tuple[QueryColumn, ...]] = {}
    add_aliases(named, columns)
    return named


def add_aliases(
    named: dict[str, tuple[QueryColumn, ...]], columns: Iterable[QueryColumn]
) -> None:
    """Adds columns to those in `named`, by name in lower case."""
    for column in columns:
        named[column.folded] = (*named.get(column.folded, ()), column)


def _generated(
    generator: exp.Expr, start: int, scope: Scope, walk: Walk
) -> list[QueryColumn]:
    """The columns of a generator such as `explode`, with its aliases as names if it has
    any."""
    if isinstance(generator, exp.Aliases):
        aliases = generator.expressions
    else:
        aliases = [generator.args["alias"]] if isinstance(generator, exp.Alias) else []
    made = generated_columns(generator.this if aliases else generator, start, scope)
    for alias in aliases:
        refuse_alias(alias, walk)
    if not aliases:
        return (
            [QueryColumn(None, start, is_made_up=True)] if made is None else list(made)
        )
    known = made if made is not None and len(made) == len(aliases) else ()
    return list(renamed(known, aliases))


def renamed(
    columns: Iterable[QueryColumn], aliases: Iterable[exp.Expr]
) -> Iterator[QueryColumn]:
    """A column for each alias, with the type of the column in the same place; without a
    type where there is none."""
    for alias, column in zip_longest(aliases, columns):
        if alias is not None:
            known = column or QueryColumn(None, 0)
            yield QueryColumn(
                alias.name, offset_of(alias), type=known.type, shape=known.shape
            )


def _single(
    expression: exp.Expr, span: tuple[int, int], start: int, scope: Scope, walk: Walk
) -> QueryColumn:
    """The column that an expression of a SELECT is."""
    sources = list(scope.sources)
    if isinstance(expression, exp.Alias):
        refuse_alias(expression.args.get("alias"), walk)
    inner = expression.this if isinstance(expression, exp.Alias) else expression
    shape = derive_shape(inner, scope)
    column = _column(inner, start, sources)
    if isinstance(expression, exp.Alias):
        alias = expression.args["alias"]
        offset = offset_of(alias, start)
        column = replace(
            column,
            name=alias.name,
            offset=offset,
            type=whole(shape),
            shape=shape,
            is_made_up=False,
            made=object(),
        )
    elif shape is not column.known:
        column = replace(column, type=whole(shape), shape=shape)
    if column.column is not None and any(source.source for _, source in sources):
        may_be_alias = column.column.lower() in scope.aliases
        column = replace(column, stream=None, column=None) if may_be_alias else column
    cast = _cast_type(expression, span, walk)
    return replace(column, cast=cast, type=parse_type(cast)) if cast else column


def _star(
    star: exp.Star | exp.Column, start: int, sources: Sources
) -> list[QueryColumn] | None:
    qualified = isinstance(star, exp.Column)
    over = starred(star, sources)
    if not over:
        return _struct_star(star, start, sources)
    columns = (
        columns_of_one((each for _, each in sources), over[0])
        if qualified
        else columns_side_by_side(over)
    )
    if columns is None:
        return None
    return [
        replace(column, offset=start) if is_whole else QueryColumn(column.name, start)
        for column, is_whole in without_excepted(columns, star, sources)
        if not is_reserved(column.folded)
    ]


def _struct_star(
    star: exp.Star | exp.Column, start: int, sources: Sources
) -> list[QueryColumn] | None:
    """The fields that the star of a struct stands for; None where its type is not
    known."""
    if not isinstance(star, exp.Column) or star.this.args.get("except_"):
        return None
    kind = derive_shape(star, Scope(tuple(sources)))
    if kind is None or kind.name != "struct":
        return None
    return [
        QueryColumn(field.name, start, type=whole(field.type), shape=known(field.type))
        for field in kind.fields
    ]


def starred(star: exp.Expr, sources: Sources) -> list[Relation]:
    """The relations whose columns a star stands for; none for the star of a struct."""
    if isinstance(star, exp.Star):
        return [source for _, source in sources]
    parts = (
        [part.name.lower() for part in star.parts[:-1]]
        if isinstance(star, exp.Column)
        else []
    )
    return [source for name, source in sources if parts and name.lower() == parts[-1]][
        :1
    ]


def added_columns(expression: exp.Expr, sources: Sources) -> frozenset[str]:
    """Which of lakesql's columns `_record` and `_change` an expression of a SELECT
    passes on under their names."""
    if isinstance(expression, exp.Star | exp.Column) and expression.is_star:
        return frozenset(
            name
            for source in starred(expression, sources)
            for name in source.added - excepted(expression, sources, source).columns
        )
    return (
        frozenset({expression.name.lower()} & {RECORD, CHANGE})
        if isinstance(expression, exp.Column)
        else frozenset()
    )


def _column(expression: exp.Expr, start: int, sources: Sources) -> QueryColumn:
    """The column that an expression is: its name, and the facts that it has if it is an
    unchanged column."""
    match expression:
        case exp.Paren():
            return _column(expression.this, start, sources)
        case exp.Column():
            return replace(
                _resolved(expression, sources), name=expression.name, offset=start
            )
        case exp.Dot() if isinstance(expression.expression, exp.Identifier):
            return QueryColumn(expression.expression.name, start)
        case exp.Cast():
            # Spark names the cast of a column after the column, and that of anything
            # else after the whole expression
            return QueryColumn(
                expression.this.name if _is_plain(expression.this, sources) else None,
                start,
            )
        case exp.Anonymous() if (
            expression.name.lower() in TIME_FUNCTIONS and expression.expressions
        ):
            event_time = _column(expression.expressions[0], start, sources).event_time
            name = (
                expression.name.lower()
                if expression.name.lower() in ("window", "session_window")
                else None
            )
            return QueryColumn(name, start, event_time=event_time, is_made_up=True)
        case exp.Literal() | exp.Boolean() | exp.Null():
            return QueryColumn(None, start, is_made_up=True)
        case _:
            return QueryColumn(None, start)


def _cast_type(expression: exp.Expr, span: tuple[int, int], walk: Walk) -> str | None:
    """The type that a cast names, None for other expressions. It is read from the
    author's text, as sqlglot reads char(3) as string."""
    inner = expression.this if isinstance(expression, exp.Alias) else expression
    if not isinstance(inner, exp.Cast) or not span[0] < span[1]:
        return None
    tokens, depths = walk.text.tokens, walk.text.depths
    first, last = unaliased(expression, span, walk.text)
    depth = depths[first]
    if (
        tokens[first].text.lower() in ("cast", "try_cast")
        and tokens[last - 1].token_type is TokenType.R_PAREN
    ):
        kind, depth, last = TokenType.ALIAS, depth + 1, last - 1
    else:
        kind = TokenType.DCOLON
    begin = max(
        (
            at
            for at in range(first, last)
            if tokens[at].token_type is kind and depths[at] == depth
        ),
        default=-1,
    )
    if not 0 <= begin < last - 1:
        return None
    parsed = parse_type(
        walk.text.sql[tokens[begin + 1].start : tokens[last - 1].end + 1]
    )
    return parsed.text if parsed is not None else None


def _is_plain(expression: exp.Expr, sources: Sources) -> bool:
    """Whether an expression is the name of a column, and not a field of a struct."""
    if not isinstance(expression, exp.Column) or len(expression.parts) > 2:
        return False
    qualifiers = {part.name.lower() for part in expression.parts[:-1]}
    return qualifiers <= {name.lower() for name, _ in sources}


def _resolved(column: exp.Column, sources: Sources) -> QueryColumn:
    """The column that a name means; a column without a name or any facts where that is
    not clear."""
    parts = [part.name.lower() for part in column.parts]
    if parts[-2:-1] == [CHANGE] and any(
        parts[:-2] in ([], [name.lower()]) for name, _ in sources
    ):
        return QueryColumn(None, 0, change=parts[-1])
    if len(parts) > 2:
        return QueryColumn(None, 0)
    if len(parts) == 2:
        sources = [
            (name, source) for name, source in sources if name.lower() == parts[0]
        ]
    for _, source in sources:
        if found := (source.index or {}).get(parts[-1]):
            return found[0]
    if (
        len(sources) == 1
        and (name := sources[0][1].source)
        and not is_reserved(parts[-1])
    ):
        return QueryColumn(column.name, 0, name, column.name)
    return QueryColumn(None, 0)


def group_keys(
    select: exp.Select, sources: Sources, columns: tuple[QueryColumn, ...] | None
) -> tuple[QueryColumn, ...]:
    """The columns that the keys of a GROUP BY are, as far as they are known. `columns`
    are the SELECT's own, which a key may name."""
    group = select.args.get("group")
    if group is None:
        return ()
    outputs = columns or ()
    if group.args.get("all"):
        return outputs
    return tuple(
        column
        for key in group.expressions
        for column in key_columns(key, sources, outputs)
    )


def key_columns(
    key: exp.Expr, sources: Sources, outputs: tuple[QueryColumn, ...]
) -> tuple[QueryColumn, ...]:
    """The columns that one key of a GROUP BY may be: columns of the SELECT itself, by
    number or name, or what the key is computed from."""
    if named := outputs[ordinal(key)]:
        return named
    fact = _column(key, 0, sources)
    if not isinstance(key, exp.Column) or fact.event_time:
        return (fact,)
    return (*(output for output in outputs if output.folded == key.name.lower()), fact)
