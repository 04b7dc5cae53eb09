"""One refresh of a model over tables: its table gets the rows of the SELECT, over one
snapshot of each table it reads.

There is no checkpoint: the ledger entry records which input snapshots the rows are made
of, in the same commit as the rows. So a refresh that crashed is run again from the
start, and comparing the ledger entry with the inputs shows whether there is anything to
do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import list_namespaces, load_table_state
from lakesql.clock import now_ms
from lakesql.compile.batch import Write
from lakesql.compile.quote import identifier, identifiers, text
from lakesql.compile.select import Select
from lakesql.compile.table import (
    TableColumn,
    TableSpec,
    alter_table,
    build_table_spec,
    create_table_as,
    order_text,
)
from lakesql.counts import count
from lakesql.engine.batch.analyze import landing_columns, type_text
from lakesql.engine.batch.bounds import bounds_of_write, joins_few
from lakesql.engine.batch.counters import BatchCounters
from lakesql.engine.batch.refuse import check_expectations
from lakesql.engine.batch.rows import checked_rows, kept_rows
from lakesql.engine.ledger import snapshots
from lakesql.engine.ledger.commit import (
    Begun,
    Publication,
    Staged,
    begin_commit,
    publish,
    stage,
    stage_nothing,
    tag_head,
    until_published,
)
from lakesql.engine.refresh.changed_versions import (
    compare_rows,
    newest_version_ms,
    show_time,
    time_text,
    versions_of,
)
from lakesql.engine.refresh.changed_view import (
    NO_OTHER_ROW,
    ChangedView,
    InFullError,
    open_changed_rows,
)
from lakesql.engine.refresh.input_tables import (
    changed_at_ms,
    has_other_columns,
    has_same_rows,
    load_inputs,
    pin,
    show_inputs,
)
from lakesql.engine.refresh.shared_changes import SharedChanges
from lakesql.engine.spark.catalog_views import refuse_view
from lakesql.engine.spark.few_rows import PLANNED_ONCE, changed_settings
from lakesql.engine.spark.internals import replace_view
from lakesql.errors import RunError, quoted
from lakesql.events import (
    BatchCommitted,
    BatchStarted,
    Emit,
    Noted,
    ReadRange,
    StepApplied,
)
from lakesql.ledger.entry import (
    Entry,
    Snapshot,
    is_untouched,
    ledger_tag,
    summary_of,
    totals_of,
    whole,
)
from lakesql.ledger.inputs import (
    InputSnapshot,
    read_inputs,
    version_time_ms,
    write_inputs,
)
from lakesql.modes.batches.all_batches import refreshes_of
from lakesql.modes.written_as import WrittenAs, find_break
from lakesql.names import (
    ANEW_ROWS_VIEW,
    ANEW_VIEW,
    HISTORY_VIEW,
    ROWS_VIEW,
)
from lakesql.plan.steps import (
    check_mergeable,
    create_namespace,
    is_of_shape,
    plan_table,
)
from lakesql.table.table_state import TableState
from lakesql.views.plan_view import ViewPlan

RefreshStep = Literal["look-up", "stage", "publish", "finish"]
"""The steps of a refresh, and its end."""

_SUMMARY = "spark.sql.iceberg.snapshot-property."
"""The prefix of the Spark settings that add a key to the summary of each snapshot that
Spark writes."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """A model over tables, and what its refreshes need.

    `query` is the hash that identifies the SELECT in the ledger. `reached` is called
    with each step before it is taken, and raises if this runner must not continue.
    `changes` holds the row changes of the inputs, shared with the other models of a
    run. `at_ms` is the start time of the versions that a refresh opens; None: derived
    from the inputs. `is_of_few_anew`: a small table is recomputed as a whole, which
    costs less than finding what has changed.
    """

    select: Select
    query: str
    catalog: OpenCatalog
    emit: Emit
    reached: Callable[[RefreshStep], None] = lambda step: None
    changes: SharedChanges = field(default_factory=SharedChanges)
    at_ms: int | None = None
    is_of_few_anew: bool = True


def refresh_table(
    refresh: Refresh, session: SparkSession, *, is_forced: bool = False
) -> Snapshot | None:
    """Make the table equal to the SELECT over its inputs as they are now. Returns the
    table's new snapshot; None if there was nothing to do.

    The steps, and what a crash after each leaves:

    1. Pin each input at its newest snapshot, and compare with the ledger.  Nothing.
    2. Stage the rows: files that no table has, which `remove_orphan_files` takes.
    3. Publish them with the ledger entry, atomically.  Everything: the next refresh
       stops at step 1.

    All rows are recomputed with `is_forced`, whatever the ledger records, and if
    another writer may have changed rows of the table. A history keeps its versions even
    then, and they are compared with the rows: former states are in no input any more.
    Raises `RunError` if the table cannot be made; it is then unchanged, and none is
    created if there was none.
    """
    started = time.monotonic()
    model = refresh.select.model
    refresh.reached("look-up")
    tables = load_inputs(session, refresh.select)
    inputs = {name: pin(each) for name, each in tables.items()}
    found = _look_up(refresh, session, is_forced=is_forced)
    if found.is_made_of(inputs) and not refreshes_of(refresh.select).plan.is_timed:
        return None
    entry = Entry(
        model=model.name,
        checkpoint="",
        batch=found.former.batch + 1 if found.former is not None else 0,
        offsets="",
        query=refresh.query,
        mode=model.config.mode,
        keys=refresh.select.writing.keys,
        inputs=write_inputs(inputs),
    )
    refresh.emit(_started(refresh, entry, tables, found))
    made = _refresh(refresh, session, entry, tables, found)
    if made is None:
        return None
    refresh.reached("finish")
    head = made.head
    table = (
        found.table
        if found.table is not None
        else snapshots.load_table(session, model.table)
    )
    refresh.emit(
        BatchCommitted(
            model=model.name,
            batch=entry.batch,
            records=0,
            rows=whole(head.summary, "added-records") or 0,
            rejected=0,
            snapshot=head.id,
            duration_ms=round((time.monotonic() - started) * 1000),
            event_time=made.event_time,
            table=totals_of(head.summary),
            removed_delete_files=whole(head.summary, "removed-delete-files") or 0,
            violations=made.violations,
            refreshed=made.how,
            location=str(table.location()),
        )
    )
    return head


def _refresh(
    refresh: Refresh,
    session: SparkSession,
    entry: Entry,
    tables: Mapping[str, snapshots.JavaTable],
    found: _Found,
) -> _Made | None:
    """Bring the table up to date with its inputs; None if nothing has changed and
    nothing is to be recorded."""
    former = found.former_of_rows(tables)
    if former is not None and not refreshes_of(refresh.select).plan.is_timed:
        entry = replace(
            entry, event_time=former.event_time, violations=former.violations
        )
        return _Made(
            _publish(refresh, session, entry, stage_nothing),
            NO_OTHER_ROW,
            former.violations,
        )
    refresh_as = (
        _exchange_rows if refresh.select.model.config.is_exchanged else _keep_versions
    )
    return refresh_as(refresh, session, entry, tables, found)


def _started(
    refresh: Refresh,
    entry: Entry,
    tables: Mapping[str, snapshots.JavaTable],
    found: _Found,
) -> BatchStarted:
    """The event that a refresh starts: for each input, the snapshot of the former
    refresh and the one of this refresh."""
    former = read_inputs(found.former.inputs) if found.former is not None else {}
    reads = []
    for name, each in read_inputs(entry.inputs).items():
        before = former.get(name)
        was = (
            str(before.snapshot or "")
            if before is not None and before.table_id == each.table_id
            else ""
        )
        reads.append(
            ReadRange(name, was, str(each.snapshot or ""), str(tables[name].location()))
        )
    return BatchStarted(
        model=entry.model,
        batch=entry.batch,
        checkpoint="",
        reads=tuple(reads),
        table=str(refresh.select.model.table),
        location=str(found.table.location()) if found.table is not None else "",
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """The model's table as a refresh finds it (None if it does not exist), and the
    `former` entry of its ledger.

    `is_own`: according to its snapshots, nobody else has changed its rows since.
    `is_same`: the SELECT is that of the former refresh, and the refresh is not forced
    (`is_forced`).
    """

    table: snapshots.JavaTable | None
    former: Entry | None
    is_own: bool
    is_same: bool
    is_forced: bool

    def is_made_of(self, inputs: Mapping[str, InputSnapshot]) -> bool:
        """Whether the table's rows are those of the current SELECT over exactly these
        input snapshots."""
        former = self._current()
        return former is not None and read_inputs(former.inputs) == inputs

    def former_of_rows(self, tables: Mapping[str, snapshots.JavaTable]) -> Entry | None:
        """The former entry, if the table's rows are those of the SELECT over these
        tables; None otherwise. Each input may have been compacted since, but no row may
        have changed.

        A new entry is recorded even then: the snapshots from before the compaction
        expire, and changes since an expired snapshot cannot be found.
        """
        former = self._current()
        inputs = read_inputs(former.inputs) if former is not None else {}
        if inputs.keys() != tables.keys():
            return None
        if not all(
            has_same_rows(table, inputs[name]) for name, table in tables.items()
        ):
            return None
        return former

    def _current(self) -> Entry | None:
        """The former entry, if nobody else has changed the table's rows and the SELECT
        is still the same; None otherwise."""
        return self.former if self.is_same and self.is_own else None


def _look_up(refresh: Refresh, session: SparkSession, *, is_forced: bool) -> _Found:
    """The model's table and the former entry of its ledger. Raises `RunError`
    (`table-of-another`) if the table is not this model's to change."""
    model = refresh.select.model
    if load_table_state(refresh.catalog, model.table) is None:
        refuse_view(session, model)
        return _Found(None, None, False, False, is_forced)
    table = snapshots.load_table(session, model.table)
    former = snapshots.read_entry(table, model.name)
    _check_writer(refresh, table, former)
    is_own = is_untouched(
        snapshots.read_ledger(table, (ledger_tag(model.name),)), model.name
    )
    is_same = former is not None and former.query == refresh.query and not is_forced
    return _Found(table, former, is_own, is_same, is_forced)


