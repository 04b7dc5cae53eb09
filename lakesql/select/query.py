"""What the compiler needs to know of a model's SELECT: its outputs, its state, and
where `_lakesql_position` is inserted.

sqlglot only parses the text and never generates it: Spark runs the author's own text,
with the insertions of `Query.carry`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.decode import NO_TEMPLATE, template_sign
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.names import is_reserved, keeper_of, say_kept
from lakesql.select.beginning import check_beginning
from lakesql.select.calls import check_calls, stop_at_wrong_counts
from lakesql.select.carry import CARRY
from lakesql.select.derive import derive_type
from lakesql.select.event_times import TimedSelect, with_event_times
from lakesql.select.foreign import answer_clause
from lakesql.select.functions import TABLE_FUNCTIONS, is_unsteady
from lakesql.select.kept_tree import keep_tree
from lakesql.select.pivot import is_unpivot
from lakesql.select.relation import Group, QueryColumn, Relation, StreamShape, offset_of
from lakesql.select.sqltext import (
    SPARK,
    Findings,
    Text,
    findings_by_offset,
    read_text,
    refuse_marker,
)
from lakesql.select.stateful import state_shape
from lakesql.select.three_valued import Use, find_undecided
from lakesql.select.tree import read_relation
from lakesql.select.ungrouped import ungrouped_text
from lakesql.stream.types import SparkType, parse_type, stored_type


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the model.

    `offset` is its place in the SQL. `stream` and `column` are set if it is an
    unchanged column of a stream, and `change` if it is an unchanged field of `_change`.
    `cast` is the type that it is cast to, if its expression is a cast. `type` is the
    type derived from the columns that it is computed from, if that is known without
    Spark.
    """

    name: str
    offset: int
    stream: str | None = None
    column: str | None = None
    cast: str | None = None
    type: str | None = None
    change: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """The facts of a model's SELECT.

    `outputs` is None where a star stands for the columns of a table, which only the
    catalog knows.
    `offered` are the columns that a reader of the model's table may name; None where
    they cannot be known.
    `state` is a hash of the state that Spark keeps, '' for a stateless SELECT.
    `joins_streams`: it joins streams with each other. `unbounded` are the streams of
    such joins whose rows are kept for ever.
    `grouped_by_event_time`: some key of an aggregate or DISTINCT carries a watermark.
    `filters`: it may leave out rows of a stream.
    `reads_tables`: it reads a table beside its streams. `tables` are those that are
    read at their newest version, each once, by the parts of their names as written.
    `multiplies`: it may make several rows of one record.
    `keeps_each`: it makes exactly one row of each row of its one stream.
    `record_fields` and `change_fields` are the fields of `_record` and `_change` that
    the text uses.
    `used` are the names, in lower case, of the columns that it does more with than
    select them unchanged.
    `words` are all words of the text, in lower case; None where it may read a column
    whose name is not among them.
    `groups` are the keys of which a batch has one row for each combination of values;
    None where they are not known.
    `noted` are the constructs that only some modes allow: the offset of the first one,
    by the condition that refuses it.
    `carry` is what `carry_position` inserts: offset and text, in order; empty for a
    stateful SELECT.
    `ungrouped` is a SELECT of event time and position of each row that the aggregate or
    DISTINCT is given; '' where it cannot be made.
    `timed` is the SELECT with columns in the place of event times that streams take
    from fields or expressions; None where it uses none, or is stateless.
    """

    sql: str
    outputs: tuple[Output, ...] | None
    offered: tuple[QueryColumn, ...] | None
    streams_read: tuple[str, ...]
    stateful: bool
    aggregated: bool
    joins_streams: bool
    unbounded: tuple[str, ...]
    state: str
    grouped_by_event_time: bool
    filters: bool
    reads_tables: bool
    multiplies: bool
    keeps_each: bool
    record_fields: frozenset[str]
    change_fields: frozenset[str]
    used: frozenset[str]
    words: frozenset[str] | None
    groups: tuple[Group, ...] | None
    noted: Mapping[str, int]
    carry: tuple[tuple[int, str], ...]
    ungrouped: str
    timed: TimedSelect | None = None
    tables: tuple[tuple[str, ...], ...] = ()


