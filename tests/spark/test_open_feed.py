"""Feeds that declare no columns: those of the schemas beside their events, while these
change."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakesql.errors import ProjectError
from lakesql.events import ColumnsAbsent, Retrying, StepApplied
from tests.spark.project import Fields, Project, Row

pytestmark = pytest.mark.long

INT = {"type": "int32"}
LONG = {"type": "int64"}
TEXT = {"type": "string"}
SOURCE = {
    "connector": "postgresql",
    "ts_ms": 1_772_366_400_000,
    "snapshot": "false",
    "lsn": 100,
}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    name = "org.apache.kafka.connect.data.Decimal"
    return {"type": "bytes", "name": name, "version": 1, "parameters": parameters}


def struct(**kinds: Any) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"field": name, "optional": True, **kind} for name, kind in kinds.items()
        ],
    }


def change(op: str, row: Row, **kinds: Any) -> Fields:
    """A record whose event carries the schema of its row."""
    sides = [
        {"field": side, "optional": True, **struct(**kinds)}
        for side in ("before", "after")
    ]
    others = [{"field": "op", "optional": False, "type": "string"}]
    after = None if op == "d" else row
    payload = {
        "before": row if op == "d" else None,
        "after": after,
        "op": op,
        "source": SOURCE,
    }
    key = {"schema": struct(id=kinds["id"]), "payload": {"id": row["id"]}}
    value = {
        "schema": {"type": "struct", "fields": [*sides, *others]},
        "payload": payload,
    }
    return Fields(key=key, value=value)


def feed(project: Project, **model: Any) -> None:
    project.stream("s", envelope="debezium", max_per_batch=1)
    project.model("m", "SELECT * FROM {s}", mode="cdc", keys="id", **model)


def test_columns_and_key_are_what_the_schema_says(project: Project) -> None:
    feed(project)
    kinds = {
        "id": LONG,
        "small": {"type": "int16"},
        "ratio": {"type": "float"},
        "price": decimal(10, 2),
        "born": {"type": "int32", "name": "io.debezium.time.Date", "version": 1},
        "at": {
            "type": "int64",
            "name": "io.debezium.time.MicroTimestamp",
            "version": 1,
        },
        "seen": {
            "type": "string",
            "name": "io.debezium.time.ZonedTimestamp",
            "version": 1,
        },
        "raw": {"type": "bytes"},
        "tags": {"type": "array", "items": TEXT},
        "home": struct(city=TEXT, zip=INT),
        "doc": {"type": "string", "name": "io.debezium.data.Json", "version": 1},
        "opens": {"type": "int64", "name": "io.debezium.time.MicroTime", "version": 1},
        "year": {"type": "int32", "name": "io.debezium.time.Year", "version": 1},
        "lasts": {
            "type": "int64",
            "name": "io.debezium.time.MicroDuration",
            "version": 1,
        },
        "flags": {
            "type": "bytes",
            "name": "io.debezium.data.Bits",
            "version": 1,
            "parameters": {"length": "10"},
        },
        "any": {
            **struct(scale=INT, value={"type": "bytes"}),
            "name": "io.debezium.data.VariableScaleDecimal",
        },
        "tagged": {"type": "map", "keys": TEXT, "values": TEXT},
    }
    row = {
        "id": 1,
        "small": 7,
        "ratio": 0.5,
        "price": "AN4=",
        "born": 1,
        "at": 1_000_000,
        "raw": "AQI=",
        "seen": "2026-03-01T12:00:00Z",
        "tags": ["x"],
        "home": {"city": "Rome", "zip": 9},
        "doc": '{"a":1}',
        "opens": 27_000_000_000,
        "year": 2026,
        "lasts": -1,
        "flags": "AwI=",
        "any": {"scale": 1, "value": "fQ=="},
        "tagged": {"a": "1"},
    }
    project.record("s", [change("c", row, **kinds), change("d", {"id": 2}, id=LONG)])

    project.run().check()

    assert project.rows_without_spark("m") == [
        {
            "id": 1,
            "small": 7,
            "ratio": 0.5,
            "price": Decimal("2.22"),
            "born": date(1970, 1, 2),
            "raw": b"\1\2",
            "at": datetime(1970, 1, 1, 0, 0, 1),
            "seen": datetime(2026, 3, 1, 12, tzinfo=UTC),
            "tags": ["x"],
            "home": {"city": "Rome", "zip": 9},
            "doc": '{"a":1}',
            "opens": "07:30:00",
            "year": 2026,
            "lasts": -1,
            "flags": b"\3\2",
            "any": "12.5",
            "tagged": [("a", "1")],
        }
    ]
    fields = {
        field.name: str(field.field_type)
        for field in project.iceberg("m").schema().fields
    }
    assert (
        fields["price"] == "decimal(10, 2)"
        and fields["at"] == "timestamp"
        and fields["small"] == "int"
    )


def test_a_column_that_comes_in_the_middle_of_a_batch_is_in_the_table_with_all_its_values(
    project: Project,
) -> None:
    """The newest schema, which is looked at first, does not have it any more."""
    feed(project)
    project.record(
        "s",
        [
            change("c", {"id": 1}, id=INT),
            change("c", {"id": 2, "memo": "two"}, id=INT, memo=TEXT),
        ],
    )
    project.record("s", [change("c", {"id": 3}, id=INT)])

    ran = project.run().check()

    assert project.rows("m", "id") == [
        {"id": 1, "memo": None},
        {"id": 2, "memo": "two"},
        {"id": 3, "memo": None},
    ]
    (retried,) = ran.of(Retrying)
    assert [problem.condition for problem in retried.problems] == ["feed-changed"]
    assert "memo string is new" in retried.problems[0].what
    assert any("anew" in step.text for step in ran.of(StepApplied))
    assert (
        "memo"
        in (project.directory / "target" / "compiled" / "models" / "m.sql").read_text()
    )


def test_columns_nested_fields_and_wider_types_are_followed_from_run_to_run(
    project: Project,
) -> None:
    feed(project)
    before = {"id": INT, "n": INT, "price": decimal(6, 2), "home": struct(city=TEXT)}
    project.record(
        "s",
        [
            change(
                "c",
                {"id": 1, "n": 1, "price": "AN4=", "home": {"city": "Rome"}},
                **before,
            )
        ],
    )
    project.run().check()
    ids = {field.name: field.field_id for field in project.iceberg("m").schema().fields}
    after = {
        "id": INT,
        "extra": TEXT,
        "n": LONG,
        "price": decimal(9, 2),
        "home": struct(zip=INT, city=TEXT),
    }
    row = {
        "id": 2,
        "extra": "e",
        "n": 2**40,
        "price": "AN4=",
        "home": {"zip": 5, "city": "Oslo"},
    }
    project.record("s", [change("c", row, **after)])

    ran = project.run().check()

    assert not ran.of(Retrying)  # the newest record was looked at before the run
    price = Decimal("2.22")
    assert project.rows("m", "id") == [
        {
            "id": 1,
            "n": 1,
            "price": price,
            "home": {"city": "Rome", "zip": None},
            "extra": None,
        },
        {
            "id": 2,
            "n": 2**40,
            "price": price,
            "home": {"city": "Oslo", "zip": 5},
            "extra": "e",
        },
    ]
    now = {field.name: field.field_id for field in project.iceberg("m").schema().fields}
    assert ids.items() <= now.items()


def test_a_renamed_column_is_another_one_and_said_so(project: Project) -> None:
    feed(project)
    project.record("s", [change("c", {"id": 1, "memo": "m"}, id=INT, memo=TEXT)])
    project.run().check()
    project.record(
        "s",
        [
            change("c", {"id": 2, "note": "n"}, id=INT, note=TEXT),
            change("c", {"id": 3}, id=INT),
        ],
    )
    ran = project.run().check()
    (retried,) = ran.of(Retrying)
    assert "note string is new" in retried.problems[0].what
    assert project.rows("m", "id") == [
        {"id": 1, "memo": "m", "note": None},
        {"id": 2, "memo": None, "note": "n"},
        {"id": 3, "memo": None, "note": None},
    ]


def test_types_that_no_column_holds_stop_the_model_or_make_dead_letters(
    project: Project,
) -> None:
    for policy in ("append_new_columns", "ignore"):
        project.stream(policy, envelope="debezium", max_per_batch=1)
        project.model(
            f"m_{policy}",
            f"SELECT * FROM {{{policy}}}",
            mode="cdc",
            keys="id",
            on_schema_change=policy,
        )
        texts = [
            change("c", {"id": 1, "n": "many"}, id=INT, n=TEXT),
            change("c", {"id": 2, "n": "5"}, id=INT, n=TEXT),
        ]
        more = change("c", {"id": 3, "n": 3, "x": 1}, id=INT, n=INT, x=INT)
        project.record(policy, [*texts, more])
        project.record(policy, [change("c", {"id": 4, "n": 4}, id=INT, n=INT)])
    ran = project.run()

    assert ran.conditions("m_append_new_columns") == ["feed-changed"]
    (problem,) = ran.finished("m_append_new_columns").problems
    assert "n is string and was int" in problem.what and "x int is new" in problem.what
    assert project.rows("m_append_new_columns") == []
    assert ran.finished("m_ignore").status == "success"
    assert project.rows("m_ignore", "id") == [
        {"id": 2, "n": 5},
        {"id": 3, "n": 3},
        {"id": 4, "n": 4},
    ]
    assert project.reasons("m_ignore") == {"unparsable": 1}


DATE = {"type": "int32", "name": "io.debezium.time.Date", "version": 1}
MICROS = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1}
BYTES = {"type": "bytes"}
REPLACED: dict[str, tuple[dict[str, Any], Any, dict[str, Any], Any]] = {
    "date_by_text": (DATE, 20_513, TEXT, "x"),
    "time_by_text": (MICROS, 1_772_366_400_000_000, TEXT, "x"),
    "bytes_by_text": (BYTES, "AQI=", TEXT, "x"),
    "text_by_bytes": (TEXT, "abcd", BYTES, "AQI="),
    "date_by_int": (DATE, 20_513, INT, 5),
    "int_by_date": (INT, 5, DATE, 20_513),
    "dates_by_texts": (
        {"type": "array", "items": DATE},
        [20_513],
        {"type": "array", "items": TEXT},
        ["x"],
    ),
}
"""Columns that were dropped and made again with another type: before and after it, the
schema and a value, which would be taken for one of the other type."""


def test_what_only_looks_like_a_value_of_a_column_is_none(project: Project) -> None:
    for policy in ("append_new_columns", "ignore"):
        for case, (old, former, new, value) in REPLACED.items():
            name = f"{case}_{policy}"
            project.stream(name, envelope="debezium", max_per_batch=1)
            project.model(
                f"m_{name}",
                f"SELECT * FROM {{{name}}}",
                mode="cdc",
                keys="id",
                on_schema_change=policy,
            )
            project.record(name, [change("c", {"id": 1, "c": former}, id=INT, c=old)])
            project.record(name, [change("c", {"id": 2, "c": value}, id=INT, c=new)])
    ran = project.run()
    for case in REPLACED:
        assert ran.conditions(f"m_{case}_append_new_columns") == ["feed-changed"], case
        assert project.rows(f"m_{case}_append_new_columns") == [], case
        assert ran.finished(f"m_{case}_ignore").status == "success", case
        assert [row["id"] for row in project.rows(f"m_{case}_ignore")] == [2], case
        assert project.reasons(f"m_{case}_ignore") == {"unparsable": 1}, case


def test_a_text_holds_what_is_written_as_one(project: Project) -> None:
    feed(project)
    zoned = {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1}
    for number, (kind, value) in enumerate(
        [(zoned, "2026-03-01T12:00:00Z"), (decimal(6, 2), "AN4="), (INT, 5)]
    ):
        project.record("s", [change("c", {"id": number, "c": value}, id=INT, c=kind)])
    project.record("s", [change("c", {"id": 3, "c": "x"}, id=INT, c=TEXT)])
    project.run().check()
    assert [row["c"] for row in project.rows("m", "id")] == [
        "2026-03-01T12:00:00Z",
        "2.22",
        "5",
        "x",
    ]


def test_a_model_may_refuse_every_change(project: Project) -> None:
    feed(project, on_schema_change="fail")
    project.record("s", [change("c", {"id": 1, "memo": "m"}, id=INT, memo=TEXT)])
    project.record("s", [change("c", {"id": 2}, id=INT)])
    ran = project.run()
    assert ran.conditions("m") == ["feed-changed"]
    assert project.rows("m") == []


def test_an_event_without_a_schema_is_a_dead_letter(project: Project) -> None:
    feed(project)
    bare = Fields(
        key={"id": 2}, value={"op": "c", "after": {"id": 2}, "source": SOURCE}
    )
    project.record(
        "s", [change("c", {"id": 1}, id=INT), bare, change("c", {"id": 3}, id=INT)]
    )
    project.run()
    assert [row["id"] for row in project.rows("m", "id")] == [1, 3]
    assert project.reasons("m") == {"unparsable": 1}


def test_the_columns_of_a_recording_without_schemas_are_guessed_and_said_to_be(
    project: Project,
) -> None:
    feed(project)
    rows = [{"id": 1, "n": None, "x": 1}, {"id": 2, "n": "t", "x": 0.5}]
    project.record(
        "s",
        [
            Fields(key={"id": row["id"]}, value={"op": "c", "after": row})
            for row in rows
        ],
    )
    (warning,) = project.manifest().warnings
    assert warning.condition == "columns-guessed"
    assert "columns: {id: bigint, n: string, x: double}" in warning.fix
    project.run().check()
    assert project.rows("m", "id") == [
        {"id": 1, "n": None, "x": 1.0},
        {"id": 2, "n": "t", "x": 0.5},
    ]


def test_nothing_is_compiled_before_a_record_was_seen(project: Project) -> None:
    feed(project)
    with pytest.raises(ProjectError) as raised:
        project.run()
    assert [problem.condition for problem in raised.value.problems] == ["no-columns"]


def test_a_model_with_state_needs_declared_columns(project: Project) -> None:
    project.stream("s", envelope="debezium")
    project.model(
        "m", "SELECT id, count(*) AS n FROM {s} GROUP BY id", mode="upsert", keys="id"
    )
    project.record("s", [change("c", {"id": 1}, id=INT)])
    with pytest.raises(ProjectError) as raised:
        project.run()
    assert [problem.condition for problem in raised.value.problems] == ["no-columns"]


@pytest.mark.parametrize("envelope", ["debezium", "debezium_flat"])
def test_declared_columns_that_changes_do_not_have_are_told(
    project: Project, envelope: str
) -> None:
    """A NULL is one, a column that is not there another; that it stands in the row
    before makes no difference."""
    project.stream(
        "s", {"id": "int", "note": "string", "n": "int"}, envelope=envelope, key=["id"]
    )
    for policy in ("append_new_columns", "fail"):
        project.model(
            policy,
            "SELECT id, note, n FROM {s}",
            mode="cdc",
            keys="id",
            on_schema_change=policy,
        )
    rows: list[Row] = [
        {"id": 1, "note": None, "n": None},
        {"id": 2, "memo": "m", "n": 2},
        {"id": 3, "memo": "m"},
        {"id": 4, "note": "x", "n": 4},
    ]
    is_flat = envelope == "debezium_flat"
    values = [
        {**row, "__op": "c"} if is_flat else {"op": "c", "after": row, "source": SOURCE}
        for row in rows
    ]
    deleted = (
        {"id": 9, "__deleted": "true"}
        if is_flat
        else {"op": "d", "before": {"id": 9}, "source": SOURCE}
    )
    keys = [*(row["id"] for row in rows), 9]
    project.record(
        "s",
        [
            Fields(key={"id": key}, value=it)
            for key, it in zip(keys, [*values, deleted], strict=True)
        ],
    )

    ran = project.run()

    (told,) = ran.of(ColumnsAbsent)
    assert (told.model, told.changes, told.absent, told.undeclared) == (
        "append_new_columns",
        2,
        ("n", "note"),
        ("memo",),
    )
    assert ran.finished("append_new_columns").warnings == (f"stream s: {told.text}",)
    assert [row["note"] for row in project.rows("append_new_columns", "id")] == [
        None,
        None,
        None,
        "x",
    ]
    assert ran.conditions("fail") == ["feed-changed"]
    assert project.rows("fail") == [] and project.snapshot_ids("fail") == []


def test_a_column_that_changes_do_not_have_any_more_is_told(project: Project) -> None:
    """Such as a generated one, which Postgres' log does not have and a snapshot
    does."""
    feed(project)
    project.record("s", [change("r", {"id": 1, "twice": 2}, id=LONG, twice=LONG)])
    project.record("s", [change("u", {"id": 1}, id=LONG)])
    ran = project.run().check()
    assert project.rows("m") == [{"id": 1, "twice": None}]
    (told,) = ran.of(ColumnsAbsent)
    assert (told.model, told.batch, told.changes, told.absent, told.undeclared) == (
        "m",
        1,
        1,
        ("twice",),
        (),
    )


def test_a_tombstone_whose_key_is_a_decimal_is_read_as_the_feed_writes_it(
    project: Project,
) -> None:
    """Beside keys no schema stands, as `key.converter.schemas.enable=false` has it;
    each delete has its tombstone."""
    feed(project)
    kinds = {"id": decimal(10, 2), "v": TEXT}
    ids = ["AN4=", "AZo=", "9g=="]  # 2.22, 4.10, -0.10

    def bare(record: Fields) -> Fields:
        return Fields(record, key=record["key"]["payload"])

    rows = [bare(change("c", {"id": each, "v": each}, **kinds)) for each in ids]
    kinds["id"] = decimal(12, 2)  # the key is widened
    gone = bare(change("d", {"id": ids[0], "v": None}, **kinds))
    project.record(
        "s",
        [
            *rows,
            gone,
            Fields(key={"id": ids[0]}, value=None),
            Fields(key={"id": ids[1]}, value=None),
        ],
    )

    project.run().check()

    assert project.rows("m") == [{"id": Decimal("-0.10"), "v": ids[2]}]
    assert project.reasons("m") == {}