def _exchange_rows(
    refresh: Refresh,
    session: SparkSession,
    entry: Entry,
    tables: Mapping[str, snapshots.JavaTable],
    found: _Found,
) -> _Made:
    """Replace rows of the table with those of the SELECT: only those that the changes
    of its inputs reach, or all of them."""
    made, how = None, "in full"
    if found.former is None or not found.is_same:
        pass  # there is nothing to go on from
    elif not found.is_own:
        _say(
            refresh,
            f"all rows are made anew: somebody else may have changed rows of {refresh.select.model.table}",
        )
    elif _are_few(refresh, found.table, [*tables.values()]):
        how = "in full, as they are few"
    elif not _fits_columns(refresh, session, entry, tables, found.former):
        _say(
            refresh,
            "all rows are made anew: the SELECT has other columns, as tables that it reads have",
        )
    else:
        made = _refresh_by_changes(
            refresh, session, entry, tables, read_inputs(found.former.inputs)
        )
    if made is not None:
        return made
    show_inputs(session, tables, read_inputs(entry.inputs))
    return _refresh_in_full(refresh, session, entry, how)


def _fits_columns(
    refresh: Refresh,
    session: SparkSession,
    entry: Entry,
    tables: Mapping[str, snapshots.JavaTable],
    former: Entry,
) -> bool:
    """Whether the table has the columns of the SELECT. A `*` selects more of them once
    its inputs have new columns."""
    before = read_inputs(former.inputs)
    if not any(
        name in before and has_other_columns(table, before[name])
        for name, table in tables.items()
    ):
        return True
    show_inputs(session, tables, read_inputs(entry.inputs))
    spec = _spec(refresh, session.sql(refreshes_of(refresh.select).plan.query).schema)
    state = load_table_state(refresh.catalog, spec.name)
    return state is not None and is_of_shape(spec, state)