def read_query(
    sql: str,
    streams: Mapping[str, StreamShape],
    place: Callable[[int], Place],
    tables: Mapping[tuple[str, ...], tuple[QueryColumn, ...]] = MappingProxyType({}),
    functions_are_known: bool = True,
    this: tuple[str, ...] = (),
    reads: Literal["streams", "tables"] = "streams",
) -> Query:
    """The facts of one Spark SQL SELECT. Raises `ProjectError` with every problem
    found.

    `streams` are the views that it may read, by name. With `reads='tables'` it need not
    read a stream.
    `place` maps an offset in the text to a place in the model's file.
    `tables` are the known columns of tables, by the parts of the table's name in lower
    case. Without `functions_are_known`, functions that are not Spark's are allowed.
    `this` is the model's own table, by the parts of its name in lower case.
    """
    read = partial(
        _read_whole,
        tables=tables,
        functions_are_known=functions_are_known,
        this=this,
        reads=reads,
    )
    timed = _find_timed(sql, streams)
    if timed is not None:
        query = _read_timed(sql, timed, streams, place, read)
        if query.stateful:
            return query
    return read(sql, streams, place)


def _find_timed(sql: str, streams: Mapping[str, StreamShape]) -> TimedSelect | None:
    """The SELECT with columns in the place of the event times that its streams take
    from fields or expressions; None where it uses none, or cannot be parsed."""
    if not any(shape.event_time for shape in streams.values()):
        return None
    findings = findings_by_offset()
    try:
        text = read_text(sql, findings)
        tree = parse_query(text, sql, findings)
    except (ProjectError, RecursionError):
        return None
    return None if findings.problems else with_event_times(tree, text, streams)


def _read_timed(
    sql: str,
    timed: TimedSelect,
    streams: Mapping[str, StreamShape],
    place: Callable[[int], Place],
    read: Callable[..., Query],
) -> Query:
    """The facts of a SELECT with event times as columns. Offsets, words and problems
    are those of the author's text."""
    try:
        found = read(
            timed.sql,
            timed.shapes(streams),
            lambda offset: place(timed.original(offset)),
            own=timed.names,
        )
    except ProjectError as error:
        raise ProjectError(
            [timed.written(problem, streams) for problem in error.problems]
        ) from None
    text = read_text(sql, findings_by_offset())
    words = frozenset(token.text.lower() for token in text.tokens)
    outputs = tuple(
        replace(_as_written(output), offset=timed.original(output.offset))
        for output in found.outputs or ()
    )
    return replace(
        found,
        sql=text.sql,
        outputs=None if found.outputs is None else outputs,
        noted={
            condition: timed.original(offset)
            for condition, offset in found.noted.items()
        },
        used=found.used | words,
        words=None if found.words is None else words,
        timed=timed,
    )


def _as_written(output: Output) -> Output:
    """The output; a column that lakesql added to the stream no longer counts as an
    unchanged column of it."""
    return (
        replace(output, stream=None, column=None)
        if is_reserved(output.column or "")
        else output
    )


def _read_whole(
    sql: str,
    streams: Mapping[str, StreamShape],
    place: Callable[[int], Place],
    tables: Mapping[tuple[str, ...], tuple[QueryColumn, ...]],
    functions_are_known: bool,
    this: tuple[str, ...],
    reads: Literal["streams", "tables"],
    own: frozenset[str] = frozenset(),
) -> Query:
    findings = Findings(place)
    try:
        query = _read(
            sql, streams, tables, functions_are_known, this, reads, findings, own
        )
    except RecursionError:
        findings.stop(0, "The SELECT nests too deep to be read.", "Split it.")
    if findings.problems:
        raise ProjectError(findings.problems)
    return query


def carry_position(query: Query) -> str:
    """The author's SELECT with `_lakesql_position` carried from the stream to the
    outermost SELECT. For stateless SELECTs only."""
    pieces: list[str] = []
    start = 0
    for offset, text in query.carry:
        pieces += (query.sql[start:offset], text)
        start = offset
    return "".join((*pieces, query.sql[start:]))


