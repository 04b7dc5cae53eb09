"""What a SELECT must not do to the rows of a stream, with the reason and the fix of
each refusal."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.names import CHANGE, RECORD
from lakesql.select.groups import is_sets, made_below, named_keys
from lakesql.select.relation import Relation, Sources, Walk, last_mark, offset_of
from lakesql.select.sqltext import clause, projections
from lakesql.words import answer

_LIMITS = frozenset({TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET})
_ORDERS = frozenset({TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY})

_SELECT_PARTS = frozenset(
    {
        "with_",
        "hint",
        "distinct",
        "expressions",
        "into",
        "from_",
        "joins",
        "laterals",
        "where",
        "group",
        "having",
    }
    | {
        "qualify",
        "windows",
        "sample",
        "order",
        "sort",
        "distribute",
        "cluster",
        "limit",
        "offset",
    }
)
_FOREIGN = {"kind": "SELECT AS", "locks": "FOR UPDATE", "connect": "CONNECT BY"}
_JOINS = frozenset({"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"})
"""The parts of a SELECT and the joins that Spark's grammar has (SqlBaseParser.g4), by
sqlglot's names. sqlglot also reads those of other databases."""


def refuse_foreign(node: exp.Expr, offset: int, walk: Walk) -> None:
    """Adds a finding if a SELECT, join, set operation, table or star has a part that
    sqlglot reads and Spark does not have."""
    found = ""
    match node:
        case exp.Select():
            foreign = sorted(
                key
                for key, value in node.args.items()
                if value and key not in _SELECT_PARTS
            )
            found = _FOREIGN.get(foreign[0], foreign[0].upper()) if foreign else ""
            if (
                distinct := node.args.get("distinct")
            ) is not None and distinct.args.get("on"):
                found = "DISTINCT ON"
        case exp.Join():
            words = (node.method.upper(), node.kind.upper())
            if words[0] not in ("", "NATURAL") or words[1] not in _JOINS:
                found = f"{' '.join(filter(None, words))} JOIN"
            elif (
                isinstance(node.this, exp.Lateral)
                and node.this.args.get("cross_apply") is not None
            ):
                found = "APPLY"
            elif isinstance(node.this, exp.Unnest):
                found = "UNNEST"
        case exp.SetOperation():
            found = "BY NAME" if node.args.get("by_name") else ""
        case exp.Table():
            found = "WITH (…) behind a table" if node.args.get("hints") else ""
            if (version := node.args.get("version")) is not None and version.find(
                exp.Column
            ) is not None:
                found = "FOR SYSTEM_TIME AS OF a column"
        case exp.Star():
            found = next(
                (
                    f"* {key.upper()}"
                    for key in ("replace", "rename")
                    if node.args.get(key)
                ),
                "",
            )
    if found:
        walk.findings.add(
            "sql-syntax", offset, f"Spark has no {found}.", fix=answer("clause", found)
        )


def refuse_in_stream(select: exp.Select, mark: int, walk: Walk) -> None:
    """Adds findings for what any SELECT over a stream must not do."""
    findings, tokens = walk.findings, walk.text.tokens
    refuse_order(select, select, walk)
    for index in walk.text.windows.get(mark, ())[:1]:
        what = "A window function over a stream would see the rows of one batch only."
        findings.add("window-over-stream", tokens[index].start, what)
    if select.args.get("sample"):
        _refuse_sample(offset_of(select.args["from_"].this), walk)
    if into := select.args.get("into"):
        findings.add(
            "not-a-select",
            offset_of(into),
            "SELECT INTO writes a table.",
            fix="Leave INTO out.",
        )
    for part in select.walk(
        prune=lambda node: isinstance(node, exp.Query) and node is not select
    ):
        if isinstance(part, exp.Star) and not _is_counted_or_selected(part, select):
            offset = offset_of(
                part.find_ancestor(exp.Func, exp.Select) or part, tokens[mark].start
            )
            walk.noted.setdefault("star-in-function", offset)


