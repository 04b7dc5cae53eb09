"""What a run leaves in files: JSON lines, run_results.json, the log."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from lakesql import __version__
from lakesql.errors import Place, Problem
from lakesql.events import (
    BatchCommitted,
    Event,
    HealthJudged,
    HealthReason,
    ModelFinished,
    Noted,
    Progress,
    QueryStarted,
    RecordsRejected,
    RunFinished,
    RunStarted,
    SessionStarted,
    TableTotals,
)
from lakesql.observe.emitter import Emitter, Renderer
from lakesql.observe.lines import JsonLines, LogFile
from lakesql.observe.results import WRITE_EVERY_MS, RunResults
from lakesql.project.files import write_atomically
from tests.cases import each_of

AT = 1_772_366_585_123
AT_ISO = "2026-03-01T12:03:05.123Z"
PROBLEM = Problem(
    "wrong-value", "This is wrong.", "Because.", "Do that.", Place("models/b.sql", 3, 5)
)
STARTED = RunStarted("dev", ("a", "b", "c"), False, at_ms=AT)
ENDS: tuple[Event, ...] = (
    ModelFinished("b", "error", 1, 5, 4, 1, 0, 700, (PROBLEM,), at_ms=AT),
    ModelFinished("a", "success", 2, 40, 37, 3, 1, 900, at_ms=AT),
    ModelFinished("c", "skipped", 0, 0, 0, 0, 0, 0, because="b failed", at_ms=AT),
)


def tell(renderer: Renderer, *events: Event) -> None:
    with Emitter([renderer]) as emit:
        for event in events:
            emit(event)
    assert emit.failures == []


def json_of(event: Event) -> dict[str, Any]:
    out = io.StringIO()
    tell(JsonLines(out), event)
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().isascii()
    loaded: dict[str, Any] = json.loads(out.getvalue(), parse_constant=pytest.fail)
    return loaded


def test_why_a_table_is_not_well_is_a_list_of_objects() -> None:
    why = HealthReason(
        "freshness", "ill", 7_000, 5_000, "last commit 7.0 s ago (limit 5.0 s)"
    )
    assert json_of(HealthJudged("orders", "ill", "well", (why,), at_ms=AT)) == {
        "event": "health_judged",
        "at": AT_ISO,
        "model": "orders",
        "health": "ill",
        "was": "well",
        "findings": [
            {
                "figure": "freshness",
                "word": "ill",
                "value": 7_000,
                "limit": 5_000,
                "text": why.text,
            }
        ],
    }


@each_of("kind", get_args(Event))
def test_every_event_can_be_written(kind: type[Event]) -> None:
    """With an empty value of each field, or a list of nothing."""
    given = {
        field.name: EMPTY.get(str(field.type).partition("[")[0], "x")
        for field in fields(kind)
    }
    assert set(json_of(kind(**given))) == {"event", "at", *given} - {"at_ms"}


EMPTY: dict[str, Any] = {
    "int": 0,
    "float": 0.0,
    "bool": False,
    "tuple": (),
    "TableTotals": TableTotals(),
}


def test_an_event_is_one_line_of_json() -> None:
    snapshot = 2**63 - 1
    given = ("orders", 3, 400, 371, 2, snapshot, 812, "2026-03-01T00:00:00Z")
    event = BatchCommitted(
        *given,
        at_ms=AT,
        table=TableTotals(7, 2, 1_000, 9),
        small_files=1,
        small_bytes=400,
    )
    assert json_of(event) == {
        "event": "batch_committed",
        "at": AT_ISO,
        "model": "orders",
        "batch": 3,
        "records": 400,
        "rows": 371,
        "rejected": 2,
        "snapshot": snapshot,
        "duration_ms": 812,
        "event_time": "2026-03-01T00:00:00Z",
        "late": 0,
        "furthest": "",
        "without_event_time": 0,
        "replaced": 0,
        "replaced_keys": 0,
        "refreshed": "",
        "location": "",
        "ignored": 0,
        "remembered": 0,
        "older": 0,
        "table": {"data_files": 7, "delete_files": 2, "rows": 1_000, "deletes": 9},
        "removed_delete_files": 0,
        "small_files": 1,
        "small_bytes": 400,
        "partitions": None,
        "violations": [],
    }


def test_problems_keep_their_parts() -> None:
    (problem,) = json_of(ENDS[0])["problems"]
    assert problem == {
        "condition": "wrong-value",
        "what": "This is wrong.",
        "why": "Because.",
        "fix": "Do that.",
        "place": {"path": "models/b.sql", "line": 3, "column": 5},
    }


def test_reasons_are_an_object() -> None:
    event = RecordsRejected(
        "a", 1, "t", 3, (("missing-value", 1), ("not-readable", 2)), at_ms=AT
    )
    assert json_of(event)["reasons"] == {"missing-value": 1, "not-readable": 2}


@pytest.mark.parametrize("speed", [float("nan"), float("inf")])
def test_a_speed_that_json_does_not_have_is_null(speed: float) -> None:
    assert (
        json_of(Progress("a", speed, None, "records", at_ms=AT))["records_per_second"]
        is None
    )


def test_progress_is_a_line_where_it_says_something_new_and_not_too_often() -> None:
    out = io.StringIO()
    backlogs = [
        (at, model, left)
        for at in range(0, 60_000, 500)
        for model, left in (("idle", 0), ("busy", at))
    ]
    tell(
        JsonLines(out),
        *(
            Progress(model, 1.0, left, "records", at_ms=AT + at)
            for at, model, left in backlogs
        ),
    )
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["left"] for line in lines if line["model"] == "busy"] == list(
        range(0, 60_000, 5_000)
    )
    assert len([line for line in lines if line["model"] == "idle"]) == 1


def test_a_text_of_several_lines_stays_on_one() -> None:
    assert json_of(Noted("a\nb\u2028c\ud800", at_ms=AT))["text"] == "a\nb\u2028c\ud800"


def test_a_line_is_not_kept_back() -> None:
    pipe = io.BytesIO()
    out = io.TextIOWrapper(pipe, encoding="utf-8", write_through=False)
    tell(JsonLines(out), Noted("x", at_ms=AT))
    assert pipe.getvalue().endswith(b"\n")


def results_after(path: Path, *events: Event) -> dict[str, Any]:
    tell(RunResults(path, command="run --select a+", clock=lambda: AT + 5), *events)
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


def test_results_hold_the_run_and_each_model_in_its_order(tmp_path: Path) -> None:
    results = results_after(
        tmp_path / "target" / "run_results.json",
        STARTED,
        *ENDS,
        RunFinished(1_600, False, at_ms=AT),
    )
    assert results["metadata"] == {
        "lakesql_version": __version__,
        "generated_at": "2026-03-01T12:03:05.128Z",
        "started_at": AT_ISO,
        "command": "run --select a+",
        "target": "dev",
        "continuous": False,
        "running": False,
        "interrupted": False,
        "elapsed_ms": 1_600,
        "lineage_events_lost": 0,
    }
    a, b, c = results["results"]
    assert [result["name"] for result in (a, b, c)] == ["a", "b", "c"]
    assert [result["status"] for result in (a, b, c)] == ["success", "error", "skipped"]
    assert (
        a["batches"],
        a["records"],
        a["rows"],
        a["rejected"],
        a["skipped_batches"],
    ) == (2, 40, 37, 3, 1)
    assert a["execution_time_ms"] == 900
    assert [problem["condition"] for problem in b["problems"]] == ["wrong-value"]
    assert "wrong-value" in b["message"]
    assert c["message"] == "b failed"


def test_results_of_an_interrupted_run_mark_unfinished_models_as_skipped(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run_results.json"
    events = (
        STARTED,
        ENDS[1],
        QueryStarted("b", at_ms=AT),
        BatchCommitted("b", 0, 9, 8, 1, 1, 1, "", at_ms=AT),
    )
    results = results_after(path, *events)
    assert results["metadata"]["interrupted"] is True
    assert results["metadata"]["elapsed_ms"] == 5
    assert [result["status"] for result in results["results"]] == [
        "success",
        "error",
        "skipped",
    ]
    assert [result["rows"] for result in results["results"]] == [37, 8, 0]


def test_results_are_written_while_the_run_goes_on(tmp_path: Path) -> None:
    path, now = tmp_path / "run_results.json", AT
    results = RunResults(path, command="run", clock=lambda: now)

    def read_after(*events: Event) -> tuple[dict[str, Any], list[tuple[str, int]]]:
        emit(*events)
        written = json.loads(path.read_text("utf-8"))
        return written["metadata"], [
            (result["status"], result["rows"]) for result in written["results"]
        ]

    with Emitter([results]) as emitter:

        def emit(*events: Event) -> None:
            for event in events:
                emitter(event)

        metadata, models = read_after(STARTED)
        assert (metadata["running"], metadata["interrupted"]) == (True, False)
        assert models == [("waiting", 0)] * 3
        batch = BatchCommitted("a", 0, 9, 8, 1, 1, 1, "", at_ms=AT)
        # not for each event
        assert read_after(QueryStarted("a", at_ms=AT), batch)[1] == models
        now += WRITE_EVERY_MS
        assert read_after(batch)[1][0] == ("running", 16)
        assert read_after(batch, ENDS[0])[1] == [
            ("running", 24),
            ("error", 4),
            ("waiting", 0),
        ]
    metadata, models = read_after()
    assert (metadata["running"], metadata["interrupted"]) == (False, True)
    assert [status for status, _ in models] == ["error", "error", "skipped"]


def test_results_of_the_run_before_stay_where_this_one_never_began(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run_results.json"
    path.write_text("{}", "utf-8")
    assert results_after(path, SessionStarted(1, at_ms=AT)) == {}


def test_whoever_reads_the_old_text_reads_it_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_atomically(path, "old")
    with path.open(encoding="utf-8") as reader:
        write_atomically(path, "new")
        assert reader.read() == "old"
    assert path.read_text("utf-8") == "new"


def test_what_cannot_be_written_leaves_the_old_text_and_nothing_beside(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")
    assert path.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_log_holds_a_line_for_each_event_and_problems_in_full(
    tmp_path: Path,
) -> None:
    path = tmp_path / "logs" / "lakesql.log"
    events = (
        STARTED,
        *ENDS,
        Progress("a", 1.0, 5, "records", at_ms=AT),
        RunFinished(1_600, False, at_ms=AT),
    )
    tell(LogFile(path), *events)
    lines = path.read_text("utf-8").splitlines()
    stamped = [line for line in lines if line.startswith(AT_ISO)]
    assert len(stamped) == 5
    rest = [line for line in lines if line not in stamped]
    assert all(line.startswith("  ") for line in rest)
    assert {line.strip() for line in rest} >= {"This is wrong.", "Because.", "Do that."}


def test_the_log_of_one_run_follows_the_log_of_another(tmp_path: Path) -> None:
    path = tmp_path / "lakesql.log"
    for _ in range(2):
        tell(LogFile(path), STARTED)
    assert len(path.read_text("utf-8").splitlines()) == 2


def test_the_log_rotates_by_size_and_loses_only_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "lakesql.log"
    tell(
        LogFile(path, max_bytes=300, kept=3),
        *(Noted(f"note {number:02} {'x' * 30}", at_ms=AT) for number in range(40)),
    )
    files = [path.with_name(f"lakesql.log.{number}") for number in (3, 2, 1)] + [path]
    assert set(tmp_path.iterdir()) <= set(files)
    assert all(file.exists() for file in files[:3])
    kept = [
        line.split()[2]
        for file in files
        if file.exists()
        for line in file.read_text("utf-8").splitlines()
    ]
    assert kept == [f"{number:02}" for number in range(40 - len(kept), 40)]
    assert all(file.stat().st_size < 300 + 80 for file in files if file.exists())


def test_two_concurrent_runs_share_a_rotating_log(tmp_path: Path) -> None:
    path = tmp_path / "lakesql.log"

    def note(log: Emitter, number: int) -> None:
        log(Noted(f"note {number:02} {'x' * 30}", at_ms=AT))

    one, other = (Emitter([LogFile(path, max_bytes=300, kept=50)]) for _ in range(2))
    with one, other:
        for number in range(0, 60, 2):
            note(one, number)
            note(other, number + 1)
            if number == 30:
                path.unlink(missing_ok=True)  # by `lakesql clean`, or whoever else
    kept = [
        line.split()[2]
        for file in tmp_path.iterdir()
        for line in file.read_text("utf-8").splitlines()
    ]
    assert len(kept) == len(set(kept)) and set(kept) >= {
        f"{number:02}" for number in range(40, 60)
    }
    assert len(list(tmp_path.iterdir())) > 5


def test_nothing_is_made_where_nothing_happens(tmp_path: Path) -> None:
    with LogFile(tmp_path / "logs" / "lakesql.log"):
        pass
    assert list(tmp_path.iterdir()) == []
