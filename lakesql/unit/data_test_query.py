"""The SELECT, in Spark's SQL, that finds a data test's failing rows, and the problems
of a test that can be found without running it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import assert_never

from sqlglot import exp

from lakesql.compile.compiled import CompiledFiles
from lakesql.compile.quote import identifier, table_name, text
from lakesql.decode import Node, collect
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.graph.manifest import Manifest, own_table
from lakesql.model.data_tests import (
    AcceptedValues,
    DataTest,
    Expression,
    FailingRows,
    NewestWithin,
    NotNull,
    Relationships,
    RowCount,
    Unique,
)
from lakesql.model.model import Model
from lakesql.seed.seed import Seed
from lakesql.select.assumed_values import number_of
from lakesql.select.query import parse_query, read_expression
from lakesql.select.relation import offset_of, typed_columns
from lakesql.select.sqltext import Findings, read_text
from lakesql.select.three_valued import (
    Truth,
    Use,
    filters_of,
    find_undecided,
    possible_truths,
)
from lakesql.stream.stream import Column
from lakesql.stream.types import stored_type
from lakesql.template.evaluate import Names
from lakesql.template.template import parse_template, render_template
from lakesql.unit.duck_types import VOID, NeedsSparkError, duck_type, is_flat
from lakesql.unit.fixture_values import MisfitError, fit

Columns = Mapping[str, str]
"""Types of columns by their names; '' is an unknown type."""

WHERE, FAILING, DEADLINE, NOW = (
    "lakesql_where",
    "lakesql_failing",
    "lakesql_deadline",
    "lakesql_now",
)
"""Placeholders in `TestQuery.frame`: for the author's conditions, for the oldest time
that is still new enough, and for the current time."""

MOST_SHOWN = 6
"""The number of columns that are read of a failing row if the model has no keys that
identify it."""


@dataclass(frozen=True, slots=True)
class TestQuery:
    """The SELECT of a test.

    `frame` is the same SELECT with placeholders instead of the author's conditions; ''
    if the author has written all of it. `conditions` has the texts of the conditions by
    placeholder. `reads` are the columns that are read, by model; None if the text has a
    `*`. `compared` has each model and column whose values are compared or grouped.
    `is_by_row` is true if whether a row fails depends on that row alone. `within_ms` is
    how old the newest value may be, None for other tests. `looked_at` is the query that
    counts the rows that match the test's `where`; None without one.
    """

    __test__ = False

    text: str
    frame: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    compared: tuple[tuple[str, str], ...] = ()
    is_by_row: bool = False
    within_ms: int | None = None
    looked_at: TestQuery | None = None


def check_data_tests(manifest: Manifest, compiled: CompiledFiles) -> None:
    """Raise `ProjectError` with the problems of all data tests, as far as the columns
    are known without reading the tables."""
    check_tests_of(
        manifest,
        {name: _declared_columns(manifest, compiled, name) for name in manifest.models},
    )


def check_tests_of(manifest: Manifest, models: Mapping[str, Columns | None]) -> None:
    """Raise `ProjectError` with the problems of all data tests, given the columns of
    the models' tables; None where they are not known."""
    problems: list[Problem] = []
    tables = {
        **models,
        **{name: seed_columns(seed) for name, seed in manifest.seeds.items()},
    }
    for test in manifest.data_tests:
        collect(problems, lambda test=test: build_test_query(manifest, test, tables))  # type: ignore[misc]
    if problems:
        raise ProjectError(problems)