def _keep_versions(
    refresh: Refresh,
    session: SparkSession,
    entry: Entry,
    tables: Mapping[str, snapshots.JavaTable],
    found: _Found,
) -> _Made | None:
    """Compare the rows of the SELECT with the current versions of the table, and end
    and begin versions; None if nothing has changed."""
    model = refresh.select.model
    if found.table is not None and found.is_forced:
        kept = f"{model.table} keeps its versions, and its current ones are compared: no table has the former rows"
        _say(refresh, f"{kept}. To begin anew: lakesql drop {model.name}, then run it")
    if found.former is not None and not found.is_own:
        _say(
            refresh,
            f"somebody else may have changed rows of {model.table}: its versions are compared as they are",
        )
    show_inputs(session, tables, read_inputs(entry.inputs))
    newest_ms = max(map(changed_at_ms, tables.values()), default=0)
    return _refresh_versions(
        refresh, session, entry, found.former if found.is_own else None, newest_ms
    )


def _say(refresh: Refresh, what: str) -> None:
    refresh.emit(Noted(what, refresh.select.model.name))


FEW_ROWS = 1_000_000
FEW_BYTES = 64 * 2**20
"""If the inputs of a table have at most this many rows and bytes, recomputing all rows
takes less time than finding out which have changed (`bench/views.py`)."""

