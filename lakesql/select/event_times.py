"""The SELECT that reads event times as columns, where a stream's watermark is on a
field of a struct or on an expression.

Spark puts a watermark on a top-level column only, and recognizes it in no field of a
struct and in no expression. So a stream with such a watermark has a second view, with
the event time as an additional column. A SELECT that uses the field or the expression
reads that view and names the column instead; its `*` leaves the column out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.errors import Problem
from lakesql.names import event_column, timed_view
from lakesql.select.columns import TIME_FUNCTIONS
from lakesql.select.groups import ordinal
from lakesql.select.left_out import left_out_of
from lakesql.select.relation import StreamShape, mark_of, unaliased
from lakesql.select.sqltext import (
    Text,
    clause,
    clauses,
    findings_by_offset,
    projections,
    read_text,
    spelled,
    split_list,
)
from lakesql.stream.types import parse_type

_BEFORE_GROUPS = frozenset({TokenType.FROM, TokenType.WHERE})


@dataclass(frozen=True, slots=True)
class Edit:
    """The text that replaces the characters from `start` up to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class TimedSelect:
    """A SELECT that reads event times as columns. `edits` have made it from the
    author's text; `streams` are those whose event time it reads."""

    sql: str
    edits: tuple[Edit, ...]
    streams: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The reserved names that it uses: those of event time columns and of the views
        that have them."""
        return frozenset(
            name
            for stream in self.streams
            for name in (event_column(stream), timed_view(stream))
        )

    def original(self, offset: int) -> int:
        """The offset in the author's text that corresponds to an offset in `sql`."""
        added = 0
        for edit in self.edits:
            start = edit.start + added
            if offset < start:
                break
            if offset < start + len(edit.text):
                return edit.start
            added += len(edit.text) - (edit.end - edit.start)
        return offset - added

    def shapes(self, streams: Mapping[str, StreamShape]) -> dict[str, StreamShape]:
        """The given streams, and the views of them that have event times, by name."""
        return {
            **streams,
            **{
                timed_view(name): _timed_shape(name, streams[name])
                for name in self.streams
            },
        }

    def written(self, problem: Problem, streams: Mapping[str, StreamShape]) -> Problem:
        """The problem with the author's words in the place of lakesql's names."""
        for name in self.streams:
            words = {
                event_column(name): streams[name].event_time or "",
                timed_view(name): name,
            }
            for own, said in words.items():
                what, why, fix = (
                    text.replace(own, said)
                    for text in (problem.what, problem.why, problem.fix)
                )
                problem = replace(problem, what=what, why=why, fix=fix)
        return problem


def _timed_shape(name: str, shape: StreamShape) -> StreamShape:
    column = event_column(name)
    assert shape.columns is not None
    types = (
        *shape.types,
        *[""] * (len(shape.columns) - len(shape.types)),
        shape.event_type,
    )
    return replace(
        shape,
        columns=(*shape.columns, column),
        types=types,
        watermark=column,
        event_time=None,
        of=name,
    )


def with_event_times(
    tree: exp.Query, text: Text, streams: Mapping[str, StreamShape]
) -> TimedSelect | None:
    """The SELECT with columns in the place of the event times of streams that take them
    from fields or expressions; None where it uses none."""
    made = {
        name.lower(): _EventTime.of(name, shape)
        for name, shape in streams.items()
        if shape.event_time
    }
    if not made:
        return None
    scopes: list[_ReadSelect] = []
    _read(tree, {}, made, scopes)
    edits: list[Edit] = []
    for scope in scopes:
        edits += _named(scope, text)
    if not edits:
        return None
    for scope in scopes:
        edits += _passed(scope, text)
    pieces, end = [], 0
    edits.sort(key=lambda edit: (edit.start, edit.end))
    for edit in edits:
        pieces += [text.sql[end : edit.start], edit.text]
        end = edit.end
    read = dict.fromkeys(
        it.time.stream
        for scope in scopes
        for it in scope.sources
        if it.is_timed and it.time
    )
    return TimedSelect("".join((*pieces, text.sql[end:])), tuple(edits), tuple(read))