def read_expression(
    text: str,
    columns: Collection[str] | None,
    sides: Collection[str] = (),
    typed: tuple[QueryColumn, ...] = (),
    *,
    use: Use,
) -> tuple[str, ...] | Problem:
    """The columns that a configured condition such as `delete_when` reads, each once,
    or the problem with it.

    A condition is one scalar expression over `columns` (None: not known), without a
    query, an aggregate or a window. If it compares rows of several `sides`, each column
    must be qualified by its side, as in `source.amount`. If the types of columns are
    given in `typed`, its own type must be boolean where it can be derived. If its `use`
    is that of a test or a filter, it must not have the same result for every row.
    """
    try:
        read = _read_condition(text, columns, sides, typed, use)
    except ProjectError as error:
        read = error.problems[0].what
    except RecursionError:
        read = "It nests too deep to be read."
    if isinstance(read, Problem):
        return replace(read, what=f"'{text}': {read.what}")
    return (
        Problem("bad-expression", f"'{text}': {read}")
        if isinstance(read, str)
        else read
    )


def read_event_time(text: str, types: Mapping[str, str]) -> SparkType | Problem | None:
    """The type of an event time's expression over columns of these types; None where
    only Spark knows it; a problem if the expression is invalid or not deterministic."""
    read = read_expression(text, types, use="value")
    if isinstance(read, Problem):
        return read
    if is_unsteady(text):
        return Problem(
            "bad-expression",
            f"'{text}': It may give another value when it is asked again.",
        )
    findings = findings_by_offset()
    found = read_text(f"SELECT {text}", findings)
    tree = parse_query(found, found.sql, findings)
    check_calls(tree, found, findings)
    if findings.problems:
        return Problem(
            "bad-expression",
            f"'{text}': {findings.problems[0].what}",
            fix=findings.problems[0].fix,
        )
    columns = tuple(
        QueryColumn(name, 0, type=parse_type(kind)) for name, kind in types.items()
    )
    return derive_type(tree.expressions[0], [("", Relation(columns))])


def _read(
    sql: str,
    streams: Mapping[str, StreamShape],
    tables: Mapping[tuple[str, ...], tuple[QueryColumn, ...]],
    functions_are_known: bool,
    this: tuple[str, ...],
    reads: Literal["streams", "tables"],
    findings: Findings,
    own: frozenset[str],
) -> Query:
    text = read_text(sql, findings, own)
    tree = parse_query(text, sql, findings)
    if ":" in sql:
        _refuse_markers(tree, text, findings)
    if functions_are_known:
        check_calls(tree, text, findings)
    relation, walk = read_relation(tree, text, streams, tables, findings)
    if reads == "streams" and not relation.streams and not findings.problems:
        why = "In this mode a table is kept fresh by what arrives in a stream."
        fix = "Read a stream; or make it of tables as they are: mode 'materialized_view', or 'table'."
        findings.add(
            "no-stream", text.tokens[0].start, "The model reads no stream.", why, fix
        )
    check_beginning(tree, this, findings)
    keep_tree(text.sql, tree)
    stateful, multiplies = relation.stateful, _multiplies(tree, text)
    leaves_out = stateful or walk.filters
    adds = multiplies or walk.reads_tables or tree.find(exp.SetOperation) is not None
    return Query(
        sql=text.sql,
        outputs=_outputs(relation.columns, findings),
        offered=None if relation.named is None else tuple(map(_plain, relation.named)),
        streams_read=relation.streams,
        stateful=stateful,
        aggregated=relation.aggregated,
        joins_streams=relation.joined,
        unbounded=tuple(walk.unbounded),
        state=state_shape(walk, tree) if stateful else "",
        grouped_by_event_time=relation.by_event_time,
        filters=walk.filters,
        reads_tables=walk.reads_tables,
        multiplies=multiplies,
        keeps_each=len(relation.streams) == 1 and not (leaves_out or adds),
        record_fields=text.record_fields,
        change_fields=text.change_fields,
        used=_used_names(tree),
        words=_words(tree, text),
        groups=relation.groups,
        noted=walk.noted,
        carry=()
        if stateful
        else tuple(sorted((text.inserts[select], CARRY) for select in walk.inserts)),
        ungrouped=ungrouped_text(tree, walk)
        if stateful and not findings.problems
        else "",
        tables=tuple(dict.fromkeys(_tables_read(tree))),
    )


def _tables_read(tree: exp.Query) -> Iterator[tuple[str, ...]]:
    """The tables with a catalog or namespace in their name that are read at their
    newest version, in the order of the text."""
    tables = [
        table
        for table in tree.find_all(exp.Table)
        if not isinstance(table.this, exp.Func)
    ]
    for table in sorted(tables, key=offset_of):
        if len(table.parts) > 1 and not table.args.get("version"):
            yield tuple(part.name for part in table.parts)