def build_test_query(
    manifest: Manifest, test: DataTest, tables: Mapping[str, Columns | None]
) -> TestQuery:
    """The SELECT of a test. `tables` has the columns of each table, None where they are
    not known.

    Raises `ProjectError`: `unknown-column`, `bad-expression`, `wrong-value`,
    `not-a-select`, and the problems of a SELECT in a file.
    """
    if isinstance(test.check, FailingRows):
        return _of_file(manifest, test, test.check, tables)
    columns = tables[test.model]
    asked = _what_is_asked(test, columns, tables)
    conditions = dict(asked.conditions)
    used = [asked.column] if asked.column else []
    if test.where is not None:
        used += _used(test.where, columns, "filter")
        conditions[WHERE] = str(test.where.value)
    _check_rows_can_fail(test, asked, columns)
    plain = [*readable_columns(columns or {})] or [*(columns or ())]
    shown: list[str] = []
    if asked.shows_rows:
        telling = _telling_columns(manifest, test, columns) or plain[:MOST_SHOWN]
        shown = list(dict.fromkeys([*telling, *asked.shown(used)]))
    own = table_name(own_table(manifest, test.model))
    parent = next(iter(asked.others), "")

    def fill(name: Callable[[str], str], said: Mapping[str, str]) -> str:
        parts = _Parts(
            columns=[name(each) for each in shown] or ["*"],
            table=own,
            column=name(asked.column) if asked.column else "",
            wheres=[f"({said[WHERE]})"] if WHERE in said else [],
            failing=said.get(FAILING, ""),
            deadline=said.get(DEADLINE, ""),
            now=said.get(NOW, ""),
            parent=table_name(own_table(manifest, parent)) if parent else "",
            field=name(asked.others[parent][0]) if parent else "",
            bounds=asked.bounds,
        )
        return asked.shape(parts) + _limit_text(test)

    wanted = tuple(dict.fromkeys([*shown, *used, *asked.read]))
    return TestQuery(
        text=fill(identifier, conditions),
        frame=fill(
            lambda name: "`" + name.replace("`", "``") + "`",
            {each: each for each in conditions},
        ),
        conditions=conditions,
        reads={
            test.model: wanted or tuple(plain[:1]),  # rows are counted by a column
            **_beside(test.model, wanted, asked.others),
        },
        compared=asked.compared,
        is_by_row=isinstance(test.check, NotNull | AcceptedValues | Expression),
        within_ms=asked.within_ms,
        looked_at=_looked_at(test, own, plain, columns)
        if test.where is not None
        else None,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a test checks about its table: the `shape` of the SELECT, and the values
    that fill it.

    `column` is the column that is tested, `read` are the columns that its expression
    reads, `others` the columns of other models, by model. `shows_rows` is true if the
    SELECT finds rows of the table, which are then shown. `has_expression` is true if
    rows fail by an expression.
    """

    shape: Callable[[_Parts], str]
    column: str = ""
    shows_rows: bool = False
    has_expression: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compared: tuple[tuple[str, str], ...] = ()
    within_ms: int | None = None
    bounds: str = ""

    def shown(self, used: Sequence[str]) -> Sequence[str]:
        """The columns that show why a row fails: the tested one, or all that the
        expression and the `where` read."""
        return (*used, *self.read) if self.has_expression else (self.column,)


def _what_is_asked(
    test: DataTest, columns: Columns | None, tables: Mapping[str, Columns | None]
) -> _Asked:
    """What a test checks about its table. Raises `ProjectError` for a check that does
    not fit the columns."""
    named = (
        test.check.column
        if isinstance(test.check, NewestWithin) and test.check.column
        else test.column
    )
    column = _spelled(columns, named, test.model, test.place) if named else ""
    kind = (columns or {}).get(column, "")
    match test.check:
        case NotNull():
            condition = f"{identifier(column)} IS NULL"
            return _Asked(
                _rows, column, shows_rows=True, conditions={FAILING: condition}
            )
        case AcceptedValues(values=values):
            words = ", ".join(_literal(node, kind) for node in values)
            condition = f"{identifier(column)} NOT IN ({words})"
            return _Asked(
                _rows, column, shows_rows=True, conditions={FAILING: condition}
            )
        case Expression(expression=expression):
            read = tuple(_used(expression, columns, "test"))
            failing = {FAILING: f"NOT ({expression.value})"}
            return _Asked(
                _rows,
                column,
                shows_rows=True,
                has_expression=True,
                conditions=failing,
                read=read,
            )
        case Unique():
            return _Asked(_unique, column, compared=((test.model, column),))
        case Relationships(to=to, field=field):
            other = _spelled(tables[to], field, to, test.place)
            _check_types(test, kind, (tables[to] or {}).get(other, ""))
            if (to, other) == (test.model, column):
                what = f"Each value of '{column}' stands in '{column}': the test cannot fail."
                raise ProjectError.of(
                    "wrong-value",
                    what,
                    fix="Refer to another column.",
                    place=test.place,
                )
            compared = ((test.model, column), (to, other))
            return _Asked(
                _relationships,
                column,
                shows_rows=True,
                others={to: (other,)},
                compared=compared,
            )
        case RowCount() as check:
            return _Asked(_row_count, column, bounds=_bounds(check))
        case NewestWithin(within=within):
            _check_is_time(test, column, kind)
            now = "current_timestamp()"
            times = {
                NOW: now,
                DEADLINE: f"{now} - INTERVAL '{within.length_ms / 1000:f}' SECOND",
            }
            return _Asked(_newest, column, conditions=times, within_ms=within.length_ms)
        case FailingRows():
            raise AssertionError("a test of a file has a SELECT of its own")
        case _:
            assert_never(test.check)


def _check_rows_can_fail(
    test: DataTest, asked: _Asked, columns: Columns | None
) -> None:
    """Raise `ProjectError` if no row can both match the test's `where` and fail the
    test."""
    match test.check:
        case NotNull() | AcceptedValues() | Expression():
            failing = asked.conditions[FAILING]
        case Unique() | Relationships():
            failing = f"{identifier(asked.column)} IS NOT NULL"
        case _:
            return
    if test.where is None:
        condition, place = failing, test.place
        what = "Whatever the column has, it passes: the test cannot fail."
    else:
        condition, place = f"({test.where.value}) AND {failing}", test.where.place
        what = f"No row for which '{test.where.value}' holds can fail: the test cannot fail."
    read = read_expression(condition, columns, use="filter")
    if isinstance(read, Problem) and read.condition == "bad-expression":
        raise ProjectError.of(
            "bad-expression",
            what,
            why=f"It looks for rows with `{condition}`.",
            fix="Correct the condition, or remove the test.",
            place=place,
        )


def _telling_columns(
    manifest: Manifest, test: DataTest, columns: Columns | None
) -> list[str]:
    """The columns that identify a failing row: the keys of the model; none for a
    seed."""
    keys = (
        ()
        if test.model in test.seeds
        else manifest.models[test.model].config.writing().keys
    )
    return [_spelled(columns, key, test.model, test.place) for key in keys]


def _limit_text(test: DataTest) -> str:
    return f"\nLIMIT {test.options.limit}" if test.options.limit is not None else ""


def _looked_at(
    test: DataTest, table: str, plain: list[str], columns: Columns | None
) -> TestQuery:
    """The query that counts the rows for which the test's `where` holds."""
    assert test.where is not None

    def fill(where: str) -> str:
        return f"SELECT count(*) AS looked_at\nFROM {table}\nWHERE ({where})"

    condition = str(test.where.value)
    read = tuple(dict.fromkeys(_used(test.where, columns, "filter"))) or tuple(
        plain[:1]
    )
    return TestQuery(
        fill(condition), fill(WHERE), {WHERE: condition}, {test.model: read}
    )


def readable_columns(columns: Columns) -> dict[str, str]:
    """The columns of a table whose values DuckDB holds as Spark does: none with
    structs, lists or maps."""
    found = {}
    for name, kind in columns.items():
        try:
            duck_type(kind)
        except NeedsSparkError:
            continue
        if kind != VOID and is_flat(kind):
            found[name] = kind
    return found


def header(test: DataTest) -> str:
    """The first line of a test's compiled file: a comment with its name, place and
    severity."""
    of = (
        f"{test.word} of {test.model}{'.' if test.column else ''}{test.column}"
        if test.model
        else test.path
    )
    return f"-- data test {test.name}: {of} ({test.place}); severity {test.options.severity}, a row is a failure"


@dataclass(frozen=True, slots=True)
class _Parts:
    """The texts that fill the shape of a SELECT."""

    columns: list[str]
    table: str
    column: str
    wheres: list[str]
    failing: str
    deadline: str
    now: str
    parent: str
    field: str
    bounds: str


def _and(*conditions: str) -> str:
    return " AND ".join(filter(None, conditions))


def _where(*conditions: str) -> str:
    said = _and(*conditions)
    return f"\nWHERE {said}" if said else ""


def _rows(parts: _Parts) -> str:
    return f"""\
SELECT {", ".join(parts.columns)}
FROM {parts.table}{_where(*parts.wheres, parts.failing)}"""


def _unique(parts: _Parts) -> str:
    return f"""\
SELECT {parts.column}, count(*) AS n_records
FROM {parts.table}{_where(*parts.wheres, f"{parts.column} IS NOT NULL")}
GROUP BY {parts.column}
HAVING count(*) > 1"""


def _relationships(parts: _Parts) -> str:
    return f"""\
SELECT {", ".join(f"child.{column}" for column in parts.columns)}
FROM (
  SELECT * FROM {parts.table}{_where(*parts.wheres).replace(chr(10), " ")}
) AS child
LEFT JOIN (
  SELECT DISTINCT {parts.field} AS parent_key FROM {parts.parent}
) AS parent ON child.{parts.column} = parent.parent_key
WHERE child.{parts.column} IS NOT NULL AND parent.parent_key IS NULL"""


def _row_count(parts: _Parts) -> str:
    return f"""\
SELECT count(*) AS row_count
FROM {parts.table}{_where(*parts.wheres)}
HAVING {parts.bounds}"""


def _newest(parts: _Parts) -> str:
    """The SELECT of a test of freshness: the newest value that is not in the future, if
    it is too old.

    A value in the future is left out: it would hide, until its time has come, that
    nothing arrives any more.
    """
    return f"""\
SELECT max({parts.column}) AS newest
FROM {parts.table}{_where(*parts.wheres, f"{parts.column} <= {parts.now}")}
HAVING max({parts.column}) IS NULL OR max({parts.column}) < {parts.deadline}"""


def _of_file(
    manifest: Manifest,
    test: DataTest,
    check: FailingRows,
    tables: Mapping[str, Columns | None],
) -> TestQuery:
    template = check.template or parse_template(
        check.path, check.source, manifest.macros
    )
    target = manifest.target
    names = Names(
        stream=identifier,
        ref=lambda name: table_name(own_table(manifest, name)),
        this="",
        vars=manifest.vars,
        target={
            "name": target.name,
            "namespace": target.namespace,
            "catalog": target.catalog.name,
        },
        is_full_refresh=False,
    )
    rendered = render_template(template, names)
    findings = Findings(rendered.place)
    read = read_text(rendered.text, findings)
    tree = parse_query(read, rendered.text, findings)
    if findings.problems:
        raise ProjectError(findings.problems)
    paths = {own_table(manifest, name).folded for name in test.depends_on}
    for found in tree.find_all(exp.Table):
        path = tuple(part.name.lower() for part in found.parts)
        if len(path) > 1 and path not in paths:
            what = f"The SELECT reads {'.'.join(path)}, which is no ref('…')."
            raise ProjectError.of("unknown-table", what, place=test.place)
    check_can_fail(tree, read.sql, findings)
    if findings.problems:
        raise ProjectError(findings.problems)
    has_star = any(
        not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)
    )
    mentioned = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    reads: dict[str, tuple[str, ...] | None] = {}
    for name in test.depends_on:
        columns = tuple(tables[name] or ())
        chosen = tuple(column for column in columns if column.lower() in mentioned)
        reads[name] = None if has_star else chosen or columns[:1]
    limit = _limit_text(test)
    said = read.sql.strip()
    body = f"SELECT * FROM (\n{said}\n) AS failing{limit}" if limit else said
    return TestQuery(text=body, reads=reads)