@dataclass(frozen=True, slots=True)
class _EventTime:
    """An event time that a stream takes from a field or an expression, as tokens.

    `columns` are the columns that it reads, `begins` the tokens at which their names
    begin, `paths` these names with those of fields behind them, in lower case.
    `is_field`: it is a field of a struct; `fields` are all fields of that
    struct, if it is a column with a known type. `is_whole`: it is a field, a call or a
    CASE, so an operator beside it cannot take only a part of it as its operand.
    """

    stream: str
    tokens: tuple[Token, ...]
    begins: frozenset[int]
    paths: tuple[tuple[str, ...], ...]
    columns: frozenset[str]
    is_field: bool
    is_whole: bool
    fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, shape: StreamShape) -> _EventTime:
        assert shape.event_time is not None
        text = read_text(f"SELECT {shape.event_time}", findings_by_offset())
        tokens = tuple(text.tokens[1:])
        known = {column.lower() for column in shape.columns or ()}
        begins = {
            index for index in range(len(tokens)) if _is_column(tokens, index, known)
        }
        is_field = all(
            _is_name(token) or token.token_type is TokenType.DOT for token in tokens
        )
        is_closed = tokens[-1].token_type is TokenType.R_PAREN
        is_call = is_closed and all(depth > 0 for depth in text.depths[3:-1])
        is_case = (tokens[0].text.lower(), tokens[-1].text.lower()) == ("case", "end")
        columns = frozenset(tokens[index].text.lower() for index in begins)
        kinds = {
            column.lower(): kind
            for column, kind in zip(shape.columns or (), shape.types, strict=False)
        }
        kind = (
            parse_type(kinds.get(tokens[0].text.lower(), ""))
            if is_field and len(tokens) == 3
            else None
        )
        fields = tuple(field.name for field in kind.fields) if kind is not None else ()
        return cls(
            name,
            tokens,
            frozenset(begins),
            tuple(_path_from(tokens, index) for index in sorted(begins)),
            columns,
            is_field,
            is_field or is_call or is_case,
            fields,
        )


def _is_name(token: Token) -> bool:
    return token.text.isidentifier() or token.token_type is TokenType.IDENTIFIER


def _is_column(tokens: tuple[Token, ...], index: int, known: set[str]) -> bool:
    if index and tokens[index - 1].token_type is TokenType.DOT:
        return False
    is_called = (
        index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
    )
    is_text = tokens[index].token_type is TokenType.STRING
    return tokens[index].text.lower() in known and not is_called and not is_text


def _path_from(tokens: tuple[Token, ...], index: int) -> tuple[str, ...]:
    """The name of a column that begins at a token, and the names of its fields."""
    path = [tokens[index].text.lower()]
    for dot, name in zip(tokens[index + 1 :: 2], tokens[index + 2 :: 2], strict=False):
        if dot.token_type is not TokenType.DOT:
            break
        path.append(name.text.lower())
    return tuple(path)


@dataclass(slots=True)
class _ReadSource:
    """One entry of a FROM: a stream with an event time, or a query over one.
    `is_timed`: it must give the event time as a column."""

    name: str
    table: exp.Table | None = None
    time: _EventTime | None = None
    query: _ReadSelect | None = None
    is_timed: bool = False

    def offers(self) -> _EventTime | None:
        """The event time that it can give as a column; None if it has none, or does not
        pass on the columns of it unchanged."""
        return self.query.offers() if self.query is not None else self.time

    def ask(self) -> str:
        """Makes it give the event time, and returns the SQL that names this column."""
        time = self.offers()
        assert time is not None
        self.time, self.is_timed = time, True
        if self.query is not None:
            self.query.is_asked = True
            self.query.passing().ask()
        column = event_column(time.stream)
        return f"{_quoted(self.name)}.{column}" if self.name else column


@dataclass(slots=True)
class _ReadSelect:
    """A SELECT. `is_grouped`: its rows are groups. `is_asked`: it must pass an event
    time on as a column."""

    select: exp.Select
    mark: int
    sources: list[_ReadSource]
    is_grouped: bool
    is_asked: bool = False

    def offers(self) -> _EventTime | None:
        """The event time all of whose columns it passes on unchanged; None if there is
        none."""
        found = [source for source in self.sources if source.offers() is not None]
        if self.is_grouped or len(found) != 1:
            return None
        time = found[0].offers()
        assert time is not None
        return (
            time
            if all(self._passes(found[0], column) for column in time.columns)
            else None
        )

    def passing(self) -> _ReadSource:
        """The source of the event time that it passes on."""
        return next(source for source in self.sources if source.offers() is not None)

    def _passes(self, source: _ReadSource, column: str) -> bool:
        for expression in self.select.expressions:
            inner = expression.this if isinstance(expression, exp.Alias) else expression
            if isinstance(inner, exp.Star | exp.Column) and inner.is_star:
                is_of_it = (
                    isinstance(inner, exp.Star) or inner.table.lower() == source.name
                )
                if is_of_it and self._keeps(inner, source, column):
                    return True
            elif isinstance(inner, exp.Column) and inner.name.lower() == column:
                qualifiers = [part.name.lower() for part in inner.parts[:-1]]
                if expression.alias_or_name.lower() == column and qualifiers in (
                    [],
                    [source.name],
                ):
                    return True
        return False

    def _keeps(self, star: exp.Expr, source: _ReadSource, column: str) -> bool:
        """Whether a star passes on what the source's event time reads of a column:
        neither the column, nor a field on the way to it, is in its EXCEPT."""
        time = source.offers()
        assert time is not None
        named = [(it.name, ()) for it in self.sources]
        left_out = left_out_of(star, [(source.name, ())], named)
        if column in left_out.columns:
            return False
        return not any(
            path[: len(field)] == field[: len(path)]
            for path in time.paths
            for field in left_out.fields
        )


