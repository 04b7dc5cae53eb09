"""The file `target/run_results.json`: the state of a run and its models, for other
programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakesql import __version__
from lakesql.clock import now_ms
from lakesql.errors import UsageError
from lakesql.events import Event, ModelFinished, Retrying, RunFinished, SeedFinished
from lakesql.graph.graph import ResourceType, node_id
from lakesql.observe.emitter import Clock
from lakesql.observe.tally import ModelTally, RunTally
from lakesql.observe.text import headline, is_up_to_date, iso_time, totals
from lakesql.project.files import write_atomically

WRITE_EVERY_MS = 5_000

BROKE_OFF = "the run broke off before its end"


class RunResults:
    """A renderer that keeps the file `path` up to date with the state of the run, from
    its first event to its end, also if it breaks off.

    A failure is written at once, other events at most every `WRITE_EVERY_MS`. The file
    is replaced by a rename, so that readers always see a whole one. `command` is the
    command line as given, without the program's name.
    """

    def __init__(self, path: Path, *, command: str, clock: Clock = now_ms) -> None:
        self._path = path
        self._command = command
        self._clock = clock
        self._run = RunTally()
        self._written_at_ms = 0

    def __call__(self, event: Event, run: RunTally) -> None:
        """Write the state of the run if it is due."""
        self._run = run
        match event:
            case (
                RunFinished()
                | Retrying()
                | ModelFinished(status="error")
                | SeedFinished(status="error")
            ):
                self._write(is_running=run.finished is None)
            case _ if (
                run.started_at_ms
                and self._clock() - self._written_at_ms >= WRITE_EVERY_MS
            ):
                self._write(is_running=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._run.started_at_ms and not self._run.finished:
            self._write(is_running=False)

    def _write(self, is_running: bool) -> None:
        now = self._written_at_ms = self._clock()
        write_atomically(
            self._path,
            render_results(self._run, is_running, command=self._command, at_ms=now),
        )


def read_results(
    folder: Path, *, with_tests: bool = False
) -> Mapping[str, frozenset[str]]:
    """The statuses of the nodes of a former run, by their ids: models and seeds from
    the folder's `run_results.json`; `with_tests`: data tests too, from its
    `test_results.json`, and then one of the two files suffices.

    Raises `UsageError` (`results-missing`, `results-unreadable`).
    """
    models, tests = folder / "run_results.json", folder / "test_results.json"
    if not models.is_file() and not (with_tests and tests.is_file()):
        missing = f"{models.name} or {tests.name}" if with_tests else models.name
        raise UsageError.of("results-missing", f"There is no {missing} in {folder}.")
    found = _read_statuses(models, "model") if models.is_file() else {}
    return (
        {**found, **_read_statuses(tests, "test")}
        if with_tests and tests.is_file()
        else found
    )


def _read_statuses(path: Path, kind: ResourceType) -> Mapping[str, frozenset[str]]:
    try:
        read = json.loads(path.read_bytes())
        if "lakesql_version" not in read["metadata"]:
            raise ValueError
        return {
            node_id(it.get("resource_type", kind), str(it["name"])): frozenset(
                {str(it["status"])}
            )
            for it in read["results"]
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UsageError.of(
            "results-unreadable", f"{path} is not what a command of lakesql writes."
        ) from None


def render_results(run: RunTally, is_running: bool, *, command: str, at_ms: int) -> str:
    """The text of the file: `metadata`, and `results` with an entry for each seed and
    each model in the run's order.

    A run that is neither finished nor `is_running` has broken off.
    """
    over = run.finished
    metadata = {
        "lakesql_version": __version__,
        "generated_at": iso_time(at_ms),
        "started_at": iso_time(run.started_at_ms),
        "command": command,
        "target": run.target,
        "continuous": run.continuous,
        "running": is_running,
        "interrupted": over.interrupted if over else not is_running,
        "elapsed_ms": over.duration_ms if over else at_ms - run.started_at_ms,
        "lineage_events_lost": run.lineage_lost.events
        if run.lineage_lost is not None
        else 0,
    }
    results = [_seed_result(name, seed, is_running) for name, seed in run.seeds.items()]
    results += [_result(model, is_running, at_ms) for model in run.models.values()]
    return json.dumps({"metadata": metadata, "results": results}, indent=2) + "\n"


def _seed_result(
    name: str, seed: SeedFinished | None, is_running: bool
) -> Mapping[str, Any]:
    """The entry of a seed. One that is not done is `waiting`, or `skipped` if the run
    has broken off."""
    if seed is None:
        status, message = ("waiting", "") if is_running else ("skipped", BROKE_OFF)
        return {
            "name": name,
            "resource_type": "seed",
            "status": status,
            "message": message,
            "rows": 0,
            "problems": [],
        }
    return {
        "name": name,
        "resource_type": "seed",
        "status": seed.status,
        "message": headline(seed.problems)
        if seed.status == "error"
        else f"{seed.done}: {seed.because}",
        "rows": seed.written,
        "table": seed.table,
        "table_rows": seed.rows,
        "execution_time_ms": seed.duration_ms,
        "problems": [asdict(problem) for problem in seed.problems],
    }


def _result(model: ModelTally, is_running: bool, at_ms: int) -> Mapping[str, Any]:
    """The entry of a model. One that is not done has its phase as status; if the run
    has broken off, it is `error`, or `skipped` if it had not begun."""
    done = model.finished
    finished = done or model.finish(
        "skipped" if model.phase == "waiting" else "error", 0, at_ms, because=BROKE_OFF
    )
    is_open = is_running and not done
    return {
        "name": model.name,
        "resource_type": "model",
        "status": model.phase if is_open else finished.status,
        "message": totals(finished) if is_open else _message(finished),
        "batches": finished.batches,
        "records": finished.records,
        "rows": finished.rows,
        "rejected": finished.rejected,
        "late": finished.late,
        "ignored": finished.ignored,
        "remembered": finished.remembered,
        "older": finished.older,
        "violations": dict(finished.violations),
        "replaced_text": finished.replaced,
        "replaced_keys": finished.replaced_keys,
        "rescued": [asdict(each) for each in finished.rescued],
        "skipped_batches": finished.skipped_batches,
        "execution_time_ms": finished.duration_ms,
        "maintenance": [
            {
                "name": name,
                "runs": task.runs,
                "failures": task.failures,
                "execution_time_ms": task.duration_ms,
                "counts": dict(task.counts),
                "message": task.why,
            }
            for name, task in sorted(model.maintenance.items())
        ],
        "warnings": list(finished.warnings),
        "problems": [asdict(problem) for problem in finished.problems],
    }


def _message(finished: ModelFinished) -> str:
    match finished.status:
        case "success":
            if not is_up_to_date(finished):
                return totals(finished)
            return "; ".join(finished.warnings) or "up to date"
        case "skipped":
            return finished.because
        case "error":
            return headline(finished.problems) if finished.problems else BROKE_OFF
