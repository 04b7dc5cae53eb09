"""Runs the data tests of a project: on DuckDB, over the tables as pyiceberg reads them,
and on Spark those that DuckDB cannot answer."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import missing_table
from lakesql.catalog.tested_tables import (
    TestedTable,
    appended_since,
    find_table,
    read_columns_of,
    store_failures,
    view_to_test,
)
from lakesql.compile.build_select import build_select
from lakesql.compile.select import output_columns
from lakesql.errors import LakesqlError, RunError, explain_missing
from lakesql.graph.manifest import Manifest, is_stored, own_table
from lakesql.model.data_tests import DataTest
from lakesql.model.table_name import TableName
from lakesql.plan.data_test_results import Answer, ReadOf, TestResult, judge_failures
from lakesql.project.cache import digest
from lakesql.project.files import shorten, write_atomically
from lakesql.unit.answer import Loaded, answer, drop, load, open_duck, translate_test
from lakesql.unit.data_test_query import (
    TestQuery,
    build_test_query,
    header,
    readable_columns,
)
from lakesql.unit.duck_types import NeedsSparkError
from lakesql.unit.run import refuse_settings

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

SHOWN = 5
"""How many failing rows of a test are kept in its result."""

Engine: TypeAlias = Literal["duckdb", "spark"]
OpenSession: TypeAlias = "Callable[[], SparkSession]"


@dataclass(frozen=True, slots=True)
class TestRun:
    """What a run of tests needs. `open_session` is called once, and only if a test
    needs Spark.

    With `full`, every test reads all rows, not only those appended since it last
    passed.
    """

    __test__ = False

    manifest: Manifest
    catalog: OpenCatalog
    open_session: OpenSession
    engine: Engine = "duckdb"
    full: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC).replace(tzinfo=None)


def run_data_tests(
    run: TestRun,
    tests: Iterable[DataTest],
    done: Callable[[TestResult], None] = lambda _: None,
) -> list[TestResult]:
    """The results of the tests, in the order of `tests`; `done` is called with each as
    soon as it is known.

    The SELECT of each test is first written to its compiled file. A test that judges
    each row by itself reads only the rows appended since it last passed, if nothing
    else has changed in the table. Raises `ProfileError` if the catalog cannot be
    reached; a problem with one table or one test becomes that test's result.
    """
    tests = list(tests)
    tables = _find_tables(run, tests)
    positions = _Positions.read(run.manifest)
    prepared: dict[str, _Prepared] = {}
    results: dict[str, TestResult] = {}

    def end(result: TestResult) -> None:
        results[result.test.name] = result
        done(result)

    for test in tests:
        found = _prepare(run, test, tables)
        if isinstance(found, TestResult):
            end(found)
        else:
            prepared[test.name] = found
    for_spark = {
        name: f"view {each.views[0]}" for name, each in prepared.items() if each.views
    }
    if run.engine == "spark":
        for_spark = dict.fromkeys(prepared, "--engine spark")
    if on_duck := {
        name: each for name, each in prepared.items() if name not in for_spark
    }:
        with open_duck(run.manifest.outputs.cache) as connection:
            _DuckRun(run, connection, on_duck, positions, end, for_spark).run()
    if for_spark:
        _run_on_spark(
            run, {name: (prepared[name], why) for name, why in for_spark.items()}, end
        )
    for name, each in prepared.items():
        _keep_position(positions, each, results[name])
    positions.write()
    return [results[test.name] for test in tests]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A test that is ready to run: its SELECT, the tables that it reads, by model, and
    in `compiled` the path of its compiled file."""

    test: DataTest
    query: TestQuery
    tables: Mapping[str, TestedTable]
    compiled: str

    @property
    def views(self) -> tuple[str, ...]:
        """The models among those it reads that are views, without rows of their own."""
        return tuple(name for name, table in self.tables.items() if table.table is None)

    @property
    def digest(self) -> str:
        """A digest of the test's SELECT and of the columns that it reads of its table;
        it does not depend on where the test is declared."""
        return digest(
            self.query.text,
            *self.tables[self.test.model].identify(self.query.reads[self.test.model]),
        )