def _read(
    query: exp.Expr,
    ctes: Mapping[str, _ReadSelect | None],
    made: Mapping[str, _EventTime],
    scopes: list[_ReadSelect],
) -> _ReadSelect | None:
    """The SELECT that a query is, None if it is something else, such as a UNION.
    Appends it and the SELECTs inside it to `scopes`."""
    with_ = query.args.get("with_")
    known = dict(ctes)
    for cte in with_.expressions if with_ is not None else ():
        scope = _read(cte.this, known, made, scopes)
        known[cte.alias.lower()] = None if cte.args["alias"].columns else scope
    if isinstance(query, exp.Subquery):
        return _read(query.this, known, made, scopes)
    if isinstance(query, exp.SetOperation):
        for side in (query.this, query.expression):
            _read(side, known, made, scopes)
        return None
    mark = mark_of(query)
    if not isinstance(query, exp.Select) or mark is None:
        return None
    from_ = query.args.get("from_")
    sources = _sources(from_.this, known, made, scopes) if from_ is not None else []
    for join in query.args.get("joins") or ():
        sources += _sources(join.this, known, made, scopes)
    for inner in _inner_queries(query):
        _read(inner, known, made, scopes)
    is_grouped = any(query.args.get(key) for key in ("group", "having", "distinct"))
    scopes.append(_ReadSelect(query, mark, sources, is_grouped))
    return scopes[-1]


def _sources(
    table: exp.Expr,
    ctes: Mapping[str, _ReadSelect | None],
    made: Mapping[str, _EventTime],
    scopes: list[_ReadSelect],
) -> list[_ReadSource]:
    """The sources that a table of a FROM stands for: itself, and what is joined to it
    in brackets."""
    found: list[_ReadSource] = []
    is_plain = not table.args.get("pivots") and not (
        table.args.get("alias") and table.args["alias"].columns
    )
    match table:
        case exp.Subquery() if isinstance(table.this, exp.Table):
            found += _sources(table.this, ctes, made, scopes)
        case exp.Subquery():
            scope = _read(table, ctes, made, scopes)
            found.append(
                _ReadSource(table.alias.lower(), query=scope if is_plain else None)
            )
        case exp.Table() if len(table.parts) == 1:
            name = table.name.lower()
            own = name not in ctes and is_plain
            query = ctes.get(name) if is_plain else None
            found.append(
                _ReadSource(
                    table.alias_or_name.lower(),
                    table,
                    made.get(name) if own else None,
                    query,
                )
            )
        case _:
            found.append(_ReadSource(table.alias_or_name.lower()))
    for join in table.args.get("joins") or ():
        found += _sources(join.this, ctes, made, scopes)
    return found


def _inner_queries(select: exp.Select) -> Iterator[exp.Expr]:
    """The queries in the expressions of a SELECT, without those inside them."""
    for key, value in select.args.items():
        if key in ("with_", "from_"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr):
                yield from _outermost_queries(
                    part.args.get("on") if isinstance(part, exp.Join) else part
                )


def _outermost_queries(node: exp.Expr | None) -> Iterator[exp.Expr]:
    if node is None:
        return
    if isinstance(node, exp.Query):
        yield node
        return
    for child in node.iter_expressions():
        yield from _outermost_queries(child)


def _named(scope: _ReadSelect, text: Text) -> Iterator[Edit]:
    """An edit for each place where the SELECT uses an event time: the column's name
    takes its place."""
    offering = [
        (source, time)
        for source in scope.sources
        if (time := source.offers()) is not None
    ]
    for source, time in offering:
        is_alone = not any(
            other.columns & time.columns for it, other in offering if it is not source
        )
        found = [
            it
            for it in _matches(scope, source, time, text)
            if is_alone or it.is_qualified
        ]
        is_keyed = any(_is_key(scope, it.span, text) for it in found)
        for it in found:
            if _may_be_named(scope, it.span[0], is_keyed, text):
                alias = _alias_of(scope, it.span, text) if time.is_field else ""
                yield _instead(it.span, source.ask() + alias, text)
        if time.fields and scope.mark not in text.aggregates and not scope.is_grouped:
            yield from _opened(scope, source, time, is_alone, text)


