"""Unit tests of models on DuckDB, without Spark: the model's SELECT over each batch
that the test gives, then the statements of the model's mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, assert_never

from lakesql.compile.batch import (
    CheckDeletes,
    CheckRows,
    FillUnsent,
    KeepRows,
    MakeView,
    ReadBounds,
    Remember,
    RememberMoves,
    Step,
    TakeTombstones,
    Write,
)
from lakesql.compile.build_select import build_select
from lakesql.compile.checks import Check
from lakesql.compile.select import Select, output_columns
from lakesql.compile.table import TableColumn
from lakesql.decode import Node
from lakesql.errors import InternalError, Problem, ProjectError
from lakesql.graph.manifest import Manifest, own_table, with_stored_rows
from lakesql.model.unit_tests import GivenRef, GivenStream, GivenTable, UnitTest
from lakesql.modes.batches.all_batches import batches_of, refreshes_of
from lakesql.modes.batches.table_versions import TableVersions
from lakesql.names import (
    AT,
    DELETED_AT,
    DIFFERENCES_VIEW,
    HISTORY_VIEW,
    KEY_MISSING,
    NOT_AS_EXPECTED,
    POSITION,
    ROWS_VIEW,
    SEQUENCE_MISSING,
    TIME_VIEW,
    is_reserved,
)
from lakesql.project.profiles import Spark
from lakesql.stream.stream import Column
from lakesql.stream.types import stored_type
from lakesql.unit.data_test_query import seed_columns
from lakesql.unit.duck import duck_statement
from lakesql.unit.duck_names import DuckTable
from lakesql.unit.duck_query import (
    TranslatedQuery,
    translate_condition,
    translate_query,
)
from lakesql.unit.duck_scope import DuckRelation
from lakesql.unit.duck_types import GUARD, NeedsSparkError, duck_type, quote
from lakesql.unit.duckdb_behind import duckdb
from lakesql.unit.expected import compare, compare_after
from lakesql.unit.fixture_values import Bad, fit_nested, is_known, sql_literal
from lakesql.unit.fixtures import Row, read_records, read_rows
from lakesql.unit.outcomes import Failed, NeedsSpark, Outcome, Result
from lakesql.unit.row_differences import RowDifference
from lakesql.unit.table_states import keys_of, read_states, time_of_refresh


def run_tests(manifest: Manifest, tests: Iterable[UnitTest]) -> list[Result]:
    """The results of the tests, in their order. An unexpected exception in a test, a
    defect of lakesql, fails that test alone.

    Raises `ProjectError` with the problems of all SELECTs and fixtures.
    """
    manifest = with_stored_rows(manifest)
    results, problems = [], dict[Problem, None]()
    built: dict[str, dict[str, Select]] = {}
    with duckdb.connect(
        config={"threads": 1, "enable_external_access": False}
    ) as connection:
        # with so few rows, planning a query takes longer than running it
        connection.execute("PRAGMA disable_optimizer")
        for test in tests:
            overrides = test.overrides.vars.plain() if test.overrides.vars else {}
            own = replace(manifest, vars={**manifest.vars, **overrides})
            try:
                select = build_select(
                    own, test.model, built.setdefault(repr(overrides), {})
                )
                outcome = _run(own, select, test, connection, built[repr(overrides)])
                results.append(Result(test, outcome))
            except ProjectError as error:
                problems.update(dict.fromkeys(error.problems))
    if problems:
        raise ProjectError(problems)
    return results


def _run(
    manifest: Manifest,
    select: Select,
    test: UnitTest,
    connection: duckdb.DuckDBPyConnection,
    built: dict[str, Select],
) -> Outcome:
    try:
        return _DuckTest(manifest, select, test, connection, built).outcome()
    except NeedsSparkError as error:
        return NeedsSpark(str(error))
    except duckdb.Error as error:
        said = str(error).splitlines()[0]
        return NeedsSpark(said.partition(GUARD)[2] or f"what DuckDB says to it: {said}")
    except ProjectError:
        raise
    except OverflowError:
        return NeedsSpark("a date or a time beyond the year 9999")
    except Exception as error:
        (defect,) = InternalError.of_defect(error).problems
        return Failed(
            what=f"A defect of lakesql, which its maintainers must hear of: {defect.what}. {defect.why}"
        )


_CONDITIONS = {
    "delete_when": "lakesql_delete_when",
    "when_matched": "lakesql_when_matched",
}
"""The placeholder that stands in a statement for a condition of the configuration until
that is translated to DuckDB's SQL."""

