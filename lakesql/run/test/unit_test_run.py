"""Runs one unit test on Spark: creates its tables, writes its batches with the code of
a run, and compares the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakesql.catalog.tables import list_namespaces
from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select
from lakesql.compile.table import TableColumn, TableSpec
from lakesql.decode import Node
from lakesql.engine.batch.analyze import analyze_select
from lakesql.engine.batch.given import (
    drop_table,
    exchange_rows,
    given_changes,
    given_records,
    given_rows,
    insert_rows,
    read_value,
    stop_clock,
    stored_rows,
    stored_types,
)
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.streaming_query import ModelQuery
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.batch.write import write_batch
from lakesql.engine.ledger.snapshots import load_table, table_exists
from lakesql.engine.progress.progress import ReplayProgress, open_replay
from lakesql.engine.refresh.refresh_table import Refresh, refresh_table
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import pack
from lakesql.engine.spark.failure import explain
from lakesql.engine.spark.few_rows import settings_of_few
from lakesql.engine.spark.session import new_session
from lakesql.errors import LakesqlError, ProjectError
from lakesql.graph.manifest import own_table
from lakesql.model.config import AvailableNow
from lakesql.model.table_name import TableName
from lakesql.model.unit_tests import GivenRef, GivenStream, GivenTable, UnitTest
from lakesql.names import DELETE, DELETED_AT
from lakesql.plan.steps import plan_table
from lakesql.progress.state import query_identities
from lakesql.run.start.context import RunContext
from lakesql.run.start.prepare_model import prepare_model
from lakesql.run.streams.bind import BoundSelect, bind_select
from lakesql.run.test.unit_target import record_topic, topic_of
from lakesql.seed.seed import Seed
from lakesql.unit.arrivals_given import (
    EPOCH,
    Arrival,
    read_arrivals,
    read_table_changes,
    utc_ms,
)
from lakesql.unit.expected import compare, compare_after
from lakesql.unit.fixture_values import Value, exact, json_text
from lakesql.unit.fixtures import Row, read_rows
from lakesql.unit.outcomes import Failed, Outcome
from lakesql.unit.table_states import keys_of, read_states, time_of_refresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.02

ONE_TASK = {"spark.sql.leafNodeDefaultParallelism": "1"}
"""The Spark settings with which the rows of a test are read in one task, in their
order."""


@dataclass(slots=True)
class SparkTest:
    """One unit test that runs in a Spark session of its own. `made` are the tables that
    it has created, `arrived` how many records of each stream have arrived."""

    context: RunContext
    bound: BoundSelect
    test: UnitTest
    built: dict[str, Select]
    folder: Path
    session: SparkSession = field(init=False)
    made: dict[TableName, None] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.session = new_session(self.context.session)
        for name, value in (settings_of_few(self.session) | ONE_TASK).items():
            self.session.conf.set(name, value)

    def outcome(self) -> Outcome:
        """The outcome of the test. Raises `ProjectError` if its fixtures are wrong."""
        if self.test.overrides.now is not None:
            stop_clock(self.session, self.test.overrides.now)
        try:
            return self.write_and_compare()
        except ProjectError:
            raise
        except Exception as error:
            return Failed(what=_say(explain(error, self.select)))
        finally:
            for table in [it for made in self.made for it in (made, *made.beside)]:
                drop_table(self.session, table)

    def write_and_compare(self) -> Outcome:
        """Create the tables, write the batches, and compare the resulting rows with
        those expected."""
        sync = self.make_tables()
        states = self.states()
        self.fill_tables(states)
        batches = [*self.batches()]
        write = self.writer(sync)
        if self.select.model.config.reads == "tables":
            self.refresh(0)
        folder = self.context.manifest.directory
        earlier = []
        for number, batch in enumerate(batches):
            self.change_tables(states, number)
            write(number, batch)
            earlier.append(
                compare_after(number, self.test, folder, self.table, self.read_other)
            )
        letters = [
            {name: row[name] for name in ("reason", "stream")}
            for row in self.rows(self.select.model.table.dead_letter)
        ]
        return compare(
            self.test,
            folder,
            self.table,
            letters,
            self.tombstones,
            self.read_other,
            earlier,
        )

    def writer(
        self, sync: TableSync
    ) -> Callable[[int, Mapping[str, Sequence[Arrival]]], None]:
        """A function that writes the batch of a given number, from 0; for a model over
        tables, one that refreshes its table after that batch."""
        if self.select.model.config.reads == "tables":
            return lambda number, batch: self.refresh(number + 1)
        return (
            self.write_streamed
            if self.select.query.stateful
            else self.batch_writer(sync)
        )

    @property
    def select(self) -> Select:
        """The SELECT of the model under test."""
        return self.bound.select

    # --- tables and rows before the first batch

    def make_tables(self) -> TableSync:
        """Create the tables that the model reads, and the model's own with the rows
        that the test gives for it."""
        select = self.select
        for name in self.models_read(select):
            self.make_table(name)
        sync = self.sync(select, self.session, self.bound.bindings)
        for given in self.test.given:
            if isinstance(given, GivenTable):
                self.fill(
                    select.model.table,
                    given.rows,
                    f"the table of model '{self.test.model}'",
                )
        return sync

    def states(self) -> Mapping[TableName, list[list[Row]]]:
        """The rows of each table given by `ref`, as JSON values: before the batches,
        then after each."""
        manifest, made = self.context.manifest, {}
        for given in self.test.given:
            if isinstance(given, GivenRef):
                table = own_table(manifest, given.ref)
                types, keys = (
                    stored_types(self.session, table),
                    keys_of(manifest, given.ref, self.built),
                )
                made[table] = read_states(
                    given, types, keys, manifest.directory, self.read_plain
                )
        return made

    def fill_tables(self, states: Mapping[TableName, list[list[Row]]]) -> None:
        """Insert the rows that the tables have before the first batch."""
        for table, (before, *_) in states.items():
            insert_rows(self.session, table, [*map(json_text, before)])

    def change_tables(
        self, states: Mapping[TableName, list[list[Row]]], number: int
    ) -> None:
        """Commit, to each table that has them, the changes given for the batch of this
        number, from 0."""
        for table, (_, *after) in states.items():
            if number < len(after):
                exchange_rows(self.session, table, [*map(json_text, after[number])])

    def models_read(self, select: Select) -> tuple[str, ...]:
        """The models whose tables a SELECT reads, by `ref` or as streams."""
        return tuple(
            dict.fromkeys(
                [*(it.name for it in select.model.facts.refs), *select.read_tables]
            )
        )

    def make_table(self, name: str) -> None:
        """Create the table of a model that is read, after those that its own SELECT
        reads."""
        table = own_table(self.context.manifest, name)
        if table in self.made:
            return
        if name in self.context.manifest.seeds:
            self.make_seed(self.context.manifest.seeds[name])
            return
        select = build_select(self.context.manifest, name, self.built)
        for read in self.models_read(select):
            self.make_table(read)
        self.sync(
            select,
            new_session(self.context.session),
            bind_select(self.context.manifest, select).bindings,
        )

    def make_seed(self, seed: Seed) -> None:
        """Create the table of a seed, without the rows of its file: the test gives its
        own."""
        self.made[seed.table] = None
        columns = tuple(
            TableColumn(column.name, column.type) for column in seed.columns
        )
        spec = TableSpec(seed.table, columns)
        for step in plan_table(
            seed.name, spec, "fail", None, list_namespaces(self.context.catalog), {}
        ):
            for statement in step.statements:
                self.session.sql(statement)

    def sync(
        self, select: Select, session: SparkSession, bindings: tuple[StreamBinding, ...]
    ) -> TableSync:
        """Create the table of a model as a run does."""
        self.made[select.model.table] = None
        sync = TableSync(
            self.context.session, self.context.catalog, select, self.context.emit
        )
        sync.make()
        sync.columns(analyze_select(session, select, bindings))
        return sync

    def fill(self, table: TableName, rows: Node, what: str) -> None:
        """Insert the rows that a test gives for a table."""
        types = stored_types(self.session, table)
        found = read_rows(
            rows, types, what, self.context.manifest.directory, self.read_plain
        )
        insert_rows(self.session, table, [json_text(row.values) for row in found])

    # --- the batches

    def batches(self) -> Iterator[Mapping[str, Sequence[Arrival]]]:
        """The records of each batch, by stream. The caller reads all of them before it
        writes any."""
        given = {
            it.stream: it.batches
            for it in self.test.given
            if isinstance(it, GivenStream)
        }
        for number in range(self.test.batch_count):
            batch: dict[str, Sequence[Arrival]] = {}
            for binding in self.bound.bindings:
                name = binding.stream.name
                batches, first = given.get(name, ()), self.arrived.get(name, 0)
                if number >= len(batches):
                    continue
                batch[name] = self.given(binding, batches[number], number, first)
                self.arrived[name] = first + len(batch[name])
            yield batch

    def given(
        self, binding: StreamBinding, node: Node, number: int, first: int
    ) -> Sequence[Arrival]:
        """The records of one stream in the batch of this number, which follow `first`
        earlier ones. For the changes of a table, each batch is a commit one second
        after the one before."""
        stream, folder, now = (
            binding.stream,
            self.context.manifest.directory,
            self.test.overrides.now or EPOCH,
        )
        if binding.table is None:
            return read_arrivals(node, stream, folder, now, first, self.read_plain)
        types = stored_types(self.session, binding.table)
        if stream.has_table_changes:
            at = now + timedelta(seconds=number)
            return read_table_changes(node, stream, types, folder, at, self.read_plain)
        rows = read_rows(
            node, types, f"stream '{stream.name}'", folder, self.read_plain
        )
        return [Arrival(None, json_text(it.values), 0, 0, (), node) for it in rows]

    def batch_writer(
        self, sync: TableSync
    ) -> Callable[[int, Mapping[str, Sequence[Arrival]]], None]:
        """A function that writes a batch of a stateless SELECT."""
        select, session = self.select, self.session
        identity, *_ = query_identities(select, str(self.folder / "checkpoint"))

        def progress_of(table: TableName) -> ReplayProgress:
            return open_replay(
                load_table(session, table), identity, None, select.query_hash
            )

        sink = Sink(
            select,
            self.bound.bindings,
            progress_of(select.model.table),
            sync,
            self.context.emit,
        )

        def write(number: int, batch: Mapping[str, Sequence[Arrival]]) -> None:
            if not any(batch.values()):
                return  # a run begins no batch without a record
            raws = [
                self.raw(binding, batch.get(binding.stream.name, ()))
                for binding in self.bound.bindings
            ]
            arrived = pack(raws)
            progress = replace(
                progress_of(select.model.table), planned=sum(map(len, batch.values()))
            )
            write_batch(sink.at(progress), arrived, number)

        return write

    def refresh(self, number: int) -> None:
        """Refresh the model's table from the tables that the test gives, as a run does.
        Small tables, too, are refreshed by what has changed, as large ones are."""
        at_ms = utc_ms(time_of_refresh(self.test.overrides.now, number))
        select, context = self.select, self.context
        refresh = Refresh(
            select,
            select.query_hash,
            context.catalog,
            context.emit,
            at_ms=at_ms,
            is_of_few_anew=False,
        )
        refresh_table(refresh, self.session)

    def raw(self, binding: StreamBinding, arrivals: Sequence[Arrival]) -> DataFrame:
        """The records of one stream as a DataFrame of raw records, such as a run
        reads."""
        if (table := binding.table) is not None:
            if binding.stream.has_table_changes:
                return given_changes(
                    self.session, table, [it.value or "{}" for it in arrivals]
                )
            return given_rows(
                self.session, table, [it.value or "{}" for it in arrivals]
            )
        records = [
            (it.key, it.value, it.offset, it.timestamp_ms, dict(it.headers))
            for it in arrivals
        ]
        return given_records(self.session, topic_of(binding), records)

    def write_streamed(
        self, number: int, batch: Mapping[str, Sequence[Arrival]]
    ) -> None:
        """Write a batch of a stateful SELECT, by running Spark's streaming query over
        what has arrived so far."""
        for binding in self.bound.bindings:
            arrivals = batch.get(binding.stream.name, ())
            if (table := binding.table) is not None:
                insert_rows(self.session, table, [it.value or "{}" for it in arrivals])
            elif arrivals:
                record_topic(
                    self.folder / "recorded" / binding.stream.name / topic_of(binding),
                    number,
                    arrivals,
                )
        folder = str(self.folder / "checkpoints" / self.test.model)
        sink = prepare_model(self.context, self.session, self.bound, folder)
        query = ModelQuery(replace(sink, keeper=None))
        query.start(self.session, AvailableNow())
        while query.is_active():
            if query.error() is not None:
                query.request_stop()
            time.sleep(POLL_S)
        if error := query.error():
            raise error

    # --- the tables' rows, to compare with the expected ones

    def table(self) -> tuple[Mapping[str, str], list[Row]]:
        """The types of the columns of the model's table, and its rows."""
        table = self.select.model.table
        return stored_types(self.session, table), self.rows(table)

    def rows(self, table: TableName) -> list[Row]:
        """The rows of a table; none if it does not exist."""
        return (
            stored_rows(self.session, table)
            if table_exists(self.session, table)
            else []
        )

    def tombstones(self) -> tuple[Mapping[str, str], list[Row]]:
        """The model's tombstones, as column types and rows: its own columns alone, and
        each key once."""
        table = self.select.model.table.tombstones
        types = {
            name: kind
            for name, kind in stored_types(self.session, table).items()
            if name not in (DELETE, DELETED_AT)
        }
        rows = [{name: row[name] for name in types} for row in self.rows(table)]
        return types, [row for at, row in enumerate(rows) if row not in rows[:at]]

    # --- values of types that fixtures cannot parse themselves

    def read_other(self, node: Node, kind: str) -> Value:
        """The value that Spark stores for a fixture's value in a column of type `kind`.
        Raises `ProjectError` (`bad-fixture`) if it is not one."""
        try:
            return read_value(self.session, json_text(exact(node)), kind)
        except Exception:
            what = f"{node.shown} is not a value of type {kind}."
            raise ProjectError.of("bad-fixture", what, place=node.place) from None

    def read_plain(self, node: Node, kind: str) -> Value:
        """The fixture's value in its JSON form, once `read_other` has accepted it as a
        value of type `kind`."""
        if node.value is not None:
            self.read_other(node, kind)
        return exact(node)


def _say(error: LakesqlError) -> str:
    """Why a batch fails, in one line."""
    said = (f"{it.condition}, {it.what}" for it in error.problems)
    return f"The batch fails: {'; '.join(said)}"
