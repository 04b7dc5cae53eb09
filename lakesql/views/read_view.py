"""How the text of a SELECT over tables is read into the tree that keeps a view: every
part keeps its tokens, so that the author's text can be written again over other
tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.select.query import parse_query
from lakesql.select.relation import mark_of
from lakesql.select.sqltext import Findings, Text, clauses, read_text
from lakesql.views.output_columns import columns_of_select
from lakesql.views.view_tree import (
    CannotKeepError,
    InnerQuery,
    JoinKind,
    Span,
    ViewBlock,
    ViewInput,
    ViewItem,
    ViewJoin,
    ViewQuery,
    ViewSet,
)


@dataclass(slots=True)
class ViewText:
    """The text of a SELECT, and where it is written differently over other tables. All
    numbers are of tokens.

    `named` are the entries of a FROM that name a table or a common table expression, by
    the first token of the name.
    `cuts` has the tokens that are left out, the catalog and the namespace before
    `table.column`: from the key up to the value, which stays.
    `closes` has the closing bracket of each opening one. `at` has the token that begins
    at an offset.
    """

    text: Text
    inputs: Sequence[ViewInput]
    named: dict[int, ViewItem] = field(default_factory=dict)
    cuts: dict[int, int] = field(default_factory=dict)
    closes: dict[int, int] = field(default_factory=dict)
    at: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query of WITH, and the names that WITH gives to its columns (none: their
    own)."""

    query: ViewQuery
    renames: tuple[str, ...]


_Known = Mapping[str, CommonTable]


def read_view(
    sql: str, inputs: Sequence[ViewInput], findings: Findings
) -> tuple[ViewText, exp.Query]:
    """The tokens of a SELECT, and its syntax tree. Raises `ProjectError` if it cannot
    be parsed."""
    text = read_text(sql, findings)
    tree = parse_query(text, sql, findings)
    view = ViewText(text, inputs)
    opened: list[int] = []
    for number, token in enumerate(text.tokens):
        view.at[token.start] = number
        if token.token_type is TokenType.L_PAREN:
            opened.append(number)
        elif token.token_type is TokenType.R_PAREN and opened:
            view.closes[opened.pop()] = number
    return view, tree


def read_tree(view: ViewText, tree: exp.Query) -> ViewQuery:
    """The tree of the SELECT as values. Raises `CannotKeepError` for a form that cannot
    be kept by what has changed."""
    query = _query(view, tree, {})
    query.span = (0, len(view.text.tokens))
    return query


def _query(view: ViewText, node: exp.Expr, known: _Known) -> ViewQuery:
    known = _with(view, node, known)
    if node.args.get("limit") or node.args.get("offset"):
        raise CannotKeepError(
            "LIMIT takes rows by their place among all others", _limit_token(view, node)
        )
    match node:
        case exp.Select():
            return _block(view, node, known)
        case exp.SetOperation():
            return _set(view, node, known)
        case exp.Subquery():
            return _query(view, node.this, known)
        case _:
            raise CannotKeepError(f"{node.key.upper()} is not a SELECT")


def _limit_token(view: ViewText, node: exp.Expr) -> int:
    """The token of a query's LIMIT or OFFSET; if several may be it, the last one of the
    text."""
    kinds = (TokenType.LIMIT, TokenType.OFFSET)
    found = [
        at for at, token in enumerate(view.text.tokens) if token.token_type in kinds
    ]
    mark = mark_of(node) if isinstance(node, exp.Select) else None
    own = [at for at in found if view.text.owners[at] == mark]
    return (own or found or [0])[-1]


def _with(view: ViewText, node: exp.Expr, known: _Known) -> _Known:
    with_ = node.args.get("with_")
    if with_ is None:
        return known
    known = dict(known)
    for cte in with_.expressions:
        name = view.at[cte.args["alias"].this.meta["start"]]
        if with_.args.get("recursive"):
            raise CannotKeepError(
                "a recursive query may reach any row from any other", name
            )
        query = _query(view, cte.this, known)
        query.span = _inside_brackets(view, cte.this)
        known[cte.alias.lower()] = CommonTable(query, _alias_columns(cte))
    return known