FEW_OWN_ROWS = 100_000
FEW_OWN_BYTES = 8 * 2**20
"""The most rows, and bytes, of a table that is rewritten as a whole at each refresh."""

FEW_PAIRS = 100_000_000
"""The most rows that the SELECT may produce if each row of an input is joined with each
row of the others."""


def _are_few(
    refresh: Refresh, table: snapshots.JavaTable, inputs: Sequence[snapshots.JavaTable]
) -> bool:
    """Whether a table and its inputs are so small that all rows are recomputed,
    whatever has changed. False for a model that is configured never to be refreshed in
    full."""
    refreshes = refreshes_of(refresh.select)
    if (
        not refresh.is_of_few_anew
        or refreshes.plan.way == "full"
        or refreshes.refuse_full("") is not None
    ):
        return False
    own_rows, own_bytes = snapshots.measure(table)
    if own_rows > FEW_OWN_ROWS or own_bytes > FEW_OWN_BYTES:
        return False
    rows, sizes = zip(*map(snapshots.measure, inputs), strict=True)
    if sum(rows) > FEW_ROWS or sum(sizes) > FEW_BYTES:
        return False
    pairs: float = math.prod(rows[number] for number in refreshes.plan.reads)
    return pairs <= FEW_PAIRS


_HIDDEN = "Of lakesql: what is kept of a group, so that a change can be added to it or taken from it."

_Violations = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Made:
    """A published refresh: its snapshot, in words `how` the rows were found, and how
    many of them fail each expectation. `event_time` is the start time of the versions
    that it opened."""

    head: Snapshot
    how: str
    violations: _Violations = ()
    event_time: str = ""


def _refresh_by_changes(
    refresh: Refresh,
    session: SparkSession,
    entry: Entry,
    tables: Mapping[str, snapshots.JavaTable],
    former: Mapping[str, InputSnapshot],
) -> _Made | None:
    """Replace the rows that changes of the inputs reach; None if all rows are to be
    recomputed.

    Raises `RunError` (`input-expired`) if the model is configured never to be refreshed
    in full, and a snapshot to compare with has expired.
    """
    select, refreshes = refresh.select, refreshes_of(refresh.select)
    if refreshes.plan.way == "full":
        return None
    try:
        inputs = read_inputs(entry.inputs)
        with open_changed_rows(
            session, select, tables, former, inputs, refresh.changes
        ) as changed:
            if not changed.count:
                return _Made(
                    _publish(refresh, session, entry, stage_nothing), changed.how
                )
            spec = _spec(refresh, changed.rows.schema)
            state = load_table_state(refresh.catalog, spec.name)
            if state is None or not is_of_shape(spec, state):
                return None
            violations = _show_rows(
                refresh, session, changed.rows, ANEW_ROWS_VIEW, changed.lasting
            )
            columns = tuple(column.name for column in spec.columns)
            if changed.is_by_difference:
                write = refreshes.adjust_steps(columns)[1]
                replace_view(session.table(ANEW_ROWS_VIEW), ANEW_VIEW)
            else:
                view, write = refreshes.merge_steps(columns)
                replace_view(session.sql(view.query), view.name)
            entry = replace(entry, violations=violations)
            merging = partial(_merge, session, refreshes.plan, write, changed)
            return _Made(
                _publish(refresh, session, entry, merging), changed.how, violations
            )
    except InFullError as error:
        refusal = refreshes.refuse_full(error.why) if error.is_lost else None
        if refusal is not None:
            raise refusal from None
        _say(refresh, f"all rows are made anew: {error.why}")
        return None