def _multiplies(tree: exp.Query, text: Text) -> bool:
    """Whether a record may become several rows: by a join other than SEMI or ANTI, a
    generator such as explode, UNPIVOT, or a set operation that reads a stream twice."""
    if any(
        join.kind.upper() not in ("SEMI", "ANTI") for join in tree.find_all(exp.Join)
    ) or tree.find(exp.Lateral):
        return True
    if any(is_unpivot(pivot) for pivot in tree.find_all(exp.Pivot)):
        return True
    calls = (
        one
        for one, other in pairwise(text.tokens)
        if other.token_type is TokenType.L_PAREN
    )
    if any(token.text.lower() in TABLE_FUNCTIONS for token in calls):
        return True
    read = Counter(
        table.name.lower()
        for table in tree.find_all(exp.Table)
        if len(table.parts) == 1
    )
    return tree.find(exp.SetOperation) is not None and any(
        times > 1 for times in read.values()
    )


def _used_names(tree: exp.Query) -> frozenset[str]:
    """The names, in lower case, of columns and their qualifiers that are used otherwise
    than as a column of the outermost SELECT by itself."""
    outermost = tree.expressions if isinstance(tree, exp.Select) else []
    passed = {id(it.this if isinstance(it, exp.Alias) else it) for it in outermost}
    names = {
        part.name.lower()
        for it in tree.find_all(exp.Column)
        if id(it) not in passed
        for part in it.parts
    }
    for join in tree.find_all(exp.Join):
        names.update(it.name.lower() for it in join.args.get("using") or ())
    return frozenset(names)


def _words(tree: exp.Query, text: Text) -> frozenset[str] | None:
    """All words of the text, in lower case; None where it may read columns that it does
    not name: by a star, a NATURAL join, a list of columns behind an alias, or a
    PIVOT."""
    reads_unnamed = (
        any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
        or any(join.method.upper() == "NATURAL" for join in tree.find_all(exp.Join))
        or any(alias.columns for alias in tree.find_all(exp.TableAlias))
        or tree.find(exp.Pivot) is not None
    )
    return (
        None
        if reads_unnamed
        else frozenset(token.text.lower() for token in text.tokens)
    )


def _plain(column: QueryColumn) -> QueryColumn:
    """A column as readers of the model's table see it: its name, and the type in which
    it is stored."""
    return QueryColumn(
        column.name,
        0,
        type=parse_type(stored_type(column.type.text)) if column.type else None,
    )


def _refuse_markers(tree: exp.Query, text: Text, findings: Findings) -> None:
    """Adds a finding for each parameter marker `:name`. Tokens alone do not distinguish
    one from a field of a struct type."""
    names = {marker.name for marker in tree.find_all(exp.Placeholder)}
    for colon, name in pairwise(text.tokens):
        if colon.token_type is TokenType.COLON and name.text in names:
            refuse_marker(f":{name.text}", colon.start, findings)


_DATABRICKS = Databricks()


def parse_query(text: Text, sql: str, findings: Findings) -> exp.Query:
    """The syntax tree of the one SELECT that the tokens are. Raises `ProjectError` if
    they are anything else, or cannot be parsed."""
    tokens = text.tokens
    # Databricks' grammar is Spark's and `v:field`, which Spark 4 has too and sqlglot's
    # Spark dialect lacks.
    has_colon = any(token.token_type is TokenType.COLON for token in tokens)
    try:
        trees = (_DATABRICKS if has_colon else SPARK).parser().parse(tokens, sql)
    except ParseError as error:
        if "provided arguments" in str(error) or "Required keyword" in str(error):
            stop_at_wrong_counts(text, findings)
        offset, what = _first_error(error, tokens)
        findings.stop(offset, what, answer_clause(tokens, offset))
    # raised inside sqlglot for a function that lacks arguments
    except (LookupError, TypeError, ValueError):
        stop_at_wrong_counts(text, findings)
        findings.stop(
            tokens[0].start,
            "The SQL cannot be read: a function lacks an argument, or has one too many.",
        )
    tree = trees[0] if trees else None
    if not isinstance(tree, exp.Query):
        what = tree.key.upper() if tree is not None else "nothing"
        findings.stop(
            tokens[0].start,
            f"The model is {what}, and not one SELECT.",
            condition="not-a-select",
        )
    return tree