@dataclass(frozen=True, slots=True)
class _Match:
    """A place where a SELECT uses an event time: its first token, and one past the
    last. `is_qualified`: by the source's name."""

    span: tuple[int, int]
    is_qualified: bool


def _matches(
    scope: _ReadSelect, source: _ReadSource, time: _EventTime, text: Text
) -> Iterator[_Match]:
    """The places where the SELECT uses the event time of one of its sources. An EXCEPT
    that leaves it out is none."""
    names = {other.name for other in scope.sources}
    is_hidden = time.is_field and time.tokens[0].text.lower() in names
    left_out = frozenset(_left_out_tokens(text))
    for first, owner in enumerate(text.owners):
        if owner != scope.mark or first in left_out:
            continue
        for name in (source.name, ""):
            last = _match(first, name, time, text)
            if (
                last is not None
                and (name or not is_hidden)
                and _stands_alone((first, last), time, text)
            ):
                yield _Match((first, last), bool(name))
                break


def _left_out_tokens(text: Text) -> Iterator[int]:
    """The tokens in the brackets of `* EXCEPT (…)`."""
    tokens, depths = text.tokens, text.depths
    for star, token in enumerate(tokens):
        if token.token_type is TokenType.STAR and _opens_except(star, text):
            at = star + 3
            while at < len(tokens) and depths[at] > depths[star]:
                yield at
                at += 1


def _opens_except(star: int, text: Text) -> bool:
    """Whether a `*` has an EXCEPT with a list of columns behind it."""
    following = text.tokens[star + 1 : star + 3]
    return (
        len(following) == 2
        and following[0].text.lower() == "except"
        and following[1].token_type is TokenType.L_PAREN
    )


def _match(first: int, name: str, time: _EventTime, text: Text) -> int | None:
    """One past the last token of an event time that begins at `first`; None if none
    does. With a `name`, each of its columns must be qualified by it."""
    tokens, at = text.tokens, first
    for index, wanted in enumerate(time.tokens):
        if name and index in time.begins:
            if [token.text.lower() for token in tokens[at : at + 2]] != [name, "."]:
                return None
            at += 2
        if at >= len(tokens) or spelled(tokens[at]) != spelled(wanted):
            return None
        at += 1
    return at


def _stands_alone(span: tuple[int, int], time: _EventTime, text: Text) -> bool:
    """Whether the tokens are an expression by themselves, and not a part of a longer
    one."""
    first, last = span
    before = text.tokens[first - 1].token_type
    after = (
        text.tokens[last].token_type if last < len(text.tokens) else TokenType.R_PAREN
    )
    if before is TokenType.DOT or after in (TokenType.DOT, TokenType.L_BRACKET):
        return False
    if after is TokenType.L_PAREN and time.is_field:
        return False
    is_item = before in (TokenType.L_PAREN, TokenType.COMMA) and after in (
        TokenType.R_PAREN,
        TokenType.COMMA,
    )
    return time.is_whole or is_item


def _may_be_named(scope: _ReadSelect, first: int, is_keyed: bool, text: Text) -> bool:
    """Whether the column may take the place of an event time at the token `first`. In a
    SELECT that groups and has it as no key, only FROM, WHERE and the arguments of
    window functions can."""
    is_grouped = (
        scope.mark in text.aggregates
        or scope.select.args.get("group")
        or scope.select.args.get("having")
    )
    if not is_grouped or is_keyed:
        return True
    if (
        text.tokens[first - 1].token_type is TokenType.L_PAREN
        and text.tokens[first - 2].text.lower() in TIME_FUNCTIONS
    ):
        return True
    spans = [span for span in clauses(text, scope.mark) if span[0] <= first < span[1]]
    return any(text.tokens[start].token_type in _BEFORE_GROUPS for start, _ in spans)