def _find_tables(
    run: TestRun, tests: Iterable[DataTest]
) -> dict[str, TestedTable | RunError]:
    found: dict[str, TestedTable | RunError] = {}
    for name in dict.fromkeys(model for test in tests for model in test.depends_on):
        table = own_table(run.manifest, name)
        if not is_stored(run.manifest, name):
            columns = output_columns(build_select(run.manifest, name))
            found[name] = view_to_test(
                table, {column.name: column.type for column in columns}
            )
            continue
        fix = (
            f"Fill it: lakesql seed --select {name}"
            if name in run.manifest.seeds
            else ""
        )
        try:
            found[name] = find_table(run.catalog, table) or missing_table(
                run.catalog, table, fix
            )
        except RunError as error:
            found[name] = error
    return found


def _prepare(
    run: TestRun, test: DataTest, tables: Mapping[str, TestedTable | RunError]
) -> _Prepared | TestResult:
    there: dict[str, TestedTable] = {}
    for model in test.depends_on:
        match tables[model]:
            case RunError() as error:
                return _ended_by(test, error)
            case table:
                there[model] = table
    try:
        query = build_test_query(
            run.manifest,
            test,
            {model: table.columns or None for model, table in there.items()},
        )
    except LakesqlError as error:
        return _ended_by(test, error)
    path = run.manifest.outputs.compiled / test.compiled_path
    write_atomically(path, f"{header(test)}\n\n{query.text};\n")
    return _Prepared(test, query, there, shorten(path, run.manifest.directory))


def _ended_by(test: DataTest, error: LakesqlError, compiled: str = "") -> TestResult:
    message = " ".join(problem.what for problem in error.problems)
    return TestResult(
        test,
        "error",
        problems=tuple(error.problems),
        message=message,
        compiled=compiled,
    )


LoadKey: TypeAlias = "tuple[str, int | None]"
"""A model, and the snapshot after which its table is read; None for all rows."""