def _first_error(error: ParseError, tokens: list[Token]) -> tuple[int, str]:
    """The offset and the message of the parser's first error. The parser places an
    error at the end of a token."""
    first = error.errors[0]
    where = (first.get("line"), first.get("col"))
    offset = next(
        (token.start for token in tokens if (token.line, token.col) == where),
        tokens[-1].start,
    )
    near = str(first.get("highlight") or "")
    what = "The SQL cannot be read" + (f" near '{near}'" if near else "")
    reason = str(first.get("description") or "").split(" but got ")[0]
    return (
        offset,
        f"{what}: {'something is missing' if reason.startswith('Required') else reason}.",
    )


def _outputs(
    columns: tuple[QueryColumn, ...] | None, findings: Findings
) -> tuple[Output, ...] | None:
    """The model's columns; None where they are not known. Adds a finding for each whose
    name is missing, duplicate, reserved, or impossible for a table."""
    if columns is None:
        return None
    outputs: list[Output] = []
    names: set[str] = set()
    for column in columns:
        name = column.name
        if name is None or column.is_made_up:
            _note_unnamed(column, columns, findings)
            continue
        condition = what = why = fix = ""
        if is_reserved(name):
            condition, what = (
                "reserved-column",
                f"'{name}' never lands in a table under its own name.",
            )
        elif keeper := keeper_of(name):
            condition, (what, why, fix) = "reserved-column", say_kept(name, keeper)
        elif (
            not name
            or not name.isprintable()
            or any(character in name for character in ".`")
        ):
            what = f"The column '{name}' has a dot, a backtick or a control character in its name, or none at all."
            condition = "bad-column-name"
        elif name.lower() in names:
            what = f"The model has two columns '{name}'. Capitals make no difference."
            condition = "duplicate-column"
        if condition:
            findings.add(condition, column.offset, what, why, fix)
        names.add(name.lower())
        kind = column.type.text if column.type is not None else None
        outputs.append(
            Output(
                name,
                column.offset,
                column.stream,
                column.column,
                column.cast,
                kind,
                column.change,
            )
        )
    return tuple(outputs)


def _note_unnamed(
    column: QueryColumn, columns: tuple[QueryColumn, ...], findings: Findings
) -> None:
    """Adds a finding for a column whose only name would be one that Spark generates."""
    beside = [
        it.name or "" for it in columns if it.is_made_up and it.offset == column.offset
    ]
    if len(beside) < 2:
        what, why = "This expression has no name.", "It becomes a column of the table."
        fix = (
            "Add `AS …`; `AS (…, …)` where it makes several columns."
            if column.is_made_up
            else ""
        )
        findings.add("unnamed-column", column.offset, what, why, fix)
        return
    what, why = (
        f"This expression makes {len(beside)} columns without names.",
        "They become columns of the table.",
    )
    fix = f"Give a name to each: `… AS ({', '.join(beside)})`."
    findings.add("unnamed-column", column.offset, what, why, fix)


def _read_condition(
    text: str,
    columns: Collection[str] | None,
    sides: Collection[str],
    typed: tuple[QueryColumn, ...],
    use: Use,
) -> tuple[str, ...] | str | Problem:
    """The columns that a condition reads, or what is wrong with it: a text, or a
    `Problem` where there is a fix to suggest."""
    if sign := template_sign(text):
        return f"'{sign}' stands in it, and a condition is no template. {NO_TEMPLATE}"
    sql = f"SELECT {text}"
    findings = findings_by_offset()
    read = read_text(sql, findings)
    if findings.problems:
        raise ProjectError(findings.problems)
    if wrong := _wrong_words(read, sql):
        return wrong
    expression = _only_expression(parse_query(read, sql, findings))
    if isinstance(expression, str):
        return expression
    if constant := _constant_part(expression, read):
        return constant
    paths = [
        tuple(part.name for part in column.parts)
        for column in expression.find_all(exp.Column)
    ]
    if sides:
        if wrong := _without_side(paths, sides):
            return wrong
        paths = [path[1:] for path in paths]
    used = tuple(dict.fromkeys(path[0] for path in paths))
    if wrong := _unknown_column(used, columns) or _other_type(expression, typed):
        return wrong
    if undecided := find_undecided(expression, use):
        what, fix = undecided
        return Problem("bad-expression", what, fix=fix)
    return used