def _is_key(scope: _ReadSelect, span: tuple[int, int], text: Text) -> bool:
    """Whether these tokens are a key of the GROUP BY, or a column of the SELECT that a
    key names."""
    group = scope.select.args.get("group")
    if group is None:
        return False
    keys = clause(text, scope.mark, frozenset({TokenType.GROUP_BY}))
    if keys is not None and span in split_list(text, keys[0] + 1, keys[1]):
        return True
    spans, expressions = _columns(scope, text), scope.select.expressions
    if len(spans) != len(expressions):
        return False
    made = [unaliased(*each, text) for each in zip(expressions, spans, strict=True)]
    if span not in made:
        return False
    number = made.index(span)
    name = expressions[number].alias_or_name.lower()
    said = {
        key.name.lower() for key in group.expressions if isinstance(key, exp.Column)
    }
    is_numbered = any(
        number in range(len(made))[ordinal(key)] for key in group.expressions
    )
    return bool(group.args.get("all")) or is_numbered or name in said


def _columns(scope: _ReadSelect, text: Text) -> list[tuple[int, int]]:
    """The tokens of each expression of a SELECT, without DISTINCT or ALL."""
    (first, last), *others = projections(text, scope.mark)
    is_marked = text.tokens[first].token_type in (TokenType.DISTINCT, TokenType.ALL)
    return [(first + is_marked, last), *others]


def _alias_of(scope: _ReadSelect, span: tuple[int, int], text: Text) -> str:
    """` AS …` with the field's name, if the tokens are a column of the SELECT without
    an alias; else ''."""
    if span not in _columns(scope, text):
        return ""
    token = text.tokens[span[1] - 1]
    return f" AS {text.sql[token.start : token.end + 1]}"


def _instead(span: tuple[int, int], said: str, text: Text) -> Edit:
    return Edit(text.tokens[span[0]].start, text.tokens[span[1] - 1].end + 1, said)


def _opened(
    scope: _ReadSelect,
    source: _ReadSource,
    time: _EventTime,
    is_alone: bool,
    text: Text,
) -> Iterator[Edit]:
    """Edits for the `*` of a struct that has the event time as a field: each field by
    name, with the column in the place of the event time."""
    struct = time.tokens[0].text.lower()
    is_hidden = struct in {other.name for other in scope.sources}
    for span in _columns(scope, text):
        words = [token.text.lower() for token in text.tokens[slice(*span)]]
        is_plain = words == [struct, ".", "*"] and is_alone and not is_hidden
        if not is_plain and words != [source.name, ".", struct, ".", "*"]:
            continue
        path = text.sql[text.tokens[span[0]].start : text.tokens[span[1] - 1].start]
        wanted = time.tokens[2].text.lower()
        fields = {
            name: source.ask() if name.lower() == wanted else f"{path}{_quoted(name)}"
            for name in time.fields
        }
        yield _instead(
            span,
            ", ".join(f"{value} AS {_quoted(name)}" for name, value in fields.items()),
            text,
        )


def _passed(scope: _ReadSelect, text: Text) -> Iterator[Edit]:
    """The edits by which a SELECT reads the views with event times, passes event times
    on, and leaves them out of its `*`."""
    if scope.is_asked:
        at = text.inserts[scope.mark]
        yield Edit(at, at, f" {scope.passing().ask()},")
    timed = [source for source in scope.sources if source.is_timed]
    for source in timed:
        if (
            source.table is not None
            and source.query is None
            and source.time is not None
        ):
            place = source.table.this.meta
            alias = (
                ""
                if source.table.alias
                else f" AS {text.sql[place['start'] : place['end'] + 1]}"
            )
            yield Edit(
                place["start"], place["end"] + 1, timed_view(source.time.stream) + alias
            )
    for index, token in enumerate(text.tokens):
        if token.token_type is TokenType.STAR and text.owners[index] == scope.mark:
            left_out = ", ".join(
                source.ask() for source in timed if _takes_in(index, source, text)
            )
            if left_out:
                yield _excepted(index, left_out, text)


def _takes_in(star: int, source: _ReadSource, text: Text) -> bool:
    """Whether a `*` stands for the columns of a source. A `*` that multiplies or counts
    does not."""
    before = text.tokens[star - 1]
    if before.token_type is TokenType.DOT:
        is_path = text.tokens[star - 3].token_type is TokenType.DOT
        return text.tokens[star - 2].text.lower() == source.name and not is_path
    if before.token_type is TokenType.L_PAREN:
        return text.tokens[star - 2].text.lower() not in ("count", "try_count")
    return before.token_type in (
        TokenType.SELECT,
        TokenType.COMMA,
        TokenType.DISTINCT,
        TokenType.ALL,
    )


def _excepted(star: int, columns: str, text: Text) -> Edit:
    """The edit that leaves these columns out of a `*`."""
    if _opens_except(star, text):
        at = text.tokens[star + 2].end + 1
        return Edit(at, at, f"{columns}, ")
    at = text.tokens[star].end + 1
    return Edit(at, at, f" EXCEPT ({columns})")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
