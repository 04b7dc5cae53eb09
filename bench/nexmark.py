"""Nexmark's queries: what a million events cost, each query by itself, as a stream
model or as a view.

    python bench/nexmark.py [--events 500000] [--parts 10] [--queries q1,q7,view q4]
    [--smoke]

A query that a stream answers is a model over recorded topics of all events, and reads
them in so many batches. A view is refreshed after each part of the events, which stand
in tables before; to fill these is not counted. Printed is the CPU of Python and Java
together for a million events, which is cores times seconds, and the time. The first
query is run twice, as it warms up, and the rows of each are compared with DuckDB's over
all events.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.project import cpu_seconds, open_project, write_project
from tests.nexmark.events import COLUMNS, WATERMARK, Arrivals, cut, make_events
from tests.nexmark.queries import QUERIES, VIEWS, Answered
from tests.nexmark.test_nexmark import (
    CLOSING,
    answer,
    counted,
    model_name,
    shown,
    written,
)
from tests.spark.project import Lake, Project

STREAMS = {
    name: query for name, query in QUERIES.items() if isinstance(query, Answered)
}
VIEW = "view "
"""What stands before the name of a query that is answered by a view."""

HANGS_AFTER_S = 3_600


@dataclass(frozen=True, slots=True)
class Cost:
    """What a query has taken."""

    cpu: float
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument(
        "--parts", type=int, default=10, help="so many batches, and refreshes of a view"
    )
    parser.add_argument(
        "--queries", default=",".join([*STREAMS, *(VIEW + name for name in VIEWS)])
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a few events of two queries, to see that it works",
    )
    options = parser.parse_args(arguments)
    count, parts = (1_000, 2) if options.smoke else (options.events, options.parts)
    names = ["q1", f"{VIEW}q4"] if options.smoke else options.queries.split(",")
    with tempfile.TemporaryDirectory() as directory:
        costs = measure(Path(directory), count, parts, names)
    print(f"{'of a million events':24}{'CPU s':>10}{'seconds':>10}")
    for name, cost in costs.items():
        print(
            f"{name:24}{cost.cpu * 1e6 / count:10.1f}{cost.seconds * 1e6 / count:10.1f}"
        )
    return 0


def measure(
    root: Path, count: int, parts: int, names: Sequence[str]
) -> dict[str, Cost]:
    """What each query costs over so many events."""
    events = [*cut(make_events(count, 1), parts)]
    files = {
        "models/none.sql": "{{ config(mode='append') }}\nSELECT 1 AS x FROM {{ stream('none') }}\n"
    }
    files["streams/none.yml"] = (
        "streams: [{name: none, path: none, format: json, columns: {x: int}}]\n"
    )
    costs: dict[str, Cost] = {}
    with open_project(write_project(root / "around", files), "none") as around:
        lake = Lake(around.session, around.catalog)
        streams = Streams(lake, root / "streams", events)
        views = Views(lake, root / "views", events)
        for name in [names[0], *names]:  # the first one warms up
            is_view = name.startswith(VIEW)
            costs[name] = (
                views.cost(name.removeprefix(VIEW)) if is_view else streams.cost(name)
            )
    return costs


class Streams:
    """The queries that a stream answers."""

    def __init__(self, lake: Lake, folder: Path, events: Sequence[Arrivals]) -> None:
        self._events = [*events, *CLOSING]
        self._tried = 0
        self._project = Project(lake, folder, "streams")
        for stream, columns in COLUMNS.items():
            self._project.stream(stream, columns, watermark=WATERMARK, max_per_batch=1)
            for part in self._events:
                self._project.record(
                    stream, [written(event) for event in part.of(stream)]
                )

    def cost(self, name: str) -> Cost:
        """Run the query over all events, as a model of its own."""
        query, self._tried = STREAMS[name], self._tried + 1
        model = f"{model_name(name)}_{self._tried}"
        self._project.model(model, query.select, **query.config)
        took = timed(
            lambda: self._project.run(model, hangs_after_s=HANGS_AFTER_S).check()
        )
        if counted(self._project.rows(model), query) != counted(
            answer(self._events, query.oracle), query
        ):
            raise AssertionError(f"{name} is not what DuckDB says")
        return took


class Views:
    """The queries that a view over tables of the events answers."""

    def __init__(self, lake: Lake, folder: Path, events: Sequence[Arrivals]) -> None:
        self._lake, self._folder, self._events = lake, folder, events
        self._tried = 0

    def cost(self, name: str) -> Cost:
        """Refresh the view after each part of the events."""
        view, self._tried = VIEWS[name], self._tried + 1
        project = Project(
            self._lake, self._folder / str(self._tried), f"views_{self._tried}"
        )
        for stream, columns in COLUMNS.items():
            project.stream(f"{stream}s", columns)
            project.model(stream, f"SELECT * FROM {{{stream}s}}", mode="append")
        keys = {"keys": [*view.keys]} if view.keys else {}
        project.model(name, view.select, mode="materialized_view", **keys)
        cost = Cost(0, 0)
        for part in self._events:
            for stream in COLUMNS:
                project.record(
                    f"{stream}s", [written(event) for event in part.of(stream)]
                )
            project.run(*COLUMNS, hangs_after_s=HANGS_AFTER_S).check()
            took = timed(lambda: project.run(name, hangs_after_s=HANGS_AFTER_S).check())
            cost = Cost(cost.cpu + took.cpu, cost.seconds + took.seconds)
        if shown(project.rows(name)) != shown(answer(self._events, view.oracle)):
            raise AssertionError(f"{name} is not what DuckDB says")
        return cost


def timed(work: Callable[[], object]) -> Cost:
    """What a piece of work takes."""
    started, cpu = time.monotonic(), cpu_seconds()
    work()
    return Cost(cpu_seconds() - cpu, time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())
