"""Change feeds in files: their tables are those of the same changes in a topic."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from lakesql.engine.sources.file_order import in_order
from tests.spark.project import Fields, Project

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {"id": {"type": "int", "required": True}, "v": "string"}
START_S = 1_790_000_000
BATCHES = 2
SEEDS = (1,)
LINES = 200_000
"""So many lines have more bytes than one task reads."""


def feed(seed: int) -> list[dict[str, Any]]:
    """Events of Debezium's: of rows that come and go, of truncates, and of a snapshot
    beside an open transaction."""
    chance, there, events = random.Random(seed), set[int](), list[dict[str, Any]]()
    for number in range(40):
        id_ = chance.randrange(6)
        row = {"id": id_, "v": f"{seed}.{number}"}
        source = {
            "lsn": 100 + number,
            "snapshot": "false",
            "ts_ms": 1_790_000_000_000 + number * 1000,
        }
        if chance.random() < 0.05:
            events.append({"op": "t", "before": None, "after": None, "source": source})
            there.clear()
        elif chance.random() < 0.1:
            # The place at which a snapshot began is greater than those of the changes
            # that follow.
            events.append(
                {
                    "op": "r",
                    "before": None,
                    "after": row,
                    "source": {**source, "lsn": 105 + number},
                }
            )
            there.add(id_)
        elif id_ in there and chance.random() < 0.4:
            events.append(
                {
                    "op": "d",
                    "before": {"id": id_, "v": None},
                    "after": None,
                    "source": source,
                }
            )
            there.remove(id_)
        else:
            events.append(
                {
                    "op": "u" if id_ in there else "c",
                    "before": None,
                    "after": row,
                    "source": source,
                }
            )
            there.add(id_)
    return events


def flat(event: dict[str, Any]) -> dict[str, Any]:
    row = event["before"] if event["op"] == "d" else event["after"]
    added = {
        "__op": event["op"],
        "__lsn": event["source"]["lsn"],
        "__source_ts_ms": event["source"]["ts_ms"],
    }
    return {**row, **added, "__deleted": str(event["op"] == "d").lower()}


def key_of(event: dict[str, Any]) -> dict[str, Any] | None:
    row = event["after"] or event["before"]
    return {"id": row["id"]} if row else None


def write_files(
    project: Project, folder: str, events: list[dict[str, Any]], batch: int
) -> None:
    """The events in files of a few lines each, whose names say nothing of their order:
    their times do."""
    for number, at in enumerate(range(0, len(events), 4)):
        lines = events[at : at + 4]
        order = batch * 100 + number
        name = f"{order * 37 % 101:03}-{order}"
        file = project.write(
            f"landing/{folder}/{name}.json",
            "".join(f"{json.dumps(line)}\n" for line in lines),
        )
        os.utime(file, (START_S + order, START_S + order))


ARRIVAL = ("SELECT id, v FROM {%s}", {"mode": "cdc"})
POSITION = (
    "SELECT id, v, _change.position AS at FROM {%s}",
    {"mode": "cdc", "sequence_by": "_change.position"},
)
HISTORY = (
    "SELECT id, v, _change.ts AS at FROM {%s}",
    {"mode": "scd2", "sequence_by": "_change.ts"},
)
MODELS = {
    "debezium": {"arrival": ARRIVAL, "position": POSITION},
    "debezium_flat": {"history": HISTORY},
}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tables_are_those_of_a_topic(project: Project, seed: int) -> None:
    events = feed(seed)
    assert any(event["op"] == "t" for event in events), "the feed has a truncate"
    feeds = {
        "debezium": events,
        "debezium_flat": [flat(event) for event in events if event["op"] != "t"],
    }
    for envelope, models in MODELS.items():
        says = {"envelope": envelope, "key": ["id"]}
        project.stream(envelope, COLUMNS, **says)
        project.stream(
            f"{envelope}_files", COLUMNS, **says, path=f"landing/{envelope}/*.json"
        )
        for kind, (select, config) in models.items():
            for stream in (envelope, f"{envelope}_files"):
                project.model(f"{kind}_{stream}", select % stream, keys="id", **config)
    names = [
        f"{kind}_{envelope}" for envelope, models in MODELS.items() for kind in models
    ]
    for batch in range(BATCHES):
        for envelope, sent in feeds.items():
            part = sent[
                batch * len(sent) // BATCHES : (batch + 1) * len(sent) // BATCHES
            ]
            keys = [
                key_of(event) if "op" in event else {"id": event["id"]}
                for event in part
            ]
            project.record(
                envelope,
                [
                    Fields(key=key, value=event)
                    for key, event in zip(keys, part, strict=True)
                ],
            )
            write_files(project, envelope, part, batch)
        project.run(hangs_after_s=1200.0).check()
        for name in names:
            assert project.rows(f"{name}_files") == project.rows(name), (name, batch)
            assert project.rows(name)
            assert not project.reasons(f"{name}_files")


def test_parts_of_one_file_are_in_their_order(project: Project) -> None:
    """A file that several tasks read, and the records behind its name."""
    # the keys of the model are its key
    project.stream("s", COLUMNS, envelope="debezium", path="landing/**/*.json")
    project.model(
        "m",
        "SELECT id, v, _record.topic AS topic, _record.offset AS at FROM {s}",
        mode="cdc",
        keys="id",
    )
    lines = [
        json.dumps({"op": "u", "after": {"id": n % 7, "v": f"{n}"}, "source": {}})
        for n in range(LINES)
    ]
    project.write("landing/deep/one.json", "\n".join([*lines, "no event", ""]))
    project.run().check()
    found = {
        row["id"]: (row["v"], row["topic"].rsplit("/", 1)[-1], row["at"])
        for row in project.rows("m")
    }
    assert found == {n % 7: (f"{n}", "one.json", None) for n in range(LINES - 7, LINES)}
    (letter,) = project.rows("m__dead_letter")
    assert (letter["value"], letter["offset"]) == (b"no event", None)
    assert letter["topic"].endswith("/one.json")


def test_files_of_one_time_go_by_their_names() -> None:
    assert in_order([("b", 2), ("c", 1), ("a", 2)]) == ["c", "a", "b"]