def _refresh_in_full(
    refresh: Refresh, session: SparkSession, entry: Entry, how: str
) -> _Made:
    """Recompute all rows, and replace the table's with them in one commit, which
    creates the table if it does not exist. `how` describes the way in words."""
    rows = session.sql(refreshes_of(refresh.select).plan.query)
    violations = _show_rows(refresh, session, rows, ROWS_VIEW)
    head = _exchange(
        refresh,
        session,
        _spec(refresh, rows.schema),
        replace(entry, violations=violations),
    )
    return _Made(head, how, violations)


def _refresh_versions(
    refresh: Refresh,
    session: SparkSession,
    entry: Entry,
    former: Entry | None,
    newest_ms: int,
) -> _Made | None:
    """End the versions whose rows have changed, and begin the new ones; None if nothing
    has changed, not even the input snapshots. `newest_ms` is when rows of the inputs
    last changed."""
    select = refresh.select
    plan, state = (
        refreshes_of(select).plan,
        load_table_state(refresh.catalog, select.model.table),
    )
    rows = session.sql(plan.query)
    spec = _spec(refresh, rows.schema)
    versions = versions_of(select, spec, state)
    violations = _show_rows(refresh, session, rows, ROWS_VIEW)
    if state is not None:
        check_mergeable(select.model.name, state)
        _alter_table(refresh, session, spec, state)
    former_ms = 0 if state is None else newest_version_ms(session, former, versions)
    at_ms = refresh.at_ms
    if at_ms is None:
        at_ms = version_time_ms(newest_ms, former_ms, now_ms(), is_timed=plan.is_timed)
    entry = replace(entry, violations=violations, event_time=time_text(at_ms))
    show_time(session, at_ms)
    if state is None:
        replace_view(session.sql(versions.first), HISTORY_VIEW)
        head = _make_table(refresh, session, spec, entry, HISTORY_VIEW, replaces=False)
        return _Made(head, "all rows are first versions", violations, entry.event_time)
    begun, ended = compare_rows(session, versions)
    if begun or ended:
        how = f"{count(begun, 'version')} begun, {ended:,} ended"
        staging = partial(_stage, session, versions.merge)
        return _Made(
            _publish(refresh, session, entry, staging),
            how,
            violations,
            entry.event_time,
        )
    if former is not None and (former.inputs, former.query) == (
        entry.inputs,
        entry.query,
    ):
        return None
    entry = replace(entry, event_time=time_text(former_ms))
    return _Made(
        _publish(refresh, session, entry, stage_nothing), NO_OTHER_ROW, violations
    )


def _spec(refresh: Refresh, schema: StructType) -> TableSpec:
    """The table for rows of this schema, including the hidden columns that only
    refreshes use."""
    model, types = (
        refresh.select.model,
        {field.name: field.dataType for field in schema},
    )
    columns = landing_columns(schema, model.properties)
    hidden = (column.name for column in refreshes_of(refresh.select).plan.hidden)
    columns += tuple(
        TableColumn(name, type_text(types[name]), _HIDDEN) for name in hidden
    )
    return build_table_spec(
        model.table, columns, model.config, model.properties.description
    )