def _alias_columns(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    return tuple(column.name for column in columns or ())


def _marks(node: exp.Expr) -> list[int]:
    found = [mark_of(select) for select in node.find_all(exp.Select)]
    return [mark for mark in found if mark is not None]


def _inside_brackets(view: ViewText, node: exp.Expr) -> Span:
    """The tokens of a query in brackets, without the brackets: the innermost ones
    around all of its SELECTs."""
    marks = _marks(node)
    if not marks:
        raise CannotKeepError("a query without a SELECT")
    around = [
        (opening, close)
        for opening, close in view.closes.items()
        if opening < min(marks) and close > max(marks)
    ]
    opening, close = max(around, default=(-1, len(view.text.tokens)))
    return opening + 1, close


def _set(view: ViewText, node: exp.SetOperation, known: _Known) -> ViewSet:
    branches = (_query(view, node.this, known), _query(view, node.expression, known))
    is_all = isinstance(node, exp.Union) and not node.args.get("distinct")
    if node.args.get("by_name") or node.args.get("on") or node.args.get("kind"):
        raise CannotKeepError(
            "a set operation by the names of columns", _marks(node)[0]
        )
    flat: list[ViewQuery] = []
    for branch in branches:
        is_flat = isinstance(branch, ViewSet) and branch.is_all and is_all
        flat += branch.branches if isinstance(branch, ViewSet) and is_flat else [branch]
    return ViewSet(tuple(flat), is_all, flat[0].outputs)


# --- one SELECT

_CUTS = {
    "pivots": "PIVOT makes columns of values",
    "sample": "TABLESAMPLE takes other rows each time",
    "match": "MATCH_RECOGNIZE looks at rows in their order",
    "into": "INTO",
    "connect": "CONNECT BY",
    "kind": "SELECT AS",
}


def _block(view: ViewText, select: exp.Select, known: _Known) -> ViewBlock:
    mark = mark_of(select)
    if mark is None or view.text.tokens[mark].token_type is not TokenType.SELECT:
        raise CannotKeepError("a query has no SELECT of its own")
    for key, reason in _CUTS.items():
        if select.args.get(key):
            raise CannotKeepError(reason, mark)
    spans = _clauses(view, mark)
    first = min((span[0] for span in spans.values()), default=_end_of(view, mark))
    from_ = select.args.get("from_")
    if from_ is not None and spans.get(TokenType.FROM, (0, 0))[0] != first:
        raise CannotKeepError("FROM stands before SELECT", mark)
    joins, tail = _from(view, select, spans.get(TokenType.FROM), known)
    outputs = columns_of_select(select, joins)
    where = spans.get(TokenType.WHERE)
    group = select.args.get("group")
    block = ViewBlock(
        select=select,
        mark=mark,
        head=(mark, first),
        joins=joins,
        tail=tail,
        where=None if where is None else (where[0] + 1, where[1]),
        conditions=()
        if where is None
        else tuple(_conditions(view, (where[0] + 1, where[1]))),
        group=spans.get(TokenType.GROUP_BY),
        windows=spans.get(TokenType.WINDOW),
        inner=[],
        outputs=outputs,
        is_grouped=bool(group)
        or bool(select.args.get("having"))
        or mark in view.text.aggregates,
        is_distinct=bool(select.args.get("distinct")),
        has_windows=mark in view.text.windows,
        span=(mark, max((span[1] for span in spans.values()), default=first)),
    )
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise CannotKeepError("DISTINCT ON takes one row of many", mark)
    block.inner = list(_inner_queries(view, block, known))
    block.reads = frozenset[int]().union(
        *(item.reads for item in block.items),
        *(inner.query.reads for inner in block.inner),
    )
    _cut_qualifiers(view, block)
    return block


_SET_WORDS = (TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT)


def _clauses(view: ViewText, mark: int) -> dict[TokenType, Span]:
    """The tokens of each clause of a SELECT, by the token that begins it, up to a set
    operation."""
    found: dict[TokenType, Span] = {}
    for first, last in clauses(view.text, mark):
        kind = view.text.tokens[first].token_type
        if kind in _SET_WORDS:
            break
        found.setdefault(kind, (first, last))
    return found


def _end_of(view: ViewText, mark: int) -> int:
    """One past the last token of a SELECT without clauses."""
    tokens, depths = view.text.tokens, view.text.depths
    at = mark + 1
    while at < len(tokens) and depths[at] >= depths[mark]:
        is_own = depths[at] == depths[mark]
        if is_own and (
            tokens[at].token_type in _SET_WORDS or view.text.owners[at] != mark
        ):
            break
        at += 1
    return at


# --- FROM

_JOIN_WORDS = frozenset(
    {"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI"}
)


def _from(
    view: ViewText, select: exp.Select, span: Span | None, known: _Known
) -> tuple[tuple[ViewJoin, ...], Span | None]:
    """The joins of a SELECT's FROM, and the tokens of its LATERAL VIEWs (None: it has
    none)."""
    from_ = select.args.get("from_")
    if from_ is None or span is None:
        return (), None
    first, last = span[0] + 1, span[1]
    laterals = select.args.get("laterals") or ()
    tail = None
    if laterals:
        depth = view.text.depths[span[0]]
        views = [
            at
            for at in range(first, last - 1)
            if view.text.tokens[at].text.upper() == "LATERAL"
            and view.text.tokens[at + 1].text.upper() == "VIEW"
            and view.text.depths[at] == depth
        ]
        if len(views) != len(laterals):
            raise CannotKeepError("this LATERAL VIEW", span[0])
        tail = (views[0], last)
        last = views[0]
    return _joins(
        view, from_.this, select.args.get("joins") or (), (first, last), known
    ), tail


@dataclass(frozen=True, slots=True)
class _FromEntry:
    """The tokens of an entry of a FROM, and those of its ON or USING."""

    item: Span
    condition: Span | None


def _joins(
    view: ViewText,
    first: exp.Expr,
    others: Sequence[exp.Join],
    span: Span,
    known: _Known,
) -> tuple[ViewJoin, ...]:
    """The entries of a FROM, or of brackets in it, each with how it is joined."""
    entries = list(_entries(view, span))
    is_nested = any(other.this.args.get("joins") for other in others)
    if len(entries) != len(others) + 1 or is_nested:
        raise CannotKeepError("these joins: write each ON behind its own JOIN", span[0])
    joins = [ViewJoin(_item(view, first, entries[0].item, known), "first")]
    for node, entry in zip(others, entries[1:], strict=True):
        item = _item(view, node.this, entry.item, known)
        kind = _kind(node, entry.item[0])
        is_natural, is_by_name = (
            node.method.upper() == "NATURAL",
            bool(node.args.get("using")),
        )
        joins.append(ViewJoin(item, kind, is_natural, entry.condition, is_by_name))
    return tuple(joins)


def _entries(view: ViewText, span: Span) -> Iterator[_FromEntry]:
    """The entries of a FROM by their tokens, separated by a comma or the words of a
    JOIN."""
    tokens, depths = view.text.tokens, view.text.depths
    first, last = span
    depth = depths[first]
    cuts: list[Span] = []
    for at in range(first, last):
        if depths[at] != depth:
            continue
        if tokens[at].token_type is TokenType.COMMA and not _is_of_values(
            view, cuts[-1][1] if cuts else first, at
        ):
            cuts.append((at, at + 1))
        elif tokens[at].token_type is TokenType.JOIN:
            start = at
            while (
                start > first
                and set(tokens[start - 1].text.upper().split()) <= _JOIN_WORDS
            ):
                start -= 1
            cuts.append((start, at + 1))
    starts = [first, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), last]
    for start, end in zip(starts, ends, strict=True):
        kinds = (TokenType.ON, TokenType.USING)
        own = [at for at in range(start, end) if depths[at] == depth]
        condition = next((at for at in own if tokens[at].token_type in kinds), end)
        yield _FromEntry(
            (start, condition), (condition, end) if condition < end else None
        )


