"""Events that a watermark drops are counted, and the records of a stateful model are
those that arrived."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakesql.events import BatchCommitted, BatchEmpty, RowsWaiting
from lakesql.names import AHEAD, LEDGER_LATE
from tests.spark.project import Project, Ran, target_settings

COLUMNS = {"id": "int", "at": {"type": "timestamp", "required": False}}
HOURS = "SELECT window(at, '1 hour').start AS hour, count(*) AS n FROM {s} GROUP BY window(at, '1 hour')"
UPSERT: dict[str, Any] = {"mode": "upsert", "keys": ["hour"]}


def at(*hours: int) -> list[dict[str, Any]]:
    return [{"id": hour, "at": f"2026-03-01T{hour:02}:00:00Z"} for hour in hours]


@pytest.fixture
def begun(project: Project) -> Project:
    """Two models that count by the hour and have seen 15 o'clock; their watermark is a
    minute behind."""
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.model("u", HOURS, **UPSERT)
    project.model("a", HOURS, mode="append")
    project.record("s", at(12, 15))
    project.run().check()
    return project


def figures(ran: Ran, model: str) -> tuple[int, int]:
    """Records and late ones, summed over the batches, which are those of the model's
    last event."""
    batches = [*ran.of(BatchCommitted, model), *ran.of(BatchEmpty, model)]
    records = sum(event.records for event in batches)  # type: ignore[attr-defined]
    late = sum(event.late for event in batches)  # type: ignore[attr-defined]
    finished = ran.finished(model)
    assert (finished.records, finished.late) == (records, late)
    return records, late


def test_late_events_are_counted_beside_those_in_time(begun: Project) -> None:
    begun.record("s", [*at(10, 11, 16), "no record"])
    ran = begun.run().check()
    assert figures(ran, "u") == figures(ran, "a") == (4, 2)
    assert begun.summaries("u")[-1][LEDGER_LATE] == "2"
    assert sum(row["n"] for row in begun.rows("u")) == 3


def test_a_run_whose_events_are_all_late_is_not_up_to_date(begun: Project) -> None:
    begun.record("s", at(9, 10, 11))
    ran = begun.run().check()
    assert figures(ran, "u") == figures(ran, "a") == (3, 3)
    assert figures(begun.run().check(), "u") == (0, 0)


def test_a_record_of_a_stream_that_is_joined_with_itself_is_counted_once(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.model(
        "j",
        "SELECT l.id, r.at FROM {s} l JOIN {s} r ON l.id = r.id AND l.at = r.at",
        mode="append",
    )
    project.record("s", at(12, 15))
    assert figures(project.run().check(), "j") == (2, 0)
    assert len(project.rows("j")) == 2


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_late_records_are_dead_letters_where_the_model_says_so(
    project: Project, mode: str
) -> None:
    """In a batch with good and bad ones, of a filter and a window's own name; all
    columns of a letter are there."""
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    select = "SELECT window(at, '1 hour') AS hour, count(*) AS n FROM {s} WHERE id <> 11 GROUP BY 1"
    project.model(
        "m",
        select,
        late="dead_letter",
        **({**UPSERT} if mode == "upsert" else {"mode": mode}),
    )
    project.record("s", at(12, 15))
    project.run().check()
    project.record("s", [*at(10, 11, 16), "no record", *at(9, 10)])
    ran = project.run().check()
    assert project.reasons("m") == {"late": 3, "unparsable": 1}
    assert ran.finished("m").rejected == 4
    letters = project.rows("m__dead_letter", "offset")
    late = [letter for letter in letters if letter["reason"] == "late"]
    assert [letter["offset"] for letter in late] == [2, 6, 7]
    assert (
        {letter["topic"] for letter in late}
        == {letter["stream"] for letter in late}
        == {"s"}
    )
    assert json.loads(bytes(late[0]["value"]))["id"] == 10
    assert (
        "2026-03-01 11:00:00" in late[0]["detail"]
        and "2026-03-01 14:59:00" in late[0]["detail"]
    )
    assert sum(row["n"] for row in project.rows("m")) == (3 if mode == "upsert" else 1)


@pytest.mark.long
def test_dead_letters_tell_times_in_utc_whatever_the_time_zone_of_the_session(
    project: Project, spark: SparkSession
) -> None:
    """That of the watermark beside them is in UTC."""
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    local = {"column": "CAST(t AS timestamp)", "delay": "1 minute"}
    project.stream("n", {"id": "int", "t": "timestamp_ntz"}, watermark=local)
    project.model("m", HOURS, **UPSERT, late="dead_letter")
    of_local = HOURS.replace("at", "CAST(t AS timestamp)").replace("{s}", "{n}")
    project.model("l", of_local, **UPSERT, late="dead_letter")
    with target_settings(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        for hours in ((12, 14), (10,)):
            project.record("s", at(*hours))
            texts = [f"2026-03-01T{hour + 9:02}:00:00" for hour in hours]
            project.record("n", [{"id": 1, "t": text} for text in texts])
            project.record("s", [{"id": 9, "at": "2099-01-01T00:00:00Z"}])
            project.record("n", [{"id": 9, "t": "2099-01-01T09:00:00"}])
            project.run().check()
    for name in ("m", "l"):
        assert project.reasons(name) == {"late": 1, "ahead-of-time": 2}
        for letter in project.rows(f"{name}__dead_letter"):
            time = "2099-01-01 00" if letter["reason"] == AHEAD else "2026-03-01 11"
            assert f"{time}:00:00+00:00" in letter["detail"]


FORMS = {
    "the window of a column that a subquery names": (
        "SELECT w.start AS hour, count(*) AS n FROM (SELECT window(t, '1 hour') AS w FROM "
        "(SELECT id, at AS t FROM {s}) WHERE id > 0) GROUP BY w",
        1,
    ),
    "a sliding window": (
        "SELECT window(at, '2 hours', '1 hour') AS hour, count(*) AS n FROM {s} GROUP BY 1",
        2,
    ),
    "the event time itself": (
        "SELECT at AS hour, count(*) AS n FROM {s} GROUP BY ALL",
        1,
    ),
    "a join with a table that has two rows for each": (
        "SELECT window(at, '1 hour') AS hour, count(*) AS n FROM {s} JOIN {twice} t ON true GROUP BY 1",
        2,
    ),
    "a common table expression, and two branches": (
        "WITH b AS (SELECT * FROM {s} WHERE id < 12 UNION ALL SELECT * FROM {s} WHERE id >= 12) "
        "SELECT window(at, '1 hour') AS hour, count(*) AS n FROM b GROUP BY window(at, '1 hour')",
        1,
    ),
}


@pytest.mark.parametrize("origin", [{}, {"path": "landing", "format": "json"}])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_row_is_a_dead_letter(
    project: Project, form: str, origin: dict[str, str]
) -> None:
    """Whatever the SELECT makes of a record before it groups: it is counted, or it is
    one letter."""
    select, windows = FORMS[form]
    project.stream(
        "s", COLUMNS, watermark={"column": "at", "delay": "1 minute"}, **origin
    )

    def arrive(number: int, *hours: int) -> None:
        if origin:
            project.write(
                f"landing/{number}.json",
                "".join(f"{json.dumps(each)}\n" for each in at(*hours)),
            )
        else:
            project.record("s", at(*hours))

    twice = project.table("twice")
    project.sql(
        f"CREATE TABLE {twice} USING iceberg AS SELECT explode(array(1, 2)) AS x"
    )
    project.model("m", select.replace("{twice}", twice), late="dead_letter", **UPSERT)
    arrive(1, 12, 18)
    project.run().check()
    arrive(2, 9, 10, 19, 11, 10, 8)
    project.run().check()
    letters = [
        json.loads(bytes(letter["value"]))["id"]
        for letter in project.rows("m__dead_letter")
    ]
    assert sorted(letters) == [8, 9, 10, 10, 11]
    assert sum(row["n"] for row in project.rows("m")) == 3 * windows


def test_late_letters_of_a_batch_that_is_written_again_stand_once(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.model("m", HOURS, late="dead_letter", **UPSERT)
    project.record("s", at(12, 15))
    project.run().check()
    project.record("s", at(10, 16, 10))

    def break_off(_: str, step: str) -> None:
        if step == "publish":
            raise RuntimeError("killed")

    assert not project.run(reached=break_off).succeeded
    project.run().check()
    assert project.reasons("m") == {"late": 2}
    assert sum(row["n"] for row in project.rows("m")) == 3


@pytest.mark.long
def test_a_model_that_streams_a_table_goes_by_the_watermark_of_that_table(
    project: Project,
) -> None:
    project.stream("s", COLUMNS)
    project.model("rows", "SELECT id, at AS seen FROM {s}", mode="append")
    hours = "SELECT window(seen, '1 hour').start AS hour, count(*) AS n FROM {rows} GROUP BY window(seen, '1 hour')"
    project.model("hours", hours, mode="append", late="dead_letter")
    entry = {"name": "rows", "watermark": {"column": "seen", "delay": "1 minute"}}
    project.write("models/m.yml", json.dumps({"models": [entry]}))
    project.record("s", at(12, 15))
    project.run().check()
    project.record("s", [*at(10, 16, 17), {"id": 1, "at": "2999-01-01T00:00:00Z"}])
    ran = project.run().check()
    assert figures(ran, "hours") == (4, 1)
    assert [(row["hour"].hour, row["n"]) for row in project.rows("hours", "hour")] == [
        (12, 1),
        (15, 1),
    ]
    letters = [
        (row["reason"], json.loads(row["value"])["seen"][:4])
        for row in project.rows("hours__dead_letter")
    ]
    assert sorted(letters) == [("ahead-of-time", "2999"), ("late", "2026")]


@pytest.mark.long
def test_what_waits_for_a_watermark_at_the_end_of_a_run_is_counted(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, watermark={"column": "at", "delay": "1 minute"})
    project.model("u", HOURS, **UPSERT)
    project.model("a", HOURS, mode="append")
    project.model(
        "j",
        "SELECT l.id FROM {s} l JOIN {s} r ON l.id = r.id AND l.at = r.at",
        mode="append",
    )
    project.model("d", "SELECT DISTINCT id, at FROM {s}", mode="append")
    project.record("s", at(12, 13, 15))
    ran = project.run().check()
    assert len(project.rows("a")) == 2
    assert ran.of(RowsWaiting, "u") == []
    (waiting,) = ran.of(RowsWaiting, "a")
    assert (waiting.groups, waiting.joined, waiting.watermark) == (
        1,
        0,
        "2026-03-01T14:59:00.000Z",
    )
    (waiting,) = ran.of(RowsWaiting, "j")
    assert (waiting.groups, waiting.joined) == (0, 2)
    assert len(project.rows("d")) == 2
    (waiting,) = ran.of(RowsWaiting, "d")
    assert (waiting.groups, waiting.joined) == (1, 0)


BY_EVENT_TIME = {
    "w": HOURS,
    "g": "SELECT at, count(*) AS n FROM {s} GROUP BY at",
    "d": "SELECT DISTINCT id, at FROM {s}",
    "e": "SELECT id, count(*) AS n FROM {s} GROUP BY id, session_window(at, '30 minutes')",
    "f": "SELECT window(t, '1 hour').start AS hour, count(*) AS n FROM (SELECT at AS t FROM {s}) GROUP BY window(t, '1 hour')",
    "l": "SELECT l.id, l.at FROM {s} l LEFT JOIN {t} r ON l.id = r.id AND r.at BETWEEN l.at AND l.at + INTERVAL 1 HOUR",
}


@pytest.mark.long
def test_records_without_an_event_time_are_counted(project: Project) -> None:
    """Each record of the stream is in a row of the table, waits for the watermark, or
    is counted, whatever the SELECT makes of it."""
    watermark = {"column": "at", "delay": "1 minute"}
    project.stream("s", COLUMNS, watermark=watermark)
    project.stream("t", COLUMNS, watermark=watermark)
    for name, select in BY_EVENT_TIME.items():
        project.model(name, select, mode="append")
    project.model("u", HOURS, **UPSERT)
    project.model(
        "by_id",
        "SELECT id, count(*) AS n FROM {s} GROUP BY id",
        mode="upsert",
        keys="id",
    )
    for when in ([*at(12, 13), {"id": 1}, {"id": 2, "at": None}], [*at(15), {"id": 3}]):
        project.record("s", when)
        project.record("t", at(12, 18))
        ran = project.run().check()
        batches: list[BatchCommitted | BatchEmpty] = [
            *ran.of(BatchCommitted),
            *ran.of(BatchEmpty),
        ]
        missing = {
            model: sum(
                batch.without_event_time for batch in batches if batch.model == model
            )
            for model in (*BY_EVENT_TIME, "u", "by_id")
        }
        nulls = sum(record.get("at") is None for record in when)
        assert missing == dict.fromkeys((*BY_EVENT_TIME, "u"), nulls) | {"by_id": 0}
    assert sum(row["n"] for row in project.rows("u")) == 3
    assert sum(row["n"] for row in project.rows("by_id")) == 6
