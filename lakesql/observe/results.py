"""`target/run_results.json`: what a run did, for whoever reads it after the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakesql import __version__
from lakesql.events import Event, ModelFinished
from lakesql.observe.emitter import Clock
from lakesql.observe.tally import ModelTally, RunTally
from lakesql.observe.text import headline, is_up_to_date, iso_time, totals
from lakesql.project.files import write_atomically


class RunResults:
    """Writes the file when the run is over, also where it ends by an exception, as long as it had begun.

    `path` is written beside itself and moved into its place, so a reader meets the last run's file or this one's.
    `command` is the command line as given, without the program's name.
    """

    def __init__(self, path: Path, *, command: str, clock: Clock) -> None:
        self._path = path
        self._command = command
        self._clock = clock
        self._run = RunTally()
        self._written = False

    def __call__(self, event: Event, run: RunTally) -> None:
        """Keeps how the run stands; writes the file with the run's last event."""
        self._run = run
        if run.finished:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run.started_at_ms and not self._written:
            self._write()

    def _write(self) -> None:
        self._written = True
        write_atomically(self._path, render_results(self._run, command=self._command, at_ms=self._clock()))


def render_results(run: RunTally, *, command: str, at_ms: int) -> str:
    """The text of the file: `metadata`, and one entry of `results` for each model in the run's order."""
    over = run.finished
    metadata = {
        "lakesql_version": __version__,
        "generated_at": iso_time(at_ms),
        "started_at": iso_time(run.started_at_ms),
        "command": command,
        "target": run.target,
        "continuous": run.continuous,
        "interrupted": over.interrupted if over else True,
        "elapsed_ms": over.duration_ms if over else at_ms - run.started_at_ms,
    }
    results = [_result(model) for model in run.models.values()]
    return json.dumps({"metadata": metadata, "results": results}, indent=2) + "\n"


def _result(model: ModelTally) -> Mapping[str, Any]:
    finished = model.finished or model.finish(
        "skipped" if model.phase == "waiting" else "error", 0, 0, because="the run broke off before it"
    )
    return {
        "name": model.name,
        "status": finished.status,
        "message": _message(finished),
        "batches": finished.batches,
        "records": finished.records,
        "rows": finished.rows,
        "rejected": finished.rejected,
        "skipped_batches": finished.skipped_batches,
        "execution_time_ms": finished.duration_ms,
        "problems": [asdict(problem) for problem in finished.problems],
    }


def _message(finished: ModelFinished) -> str:
    match finished.status:
        case "success":
            return "up to date" if is_up_to_date(finished) else totals(finished)
        case "skipped":
            return finished.because
        case "error":
            return headline(finished.problems) if finished.problems else "the run broke off before its end"