def _is_of_values(view: ViewText, start: int, comma: int) -> bool:
    """Whether a comma separates two rows of VALUES."""
    depth = view.text.depths[start]
    own = [at for at in range(start, comma) if view.text.depths[at] == depth]
    kinds = {view.text.tokens[at].token_type for at in own[1:]}
    is_values = view.text.tokens[start].token_type is TokenType.VALUES
    return is_values and kinds <= {
        TokenType.L_PAREN,
        TokenType.R_PAREN,
        TokenType.COMMA,
    }


def _kind(join: exp.Join, token: int) -> JoinKind:
    side, kind = join.side.upper(), join.kind.upper()
    method = join.method.upper()
    if method not in ("", "NATURAL"):
        raise CannotKeepError(f"a join by {method}", token)
    if kind in ("SEMI", "ANTI"):
        return "semi" if kind == "SEMI" else "anti"
    match side:
        case "":
            return "inner"
        case "LEFT":
            return "left"
        case "RIGHT":
            return "right"
        case "FULL":
            return "full"
        case _:
            raise CannotKeepError(f"{side} JOIN", token)


_OF_TABLES = {
    "sample": "TABLESAMPLE takes other rows each time",
    "version": "a table at one point of its history does not change",
    "when": "a table at one point of its history does not change",
    "pivots": "PIVOT makes columns of values",
}