def check_can_fail(tree: exp.Expr, sql: str, findings: Findings) -> None:
    """Add a finding for each part of a SELECT because of which it can never return
    rows, or that is constant by mistake.

    These are: a WHERE, HAVING or ON that is true for no row; LIMIT 0; an EXCEPT between
    a SELECT and itself; and a condition of a WHERE or HAVING that compares no column
    because a name stands in double quotes, which make it a string in Spark's SQL.
    """
    for clause in tree.find_all(exp.Where, exp.Having):
        for quoted in _quoted_constants(clause.this, sql):
            what = f'"{quoted.this}" is a text in Spark\'s SQL, so that this part is the same for every row.'
            fix = f"Names are quoted by backticks: `{quoted.this}`."
            findings.add("bad-expression", offset_of(quoted), what, fix=fix)
    for word, condition in filters_of(tree):
        if Truth.TRUE not in possible_truths(condition):
            what, fix = find_undecided(condition, "filter") or (
                "It is true for no row.",
                "",
            )
            offset = offset_of(condition)
            findings.add("bad-expression", offset, f"{word}: {what}", fix=fix)
    for limit in tree.find_all(exp.Limit):
        if number_of(limit.expression) == 0:
            what = "LIMIT 0 leaves no row: the test cannot fail."
            findings.add("bad-expression", offset_of(limit), what, fix="Leave it out.")
    for difference in tree.find_all(exp.Except):
        if difference.this.unnest() == difference.expression.unnest():
            what = "EXCEPT: both sides are the same SELECT, so that nothing is left."
            offset = offset_of(difference.expression)
            fix = "Compare it with another one."
            findings.add("bad-expression", offset, what, fix=fix)


