"""What must not be done to the rows of a stream, each with its reason and what to do instead."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.names import CHANGE, RECORD
from lakesql.select.relation import Relation, Walk, last_mark, offset_of
from lakesql.select.sqltext import clause

_LIMITS = frozenset({TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET})
_ORDERS = frozenset({TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY})
_EACH_BATCH = "A stream has no end: this would hold for the rows of one batch only."


_SELECT_PARTS = frozenset(
    {"with_", "hint", "distinct", "expressions", "into", "from_", "joins", "laterals", "where", "group", "having"}
    | {"qualify", "windows", "sample", "order", "sort", "distribute", "cluster", "limit", "offset"}
)
_FOREIGN = {"kind": "SELECT AS", "locks": "FOR UPDATE", "connect": "CONNECT BY"}
_JOINS = frozenset({"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"})
"""What Spark's grammar has (SqlBaseParser.g4), in sqlglot's words: it reads those of other databases as well."""


def refuse_foreign(node: exp.Expr, offset: int, walk: Walk) -> None:
    """Notes what sqlglot reads and Spark does not, of one SELECT, join, set operation, table or star."""
    found = ""
    match node:
        case exp.Select():
            foreign = sorted(key for key, value in node.args.items() if value and key not in _SELECT_PARTS)
            found = _FOREIGN.get(foreign[0], foreign[0].upper()) if foreign else ""
            if (distinct := node.args.get("distinct")) is not None and distinct.args.get("on"):
                found = "DISTINCT ON"
        case exp.Join():
            words = (node.method.upper(), node.kind.upper())
            if words[0] not in ("", "NATURAL") or words[1] not in _JOINS:
                found = f"{' '.join(filter(None, words))} JOIN"
            elif isinstance(node.this, exp.Lateral) and node.this.args.get("cross_apply") is not None:
                found = "APPLY"
            elif isinstance(node.this, exp.Unnest):
                found = "UNNEST"
        case exp.SetOperation():
            found = "BY NAME" if node.args.get("by_name") else ""
        case exp.Table():
            found = "WITH (…) behind a table" if node.args.get("hints") else ""
        case exp.Star():
            found = next((f"* {key.upper()}" for key in ("replace", "rename") if node.args.get(key)), "")
    if found:
        walk.findings.add("sql-syntax", offset, f"Spark has no {found}.")


def refuse_in_stream(select: exp.Select, mark: int, walk: Walk) -> None:
    """Notes what a SELECT must not do to the rows of a stream."""
    findings, tokens = walk.findings, walk.text.tokens
    refuse_order(select, select, walk)
    for index in walk.text.windows.get(mark, ())[:1]:
        findings.add(
            "window-over-stream",
            tokens[index].start,
            "A window function over a stream would see the rows of one batch only.",
        )
    if select.args.get("sample"):
        _refuse_sample(offset_of(select.args["from_"].this), walk)
    if into := select.args.get("into"):
        findings.add("not-a-select", offset_of(into), "SELECT INTO writes a table.", fix="Leave INTO out.")
    for part in select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select):
        if isinstance(part, exp.Star) and not _is_counted_or_selected(part, select):
            findings.add(
                "star-in-function",
                offset_of(part.find_ancestor(exp.Func, exp.Select) or part, tokens[mark].start),
                "* inside a function takes in the columns that lakesql adds to a stream.",
            )


def _is_counted_or_selected(star: exp.Star, select: exp.Select) -> bool:
    """Whether this is `count(*)`, or an expression of the SELECT by itself: `*`, `t.*`, `s.*`."""
    whole = star.parent if isinstance(star.parent, exp.Column | exp.Dot) else star
    return isinstance(whole.parent, exp.Count) or (whole.parent is select and whole.arg_key == "expressions")


def refuse_order(query: exp.Expr, last: exp.Expr, walk: Walk) -> None:
    """Notes ORDER BY, SORT BY, LIMIT and OFFSET; `last` is the last SELECT before them."""
    for keys, kinds, what in (
        (("limit", "offset", "fetch"), _LIMITS, "LIMIT and OFFSET count"),
        (("order", "sort", "cluster"), _ORDERS, "ORDER BY and SORT BY order"),
    ):
        if any(query.args.get(key) for key in keys):
            mark = last_mark(last)
            found = clause(walk.text, mark, kinds)
            walk.findings.add(
                "order-over-stream",
                walk.text.tokens[found[0] if found else mark].start,
                f"{what} all rows, and a stream is never all there.",
                _EACH_BATCH,
            )


def refuse_on_stream(table: exp.Expr, walk: Walk) -> None:
    """Notes what must not follow a stream's name in FROM."""
    if table.args.get("version"):
        walk.findings.add("sql-syntax", offset_of(table), "A stream has no versions: those of tables can be read.")
    for pivot in table.args.get("pivots") or ():
        if not pivot.args.get("unpivot"):
            walk.findings.add("pivot-over-stream", offset_of(table), "PIVOT groups all rows.")
    if table.args.get("sample"):
        _refuse_sample(offset_of(table), walk)


def _refuse_sample(offset: int, walk: Walk) -> None:
    walk.findings.add("sample-over-stream", offset, "TABLESAMPLE takes other rows when a batch is run again.")


def refuse_inside(offset: int, relation: Relation, walk: Walk) -> None:
    """Notes that a query inside an expression reads a stream."""
    walk.findings.add(
        "stream-in-expression",
        offset,
        f"The stream '{relation.streams[0]}' is read inside an expression, which would see one batch of it only.",
    )


def refuse_alias(identifier: exp.Expr | None, walk: Walk) -> None:
    """Notes an alias that takes the name of a stream's own column."""
    if identifier is not None and identifier.name.lower() in (RECORD, CHANGE):
        what = f"'{identifier.name}' is what a stream calls a column of its own."
        walk.findings.add("reserved-column", offset_of(identifier), what)