@dataclass(slots=True)
class _DuckRun:
    """The tests on DuckDB. Each table is loaded once for all tests, with the columns
    that any of them needs.

    Tests that turn out to need Spark are added to `for_spark`, with the reason.
    """

    run_: TestRun
    connection: duckdb.DuckDBPyConnection
    prepared: Mapping[str, _Prepared]
    positions: _Positions
    end: Callable[[TestResult], None]
    for_spark: dict[str, str]
    wanted: dict[LoadKey, dict[str, None]] = field(default_factory=dict)
    uses: Counter[LoadKey] = field(default_factory=Counter)
    loaded: dict[LoadKey, Loaded] = field(default_factory=dict)
    unreadable: dict[LoadKey, str] = field(default_factory=dict)

    def run(self) -> None:
        """Run the tests that DuckDB can answer."""
        keys: dict[str, dict[str, tuple[LoadKey, int | None]]] = {}
        for name, each in self.prepared.items():
            try:
                refuse_settings(self.run_.manifest.target.spark)
                keys[name] = self.plan(each)
            except NeedsSparkError as error:
                self.for_spark[name] = str(error)
        for loads in keys.values():
            self.uses.update(key for key, _ in loads.values())
        for name, loads in keys.items():
            started = time.monotonic()
            each = self.prepared[name]
            try:
                self.end(self.answer(each, loads, started))
            except NeedsSparkError as error:
                self.for_spark[name] = str(error)
            for key, _ in loads.values():
                self.uses[key] -= 1
                if not self.uses[key] and key in self.loaded:
                    drop(self.connection, self.loaded.pop(key).name)

    def plan(self, each: _Prepared) -> dict[str, tuple[LoadKey, int | None]]:
        """What the test reads of each model's table: the snapshot after which it reads,
        and how many snapshots have appended rows since. Raises `NeedsSparkError` if
        DuckDB cannot answer the test."""
        columns_of: dict[str, list[str]] = {}
        for model, table in each.tables.items():
            readable = readable_columns(table.columns)
            chosen = each.query.reads[model]
            wanted = [*table.columns] if chosen is None else [*chosen]
            if others := [name for name in wanted if name not in readable]:
                raise NeedsSparkError(
                    f"column {others[0]} of type {table.columns[others[0]]}"
                )
            columns_of[model] = wanted
            if not wanted:
                raise NeedsSparkError("a table without a column that can be read")
        empty = {
            table.name: Loaded(f"{model}_columns", readable_columns(table.columns), 0)
            for model, table in each.tables.items()
        }
        # only to check that it can be translated
        translate_test(each.query, empty, self.names(each), self.run_.clock())
        since, appends = self.since(each, empty)
        loads = {}
        for model, columns in columns_of.items():
            key = (model, since)
            self.wanted.setdefault(key, {}).update(dict.fromkeys(columns))
            loads[model] = (key, appends)
        return loads

    def since(
        self, each: _Prepared, empty: Mapping[TableName, Loaded]
    ) -> tuple[int | None, int | None]:
        """The snapshot at which the test last passed, and how many snapshots have
        appended rows since; (None, None) if the test has to read all rows."""
        if self.run_.full or not each.query.is_by_row:
            return None, None
        table = each.tables[each.test.model]
        known = self.positions.of(each.test.name, each.digest, table.id)
        appends = appended_since(table, known) if known is not None else None
        if appends is None:
            return None, None
        try:
            translate_test(each.query, empty, self.names(each), None)
        except NeedsSparkError:
            return None, None  # the clock is read: a row that has passed may fail now
        return known, appends

    def names(self, each: _Prepared) -> dict[str, TableName]:
        return {model: table.name for model, table in each.tables.items()}

    def answer(
        self,
        each: _Prepared,
        loads: Mapping[str, tuple[LoadKey, int | None]],
        started: float,
    ) -> TestResult:
        tables = {
            each.tables[model].name: self.load(each.tables[model], key)
            for model, (key, _) in loads.items()
        }
        statement = translate_test(
            each.query, tables, self.names(each), self.run_.clock()
        )
        found = answer(
            self.connection, statement, SHOWN, each.test.options.store_failures
        )
        reads = tuple(
            ReadOf(model, tables[each.tables[model].name].rows, appends)
            for model, (_, appends) in loads.items()
        )
        try:
            result = _result(
                self.run_, each, found, started, self.looked_at(each, tables, reads)
            )
        except RunError as error:
            result = _ended_by(each.test, error, each.compiled)
        return replace(result, engine="duckdb", reads=reads)

    def looked_at(
        self,
        each: _Prepared,
        tables: Mapping[TableName, Loaded],
        reads: tuple[ReadOf, ...],
    ) -> int | None:
        """How many rows the test's `where` lets through; None if it has no `where`, or
        if only new rows were read."""
        if each.query.looked_at is None or any(
            read.snapshots is not None for read in reads
        ):
            return None
        statement = translate_test(
            each.query.looked_at, tables, self.names(each), self.run_.clock()
        )
        return int(answer(self.connection, statement, 1, keeps_all=False).rows[0][0])

    def load(self, table: TestedTable, key: LoadKey) -> Loaded:
        """The table's columns, loaded into DuckDB. Raises `NeedsSparkError` for a table
        that pyiceberg cannot read."""
        if key in self.unreadable:
            raise NeedsSparkError(self.unreadable[key])
        if key not in self.loaded:
            model, since = key
            columns = {name: table.columns[name] for name in self.wanted[key]}
            name = f"lakesql_{'all' if since is None else 'new'}_{model}_{len(self.loaded)}_{abs(since or 0)}"
            try:
                batches = read_columns_of(table, [*columns], since)
                self.loaded[key] = load(self.connection, name, columns, batches)
            except RunError as error:
                self.unreadable[key] = " ".join(
                    f"{it.what} {it.why}".strip() for it in error.problems
                )
                raise NeedsSparkError(self.unreadable[key]) from error
        return self.loaded[key]


def _run_on_spark(
    run: TestRun,
    tests: Mapping[str, tuple[_Prepared, str]],
    end: Callable[[TestResult], None],
) -> None:
    try:
        session = run.open_session()
    except (LakesqlError, ModuleNotFoundError) as error:
        known = error if isinstance(error, LakesqlError) else explain_missing(error)
        if known is None:
            raise
        for each, why in tests.values():
            end(replace(_ended_by(each.test, known, each.compiled), why_spark=why))
        return
    from lakesql.engine.spark.ask import ask_spark

    for each, why in tests.values():
        started = time.monotonic()
        try:
            found = ask_spark(session, each.test, each.query.text, SHOWN)
            counted = each.query.looked_at
            looked_at = (
                ask_spark(session, each.test, counted.text, 1).rows[0][0]
                if counted is not None
                else None
            )
            result = _result(run, each, found, started, looked_at)
        except RunError as error:
            result = _ended_by(each.test, error, each.compiled)
        end(replace(result, engine="spark", why_spark=why, duration_ms=_since(started)))


