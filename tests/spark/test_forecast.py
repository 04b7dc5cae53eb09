"""Real batches, each taken for a minute's, beside what a forecast made of the first of
them says of the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.table import Table

from lakesql.catalog.table_facts import read_facts
from lakesql.clock import now_ms
from lakesql.events import BatchCommitted, Event, TableMaintained
from lakesql.model.table_name import TableName
from lakesql.plan.forecast import ForecastInput, forecast
from lakesql.plan.health import TableFacts
from lakesql.table.simulation import TableCounts, TableGrowth
from tests.spark.project import Project

MINUTE = 60_000
BATCHES = 32
SEEN = 8
"""After so many batches the forecast is made."""

FIRST, NEXT = 200, 20
"""Rows of the first batch; new rows of each later one, and rows that it replaces."""

UPKEEP: dict[str, Any] = {
    "rewrite_data_files": {"small_files": 12, "delete_ratio": 0.3},
    "max_time_ratio": 1.0,
}
WITHIN = 0.15


@dataclass
class Seen:
    """A table's past: its metadata after each batch, all files of metadata that it ever
    had, and its maintenance."""

    facts: TableFacts | None = None
    after: list[TableCounts] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    written_before: int = 0
    maintained: list[int] = field(default_factory=list)


def rows_of(batch: int) -> list[dict[str, Any]]:
    random = Random(batch)
    if batch == 0:
        return [{"id": key, "n": 0, "name": f"name {key}"} for key in range(FIRST)]
    new = range(FIRST + (batch - 1) * NEXT, FIRST + batch * NEXT)
    old = random.sample(range(new.start), NEXT)
    return [
        {"id": key, "n": batch, "name": f"name {key} {batch}"} for key in (*new, *old)
    ]


@pytest.fixture
def past(project: Project) -> Iterator[dict[str, Seen]]:
    project.stream(
        "e", {"id": "bigint", "n": "bigint", "name": "string"}, max_per_batch=1
    )
    for name, config in MODELS.items():
        project.model(
            name, "SELECT id, n, name FROM {e}", trigger="10 milliseconds", **config
        )
    for batch in range(BATCHES):
        project.record("e", rows_of(batch))
    seen = {name: Seen() for name in MODELS}

    def meet(event: Event) -> None:
        if isinstance(event, BatchCommitted | TableMaintained):
            look(project, event, seen[event.model])

    project.run(
        continuous=True,
        meet=meet,
        until=lambda: all(len(each.after) == BATCHES for each in seen.values()),
    )
    yield seen


MERGED: dict[str, Any] = {"mode": "upsert", "keys": ["id"]}
MODELS: dict[str, dict[str, Any]] = {
    "appended": {"mode": "append", "maintenance": False},
    "merged": {**MERGED, "maintenance": False},
    "rewritten": {
        **MERGED,
        "properties": {"write.merge.mode": "copy-on-write"},
        "maintenance": False,
    },
    "kept_appended": {"mode": "append", "maintenance": UPKEEP},
    "kept_merged": {**MERGED, "maintenance": UPKEEP},
}


def look(project: Project, event: BatchCommitted | TableMaintained, seen: Seen) -> None:
    if len(seen.after) == BATCHES:
        return
    table = project.iceberg(event.model)
    folder = Path(table.location().removeprefix("file:")) / "metadata"
    for file in folder.iterdir():
        if not file.name.startswith(".") and file.name not in seen.files:
            seen.files[file.name] = file.stat().st_size
    if isinstance(event, TableMaintained):
        if not event.task.endswith("expire_snapshots"):
            seen.maintained.append(len(seen.after))
        return
    seen.after.append(counts(table))
    if len(seen.after) == SEEN:
        seen.facts = read_facts(
            project.lake.catalog, TableName("lake", project.namespace, event.model)
        )
        seen.written_before = sum(seen.files.values())


def counts(table: Table) -> TableCounts:
    """What the table's metadata has and takes, by nothing of lakesql's."""
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    totals = snapshot.summary.additional_properties
    size = len(table.io.new_input(table.metadata_location)) + len(
        table.io.new_input(snapshot.manifest_list)
    )
    size += sum(manifest.manifest_length for manifest in snapshot.manifests(table.io))
    files = (int(totals[f"total-{kind}-files"]) for kind in ("data", "delete"))
    return TableCounts(*files, len(table.metadata.snapshots), size)  # type: ignore[call-arg]


def test_batches_make_of_their_tables_what_was_forecast(
    project: Project, past: dict[str, Seen]
) -> None:
    wrong = []
    for name, seen in past.items():
        model = project.manifest().models[name]
        assert seen.facts is not None
        rows = sum(commit.rows for commit in seen.facts.commits[1:]) / (SEEN - 1)
        # the first batch has other rows
        facts = replace(seen.facts, commits=seen.facts.commits[1:])
        found = forecast(
            model,
            facts,
            ForecastInput(rows_per_second=rows / 60),
            (BATCHES - SEEN) * MINUTE,
            now_ms(),
        )
        (minute,) = (each for each in found.triggers if each.interval_ms == MINUTE)
        foretold = minute.kept or minute.unkept
        for figure, said, was in compare(foretold, seen):
            print(
                f"{name:14} {figure:16} forecast {said:12,.0f} real {was:12,.0f} {said / was - 1 if was else 0:+.1%}"
            )
            if abs(said - was) > WITHIN * was:
                wrong.append((name, figure, said, was))
    assert wrong == []


def compare(foretold: TableGrowth, seen: Seen) -> Iterator[tuple[str, float, float]]:
    """Each figure: what was forecast, and what it was. What is made small again is
    compared at its most.

    Maintenance does it with files. Each eighth commit does it with manifests, which are
    most of so young a table's metadata; in which commit those of delete files become
    eight is chance.
    """
    maintained = [at for at in seen.maintained if at >= SEEN]
    yield "commits", foretold.commits, BATCHES - SEEN + len(maintained)
    since = seen.after[SEEN - 1 :]
    is_kept = bool(foretold.maintenance)
    for figure in ("data_files", "delete_files", "metadata_bytes"):
        at_most = is_kept or figure == "metadata_bytes"
        was = [getattr(each, figure) for each in since]
        yield (
            figure,
            getattr(foretold.most if at_most else foretold.end, figure),
            max(was) if at_most else was[-1],
        )
    yield "snapshots", foretold.end.snapshots, since[-1].snapshots
    yield (
        "metadata written",
        foretold.written_bytes,
        sum(seen.files.values()) - seen.written_before,
    )