def _wrong_words(read: Text, sql: str) -> str:
    """What is wrong with a condition, as far as its tokens alone show; else ''. `sql`
    is the condition behind the word SELECT."""
    if len(read.sql) <= len("SELECT "):
        return "It is empty."
    if read.sql != sql.rstrip():
        return "It ends in a comment or a semicolon, where more is to follow."
    if len(read.inserts) > 1:
        return "It holds a query."
    if read.aggregates or read.windows:
        return "It reads other rows than its own: aggregates and windows have no place here."
    return ""


def _only_expression(tree: exp.Query) -> exp.Expr | str:
    """The one scalar expression that a SELECT consists of, or a message if it is not
    one."""
    given = {key for key, value in tree.args.items() if value}
    if (
        not isinstance(tree, exp.Select)
        or given != {"expressions"}
        or len(tree.expressions) != 1
    ):
        return "It is not one expression."
    expression: exp.Expr = tree.expressions[0]
    if (
        expression.find(
            exp.Alias, exp.Aliases, exp.Star, exp.Query, exp.UDTF, exp.Placeholder
        )
        is not None
    ):
        return "It is not one scalar expression."
    return expression


def _without_side(paths: Iterable[tuple[str, ...]], sides: Collection[str]) -> str:
    """What is wrong if a column is not qualified by the side of the comparison that it
    belongs to; else ''."""
    for path in paths:
        if len(path) < 2 or path[0].lower() not in sides:
            hint = " or ".join(f"{side}.{path[-1]}" for side in sides)
            return f"'{'.'.join(path)}' says no row that it is of. Write {hint}."
    return ""


def _unknown_column(used: Iterable[str], columns: Collection[str] | None) -> str:
    """What is wrong if a condition reads a column that does not exist; else '', also if
    the columns are not known."""
    if columns is None:
        return ""
    known = {column.lower() for column in columns}
    for name in used:
        if name.lower() not in known:
            return f"There is no column '{name}'. {did_you_mean(name, columns)}"
    return ""


def _other_type(expression: exp.Expr, typed: tuple[QueryColumn, ...]) -> str:
    """What is wrong if the type of an expression is known and not boolean; else ''."""
    kind = derive_type(expression, [("", Relation(typed))]) if typed else None
    if kind is None or kind.name == "boolean":
        return ""
    return f"It is of type {kind.text}, and neither true nor false."


def _constant_part(expression: exp.Expr, text: Text) -> str:
    """What is wrong if a condition has the same result for every row; else ''.

    An operand of AND or OR may be constant, such as `1 = 1`, unless the condition has a
    name in double quotes, which Spark reads as a string literal.
    """
    if not _is_constant(expression):
        operands = (
            side
            for it in expression.find_all(exp.Connector)
            for side in (it.left, it.right)
        )
        if not any(_is_constant(side) and side.find(exp.Literal) for side in operands):
            return ""
        quoted = _in_double_quotes(text)
        return f"A part of it is the same for every row: {quoted}" if quoted else ""
    quoted = _in_double_quotes(text)
    return f"It is the same for every row: {quoted or 'no column stands in it.'}"


def _is_constant(expression: exp.Expr) -> bool:
    if any(token in _UNSTEADY for token in map(str.lower, _called(expression))):
        return False
    return expression.find(exp.Column) is None


def _called(expression: exp.Expr) -> Iterator[str]:
    """The names of the functions that an expression calls."""
    for call in expression.find_all(exp.Func):
        yield call.name if isinstance(call, exp.Anonymous) else call.sql_name()


_UNSTEADY = frozenset(
    {"rand", "random", "randn", "uuid", "monotonically_increasing_id", "uniform"}
)
"""Functions whose value differs from row to row, though they read no column."""


def _in_double_quotes(text: Text) -> str:
    """A message about the first name in double quotes; '' where there is none."""
    found = next((token for token in text.tokens if text.sql[token.start] == '"'), None)
    if found is None:
        return ""
    return f'"{found.text}" is a text in Spark\'s SQL. Names are quoted by backticks: `{found.text}`.'