def _result(
    run: TestRun,
    each: _Prepared,
    found: Answer,
    started: float,
    looked_at: int | None = None,
) -> TestResult:
    """The test's result; failing rows are written to their table if the test stores
    failures."""
    stored = ""
    if found.all_rows is not None:
        of = own_table(run.manifest, each.test.depends_on[0])
        name = each.test.failures_table(of)
        store_failures(run.catalog, name, found.all_rows, each.test.place)
        stored = str(name)
    return TestResult(
        test=each.test,
        status=judge_failures(each.test, found.failures, looked_at),
        failures=found.failures,
        columns=found.columns,
        rows=tuple(found.rows),
        duration_ms=_since(started),
        compiled=each.compiled,
        stored=stored,
    )


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


@dataclass(frozen=True, slots=True)
class _Positions:
    """The snapshot at which each test last passed, by target:
    `target/test_positions.json`."""

    manifest: Manifest
    known: dict[str, dict[str, list[str | int]]]

    @classmethod
    def read(cls, manifest: Manifest) -> _Positions:
        """The contents of the file; empty if it is missing or was not written by
        lakesql."""
        try:
            found = json.loads(
                (manifest.outputs.target / "test_positions.json").read_text("utf-8")
            )
            known = {
                str(target): {str(name): [*entry] for name, entry in tests.items()}
                for target, tests in found.items()
            }
        except (OSError, ValueError, AttributeError, TypeError):
            known = {}
        return cls(manifest, known)

    def of(self, test: str, digest: str, table: str) -> int | None:
        """The snapshot of the table at which the test last passed; None if it never
        has, or if the test, the table or the columns that it reads have changed
        since."""
        entry = self.known.get(self.manifest.target.name, {}).get(test)
        if (
            entry is None
            or entry[:2] != [digest, table]
            or not isinstance(entry[-1], int)
        ):
            return None
        return entry[2] if isinstance(entry[2], int) else None

    def keep(self, test: str, entry: list[str | int] | None) -> None:
        """Set the position of a test. None removes it: the test reads all rows the next
        time."""
        tests = self.known.setdefault(self.manifest.target.name, {})
        if entry is None:
            tests.pop(test, None)
        else:
            tests[test] = entry

    def write(self) -> None:
        """Write the positions, for the next command."""
        text = json.dumps(self.known, indent=1, sort_keys=True) + "\n"
        write_atomically(self.manifest.outputs.target / "test_positions.json", text)


def rename_positions(manifest: Manifest, old: str, new: str) -> None:
    """Move the positions of a renamed model's tests to the names that the tests have
    now.

    A test whose table has been renamed has a different digest, so it reads all rows
    once. Idempotent.
    """
    positions = _Positions.read(manifest)
    tests = positions.known.get(manifest.target.name, {})
    now = {test.name for test in manifest.data_tests if test.model == new}
    renamed = {name: _new_name(name, old, new, now) for name in tests}
    if any(name != other for name, other in renamed.items()):
        positions.known[manifest.target.name] = {
            renamed[name]: entry for name, entry in tests.items()
        }
        positions.write()


def _new_name(test: str, old: str, new: str, now: Collection[str]) -> str:
    """The name of a test after its model was renamed from `old` to `new`; `test` itself
    if no test has that name."""
    found = re.sub(
        rf"(?<![A-Za-z0-9]){re.escape(old)}(?![A-Za-z0-9])", new, test, count=1
    )
    return found if found in now else test


def _keep_position(positions: _Positions, each: _Prepared, result: TestResult) -> None:
    """Record the table's snapshot as the position of a test that judges each row by
    itself and has passed on DuckDB. A failed test keeps its earlier position, so it
    reads the same rows again."""
    if not each.query.is_by_row or result.failures or result.status != "pass":
        return
    table = each.tables[each.test.model]
    if result.engine == "duckdb" and table.snapshot is not None:
        positions.keep(each.test.name, [each.digest, table.id, table.snapshot])
