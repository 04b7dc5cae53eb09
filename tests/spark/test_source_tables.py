"""Changes of several tables of a database in one topic: those of one are taken, or the
model stops."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.spark.project import Fields, Project

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {"id": {"type": "int", "required": True}, "v": "string"}
BATCHES = 3
TABLES = ("t0", "t1", "t10")


class Sent(NamedTuple):
    """A change of a row: the table, what happened, the key and the value after it."""

    table: str
    op: str
    id: int
    v: str | None


def feed(seed: int) -> list[list[Sent]]:
    """The changes of one topic, by the batch that they come in: of one table, of two,
    or of three."""
    chance = random.Random(seed)
    tables = TABLES[: 1 + seed % 3]
    there: set[tuple[str, int]] = set()
    found: list[list[Sent]] = []
    for batch in range(BATCHES):
        # Another table comes in the first batch of some feeds, and in the last one of
        # others.
        of_batch = tables if batch >= seed // 2 else tables[:1]
        sent = []
        for number in range(chance.randrange(3, 9)):
            table, id_ = chance.choice(of_batch), chance.randrange(3)
            is_there = (table, id_) in there
            op = chance.choice("ud") if is_there else "c"
            there ^= {(table, id_)} if op in "cd" else set()
            sent.append(
                Sent(table, op, id_, None if op == "d" else f"{table}.{batch}.{number}")
            )
        found.append([*sent, Sent(of_batch[-1], "u", 9, f"{of_batch[-1]}.{batch}")])
    return found


def rows_of(
    changes: list[Sent], tables: tuple[str, ...] = TABLES
) -> dict[int, str | None]:
    """What a mirror of these tables has."""
    rows: dict[int, str | None] = {}
    for sent in changes:
        if sent.table in tables:
            rows[sent.id] = sent.v
    return {id_: v for id_, v in rows.items() if v is not None}


def debezium(sent: Sent) -> Any:
    row = {"id": sent.id, "v": sent.v}
    sides = (
        {"before": row, "after": None}
        if sent.op == "d"
        else {"before": None, "after": row}
    )
    return {
        "op": sent.op,
        **sides,
        "source": {"db": "d", "schema": "public", "table": sent.table, "lsn": 1},
    }


def mysql(sent: Sent) -> Any:
    return debezium(sent) | {
        "source": {
            "db": "public",
            "table": sent.table,
            "file": "bin.1",
            "pos": 4,
            "row": 0,
        }
    }


def flat(sent: Sent) -> Any:
    added = {"__op": sent.op, "__source_schema": "public", "__table": sent.table}
    return {
        "id": sent.id,
        "v": sent.v,
        **added,
        "__deleted": str(sent.op == "d").lower(),
    }


def dms(sent: Sent) -> Any:
    operation = {"c": "insert", "u": "update", "d": "delete"}[sent.op]
    metadata = {
        "record-type": "data",
        "operation": operation,
        "schema-name": "public",
        "table-name": sent.table,
    }
    return {"data": {"id": sent.id, "v": sent.v}, "metadata": metadata}


ENVELOPES = {"debezium": debezium, "mysql": mysql, "debezium_flat": flat, "dms": dms}
SEEDS = range(3)


def test_the_changes_of_one_table_are_taken_or_the_model_stops(
    project: Project,
) -> None:
    for envelope in ENVELOPES:
        says = {"envelope": envelope.replace("mysql", "debezium"), "key": ["id"]}
        for seed in SEEDS:
            topic = f"{envelope}_{seed}"
            project.stream(
                f"{topic}_of_t0", COLUMNS, **says, topic=topic, source_table="public.t0"
            )
            project.model(
                f"{topic}_of_t0",
                f"SELECT id, v FROM {{{topic}_of_t0}}",
                mode="cdc",
                keys="id",
            )
            if envelope != "dms":
                project.stream(topic, COLUMNS, **says)
                project.model(
                    topic, f"SELECT id, v FROM {{{topic}}}", mode="cdc", keys="id"
                )
    known: dict[str, str] = {}
    stopped: dict[str, list[Sent]] = {}
    for batch in range(BATCHES):
        for envelope, written in ENVELOPES.items():
            for seed in SEEDS:
                sent = [
                    Fields(key={"id": each.id}, value=written(each))
                    for each in feed(seed)[batch]
                ]
                project.record(f"{envelope}_{seed}", sent)
        ran = project.run(hangs_after_s=1200.0)
        for envelope in ENVELOPES:
            for seed in SEEDS:
                topic = f"{envelope}_{seed}"
                arrived = [each for part in feed(seed)[: batch + 1] for each in part]
                assert rows(project, f"{topic}_of_t0") == rows_of(arrived, ("t0",)), (
                    topic,
                    batch,
                )
                if envelope == "dms":
                    continue
                tables = {each.table for each in arrived}
                before = [each for part in feed(seed)[:batch] for each in part]
                if len(tables) > 1 and topic not in stopped:
                    stopped[topic] = before
                wanted = ["mixed-source-tables"] if topic in stopped else []
                assert ran.conditions(topic) == wanted, (topic, batch)
                assert rows(project, topic) == rows_of(stopped.get(topic, arrived)), (
                    topic,
                    batch,
                )
                known[topic] = "".join(tables)
    assert {len(found) for found in stopped.values()} > {0}, (
        "a second table came in a first batch, and in a later one"
    )
    assert len(stopped) < len(known), "some feeds have one table"


def rows(project: Project, model: str) -> Mapping[int, str | None]:
    return (
        {row["id"]: row["v"] for row in project.rows(model)}
        if project.has(model)
        else {}
    )


def send(project: Project, topic: str, *changes: Sent, **more: Any) -> None:
    project.record(
        topic,
        [Fields(key={"id": sent.id}, value=debezium(sent), **more) for sent in changes],
    )


FIRST, FOREIGN = Sent("t0", "c", 1, "a"), Sent("t1", "c", 2, "b")


def test_the_advice_is_followed_and_the_model_goes_on(project: Project) -> None:
    """By the table in the stream, by both tables in it, and of an upsert by the SELECT
    too."""
    says = {"envelope": "debezium", "key": ["id"], "topic": "all"}
    upsert = {
        "mode": "upsert",
        "keys": ["id"],
        "delete_when": "op = 'd'",
        "sequence_by": "position",
    }
    fields = "id, v, _change.op AS op, _change.position AS position"
    for name in ("one", "both"):
        project.stream(name, COLUMNS, **says)
        project.model(name, f"SELECT id, v FROM {{{name}}}", mode="cdc", keys="id")
    project.stream("s", COLUMNS, **says)
    project.model(
        "history",
        "SELECT id, v, _change.position AS at FROM {s}",
        mode="scd2",
        keys="id",
        sequence_by="at",
    )
    project.model("plain", f"SELECT {fields} FROM {{s}}", **upsert)
    project.model(
        "filtered",
        f"SELECT {fields} FROM {{s}} WHERE _change.source_table = 't0'",
        **upsert,
    )
    both = {**upsert, "keys": ["id", "source_table"]}
    project.model(
        "keyed",
        f"SELECT {fields}, _change.source_table AS source_table FROM {{s}}",
        **both,
    )
    send(project, "all", FIRST)
    project.run().check()
    send(project, "all", Sent("t1", "d", 1, None), FOREIGN)
    ran = project.run()
    for model in ("one", "both", "plain", "history"):
        (problem,) = ran.finished(model).problems
        assert problem.condition == "mixed-source-tables"
        said = ("d.public.t0", "d.public.t1", "all, partition 0, offset 1")
        assert [words for words in said if words not in problem.what] == [], model
        assert rows(project, model) == {1: "a"}
    assert not project.has("plain__tombstones") or not project.rows(
        "plain__tombstones"
    ), "nothing is remembered of it"
    assert rows(project, "filtered") == {1: "a"}
    assert {(row["id"], row["source_table"]) for row in project.rows("keyed")} == {
        (1, "t0"),
        (2, "t1"),
    }
    project.stream("one", COLUMNS, **says, source_table="public.t0")
    project.stream("both", COLUMNS, **says, source_table="d.public.t*")
    project.run("one", "both").check()
    assert (rows(project, "one"), rows(project, "both")) == ({1: "a"}, {2: "b"})


def test_what_names_no_table_is_no_change_of_one(project: Project) -> None:
    """Where the stream takes those of one table: a tombstone may be of another, and
    some flat ones say none."""
    for envelope in ("debezium", "debezium_flat"):
        project.stream(
            envelope, COLUMNS, envelope=envelope, key=["id"], source_table="public.t0"
        )
        project.model(
            envelope, f"SELECT id, v FROM {{{envelope}}}", mode="cdc", keys="id"
        )
    send(project, "debezium", FIRST, Sent("t1", "d", 1, None))
    project.record(
        "debezium",
        [Fields(key={"id": 1}, value=None), debezium(FIRST) | {"source": {"lsn": 1}}],
    )
    project.record(
        "debezium_flat",
        [Fields(key={"id": 1}, value=flat(FIRST)), Fields(key={"id": 1}, value=None)],
    )
    project.record(
        "debezium_flat", [Fields(key={"id": 2}, value={"id": 2, "v": "c", "__op": "c"})]
    )
    project.run().check()
    assert (rows(project, "debezium"), rows(project, "debezium_flat")) == (
        {1: "a"},
        {1: "a"},
    )
    details = {
        model: [row["detail"] for row in project.rows(f"{model}__dead_letter")]
        for model in ENVELOPES_OF_NONE
    }
    assert {model: len(found) for model, found in details.items()} == {
        "debezium": 1,
        "debezium_flat": 2,
    }
    assert all(
        "names no table" in detail for found in details.values() for detail in found
    )


ENVELOPES_OF_NONE = ("debezium", "debezium_flat")


def test_several_topics_and_a_router_bring_several_tables_on_purpose(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"], topics=["a", "b"])
    project.stream("r", COLUMNS, envelope="debezium", key=["id"])
    for stream in ("s", "r"):
        project.model(stream, f"SELECT id, v FROM {{{stream}}}", mode="cdc", keys="id")
    send(project, "a", FIRST)
    send(project, "b", FOREIGN)
    for sent in (FIRST, FOREIGN):
        key = {
            "id": sent.id,
            "__dbz__physicalTableIdentifier": f"s.public.{sent.table}",
        }
        project.record("r", [Fields(key=key, value=debezium(sent))])
    project.run().check()
    assert rows(project, "s") == rows(project, "r") == {1: "a", 2: "b"}