def _check_writer(
    refresh: Refresh, table: snapshots.JavaTable, former: Entry | None
) -> None:
    """Raise if the table's rows are not this model's to replace, or to continue."""
    model = refresh.select.model
    if former is not None and (former.inputs or not former.mode):
        _check_identity(refresh, table, former)
        return
    written = snapshots.read_newest_entry(table) if former is None else former
    if written is None and (snapshots.is_empty(table) or not model.config.is_exchanged):
        # versions that another writer wrote are continued if their columns fit
        return
    whose = (
        f"model '{written.model}' has written in mode '{written.mode}'"
        if written
        else "somebody else has written"
    )
    raise RunError.of(
        "table-of-another",
        f"Model '{model.name}' would {_TAKES[model.config.is_exchanged]} table {model.table}, which {whose}.",
        why="A table that is made of others has the rows of its SELECT, and no other ones.",
        fix=f"Give the model another table by its option `table`; or, if the rows may go: lakesql drop {model.name}",
        place=model.place,
    )


_TAKES: Mapping[bool, str] = {
    True: "exchange all rows of",
    False: "keep the versions of its rows in",
}
"""What a refresh does with a table, by whether it replaces rows (True) or keeps
versions (False); part of a message."""


def _check_identity(
    refresh: Refresh, table: snapshots.JavaTable, former: Entry
) -> None:
    """Raise if the table's rows were written with other keys or in another mode and
    cannot be recomputed from the inputs."""
    model, is_empty = refresh.select.model, snapshots.is_empty(table)
    now = WrittenAs(
        model.config.mode, refresh.select.writing.keys, reads=model.config.reads
    )
    found = (
        find_break(former.written_as, now, str(model.table), "")
        if former.mode and not is_empty
        else None
    )
    if found is None:
        return
    raise RunError.of(
        found.condition,
        f"Model '{model.name}' {found.model_says}, and {found.table_was}.",
        why=f"{found.why} What the versions of a history were, no table that it reads says any more.",
        fix=f"{found.fix} Or give the model another table by its option `table`; or, if the history may go: "
        f"lakesql drop {model.name}, then lakesql run --select {model.name}",
        place=model.place,
    )


def _show_rows(
    refresh: Refresh,
    session: SparkSession,
    rows: DataFrame,
    view: str,
    judged: DataFrame | None = None,
) -> _Violations:
    """Register the rows as a temporary view, and return how many of them, or of those
    in `judged`, fail each expectation.

    Raises `RunError`: `expectation-failed`, and `view-keys-twice` if two rows have the
    same key.
    """
    select, counters = refresh.select, BatchCounters()
    violations: _Violations = ()
    if select.checks:
        looked_at = rows if judged is None else judged
        checked = counters.rows(
            checked_rows(session, select, looked_at), (), select.checks
        ).localCheckpoint()
        counts = counters.read()
        check_expectations(select, counts, checked)
        violations = counts.violations
        rows = kept_rows(session, select, checked) if judged is None else rows
    replace_view(rows, view)
    _check_keys(refresh, session, view)
    return violations


def _check_keys(refresh: Refresh, session: SparkSession, view: str) -> None:
    """Raise if two rows of a view have the same values in the configured keys."""
    keys = refresh.select.writing.keys
    if not keys or refreshes_of(refresh.select).plan.keys_follow:
        return
    listed = identifiers(keys)
    twice = f"SELECT to_json(struct({listed})) AS key FROM {view} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    found = session.sql(twice).head()
    if found is None:
        return
    model = refresh.select.model
    raise RunError.of(
        "view-keys-twice",
        f"Two rows of '{model.name}' have the key {found['key']}: {quoted(keys)} do not tell its rows apart.",
        why="Nothing was written.",
        fix="Add the columns to `keys` that do, or let the SELECT make one row of each key.",
        place=model.option_place("keys"),
    )


def _exchange(
    refresh: Refresh, session: SparkSession, spec: TableSpec, entry: Entry
) -> Snapshot:
    """Replace all rows of the table with those of the view, in one commit. A table that
    does not exist, or has other columns, is created by it."""
    select, state = refresh.select, load_table_state(refresh.catalog, spec.name)
    if state is None or not is_of_shape(spec, state):
        return _make_table(
            refresh, session, spec, entry, ROWS_VIEW, replaces=state is not None
        )
    _alter_table(refresh, session, spec, state)
    write = refreshes_of(select).overwrite(
        tuple(column.name for column in spec.columns)
    )
    return _publish(refresh, session, entry, partial(_stage, session, write.text()))