def _quoted_constants(condition: exp.Expr, sql: str) -> Iterator[exp.Literal]:
    """The strings in double quotes that were probably meant as names: the first one of
    each part of a condition that has neither a column nor a query nor the current
    time."""
    if isinstance(condition, exp.Connector | exp.Paren | exp.Not):
        for part in condition.iter_expressions():
            yield from _quoted_constants(part, sql)
    elif (
        condition.find(exp.Column, exp.Query, exp.CurrentDate, exp.CurrentTimestamp)
        is None
    ):
        quoted = (
            it
            for it in condition.find_all(exp.Literal)
            if it.is_string and sql[offset_of(it)] == '"'
        )
        yield from islice(quoted, 1)


def seed_columns(seed: Seed) -> Columns:
    """The columns of a seed's table with their types."""
    return {column.name: stored_type(column.type) for column in seed.columns}


def _declared_columns(
    manifest: Manifest, compiled: CompiledFiles, name: str
) -> Columns | None:
    """The columns of a model's table, as derived from its SELECT; None if only Spark's
    analyzer knows them."""
    known = compiled.known(name)
    return (
        table_columns(manifest.models[name], known.columns)
        if known is not None and known.columns is not None
        else None
    )


def table_columns(model: Model, columns: Iterable[Column]) -> Columns:
    """The columns of a model's table: those of the SELECT, which are given, and those
    that the mode adds."""
    added = model.config.writing().added
    return {
        **{column.name: column.type for column in columns},
        **{column.name: column.type for column in added},
    }


