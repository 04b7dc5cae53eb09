"""Parses a SELECT in Spark's SQL and resolves its names by sqlglot, so that each column
names its relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.select.sqltext import is_doubled_quote
from lakesql.unit.duck_scope import DuckRelation, describe
from lakesql.unit.duck_times import TRUNCATED, UNITS
from lakesql.unit.duck_types import NeedsSparkError


@dataclass(frozen=True, slots=True)
class DuckTable:
    """A table that a SELECT may read: its name in DuckDB, and the types of its columns
    by name."""

    name: str
    columns: Mapping[str, str]


SPELLED = "spelled"
"""The key under which the name of an output has, as metadata, its spelling by the
author; resolved names are in lower case."""


def resolve_query(sql: str, tables: Mapping[tuple[str, ...], DuckTable]) -> exp.Query:
    """The tree of a SELECT with its names resolved. `tables` are by the parts of their
    names, in lower case. Raises `NeedsSparkError` for a SELECT that sqlglot may
    understand differently from Spark."""
    tree = _parse(sql)
    if not isinstance(tree, exp.Query):
        raise NeedsSparkError(describe(tree))
    _refuse_what_is_lost(tree)
    known = {table.name: table.columns for table in tables.values()}
    _name_tables(tree, tables)
    return _qualify(tree, known)


def resolve_condition(text: str, relations: Sequence[DuckRelation]) -> exp.Expr:
    """The tree of an expression over rows of the relations, with its names resolved.
    Raises `NeedsSparkError` for an expression that sqlglot may understand differently
    from Spark."""
    condition = _parse(text)
    if condition.find(exp.Query):
        raise NeedsSparkError("a query in a condition")
    select = exp.select(exp.alias_(condition, "condition", copy=False), copy=False)
    for relation in relations:
        table = exp.Table(this=exp.to_identifier(relation.alias, quoted=True))
        select = (
            select.from_(table)
            if not select.args.get("from_")
            else select.join(table, join_type="cross")
        )
    known = {relation.alias: relation.columns for relation in relations}
    (output,) = _qualify(select, known).selects
    made: exp.Expr = output.this
    return made


def _parse(text: str) -> exp.Expr:
    """The tree of a text in Spark's SQL. Raises `NeedsSparkError` if the tree may
    differ from what Spark reads."""
    if "\\" in text:
        raise NeedsSparkError("a backslash, which may be an escape")
    tokens = Spark().tokenize(text)
    if any(is_doubled_quote(text, before, after) for before, after in pairwise(tokens)):
        raise NeedsSparkError("a text with a quote in it")
    _refuse_tokens(tokens)
    try:
        tree = Spark().parser().parse(tokens, text)[0]
    except SqlglotError:
        raise NeedsSparkError("what sqlglot cannot read") from None
    assert tree is not None, "lakesql has read the text before"
    _refuse_other_bindings(tree)
    return tree


def _refuse_tokens(tokens: Sequence[Token]) -> None:
    """Raise `NeedsSparkError` for what the tree no longer shows: the spelling of a time
    unit (sqlglot takes `H` for an hour, Spark does not), and whether a function is the
    `try_` form of another."""
    for at, token in enumerate(tokens):
        word = token.text.lower()
        if word.startswith("try_"):
            raise NeedsSparkError(f"{word}()")
        match [(each.token_type, each.text) for each in tokens[at + 1 : at + 4]]:
            case [(TokenType.L_PAREN, _), *arguments] if word == "date_trunc":
                match arguments:
                    case [(TokenType.STRING, unit), (TokenType.COMMA, _)] if (
                        unit.lower() in TRUNCATED
                    ):
                        pass
                    case _:
                        raise NeedsSparkError(
                            f"date_trunc() by another unit than {', '.join(TRUNCATED)}"
                        )
            case [(TokenType.STRING | TokenType.NUMBER, amount), *rest] if (
                token.token_type is TokenType.INTERVAL
            ):
                unit = (
                    amount.partition(" ")[2]
                    if not amount.isdigit()
                    else rest[0][1]
                    if rest
                    else ""
                )
                if unit.upper().removesuffix("S") not in UNITS:
                    raise NeedsSparkError(
                        f"an INTERVAL in another unit than {', '.join(UNITS)}"
                    )
            case _:
                pass


_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
"""Operators of equal precedence in Spark; for sqlglot, `=` and `<>` bind less tightly
than `<`."""

_PREDICATES = (exp.Between, exp.In, exp.Like, exp.ILike, exp.Not)
"""Predicates that bind more tightly than comparisons for sqlglot, and less tightly for
Spark. NOT stands here for NOT IN and NOT BETWEEN."""


def _refuse_other_bindings(tree: exp.Expr) -> None:
    """Raise `NeedsSparkError` for operators without parentheses whose precedence
    differs between sqlglot and Spark."""
    for node in tree.find_all(*_COMPARISONS, exp.DPipe, exp.Binary):
        left, right = node.args.get("this"), node.args.get("expression")
        match node:
            case exp.DPipe():  # to the parser + binds more than ||, to Spark as much
                is_other = isinstance(right, exp.Add | exp.Sub)
            case _ if isinstance(node, _COMPARISONS):
                is_other = isinstance(left, _PREDICATES) or isinstance(
                    right, (*_PREDICATES, *_COMPARISONS)
                )
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor():
                is_other = isinstance(left, exp.Binary) or isinstance(right, exp.Binary)
            case _:
                is_other = False
        if is_other:
            raise NeedsSparkError(
                f"{describe(node)}, which Spark reads from left to right: brackets would say it"
            )


def _refuse_what_is_lost(tree: exp.Query) -> None:
    """Raise `NeedsSparkError` for what the resolution of names would drop, and record
    how the author spells the names of outputs."""
    for select in tree.find_all(exp.Select):
        first = select.args.get("from_")
        # sqlglot puts the joins there for a SELECT that begins with FROM
        if first is not None and first.this.args.get("joins"):
            select.set(
                "joins",
                [*first.this.args.pop("joins"), *(select.args.get("joins") or ())],
            )
        for star in select.find_all(exp.Star):
            if any(
                isinstance(it, exp.Dot) or (isinstance(it, exp.Column) and it.table)
                for it in _left_out(star)
            ):
                raise NeedsSparkError("a * without a field of a struct")
        for at, output in enumerate(select.expressions):
            if isinstance(output, exp.Column) and not output.is_star:
                name = exp.to_identifier(output.output_name, quoted=True)
                output = exp.Alias(this=output, alias=name)
                select.expressions[at] = output
                output.parent = select
                select.set("expressions", select.expressions)
            if isinstance(output, exp.Alias):
                output.args["alias"].meta[SPELLED] = output.alias


def _left_out(star: exp.Star) -> Sequence[exp.Expr]:
    """The columns that EXCEPT excludes from a `*`."""
    return star.args.get("except_") or ()


def _name_tables(tree: exp.Query, tables: Mapping[tuple[str, ...], DuckTable]) -> None:
    """Replace the name of each table by its name in DuckDB. Names that a WITH defines
    are left as they are."""
    named = set[int]()
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if (
                not isinstance(source, exp.Table)
                or isinstance(source.this, exp.Func)
                or id(source) in named
            ):
                continue
            path = tuple(part.name.lower() for part in source.parts)
            if path not in tables:
                raise NeedsSparkError(f"{'.'.join(path)} is no stream and no ref")
            if not source.alias:
                source.set(
                    "alias",
                    exp.TableAlias(this=exp.to_identifier(path[-1], quoted=True)),
                )
            source.set("this", exp.to_identifier(tables[path].name, quoted=True))
            source.set("db", None)
            source.set("catalog", None)
            named.add(id(source))


def _qualify(tree: exp.Query, columns: Mapping[str, Mapping[str, str]]) -> exp.Query:
    schema: dict[str, object] = {
        name: dict.fromkeys(kinds, "string") for name, kinds in columns.items()
    }
    try:
        found = qualify(
            tree,
            dialect="spark",
            schema=schema,
            expand_alias_refs=False,
            validate_qualify_columns=False,
        )
    except SqlglotError as error:
        raise NeedsSparkError(
            f"names that cannot be resolved: {str(error).splitlines()[0]}"
        ) from None
    return found
