"""Reads the status of the tables of models, several at a time; a table that cannot be
read does not hide the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.catalog.table_facts import read_facts
from lakesql.catalog.tables import load_metadata
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.ledger.entry import Snapshot
from lakesql.ledger.inputs import InputSnapshot, read_inputs, table_of
from lakesql.model.config import AvailableNow
from lakesql.model.maintenance_tasks import own_tasks, rewrite_of
from lakesql.model.model import Model
from lakesql.plan.health import TableFacts, is_rewrite_overdue, judge, measure
from lakesql.plan.table_status import (
    InputLag,
    Known,
    MissingTable,
    TableStatus,
    Unknown,
)
from lakesql.project.procedures import AT_END
from lakesql.table.due import KnownAmounts
from lakesql.table.maintenance_plan import TimeBudget, Wait, plan_maintenance
from lakesql.table.metadata import TableMetadata
from lakesql.table.uncompacted import Uncompacted, measure_uncompacted

READERS = 8
"""How many tables are read at the same time."""


def read_statuses(
    manifest: Manifest, names: Sequence[str], now_ms: int
) -> tuple[TableStatus, ...]:
    """The status of the models' tables, in the order of `names`. An error with one
    table becomes its status; a table in a catalog that cannot be opened is
    `Unknown`."""
    models = [manifest.models[name] for name in names]
    profile = manifest.target.catalog
    file = profile.sqlite_file
    if file is not None and not file.exists():  # opening it would make it
        return tuple(TableStatus(model, MissingTable()) for model in models)
    try:
        opened = open_catalog(profile)
    except LakesqlError as error:
        return tuple(TableStatus(model, Unknown(error.problems)) for model in models)
    with ThreadPoolExecutor(READERS, thread_name_prefix="lakesql-status") as pool:
        states = pool.map(lambda model: _read_state(opened, model, now_ms), models)
        return tuple(
            TableStatus(model, state)
            for model, state in zip(models, states, strict=True)
        )


def _read_state(
    opened: OpenCatalog, model: Model, now_ms: int
) -> Known | MissingTable | Unknown:
    try:
        facts = read_facts(opened, model.table)
    except LakesqlError as error:
        return Unknown(error.problems)
    if facts is None:
        return MissingTable()
    figures = measure(facts, now_ms)
    uncompacted = measure_uncompacted(facts.metadata)
    is_overdue = is_rewrite_overdue(
        rewrite_of(model), uncompacted, facts.metadata.version
    )
    findings = judge(figures, model.properties.freshness, is_overdue)
    waits = _find_waits(model, facts, uncompacted, now_ms)
    return Known(
        facts,
        figures,
        findings,
        waits,
        tuple(_find_lags(opened, model, facts.metadata, now_ms)),
    )


def _find_lags(
    opened: OpenCatalog, model: Model, metadata: TableMetadata, now_ms: int
) -> Iterator[InputLag]:
    """How far a table is behind the tables that it is made of: one `InputLag` for each
    input with newer commits, or of which that is unknown."""
    entry = (
        metadata.newest_entry(model.name) if model.config.reads == "tables" else None
    )
    for name, read in read_inputs(entry.inputs).items() if entry is not None else ():
        found = _find_input(opened, name)
        if found is None or found.id != read.table_id:
            yield InputLag(name, None, None)
            continue
        missing = _commits_since(found, read)
        if missing is None:
            yield InputLag(name, None, None)
        elif missing:
            yield InputLag(name, len(missing), max(0, now_ms - missing[-1].at_ms))


def _commits_since(table: TableMetadata, read: InputSnapshot) -> list[Snapshot] | None:
    """The snapshots of a table after the one that was read, newest first; None if that
    one is no longer in the history."""
    since: list[Snapshot] = []
    for snapshot in table.history:
        if snapshot.id == read.snapshot:
            return since
        since.append(snapshot)
    return since if read.snapshot is None else None


def _find_input(opened: OpenCatalog, name: str) -> TableMetadata | None:
    """The metadata of a table by its full SQL name; None if it does not exist, cannot
    be read, or is in another catalog."""
    table = table_of(name)
    if table.catalog.lower() != opened.profile.name.lower():
        return None
    try:
        return load_metadata(opened, table)
    except LakesqlError:
        return None


def _find_waits(
    model: Model, facts: TableFacts, uncompacted: Uncompacted, now_ms: int
) -> tuple[Wait, ...]:
    """The tasks of the model's own table that are due and would not run now, each with
    the reason."""
    if facts.metadata.is_left:
        return ()  # which is said anyway
    amounts = KnownAmounts(facts.metadata, uncompacted, len(facts.sizes.manifests))
    budget = TimeBudget(facts.metadata.record, model.config.maintenance.max_time_ratio)
    factor = AT_END if isinstance(model.trigger, AvailableNow) else 1.0
    steps = plan_maintenance(own_tasks(model), amounts, budget, now_ms, factor)
    return tuple(step for step in steps if isinstance(step, Wait))