def _spelled(columns: Columns | None, name: str, model: str, place: Place) -> str:
    """The name of a column with the capitals that the table has. Raises `ProjectError`
    if the table has no such column; if its columns are not known, the name is returned
    as it is."""
    if columns is None:
        return name
    found = next((column for column in columns if column.lower() == name.lower()), None)
    if found is None:
        what = f"The table of '{model}' has no column '{name}'."
        raise ProjectError.of(
            "unknown-column", what, fix=did_you_mean(name, columns), place=place
        )
    return found


def _used(condition: Node, columns: Columns | None, use: Use) -> list[str]:
    """The columns that a condition reads, with the capitals that the table has. Raises
    `ProjectError` for a condition that cannot be read."""
    typed = typed_columns((columns or {}).items())
    read = read_expression(str(condition.value), columns, typed=typed, use=use)
    if isinstance(read, Problem):
        raise ProjectError([read.at(condition.place)])
    spelled = {column.lower(): column for column in columns or ()}
    return [spelled.get(name.lower(), name) for name in read]


def _literal(node: Node, kind: str) -> str:
    """A value as a literal in Spark's SQL, of the column's type; if that is not known,
    of the type that the value has in the file. Raises `ProjectError` for a value that
    does not fit the type."""
    try:
        value = fit(node, kind)
    except MisfitError as error:
        raise ProjectError.of(
            "wrong-value", f"{error}.", fix=_quoting(node, kind), place=node.place
        ) from None
    except NeedsSparkError:
        value = node.value
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return f"CAST('{value.isoformat(sep=' ')}Z' AS timestamp)"
        case int():
            return str(value)
        case str():
            return text(value)
        case float():
            return f"CAST('{node.written or value!r}' AS {kind if kind in ('double', 'float') else 'double'})"
        case Decimal():
            return f"CAST('{value:f}' AS {kind})"
        case _:
            return f"CAST('{value}' AS {kind})"


def _quoting(node: Node, kind: str) -> str:
    if kind == "string" and isinstance(node.value, bool | int | float):
        return f"Put it in quotes: '{node.written if node.written is not None else node.value}'."
    return "Correct the value, or the column that the test stands at."


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def _check_types(test: DataTest, kind: str, other: str) -> None:
    """Raise `ProjectError` if values of the two columns can never be equal: both types
    are known, and they are of different kinds."""

    def family(each: str) -> str:
        return "number" if each in _NUMBERS or each.startswith("decimal") else each

    if kind and other and family(kind) != family(other):
        what = f"The column is of type {kind}, and the one that it refers to of type {other}."
        raise ProjectError.of(
            "wrong-value",
            what,
            fix="Refer to a column of the same kind.",
            place=test.place,
        )


def _check_is_time(test: DataTest, column: str, kind: str) -> None:
    if kind and kind not in ("timestamp", "date", "timestamp_ntz"):
        what = f"The column '{column}' is of type {kind}, and freshness is that of a time or a date."
        raise ProjectError.of(
            "wrong-value", what, fix="Name a column of times.", place=test.place
        )


def _bounds(check: RowCount) -> str:
    parts = [f"count(*) < {check.min}"] if check.min is not None else []
    parts += [f"count(*) > {check.max}"] if check.max is not None else []
    return " OR ".join(parts)


def _beside(
    model: str, wanted: tuple[str, ...], others: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The columns that are read of other models, by model. If a model refers to itself,
    its entry has the columns that are `wanted` of it, too."""
    return {
        name: (*wanted, *columns) if name == model else columns
        for name, columns in others.items()
    }