_KEYS = frozenset({"int", "bigint", "string", "boolean", "date", "timestamp"})
"""Types of which both engines compare all values alike; decimals are too."""


@dataclass(frozen=True, slots=True)
class _Arrived:
    """What a batch has beside its good records: `letters` are its dead letters, and
    `origin` is the stream of each record, by the record's position in the batch."""

    letters: list[Row]
    origin: dict[int, str]


@dataclass(slots=True)
class _DuckTest:
    """One test while it runs.

    `letters` are the dead letters of the batches so far. `earlier` has, for each batch
    so far, how the table differed from the rows expected after it. `states` has, for
    each table that is read by `ref`, its rows before the batches and after each.
    """

    manifest: Manifest
    select: Select
    test: UnitTest
    connection: duckdb.DuckDBPyConnection
    built: dict[str, Select]
    letters: list[Row] = field(default_factory=list)
    earlier: list[RowDifference | None] = field(default_factory=list)
    states: list[tuple[DuckTable, list[list[Row]]]] = field(default_factory=list)

    def outcome(self) -> Outcome:
        select, test = self.select, self.test
        refuse_settings(self.manifest.target.spark)
        _refuse_select(select)
        now = test.overrides.now
        tables: dict[tuple[str, ...], DuckTable] = {
            (name.lower(),): self.stream_table(name)
            for name in select.query.streams_read
        }
        refs = {
            own_table(self.manifest, it.name).folded: it.name
            for it in select.model.facts.refs
        }
        for path, name in refs.items():
            tables[path] = self.ref_table(name)
        # a stateful SELECT without its watermark columns: a batch has no watermark
        query = translate_query(
            select.query.sql if select.query.stateful else select.text, tables, now
        )
        types = self.table_types(query)
        self.refuse_types(types, select.compared)
        if select.model.config.reads == "tables":
            return self.refresh_each(query, types)
        names = {select.model.table.folded: "lakesql_this"}
        names |= {path: table.name for path, table in tables.items() if len(path) > 1}
        conditions, checks = self.conditions(query, types), self.checks(query)
        given = (*select.writing.conditions, *select.writing.match_conditions)
        steps = _named_steps(select, {option: _CONDITIONS[option] for option in given})
        self.make_tables(types, names)
        for number in range(test.batch_count):
            self.show_tables(number + 1)
            what = self.write_batch(number, query, steps, names, conditions, checks)
            if what:
                return Failed(what=what)
            self.compare_after(number, types)
        return self.compare(types)

    def refresh_each(self, query: TranslatedQuery, types: Mapping[str, str]) -> Outcome:
        """Refresh the table of a model over tables: once from the tables as the test
        gives them, and once after each batch of their changes."""
        versions = refreshes_of(self.select).versions(self.select.columns or ())
        if versions is not None:
            self.refuse_types(types, {"track_columns": versions.tracked})
        self.make_tables(types, {})
        checks = self.checks(query)
        for number in range(self.test.batch_count + 1):
            self.show_tables(number)
            what = self.refresh(query, checks)
            if what:
                return Failed(
                    what=f"The refresh{f' after batch {number}' if number else ''} fails: {what}"
                )
            if versions is None:
                self.create("lakesql_this", types, [])
                self.connection.execute(
                    f"INSERT INTO lakesql_this BY NAME SELECT * FROM {ROWS_VIEW}"
                )
            else:
                self.write_versions(versions, number)
            if number:
                self.compare_after(number - 1, types)
        return self.compare(types)

    def refresh(self, query: TranslatedQuery, checks: Mapping[Check, str]) -> str:
        """Compute the rows of the SELECT over the tables in their current state.
        Returns why the refresh fails; '' if it does not."""
        self.connection.execute(f"CREATE OR REPLACE TABLE {ROWS_VIEW} AS {query.text}")
        for check, condition in checks.items():
            if failing := self.number(
                f"SELECT count(*) FROM {ROWS_VIEW} WHERE NOT ({condition})"
            ):
                return f"{NOT_AS_EXPECTED}, {failing} of its rows fail '{check.name}'."
        if keys := ", ".join(map(quote, self.select.writing.keys)):
            of_keys = (
                f"SELECT {keys} FROM {ROWS_VIEW} GROUP BY {keys} HAVING count(*) > 1"
            )
            if self.number(f"SELECT count(*) FROM ({of_keys})"):
                return f"view-keys-twice, two of its rows have one {keys}."
        return ""

    def write_versions(self, versions: TableVersions, number: int) -> None:
        """Write a refresh into a table of versions: end those whose rows have changed,
        and begin new ones. The refresh happens one second after the one before it."""
        names = {self.select.model.table.folded: "lakesql_this"}
        at = time_of_refresh(self.test.overrides.now, number).isoformat(sep=" ")
        self.connection.execute(
            f"CREATE OR REPLACE TABLE {TIME_VIEW} AS SELECT TIMESTAMP '{at}' AS {AT}"
        )
        for view, query in (
            (DIFFERENCES_VIEW, versions.differences),
            (HISTORY_VIEW, versions.changed),
        ):
            self.connection.execute(
                f"CREATE OR REPLACE TABLE {view} AS {duck_statement(query, names, {})}"
            )
        self.connection.execute(duck_statement(versions.merge, names, {}))

    # --- what the test gives

    @property
    def batches(self) -> Mapping[str, tuple[Node, ...]]:
        return {
            it.stream: it.batches
            for it in self.test.given
            if isinstance(it, GivenStream)
        }

    def stream_table(self, name: str) -> DuckTable:
        stream = self.select.streams[name]
        if stream.has_table_changes:
            raise NeedsSparkError(f"the changes of table '{name}'")
        if stream.is_feed:
            raise NeedsSparkError(f"the envelope {stream.envelope} of stream '{name}'")
        positioned = {POSITION: "bigint"} if self.select.writing.is_positioned else {}
        return DuckTable(
            f"lakesql_stream_{name}", {**self.stream_columns(name), **positioned}
        )

    def stream_columns(self, name: str) -> dict[str, str]:
        """The types of a stream's columns, by their names; for a model's table that is
        read as a stream, those that its SELECT makes.

        A column whose type fixtures do not know is left out if the SELECT does not read
        it.
        """
        if name in self.select.read_tables:
            return _table_of(self.manifest, name, self.built)
        words = self.select.query.words
        columns = self.select.streams[name].columns
        read = [
            it
            for it in columns
            if words is None or it.name.lower() in words or is_known(it.type)
        ]
        return {column.name: _known(column.type) for column in read}

    def ref_table(self, name: str) -> DuckTable:
        """The DuckDB table that stands for a model's table, or a seed's, read by `ref`.
        The rows that the test gives it are read here into `states`."""
        columns = _table_of(self.manifest, name, self.built)
        table = DuckTable(f"lakesql_ref_{name}", columns)
        given = next(
            (
                it
                for it in self.test.given
                if isinstance(it, GivenRef) and it.ref == name
            ),
            None,
        )
        states: list[list[Row]] = [[]]
        if given is not None:
            keys = keys_of(self.manifest, name, self.built)
            states = read_states(
                given, columns, keys, self.manifest.directory, fit_nested
            )
        self.states.append((table, states))
        return table

    def show_tables(self, number: int) -> None:
        """Fill the tables that are read by `ref` with their rows after `number`
        batches; with 0, those before the first batch."""
        for table, states in self.states:
            self.create(table.name, table.columns, states[min(number, len(states) - 1)])

    def table_types(self, query: TranslatedQuery) -> dict[str, str]:
        """The types of the table's columns, by their names."""
        types = {
            name: stored_type(kind)
            for name, kind in query.columns.items()
            if name != POSITION
        }
        return {**types, **_added_types(self.select, types)}

    def refuse_types(
        self, types: Mapping[str, str], compared: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Raise `NeedsSparkError` for a column that is always NULL, and for a column of
        `compared` whose values DuckDB may compare differently from Spark. `compared`
        has columns by the option that names them."""
        if void := [name for name, kind in types.items() if kind == "void"]:
            raise NeedsSparkError(f"column {void[0]}, which is always NULL")
        spelled = {name.lower(): kind for name, kind in types.items()}
        for option, columns in compared.items():
            for column in columns:
                kind = spelled[column.lower()]
                if kind not in _KEYS and not kind.startswith("decimal"):
                    raise NeedsSparkError(f"'{column}' in {option}, of type {kind}")

    def conditions(
        self, query: TranslatedQuery, types: Mapping[str, str]
    ) -> dict[str, str]:
        """The configuration's conditions in DuckDB's SQL, by their placeholders in the
        statements."""
        now, writing = self.test.overrides.now, self.select.writing
        made = {}
        for option, text in writing.conditions.items():
            made[_CONDITIONS[option]] = translate_condition(
                text, (DuckRelation(ROWS_VIEW, query.columns),), now
            )
        for option, text in writing.match_conditions.items():
            sides = (
                DuckRelation("source", query.columns),
                DuckRelation("target", types),
            )
            made[_CONDITIONS[option]] = translate_condition(text, sides, now)
        return made

    def checks(self, query: TranslatedQuery) -> dict[Check, str]:
        """The model's expectations as conditions in DuckDB's SQL. Those with `on_fail:
        warn` are left out, as they have no effect on a test."""
        rows = DuckRelation(ROWS_VIEW, query.columns)
        checks = (check for check in self.select.checks if check.on_fail != "warn")
        return {
            check: translate_condition(
                check.condition, (rows,), self.test.overrides.now
            )
            for check in checks
        }

    def make_tables(
        self, types: Mapping[str, str], names: dict[tuple[str, ...], str]
    ) -> None:
        given = next((it for it in self.test.given if isinstance(it, GivenTable)), None)
        what = f"the table of model '{self.test.model}'"
        rows = (
            read_rows(given.rows, types, what, self.manifest.directory, fit_nested)
            if given
            else []
        )
        sequence = {column.lower() for column in self.select.writing.sequence_by}
        for row in rows:
            known = {
                name.lower() for name, value in row.values.items() if value is not None
            }
            if missing := sequence - known:
                raise NeedsSparkError(
                    f"a row of the table without {', '.join(sorted(missing))}, which is in sequence_by"
                )
        self.create("lakesql_this", types, [row.values for row in rows])
        if self.select.writing.retention is not None:
            self.create(
                "lakesql_tombstones",
                {**self.tombstones(types), DELETED_AT: "timestamp"},
                [],
            )
            names[self.select.model.table.tombstones.folded] = "lakesql_tombstones"

    def tombstones(self, types: Mapping[str, str]) -> dict[str, str]:
        """The types of the columns that the tombstones of deleted rows have, by their
        names."""
        made = [TableColumn(name, types[name]) for name in self.select.columns or ()]
        _, remembered = batches_of(self.select).remembered(made)
        return {column.name: column.type or "" for column in remembered}

    # --- a batch

    def write_batch(
        self,
        number: int,
        query: TranslatedQuery,
        steps: tuple[Step, ...],
        names: Mapping[tuple[str, ...], str],
        conditions: Mapping[str, str],
        checks: Mapping[Check, str],
    ) -> str:
        """Write one batch as the engine does. Returns why it fails; '' if it does
        not."""
        arrived = self.read_batch(number)
        self.connection.execute(f"CREATE OR REPLACE TABLE {ROWS_VIEW} AS {query.text}")
        if what := self.stop(checks):
            return what
        letters = [*arrived.letters, *self.letters_of_rows(checks, arrived.origin)]
        self.refuse_several_rows()
        records, allowed = (
            len(arrived.origin),
            self.select.model.config.max_dead_letter_ratio,
        )
        if len(letters) > allowed * records:
            return f"The batch fails: too-many-dead-letters, {len(letters)} of {records} records."
        is_first = not self.number("SELECT count(*) FROM lakesql_this")
        for step in steps:
            what = self.take(step, number, is_first, names, conditions)
            if what:
                return what
        self.letters += letters
        return ""

    def read_batch(self, number: int) -> _Arrived:
        """Fill the streams' tables with the good records of a batch, and return the
        rest."""
        letters, origin = list[Row](), dict[int, str]()
        is_positioned = self.select.writing.is_positioned
        for name in self.select.query.streams_read:
            table, rows = self.stream_table(name), list[Row]()
            for record in self.records_of(name, number):
                match record:
                    case Bad(reason):
                        letters.append({"stream": name, "reason": reason})
                    case row:
                        rows.append(
                            {**row, POSITION: len(origin)} if is_positioned else row
                        )
                origin[len(origin)] = name
            self.create(table.name, table.columns, rows)
        if is_positioned and len(set(origin.values())) > 1:
            raise NeedsSparkError(
                "records of several streams in one batch, whose order the topics decide"
            )
        return _Arrived(letters, origin)

    def records_of(self, name: str, number: int) -> Sequence[Row | Bad]:
        """The records of a stream in a batch; none if the test gives that stream fewer
        batches."""
        batches, stream = self.batches.get(name, ()), self.select.streams[name]
        if number >= len(batches):
            return ()
        if name in self.select.read_tables:
            columns = self.stream_columns(name)
            stream = replace(
                stream, columns=tuple(Column(it, kind) for it, kind in columns.items())
            )
        takes_tombstones = bool(self.select.writing.tombstones)
        return read_records(
            batches[number], stream, takes_tombstones, self.manifest.directory
        )

    def stop(self, checks: Mapping[Check, str]) -> str:
        """Why an expectation with `on_fail: stop` stops the batch; '' if none does."""
        for check in (check for check in checks if check.on_fail == "stop"):
            if failing := self.number(
                f"SELECT count(*) FROM {ROWS_VIEW} WHERE NOT ({checks[check]})"
            ):
                return f"The batch fails: {NOT_AS_EXPECTED}, {failing} of its rows fail '{check.name}'."
        return ""

    def letters_of_rows(
        self, checks: Mapping[Check, str], origin: Mapping[int, str]
    ) -> list[Row]:
        """The dead letters of rows that fail an expectation, or have NULL in a column
        that may not be NULL.

        The former are removed from the view of rows. The latter stay in it: the
        statements of the batch leave them out.
        """
        letters = list[Row]()
        failed = [
            condition
            for check, condition in checks.items()
            if check.on_fail == "dead_letter"
        ]
        if failed:
            letters += self.failed_rows(failed, origin)
        if self.select.writing.not_null:
            letters += self.rejected_rows(origin)
        return letters

    def refuse_several_rows(self) -> None:
        """Raise `NeedsSparkError` if the SELECT has made several rows of one record and
        the mode depends on the order of rows."""
        if not self.select.writing.is_positioned:
            return
        if self.number(
            f"SELECT count(*) - count(DISTINCT {POSITION}) FROM {ROWS_VIEW}"
        ):
            raise NeedsSparkError(
                "a record that becomes several rows, whose order is open"
            )

    def failed_rows(
        self, conditions: Iterable[str], origin: Mapping[int, str]
    ) -> list[Row]:
        """The dead letters of rows for which one of the conditions is false, one for
        each record. These rows are removed from the view."""
        fails = " OR ".join(
            f"coalesce(NOT ({condition}), false)" for condition in conditions
        )
        found = self.connection.execute(
            f"SELECT DISTINCT {POSITION} FROM {ROWS_VIEW} WHERE {fails}"
        ).fetchall()
        self.connection.execute(f"DELETE FROM {ROWS_VIEW} WHERE {fails}")
        return [
            {"stream": origin[position], "reason": NOT_AS_EXPECTED}
            for (position,) in found
        ]

    def rejected_rows(self, origin: Mapping[int, str]) -> list[Row]:
        """The dead letters of rows that have NULL in a column that may not be NULL, one
        for each record."""
        writing = self.select.writing
        cases = " ".join(
            f"WHEN {quote(column)} IS NULL THEN '{SEQUENCE_MISSING if column in writing.sequence_by else KEY_MISSING}'"
            for column in writing.not_null
        )
        found = self.connection.execute(
            f"SELECT DISTINCT ON ({POSITION}) {POSITION}, reason FROM "
            f"(SELECT {POSITION}, CASE {cases} END AS reason FROM {ROWS_VIEW}) WHERE reason IS NOT NULL"
        ).fetchall()
        return [
            {"stream": origin[position], "reason": reason} for position, reason in found
        ]

    def take(
        self,
        step: Step,
        number: int,
        is_first: bool,
        names: Mapping[tuple[str, ...], str],
        conditions: Mapping[str, str],
    ) -> str:
        """Take one step of a batch. Returns why the batch fails in it; '' if it does
        not."""

        def run(text: str) -> None:
            self.connection.execute(duck_statement(text, names, conditions))

        match step:
            case MakeView(name=name, query=text):
                if name != ROWS_VIEW:
                    statement = duck_statement(text, names, conditions)
                    self.connection.execute(
                        f"CREATE OR REPLACE TABLE {name} AS {statement}"
                    )
            case ReadBounds() | TakeTombstones():
                # the whole table is read; and records without a value were refused
                # earlier
                pass
            case CheckDeletes(view=view, ratio=ratio, condition=condition):
                live = self.number("SELECT count(*) FROM lakesql_this")
                match_text = " AND ".join(
                    f"stored.{quote(key)} = batch.{quote(key)}"
                    for key in self.select.writing.keys
                )
                found = self.number(
                    f"SELECT count(*) FROM {view} AS batch WHERE ({condition}) AND EXISTS "
                    f"(SELECT 1 FROM lakesql_this AS stored WHERE {match_text})"
                )
                if live and found > ratio * live:
                    return f"The batch fails: too-many-deletes, {found} of the {live} rows of the table."
            case Remember(text=text):
                # Of two tombstones of a key the later one counts, so each batch needs a
                # time of its own.
                at = time_of_refresh(self.test.overrides.now, number).isoformat(sep=" ")
                run(text.replace("current_timestamp()", f"TIMESTAMP '{at}'"))
            case Write(new=new):
                run(new.text(()) if is_first and new is not None else step.text(()))
            case KeepRows(name=name, query=kept):
                self.connection.execute(
                    f"CREATE OR REPLACE TABLE {name} AS {duck_statement(kept.text(()), names, conditions)}"
                )
            case FillUnsent() | CheckRows() | RememberMoves():
                raise InternalError.of(
                    "internal", f"{type(step).__name__} is no step of these modes"
                )
            case _:
                assert_never(step)
        return ""

    # --- the tables' rows, to compare with the expected ones

    def compare(self, types: Mapping[str, str]) -> Outcome:
        def tombstones() -> tuple[Mapping[str, str], list[Row]]:
            columns = {
                name: kind
                for name, kind in self.tombstones(types).items()
                if not is_reserved(name)
            }
            return columns, self.rows("lakesql_tombstones", columns, "DISTINCT ")

        table, folder = partial(self.table, types), self.manifest.directory
        return compare(
            self.test, folder, table, self.letters, tombstones, fit_nested, self.earlier
        )

    def compare_after(self, number: int, types: Mapping[str, str]) -> None:
        """Record in `earlier` how the table differs from the rows that are expected
        after the batch of this number, counted from 0."""
        table = partial(self.table, types)
        self.earlier.append(
            compare_after(number, self.test, self.manifest.directory, table, fit_nested)
        )

    def table(self, types: Mapping[str, str]) -> tuple[Mapping[str, str], list[Row]]:
        """The types of the columns of the model's table, and its rows."""
        return types, self.rows("lakesql_this", types)

    def rows(self, table: str, types: Mapping[str, str], which: str = "") -> list[Row]:
        chosen = ", ".join(map(quote, types))
        found = self.connection.execute(
            f"SELECT {which}{chosen} FROM {quote(table)}"
        ).fetchall()
        return [dict(zip(types, row, strict=True)) for row in found]

    # --- DuckDB

    def create(self, name: str, columns: Mapping[str, str], rows: list[Row]) -> None:
        """Create a table with these rows; a column that a row does not name is NULL."""
        declared = ", ".join(
            f"{quote(column)} {duck_type(kind)}" for column, kind in columns.items()
        )
        self.connection.execute(f"CREATE OR REPLACE TABLE {quote(name)} ({declared})")
        if rows:
            values = ", ".join(
                f"({', '.join(sql_literal(row.get(column), kind) for column, kind in columns.items())})"
                for row in rows
            )
            self.connection.execute(f"INSERT INTO {quote(name)} VALUES {values}")

    def number(self, query: str) -> int:
        row = self.connection.execute(query).fetchone()
        assert row is not None, "a count is one row"
        return int(row[0])


def refuse_settings(spark: Spark) -> None:
    """Raise `NeedsSparkError` if the target sets an option of Spark with which an
    expression may mean something else than by default."""
    for name in spark.conf:
        if name.startswith("spark.sql.") and not name.startswith(_HARMLESS):
            raise NeedsSparkError(f"the target's {name}")


_HARMLESS = (
    "spark.sql.adaptive.",
    "spark.sql.catalog.",
    "spark.sql.shuffle.",
    "spark.sql.streaming.",
    "spark.sql.ui.",
)
"""Prefixes of settings below `spark.sql.` that change the value of no expression."""


def _named_steps(select: Select, conditions: Mapping[str, str]) -> tuple[Step, ...]:
    """The steps of each batch, with placeholders for the configuration's conditions
    (`conditions`, by option) and without expectations.

    The conditions are SQL of the model's author, which is translated separately; all
    other text of a step is lakesql's own.
    """
    config: Any = select.model.config
    model = replace(select.model, config=replace(config, **conditions))
    named: Select = replace(select, model=model, checks=())
    return batches_of(named).steps(select.columns)


def _refuse_select(select: Select) -> None:
    writing = select.writing
    if select.query.stateful:
        raise NeedsSparkError("a SELECT that keeps state between batches")
    if select.columns is None:
        raise NeedsSparkError("a * that stands for the columns of a table")
    if select.feed is not None:
        raise NeedsSparkError(f"mode {writing.mode}")
    if writing.compared.get("within"):
        raise NeedsSparkError("within, of mode append")


def _known(kind: str) -> str:
    duck_type(kind)
    return kind


def _table_of(
    manifest: Manifest, name: str, built: dict[str, Select]
) -> dict[str, str]:
    """The columns of a model's table, or a seed's, with their types. Raises
    `NeedsSparkError` if only Spark knows them."""
    if name in manifest.seeds:
        return {
            column: _known(kind)
            for column, kind in seed_columns(manifest.seeds[name]).items()
        }
    select = build_select(manifest, name, built)
    if select.columns is None:
        raise NeedsSparkError(f"the columns of model '{name}', which only Spark knows")
    types = {column.name: stored_type(column.type) for column in output_columns(select)}
    if any(not kind for kind in types.values()):
        tables: dict[tuple[str, ...], DuckTable] = {
            (stream.lower(),): DuckTable(
                stream,
                {column.name: column.type for column in select.streams[stream].columns},
            )
            for stream in select.query.streams_read
        }
        for found in select.model.facts.refs:
            read = own_table(manifest, found.name)
            tables[read.folded] = DuckTable(
                found.name, _table_of(manifest, found.name, built)
            )
        made = translate_query(select.query.sql, tables, None).columns
        types = {
            column: kind or stored_type(made[column]) for column, kind in types.items()
        }
    return {
        column: _known(kind)
        for column, kind in {**types, **_added_types(select, types)}.items()
    }


def _added_types(select: Select, types: Mapping[str, str]) -> dict[str, str]:
    """The types of the columns that the mode adds to those of the SELECT, by their
    names."""
    spelled = {name.lower(): kind for name, kind in types.items()}
    made = {}
    for added in select.writing.added:
        like = select.sequenced(added.like) if added.like else None
        made[added.name] = added.type or spelled.get(
            (like[0] if like else added.like).lower(), ""
        )
    return made