def _item(view: ViewText, table: exp.Expr, span: Span, known: _Known) -> ViewItem:
    for key, reason in _OF_TABLES.items():
        if table.args.get(key):
            raise CannotKeepError(reason, span[0])
    match table:
        case exp.Table() if isinstance(table.this, exp.Func):
            return ViewItem(span, span, table.alias, columns=_alias_columns(table))
        case exp.Table():
            return _named(view, table, span, known)
        case exp.Subquery() if (
            isinstance(table.this, exp.Table | exp.Subquery) and not table.alias
        ):
            return _bracketed(view, table, span, known)
        case exp.Subquery() if isinstance(table.this, exp.Query):
            return _derived(view, table, span, known)
        case exp.Values():
            return ViewItem(
                span,
                span,
                table.alias,
                columns=_alias_columns(table),
                names=_alias_columns(table) or None,
            )
        case _:
            raise CannotKeepError("this entry of FROM", span[0])


def _named(view: ViewText, table: exp.Table, span: Span, known: _Known) -> ViewItem:
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
    first, last = view.at[parts[0].meta["start"]], view.at[parts[-1].meta["start"]]
    path = tuple(part.name.lower() for part in parts)
    item = ViewItem(
        span,
        (first, last + 1),
        table.alias or parts[-1].name,
        adds_alias=not table.alias,
        columns=_alias_columns(table),
    )
    if len(path) == 1 and path[0] in known:
        common = known[path[0]]
        item.query, item.renames, item.by_name = common.query, common.renames, True
        names = item.renames or common.query.outputs.names
    else:
        number = next(
            (
                at
                for at, one in enumerate(view.inputs)
                if tuple(map(str.lower, one.table)) == path
            ),
            None,
        )
        if number is None:
            raise CannotKeepError(
                f"{'.'.join(path)} is none of the tables that it is said to read", first
            )
        item.input = number
        item.path = path if item.adds_alias else ()
        names = view.inputs[number].columns
    item.names = item.columns or names
    view.named[first] = item
    return item


def _derived(
    view: ViewText, table: exp.Subquery, span: Span, known: _Known
) -> ViewItem:
    if view.text.tokens[span[0]].token_type is not TokenType.L_PAREN:
        raise CannotKeepError("LATERAL reads the entries of FROM before it", span[0])
    query = _query(view, table.this, known)
    inside = _inside_brackets(view, table.this)
    query.span = inside
    columns = _alias_columns(table)
    core = (inside[0] - 1, inside[1] + 1)
    return ViewItem(
        span,
        core,
        table.alias,
        query=query,
        columns=columns,
        names=columns or query.outputs.names,
    )


def _bracketed(
    view: ViewText, table: exp.Subquery, span: Span, known: _Known
) -> ViewItem:
    """The entry for joins in brackets."""
    close = view.closes[span[0]]
    if close + 1 != span[1]:
        raise CannotKeepError("joins in brackets with a name", span[0])
    inner = table.this
    joins = _joins(
        view, inner, inner.args.get("joins") or (), (span[0] + 1, close), known
    )
    return ViewItem(span, span, "", group=joins)


# --- conditions, and the queries inside expressions


def _conditions(view: ViewText, span: Span) -> Iterator[Span]:
    """The tokens of each condition that a WHERE joins by AND. A WHERE with an OR
    outside of brackets is one condition."""
    depth, cases, betweens = view.text.depths[span[0]], 0, 0
    cuts: list[int] = []
    for at in range(*span):
        if view.text.depths[at] != depth:
            continue
        match view.text.tokens[at].token_type:
            case TokenType.CASE:
                cases += 1
            case TokenType.END:
                cases -= 1
            case TokenType.BETWEEN if not cases:
                betweens += 1
            case TokenType.AND if not cases and betweens:
                betweens -= 1
            case TokenType.AND if not cases:
                cuts.append(at)
            case TokenType.OR if not cases:
                cuts = []
                break
            case _:
                pass
    yield from zip([span[0], *(at + 1 for at in cuts)], [*cuts, span[1]], strict=True)


def _inner_queries(
    view: ViewText, block: ViewBlock, known: _Known
) -> Iterator[InnerQuery]:
    """The queries inside a block's expressions, without those inside them."""
    outer = block.select
    for node in outer.find_all(exp.Query):
        around = node.find_ancestor(exp.Query, exp.From, exp.With)
        if around is not outer or isinstance(
            node.parent, exp.Join | exp.Lateral | exp.SetOperation
        ):
            continue
        query = _query(view, node, known)
        span = _inside_brackets(view, node)
        query.span = span
        holder = node.parent
        place = _place_of(view, block, span[0])
        is_in = isinstance(holder, exp.In) and holder.args.get("query") is node
        yield InnerQuery(
            form="in"
            if is_in
            else "exists"
            if isinstance(holder, exp.Exists)
            else "scalar",
            query=query,
            span=span,
            place=place,
            is_positive=place == "where" and _is_positive(holder),
            is_correlated=_is_correlated(node, query, block),
            left=_left_of(view, block, holder, span)
            if is_in and isinstance(holder, exp.In)
            else None,
        )