def _alter_table(
    refresh: Refresh, session: SparkSession, spec: TableSpec, state: TableState
) -> None:
    """Alter the table so that it takes rows of these columns. Raises what `plan_table`
    raises."""
    model = refresh.select.model
    policy, compared = model.config.on_schema_change, refresh.select.compared
    for step in plan_table(model.name, spec, policy, state, frozenset(), compared):
        for statement in step.statements:
            session.sql(statement)
        noted = Noted(step.text, model.name) if step.is_takeover else None
        refresh.emit(noted or StepApplied(model.name, step.text))


Staging = Callable[[Begun], Staged]


def _stage(session: SparkSession, statement: str, begun: Begun) -> Staged:
    return stage(session, begun, statement)


def _merge(
    session: SparkSession,
    plan: ViewPlan,
    write: Write,
    changed: ChangedView,
    begun: Begun,
) -> Staged:
    """Stage the MERGE of the changed rows. It reads only the table's files that can
    hold their keys."""
    bounds = bounds_of_write(begun.table, changed.bounds)
    has_few = plan.unit_is_unique and joins_few(
        begun.table, bounds, plan.unit, is_small=changed.are_few
    )
    settings = snapshots.distribution(
        begun.table,
        is_changing=True,
        inserts=False,
        gathers=changed.are_few and not has_few,
        is_together=has_few,
    )
    return stage(
        session,
        begun,
        write.text(bounds),
        settings | PLANNED_ONCE if has_few else settings,
    )


def _publish(
    refresh: Refresh, session: SparkSession, entry: Entry, staging: Staging
) -> Snapshot:
    """Stage a commit and publish it with the entry; staged again if another commit came
    in between."""
    name = refresh.select.model.table
    table = snapshots.load_table(session, name)

    def attempt() -> Snapshot:
        refresh.reached("stage")
        staged = staging(begin_commit(table))
        refresh.reached("publish")
        return publish(
            Publication(staged, entry, name, partial(_is_written, table, entry))
        )

    return until_published(attempt, name)


def _is_written(table: snapshots.JavaTable, entry: Entry) -> bool:
    """Whether another runner has written this refresh, or a later one."""
    found = snapshots.read_entry(table, entry.model)
    return found is not None and found.batch >= entry.batch


def make_namespace(refresh: Refresh, session: SparkSession) -> None:
    """Create the namespace of the model's table, or view, if it does not exist."""
    model = refresh.select.model
    if model.table.namespace in list_namespaces(refresh.catalog):
        return
    step = create_namespace(model.table)
    session.sql("".join(step.statements))
    refresh.emit(StepApplied(model.name, step.text))


def _make_table(
    refresh: Refresh,
    session: SparkSession,
    spec: TableSpec,
    entry: Entry,
    view: str,
    *,
    replaces: bool,
) -> Snapshot:
    """Create the table with the rows of a view; its first snapshot has the ledger
    entry. With `replaces`, it takes the place of the table of that name."""
    name, emit = refresh.select.model.name, refresh.emit
    make_namespace(refresh, session)
    refresh.reached("stage")
    query = f"SELECT {identifiers(column.name for column in spec.columns)}\nFROM {view}"
    summary = {f"{_SUMMARY}{key}": value for key, value in summary_of(entry).items()}
    with changed_settings(session, summary):
        session.sql(create_table_as(spec, query, replaces=replaces))
    made = (
        "make table {} anew: its SELECT has other columns"
        if replaces
        else "create table {}"
    )
    emit(StepApplied(name, made.format(spec.name)))
    for column in spec.columns:
        if column.comment:
            comment = (
                f"ALTER COLUMN {identifier(column.name)} COMMENT {text(column.comment)}"
            )
            session.sql(alter_table(spec.name, comment))
    if spec.order_by:
        session.sql(alter_table(spec.name, order_text(spec.order_by)))
    table = snapshots.load_table(session, spec.name)
    tag_head(table, entry.model)
    return snapshots.read_snapshot(table.currentSnapshot())
