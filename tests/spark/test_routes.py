"""One file that makes a table of each value of a column, of the records of one
topic."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest

from lakesql.events import Noted
from tests.spark.project import Fields, Project, Row, in_bytes, use_schema_folder
from tests.spark.test_registry import framed
from tests.spark.test_registry_feed import framed as avro_value
from tests.spark.test_replay_letters import replay

pytestmark = pytest.mark.long

COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "n": "int",
    "header": "struct<type:string,at:bigint>",
}
KINDS = ("order_created", "order_paid", "pay/ment", "audit_x")


def declare(project: Project, **options: Any) -> None:
    project.stream("events", COLUMNS, key=["id"])
    tables = {
        "route": "header.type",
        "exclude": ["audit_*"],
        **options.pop("tables", {}),
    }
    project.model(
        "ev",
        "SELECT id, n, header.at AS at FROM {events}",
        **{"mode": "append", "tables": tables, **options},
    )


def event(kind: Any, id_: int, n: Any, at: int) -> Row:
    return {"id": id_, "n": n, "header": {"type": kind, "at": at}}


def random_events(seed: int, number: int, first: int) -> list[Row]:
    chance = random.Random(seed)
    return [
        event(chance.choice(KINDS), chance.randrange(5), at, at)
        for at in range(first, first + number)
    ]


def rows_of(events: list[Row], kind: str) -> list[Row]:
    return [
        {"id": e["id"], "n": e["n"], "at": e["header"]["at"]}
        for e in events
        if e["header"]["type"] == kind
    ]


def newest(rows: list[Row]) -> list[Row]:
    found: dict[int, Row] = {}
    for row in rows:
        found[row["id"]] = row
    return sorted(found.values(), key=lambda row: row["at"])


TABLES = {
    "order_created": "order_created",
    "order_paid": "order_paid",
    "pay_ment": "pay/ment",
}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_each_value_has_a_table_with_its_records(project: Project, mode: str) -> None:
    """Compared with what plain Python makes of the same records."""
    declare(
        project,
        mode=mode,
        **({"keys": ["id"], "sequence_by": "at"} if mode == "upsert" else {}),
    )
    events: list[Row] = []
    for number in range(3):
        sent = random_events(number, 40, len(events))
        events += sent
        project.record(
            "events", [Fields(key={"id": each["id"]}, value=each) for each in sent]
        )
        project.run().check()
    for name, kind in TABLES.items():
        wanted = rows_of(events, kind)
        assert project.rows(name, "at") == (
            newest(wanted) if mode == "upsert" else wanted
        )
    assert not project.has("audit_x")


SCHEMA = {
    "type": "record",
    "name": "E",
    "fields": [{"name": "id", "type": "long"}, {"name": "kind", "type": "string"}],
}
WRITERS: dict[str, Callable[[Row], bytes]] = {
    "avro": lambda row: avro_value(1, SCHEMA, row),
    "json_schema": lambda row: framed(1, json.dumps(row).encode()),
    "csv": lambda row: f"{row['id']},{row['kind']}".encode(),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_records_of_other_formats_are_told_apart(project: Project, kind: str) -> None:
    """Values of what is JSON, or can be, are seen at once; of the others the first is
    declared."""
    use_schema_folder(project)
    project.write("schemas/1.avsc", json.dumps(SCHEMA))
    registry = {"registry": "schemas"} if kind == "avro" else {}
    project.stream(
        "events", {"id": "bigint", "kind": "string"}, format=kind, **registry
    )
    project.model(
        "ev",
        "SELECT id FROM {events}",
        mode="append",
        tables={"route": "kind", "exclude": ["no"]},
    )
    project.record(
        "events",
        [in_bytes(WRITERS[kind]({"id": at, "kind": "ab"[at % 2]})) for at in range(6)],
    )
    if kind == "csv":
        (warning,) = project.manifest().warnings
        assert warning.condition == "group-empty"
        assert "Declare one" in warning.fix
        project.write("streams/more.yml", "source_tables: [{stream: events, name: b}]")
    else:
        assert [*project.manifest().models] == ["ev.a", "ev.b"]
    project.run().check()
    project.record(
        "events", [in_bytes(WRITERS[kind]({"id": 7, "kind": "c"})), in_bytes(b"1")]
    )
    project.run().check()
    found = {name: [row["id"] for row in project.rows(name, "id")] for name in "abc"}
    assert found == {"a": [0, 2, 4], "b": [1, 3, 5], "c": [7]}
    assert not project.has("no")
    assert {len(project.rows(f"{name}__dead_letter")) for name in "abc"} == {1}


def test_a_value_that_the_newest_records_do_not_have_gets_its_table_in_the_same_run(
    project: Project,
) -> None:
    """A first look is at the newest 1,000 records; the batch finds the one before
    them."""
    declare(project)
    rare = event("rare", 1, 1, 1)
    often = [event("often", 2, at, at) for at in range(2, 1_302)]
    project.record("events", [rare, *often])
    assert [*project.manifest().models] == ["ev.often"]
    project.run().check()
    assert project.rows("rare") == rows_of([rare], "rare")
    assert len(project.rows("often")) == 1_300
    project.record("events", [event("rare", 3, 3, 3)])
    project.run().check()
    assert [row["id"] for row in project.rows("rare", "id")] == [1, 3]


def test_a_value_that_comes_is_not_added_to_a_run_of_some_of_the_group(
    project: Project,
) -> None:
    declare(project)
    project.write(
        "streams/events.tables.yml",
        "source_tables: [{stream: events, name: a}, {stream: events, name: b}]",
    )
    project.record(
        "events",
        [event("rare", 1, 1, 1), *(event("a", 2, at, at) for at in range(2, 1_302))],
    )
    ran = project.run("ev.a").check()
    assert not project.has("rare") and any(
        "'ev.rare'" in each.text for each in ran.of(Noted)
    )
    project.run().check()
    assert [row["id"] for row in project.rows("rare")] == [1]


@pytest.mark.parametrize(
    ("new_tables", "succeeds", "said"),
    [("refuse", False, True), ("ignore", True, True)],
)
def test_a_value_that_gets_no_table_is_told(
    project: Project, new_tables: str, succeeds: bool, said: bool
) -> None:
    declare(project, tables={"new_tables": new_tables})
    project.write(
        "streams/events.tables.yml", "source_tables: [{stream: events, name: often}]"
    )
    project.record(
        "events",
        [
            event("rare", 1, 1, 1),
            *(event("often", 2, at, at) for at in range(2, 1_302)),
        ],
    )
    assert project.manifest().warnings == ()
    ran = project.run()
    assert ran.succeeded == succeeds
    assert ("'rare'" in "\n".join(each.text for each in ran.of(Noted))) == said
    assert len(project.rows("often")) == 1_300 and not project.has("rare")
    (warning,) = project.manifest().warnings
    assert (
        warning.condition
        == {"refuse": "new-table", "ignore": "table-left-out"}[new_tables]
    )
    assert project.manifest().lacks_tables(project.manifest().models) != succeeds
    project.write("streams/more.yml", "source_tables: [{stream: events, name: rare}]")
    project.run().check()
    assert [row["id"] for row in project.rows("rare")] == [1]


def test_a_bad_record_is_a_dead_letter_of_its_own_table_and_of_all_where_it_has_none(
    project: Project,
) -> None:
    declare(project)
    good = [event("a", 1, 1, 1), event("b", 1, 1, 1)]
    bad = [event("a", 2, "x", 2), {"n": 1, "header": {"type": "b"}}]
    nobody: list[Any] = [
        event(None, 3, 3, 3),
        {"id": 4},
        event("long" * 300, 5, 5, 5),
        "no object",
    ]
    project.record("events", [*good, *bad, *nobody])
    project.run()
    details: dict[str, list[str]] = defaultdict(list)
    for table in ("a", "b"):
        assert project.rows(table) == [{"id": 1, "n": 1, "at": 1}]
        found = sorted(
            project.rows(f"{table}__dead_letter"), key=lambda row: row["offset"]
        )
        details[table] = [
            f"{row['offset']} {row['reason']}: {row['detail'][:26]}" for row in found
        ]
    shared = [
        "4 required-missing: header.type: no text of 1,",
        "5 required-missing: header.type: no text of 1,",
        "6 unparsable: header.type: no text of 1,",
        "7 unparsable: not a JSON object",
    ]
    assert details["a"][1:] == shared and details["b"][1:] == shared
    assert [details[table][0].split(":")[0] for table in ("a", "b")] == [
        "2 unparsable",
        "3 required-missing",
    ]


def test_a_record_without_a_value_deletes_the_row_of_its_key(project: Project) -> None:
    declare(project, mode="upsert", keys=["id"])
    sent = [event("a", 1, 1, 1), event("b", 2, 2, 2), event("a", 3, 3, 3)]
    project.record(
        "events", [Fields(key={"id": each["id"]}, value=each) for each in sent]
    )
    project.run().check()
    project.record("events", [Fields(key={"id": 1}, value=None)])
    project.run().check()
    assert [[row["id"] for row in project.rows(table)] for table in ("a", "b")] == [
        [3],
        [2],
    ]
    assert not project.reasons("a") and not project.reasons("b")


def test_a_file_of_its_own_takes_a_value_out_of_the_group(project: Project) -> None:
    declare(project)
    project.model("ev.a", "SELECT id, n * 2 AS twice FROM {events}", mode="append")
    project.record(
        "events", [event("a", 1, 1, 1), event("b", 2, 2, 2), event("a", 3, 3, 3)]
    )
    project.run().check()
    assert project.rows("a", "id") == [{"id": 1, "twice": 2}, {"id": 3, "twice": 6}]
    assert [row["id"] for row in project.rows("b")] == [2]


def test_the_versions_of_each_key_are_kept(project: Project) -> None:
    declare(project, mode="scd2", keys=["id"], sequence_by="at")
    project.record(
        "events", [event("a", 1, 1, 1), event("b", 1, 2, 2), event("a", 1, 3, 3)]
    )
    project.run().check()
    assert [row["n"] for row in project.rows("a", "n")] == [1, 3]
    assert [row["n"] for row in project.rows("b")] == [2]


VALUES = ["axb", "a*b", "a.b", "aXXb", "b[1]", "b1", "c\nd", "cd", "q?r", "-", "Axb"]
PATTERNS = ["a?b", "a[*]b", "*b*1*", "[!a-c]*", "c*d", "?"]


def test_a_batch_reads_patterns_as_the_project_does(project: Project) -> None:
    """Of values that no first look has seen."""
    for number, pattern in enumerate(PATTERNS):
        tables = {
            "route": "kind",
            "include": [pattern, "known"],
            "exclude": ["-"],
            "new_tables": "ignore",
        }
        project.stream(f"e{number}", {"kind": "string"}, topic="values")
        project.model(
            f"m{number}",
            f"SELECT * FROM {{e{number}}}",
            mode="append",
            tables={**tables, "name": f"{{value}}_{number}"},
        )
        project.write(
            f"streams/t{number}.yml",
            f"source_tables: [{{stream: e{number}, name: known}}]",
        )
    project.record("values", [{"kind": value} for value in (*VALUES, *["bbb"] * 1_000)])
    assert project.manifest().warnings == ()
    project.run().check()
    left_out = {warning.what for warning in project.manifest().warnings}
    wanted = {
        f"Table {value!r} has come into stream 'e{number}', and is not in the project."
        for number, pattern in enumerate(PATTERNS)
        for value in VALUES
        if fnmatchcase(value, pattern) and value != "-"
    }
    assert left_out == wanted and len(wanted) > 8


def test_a_table_is_rebuilt_alone_and_its_dead_letters_are_replayed(
    project: Project,
) -> None:
    declare(project)
    project.record(
        "events",
        [
            event("a", 1, 1, 1),
            event("b", 1, 1, 1),
            event("a", 2, "x", 2),
            event(None, 3, 3, 3),
        ],
    )
    project.run()
    assert project.reasons("a") == {"unparsable": 1, "required-missing": 1}
    before = project.snapshot_ids("b")
    project.stream("events", {**COLUMNS, "n": "string"}, key=["id"])
    project.model(
        "ev",
        "SELECT id, try_cast(n AS int) AS n, header.at AS at FROM {events}",
        mode="append",
        tables=TABLE,
    )
    assert replay(project, "ev.a").failing == {"required-missing": 1}
    assert project.rows("a", "id") == [
        {"id": 1, "n": 1, "at": 1},
        {"id": 2, "n": None, "at": 2},
    ]
    project.rebuild("ev.a").check()
    assert project.rows("a", "id") == [
        {"id": 1, "n": 1, "at": 1},
        {"id": 2, "n": None, "at": 2},
    ]
    assert project.snapshot_ids("b") == before


TABLE = {"route": "header.type", "exclude": ["audit_*"]}