def _place_of(view: ViewText, block: ViewBlock, token: int) -> str:
    """The clause of a block that a token is in: `select`, `where`, `group` or
    `elsewhere`."""
    for name, span in (
        ("select", block.head),
        ("where", block.where),
        ("group", block.group),
    ):
        if span is not None and span[0] <= token < span[1]:
            return name
    return "elsewhere"


def _is_positive(node: exp.Expr | None) -> bool:
    """Whether only ANDs and ORs are around a condition in the WHERE, so that rows pass
    because it is true and never because it is false."""
    parent = node.parent if node is not None else None
    while isinstance(parent, exp.And | exp.Or | exp.Paren):
        parent = parent.parent
    return isinstance(parent, exp.Where)


def _is_correlated(node: exp.Expr, query: ViewQuery, block: ViewBlock) -> bool:
    """Whether a query inside an expression certainly reads a column of the block around
    it."""
    inner = {
        table.alias_or_name.lower()
        for table in node.find_all(exp.Table, exp.Subquery, exp.Lateral)
    }
    outer = {item.alias.lower() for item in block.items}
    known = _names_inside(query)
    outside = {name.lower() for item in block.items for name in item.names or ()}
    for column in node.find_all(exp.Column):
        first = column.parts[0].name.lower()
        if column.table and first in outer - inner:
            return True
        if not column.table and known is not None and first in outside - known:
            return True
    return False


def _names_inside(query: ViewQuery) -> set[str] | None:
    """The columns, in lower case, that a name inside a query may mean; None where they
    are not all known."""
    if isinstance(query, ViewSet):
        branches = [_names_inside(branch) for branch in query.branches]
        known = [names for names in branches if names is not None]
        return set[str]().union(*known) if len(known) == len(branches) else None
    if query.tail is not None:
        return None
    found = {column.name.lower() for column in query.outputs.columns}
    nested = [item.query for item in query.items if item.query is not None]
    for names in [
        *(_names_inside(one) for one in nested),
        *(_names_inside(one.query) for one in query.inner),
    ]:
        if names is None:
            return None
        found |= names
    for item in query.items:
        if item.names is None:
            return None
        found |= {name.lower() for name in item.names}
    return found


def _left_of(
    view: ViewText, block: ViewBlock, holder: exp.In, span: Span
) -> Span | None:
    """The tokens of the left side of IN, if it is a column, or if the IN is one of the
    conditions that the WHERE joins by AND; else None."""
    at = span[0] - 2  # before the bracket
    if view.text.tokens[at].token_type is not TokenType.IN:
        return None
    last = at - 1 if view.text.tokens[at - 1].token_type is TokenType.NOT else at
    if isinstance(holder.this, exp.Column) and not holder.this.is_star:
        first = holder.this.parts[0].meta.get("start")
        return (
            (view.at[first], last)
            if isinstance(first, int) and first in view.at
            else None
        )
    alone: exp.Expr = holder.parent if isinstance(holder.parent, exp.Not) else holder
    while isinstance(alone.parent, exp.And):
        alone = alone.parent
    if not isinstance(alone.parent, exp.Where):
        return None
    for first, end in block.conditions:
        if first <= at < end:
            is_not = view.text.tokens[first].token_type is TokenType.NOT
            return (first + 1 if is_not else first), last
    return None


def _cut_qualifiers(view: ViewText, block: ViewBlock) -> None:
    """Notes the catalogs and namespaces that are left out before `table.column`, for
    tables whose own name becomes their alias."""
    paths = [
        tuple(part.lower() for part in view.inputs[item.input].table)
        for item in block.items
        if item.input is not None and item.adds_alias
    ]
    ends = {path[start:] for path in paths for start in range(len(path) - 1)}
    for column in block.select.find_all(exp.Column):
        parts = [column.args.get(key) for key in ("catalog", "db", "table")]
        named = [part for part in parts if isinstance(part, exp.Identifier)]
        if len(named) > 1 and tuple(part.name.lower() for part in named) in ends:
            view.cuts[view.at[named[0].meta["start"]]] = view.at[
                named[-1].meta["start"]
            ]
