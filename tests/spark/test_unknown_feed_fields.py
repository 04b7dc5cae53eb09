"""Fields of a feed's rows that no contract knows: kept in `_rescued` as they stand in
the event, or a dead letter."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from lakesql.observe.status_text import remarks
from lakesql.run.tell.status import read_statuses
from tests.spark.project import Fields, Project
from tests.spark.test_replay_letters import replay
from tests.spark.test_unknown_fields import parse

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {
    "id": {"type": "int", "required": True},
    "v": "string",
    "n": "struct<p:int>",
}
KNOWN = {"id", "v", "n"}
EXTRAS = [
    '"x": 1.10',
    '"_note": {"k": [2.50, "__op"]}',
    '"a.b": null',
    '"after": {"id": 9}',
    '"V": "v"',
    '"é": "\\u00e9"',
]
KEYS = 40


def image(chance: random.Random, key: int, lsn: int) -> str:
    """A row as it stands in an event, with other fields in it."""
    others = chance.sample(EXTRAS, chance.choice([0, 0, 1, 2]))
    inner = '{"p": 1, "q": 2.0}' if chance.random() < 0.2 else '{"p": 1}'
    fields = [f'"id": {key}', f'"v": "{lsn}"', f'"n": {inner}', *others]
    chance.shuffle(fields)
    return f"{{{', '.join(fields)}}}"


def unknown_of(row: str) -> dict[str, Any]:
    """The fields that the contract does not know: this test's own reading of what the
    docs say."""
    document = dict(parse(row))
    found = {
        f"`{name}`" if "." in name else name: value
        for name, value in document.items()
        if name not in KNOWN
    }
    return found | {f"n.{name}": value for name, value in document["n"] if name != "p"}


def debezium(op: str, lsn: int, after: str, before: str, wraps: bool) -> str:
    source = json.dumps({"lsn": lsn, "snapshot": "false", "ts_ms": 1})
    event = f'{{"before": {before}, "after": {after}, "op": "{op}", "ts_ms": 1, "source": {source}}}'
    return f'{{"schema": {{"fields": []}}, "payload": {event}}}' if wraps else event


def flat(op: str, lsn: int, after: str, before: str, wraps: bool) -> str:
    row = before if op == "d" else after
    own = f'"__op": "{op}", "__lsn": {lsn}, "__table": "t", "__deleted": "{str(op == "d").lower()}"'
    return f"{row[:-1]}, {own}}}"


def dms(op: str, lsn: int, after: str, before: str, wraps: bool) -> str:
    operation = {"c": "insert", "u": "update", "d": "delete"}[op]
    metadata = {
        "record-type": "data",
        "operation": operation,
        "schema-name": "public",
        "table-name": "t",
    }
    metadata["stream-position"] = f"0/{lsn:08X}.0"
    row = before if op == "d" else after
    return f'{{"data": {row}, "metadata": {json.dumps(metadata)}}}'


ENVELOPES = {"debezium": debezium, "debezium_flat": flat, "dms": dms}


def changes(seed: int) -> Iterator[tuple[int, str, int, str, str]]:
    """Each change: the key, what happened, its place, and the rows after and before
    it."""
    chance, rows = random.Random(seed), dict[int, str]()
    for lsn in range(1, 8 * KEYS):
        key = chance.randrange(KEYS)
        before = rows.pop(key, "null")
        if before != "null" and chance.random() < 0.3:
            yield key, "d", lsn, "null", before
            continue
        rows[key] = image(chance, key, lsn)
        yield key, "c" if before == "null" else "u", lsn, rows[key], before


def test_mirrors_have_what_the_newest_change_of_a_row_says(
    project: Project, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed")
    every, rows, logged = [*changes(seed)], dict[int, str](), list[tuple[str, str]]()
    for key, op, lsn, after, _ in every:
        rows[key] = after
        logged.append((str(lsn) if op != "d" else "", after))
    expected = {key: unknown_of(row) for key, row in rows.items() if row != "null"}
    assert any(expected.values()) and not all(expected.values())
    position = {"sequence_by": "_change.position"}
    for name, envelope in ENVELOPES.items():
        of_table = {"source_table": "public.t"} if name == "dms" else {}
        project.stream(
            name,
            COLUMNS,
            envelope=name,
            key=["id"],
            unknown_fields="rescue",
            max_per_batch=200,
            **of_table,
        )
        project.model(
            f"{name}_mirror", f"SELECT * FROM {{{name}}}", mode="cdc", keys="id"
        )
        selected = f"SELECT id, v, n, _rescued AS others, _change.position AS at FROM {{{name}}}"
        project.model(f"{name}_placed", selected, mode="cdc", keys="id", **position)
        project.model(
            f"{name}_log",
            f"SELECT v, _rescued, _change.op AS op FROM {{{name}}}",
            mode="append",
        )
        sent = (
            Fields(
                key={"id": key},
                value=envelope(op, lsn, after, before, wraps=lsn % 3 == 0),
            )
            for key, op, lsn, after, before in every
        )
        project.record(name, list(sent))

    ran = project.run().check()

    for name in ENVELOPES:
        for model, column in (
            (f"{name}_mirror", "_rescued"),
            (f"{name}_placed", "others"),
        ):
            there = {
                row["id"]: dict(parse(row[column])) if row[column] else {}
                for row in project.rows(model)
            }
            wrong = {
                key: (there.get(key), row)
                for key, row in expected.items()
                if there.get(key) != row
            }
            assert there.keys() == expected.keys() and not wrong, (model, wrong)
        log = project.rows(f"{name}_log")
        assert all(row["_rescued"] is None for row in log if row["op"] == "d")
        found = {
            row["v"]: dict(parse(row["_rescued"])) if row["_rescued"] else {}
            for row in log
            if row["op"] != "d"
        }
        assert found == {lsn: unknown_of(after) for lsn, after in logged if lsn}
        (told,) = ran.finished(f"{name}_log").rescued
        assert told.records == sum(
            1 for lsn, after in logged if lsn and unknown_of(after)
        )
        assert "n.q" in told.fields or len(told.fields) >= 5
        assert not project.reasons(f"{name}_log")
    (status,) = read_statuses(
        project.manifest(), ["dms_mirror"], ran.finished("dms_mirror").at_ms + 1_000
    )
    assert any("_rescued" in each for each in remarks(status))


@pytest.mark.parametrize("name", ENVELOPES)
def test_changes_with_new_fields_are_dead_letters_but_deletes_are_not(
    project: Project, name: str
) -> None:
    of_table = {"source_table": "public.t"} if name == "dms" else {}
    options = {
        "envelope": name,
        "key": ["id"],
        "unknown_fields": "dead_letter",
        **of_table,
    }
    project.stream("s", COLUMNS, **options)
    project.model("m", "SELECT id, v FROM {s}", mode="append")
    old, new = (
        '{"id": %d, "v": "a", "n": null}',
        '{"id": %d, "v": "b", "n": {"p": 1}, "x": 1}',
    )
    events = [
        ("c", old % 1, "null"),
        ("u", new % 1, old % 1),
        ("d", "null", new % 1),
        ("c", new % 2, "null"),
    ]
    each = (
        ENVELOPES[name](op, at, after, before, wraps=False)
        for at, (op, after, before) in enumerate(events, 1)
    )
    project.record("s", [Fields(key={"id": 1}, value=value) for value in each])

    project.run().check()

    assert project.reasons("m") == {"undeclared-field": 2}
    details = {row["detail"] for row in project.rows("m__dead_letter")}
    assert details == {"x: the contract has no such field"}
    assert (
        sorted(row["v"] for row in project.rows("m")) == ["a", "b"]
        or name == "debezium"
    )
    project.stream("s", {**COLUMNS, "x": "int"}, **options)
    replay(project)
    assert not [
        row for row in project.rows("m__dead_letter") if row.get("status") == "waiting"
    ]
    assert len(project.rows("m")) == 4


def test_a_row_too_deep_to_be_told_apart_is_a_dead_letter(project: Project) -> None:
    deep = "[" * 30 + "]" * 30
    project.stream(
        "s", COLUMNS, envelope="debezium", key=["id"], unknown_fields="rescue"
    )
    project.model("m", "SELECT * FROM {s}", mode="append")
    rows = [f'{{"id": 1, "x": {deep}}}', '{"id": 2, "x": NaN}', '{"id": 3}']
    project.record(
        "s", [Fields(value=debezium("c", 1, row, "null", wraps=False)) for row in rows]
    )

    project.run().check()

    assert [(row["id"], row["_rescued"]) for row in project.rows("m", "id")] == [
        (2, '{"x":"NaN"}'),
        (3, None),
    ]
    assert project.reasons("m") == {"undeclared-field": 1}