def refuse_in_aggregate(
    select: exp.Select, mark: int, read: Relation, walk: Walk
) -> None:
    """Adds findings for what an aggregate of a stream must not do, and notes what only
    some modes allow."""
    text = walk.text
    for call in text.aggregates.get(mark, ()):
        if text.tokens[call + 2].token_type is TokenType.DISTINCT:
            name = text.tokens[call].text
            walk.findings.add(
                "distinct-aggregate",
                text.tokens[call].start,
                f"{name}(DISTINCT …) would have to keep every value of a stream for ever.",
            )
    if read.aggregated:
        walk.noted.setdefault("nested-aggregate", text.tokens[mark].start)
    sessions = (
        token.start for token in text.tokens if token.text.lower() == "session_window"
    )
    if (session := next(sessions, None)) is not None:
        walk.noted.setdefault("session-in-upsert", session)
    if (group := select.args.get("group")) is not None and is_sets(group):
        walk.noted.setdefault("grouping-sets", text.tokens[mark].start)
    having = select.args.get("having")
    found = clause(text, mark, frozenset({TokenType.HAVING}))
    # by Spark's own list, as sqlglot reads some(…) and try_sum(…) as plain functions
    calls = text.aggregates.get(mark, ())
    made = _made_by_aggregates(select, mark, walk)
    if having is not None and found is not None:
        called = any(found[0] <= call < found[1] for call in calls)
        if called or _aggregates(having) or made & _names_in(having):
            walk.noted.setdefault("filtered-groups", text.tokens[found[0]].start)


def refuse_session_alone(
    select: exp.Select, mark: int, read: Relation, walk: Walk
) -> None:
    """Notes a SELECT of whose groups a session is all that tells them apart: of a
    stream, Spark grows the sessions of a key, and constants are none."""
    _, sources = walk.flowing[mark]
    keys = [
        key for key in _group_keys(select, sources) if not isinstance(key, exp.Literal)
    ]
    made = made_below(read, walk)
    if keys and all(
        _is_session(made.get(key.name.lower(), (key, ()))[0]) for key in keys
    ):
        sessions = (
            token.start
            for token in walk.text.tokens
            if token.text.lower() == "session_window"
        )
        walk.findings.add(
            "session-without-key",
            next(sessions, walk.text.tokens[mark].start),
            "A session of a stream is one of a key, and this SELECT groups by session_window alone.",
        )


def _group_keys(select: exp.Select, sources: Sources) -> list[exp.Expr]:
    """What a SELECT groups its rows by, where it names a column of its own what that is
    made of; nothing where it groups in several ways."""
    group = select.args.get("group")
    plain = [
        column for column in select.expressions if column.find(exp.AggFunc) is None
    ]
    if group is None or group.args.get("all"):
        return [column.unalias() for column in plain]
    return [] if is_sets(group) else [*named_keys(select, sources)]


def _is_session(key: exp.Expr) -> bool:
    return isinstance(key, exp.Anonymous) and key.name.lower() == "session_window"


def _made_by_aggregates(select: exp.Select, mark: int, walk: Walk) -> set[str]:
    """The aliases, in lower case, of a SELECT's columns that are computed from
    aggregates, or from such aliases before them.

    A name in an expression is an alias where no relation that the SELECT reads has a
    column of this name.
    """
    calls, (_, sources) = walk.text.aggregates.get(mark, ()), walk.flowing[mark]
    read = {column.folded for _, source in sources for column in source.named or ()}
    is_known = all(source.named is not None for _, source in sources)
    made: set[str] = set()
    for each, (first, last) in zip(
        select.expressions, projections(walk.text, mark), strict=False
    ):
        is_called = any(first <= call < last for call in calls)
        if isinstance(each, exp.Alias) and (
            is_called or (is_known and (made - read) & _names_in(each))
        ):
            made.add(each.alias.lower())
    return made


