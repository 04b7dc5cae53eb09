"""Nexmark's queries: each equals a batch answer over all events, however these are cut
into runs: as a stream or, where no stream answers it, as a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakesql.compile.build_select import build_selects
from lakesql.errors import ProjectError
from lakesql.events import BatchCommitted
from tests.nexmark.events import COLUMNS, WATERMARK, Arrivals, closing, cut, make_events
from tests.nexmark.queries import QUERIES, VIEWS, Answered, Refused
from tests.spark.project import Lake, Project

EVENTS = 3_000
HANGS_AFTER_S = 1_200
"""Each query runs sixty batches."""

CLOSING = (closing(1), closing(2), closing(3))

ANSWERED = {
    name: query for name, query in QUERIES.items() if isinstance(query, Answered)
}
REFUSED = {name: query for name, query in QUERIES.items() if isinstance(query, Refused)}


def depends_on_batches(query: Answered) -> bool:
    """Whether what a query makes of a record depends on others."""
    return query.config["mode"] == "upsert" or any(
        word in query.select for word in ("JOIN", "GROUP BY")
    )


def model_name(query: str) -> str:
    return query.replace(" ", "_")


def declare(project: Project) -> None:
    for stream, columns in COLUMNS.items():
        project.stream(stream, columns, watermark=WATERMARK, max_per_batch=1)


def record(project: Project, arrived: Arrivals) -> None:
    """One more file of each stream."""
    for stream in COLUMNS:
        project.record(stream, [written(event) for event in arrived.of(stream)])


def written(event: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in event.items()
    }


def answer(events: Sequence[Arrivals], oracle: str) -> list[dict[str, Any]]:
    """DuckDB's answer over all events at once."""
    with duckdb.connect() as connection:
        for stream in COLUMNS:
            rows = [
                {
                    name: value.replace(tzinfo=None)
                    if isinstance(value, datetime)
                    else value
                    for name, value in row.items()
                }
                for arrived in events
                for row in arrived.of(stream)
            ]
            connection.register(stream, pa.Table.from_pylist(rows))
        found: list[dict[str, Any]] = (
            connection.execute(oracle).to_arrow_table().to_pylist()
        )
        return found


def counted(
    rows: Sequence[dict[str, Any]], query: Answered
) -> Counter[tuple[Any, ...]]:
    """The rows, each as often as it is there, without those of closing events."""
    kept = [row for row in rows if row[query.by] >= 0]
    return Counter(tuple(plain(row[name]) for name in sorted(row)) for row in kept)


def shown(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The rows of a view, each as often as it is there, without the columns that only
    lakesql needs."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        names = sorted(name for name in row if not name.startswith("_lakesql_"))
        found[tuple(plain(row[name]) for name in names)] += 1
    return found


def plain(value: Any) -> Any:
    return (
        value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo
        else value
    )


@pytest.mark.parametrize(
    "is_one_run", [False, True], ids=["three runs", "sixty batches"]
)
def test_a_query_equals_the_batch_answer_over_all_events(
    lake: Lake, tmp_path: Path, pytestconfig: pytest.Config, is_one_run: bool
) -> None:
    events = make_events(EVENTS, pytestconfig.getoption("--seed"))
    cuts = [[*cut(events, 60)]] if is_one_run else [[part] for part in cut(events, 3)]
    project = Project(lake, tmp_path, f"nexmark_{len(cuts)}")
    declare(project)
    queries = {
        name: query
        for name, query in ANSWERED.items()
        if not is_one_run or depends_on_batches(query)
    }
    for name, query in queries.items():
        project.model(model_name(name), query.select, **query.config)
    for files in cuts:
        for file in files:
            record(project, file)
        project.run(hangs_after_s=HANGS_AFTER_S).check()
    for part in CLOSING:
        record(project, part)
        project.run(hangs_after_s=HANGS_AFTER_S).check()
    for name, query in queries.items():
        expected = counted(answer([*events, *CLOSING], query.oracle), query)
        found = counted(project.rows(model_name(name)), query)
        assert len(expected) > 1, name
        assert (name, found - expected, expected - found) == (
            name,
            Counter(),
            Counter(),
        )


@pytest.mark.parametrize("name", REFUSED)
def test_a_query_that_no_stream_can_answer_is_refused_before_it_runs(
    lake: Lake, tmp_path: Path, name: str
) -> None:
    project = Project(lake, tmp_path, "nexmark_refused")
    declare(project)
    query = REFUSED[name]
    project.model("refused", query.select, **query.config)
    with pytest.raises(ProjectError) as refused:
        build_selects(project.manifest(), ["refused"])
    assert [problem.condition for problem in refused.value.problems] == [
        *query.conditions
    ]


@pytest.mark.parametrize("runs", [1, 4])
def test_a_view_equals_the_batch_answer_over_all_events(
    lake: Lake, tmp_path: Path, pytestconfig: pytest.Config, runs: int
) -> None:
    events = make_events(EVENTS, pytestconfig.getoption("--seed"))
    project = Project(lake, tmp_path, f"nexmark_views_{runs}")
    for stream, columns in COLUMNS.items():
        project.stream(f"{stream}s", columns)
        project.model(stream, f"SELECT * FROM {{{stream}s}}", mode="append")
    for name, view in VIEWS.items():
        keys = {"keys": [*view.keys]} if view.keys else {}
        project.model(name, view.select, mode="materialized_view", **keys)
    hows: dict[str, set[str]] = {name: set() for name in VIEWS}
    for part in cut(events, runs):
        for stream in COLUMNS:
            project.record(f"{stream}s", [written(event) for event in part.of(stream)])
        ran = project.run(hangs_after_s=HANGS_AFTER_S).check()
        for name in VIEWS:
            hows[name] |= {
                event.refreshed.split(",")[0] for event in ran.of(BatchCommitted, name)
            }
    for name, view in VIEWS.items():
        kept, right = shown(project.rows(name)), shown(answer(events, view.oracle))
        assert len(right) > 0, name
        assert (name, kept - right, right - kept) == (name, Counter(), Counter())
    if runs > 1:
        assert [name for name, how in hows.items() if how == {"in full"}] == []