def refuse_above_aggregate(
    select: exp.Select, mark: int, read: Relation, walk: Walk
) -> None:
    """Notes a WHERE over the result of an aggregate that the same group may pass at one
    time and fail at another."""
    where = select.args.get("where")
    if not read.aggregated or where is None:
        return
    told = {name for group in read.groups or () for name in group.told_by}
    if _names_in(where) - told or _aggregates(where):
        found = clause(walk.text, mark, frozenset({TokenType.WHERE}))
        walk.noted.setdefault(
            "filtered-groups", walk.text.tokens[found[0] if found else mark].start
        )


def _aggregates(expression: exp.Expr) -> bool:
    return expression.find(exp.AggFunc) is not None


def _names_in(expression: exp.Expr) -> set[str]:
    return {column.name.lower() for column in expression.find_all(exp.Column)}


def _is_counted_or_selected(star: exp.Star, select: exp.Select) -> bool:
    """Whether a star is `count(*)`, or by itself an expression of the SELECT: `*`,
    `t.*`, `s.*`."""
    whole = star.parent if isinstance(star.parent, exp.Column | exp.Dot) else star
    return isinstance(whole.parent, exp.Count) or (
        whole.parent is select and whole.arg_key == "expressions"
    )


def refuse_order(query: exp.Expr, last: exp.Expr, walk: Walk) -> None:
    """Adds a finding for ORDER BY, SORT BY, LIMIT or OFFSET of a query; `last` is the
    last SELECT before them."""
    for keys, kinds, what in (
        (("limit", "offset", "fetch"), _LIMITS, "LIMIT and OFFSET count"),
        (("order", "sort", "cluster"), _ORDERS, "ORDER BY and SORT BY order"),
    ):
        if any(query.args.get(key) for key in keys):
            mark = last_mark(last)
            found = clause(walk.text, mark, kinds)
            offset = walk.text.tokens[found[0] if found else mark].start
            what = f"{what} all rows, and a stream is never all there."
            why = "A stream has no end: this would hold for the rows of one batch only."
            walk.findings.add("order-over-stream", offset, what, why)


def refuse_on_stream(table: exp.Expr, walk: Walk) -> None:
    """Adds findings for what must not follow a stream's name in FROM."""
    if table.args.get("version"):
        walk.findings.add(
            "sql-syntax",
            offset_of(table),
            "A stream has no versions: those of tables can be read.",
        )
    for pivot in table.args.get("pivots") or ():
        if not pivot.args.get("unpivot"):
            walk.findings.add(
                "pivot-over-stream", offset_of(table), "PIVOT groups all rows."
            )
    if table.args.get("sample"):
        _refuse_sample(offset_of(table), walk)


def _refuse_sample(offset: int, walk: Walk) -> None:
    walk.findings.add(
        "sample-over-stream",
        offset,
        "TABLESAMPLE takes other rows when a batch is run again.",
    )


def refuse_inside(offset: int, relation: Relation, walk: Walk) -> None:
    """Adds a finding for a query inside an expression that reads a stream."""
    what = f"The stream '{relation.streams[0]}' is read inside an expression, which would see one batch of it only."
    walk.findings.add("stream-in-expression", offset, what)


def refuse_added(added: frozenset[str], offset: int, walk: Walk) -> None:
    """Adds a finding for a star that includes `_record` or `_change` among the columns
    by which rows are compared: of a DISTINCT, a UNION or a GROUP BY ALL."""
    if added:
        names = ", ".join(sorted(added))
        walk.findings.add(
            "star-with-record",
            offset,
            f"The * here takes in {names} too, which the SELECT uses elsewhere.",
            "Each record differs in it: no two rows would be equal, and a group would be one record.",
            f"Name the columns, or write * EXCEPT ({names}).",
        )


def refuse_alias(identifier: exp.Expr | None, walk: Walk) -> None:
    """Adds a finding for an alias `_record` or `_change`, which are columns of
    streams."""
    if identifier is not None and identifier.name.lower() in (RECORD, CHANGE):
        what = f"'{identifier.name}' is what a stream calls a column of its own."
        walk.findings.add("reserved-column", offset_of(identifier), what)
