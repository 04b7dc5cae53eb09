"""What a SELECT makes of a record's place: its own columns stay behind, and arrival
decides through any SELECT."""

from __future__ import annotations

import pytest

from lakesql.events import BatchCommitted
from tests.spark.project import T0_MS, Fields, Project

COLUMNS = {"id": "int", "v": "string"}


def test_lakesqls_own_columns_land_only_under_a_name(project: Project) -> None:
    project.stream("s", COLUMNS)
    project.model("star", "SELECT * FROM {s}", mode="append")
    project.model(
        "aliased", "SELECT o.*, o._record.offset AS at FROM {s} AS o", mode="append"
    )
    project.model("whole", "SELECT id, _record AS record FROM {s}", mode="append")
    project.model(
        "fields",
        "SELECT _record.topic, _record.partition AS p, _record.offset, _record.timestamp AS t, "
        "CAST(_record.key AS string) AS k, _record.headers AS h FROM {s}",
        mode="upsert",
        keys=["p", "offset"],
    )
    headers = [["trace", "é1"], ["trace", "2"]]
    project.record(
        "s",
        [
            Fields(
                partition=3,
                offset=41,
                key="k1",
                headers=headers,
                value={"id": 1, "v": "a"},
            )
        ],
    )

    project.run().check()

    assert project.rows("star") == [{"id": 1, "v": "a"}]
    assert project.rows("aliased") == [{"id": 1, "v": "a", "at": 41}]
    (fields,) = project.rows("fields")
    assert fields.pop("t").timestamp() * 1000 == T0_MS + 1000
    assert fields == {
        "topic": "s",
        "p": 3,
        "offset": 41,
        "k": "k1",
        "h": [
            {"key": "trace", "value": "é1".encode()},
            {"key": "trace", "value": b"2"},
        ],
    }
    ((key, record),) = [(row["id"], row["record"]) for row in project.rows("whole")]
    assert key == 1
    assert (record["topic"], record["partition"], record["offset"], record["key"]) == (
        "s",
        3,
        41,
        b"k1",
    )


SELECTS = {
    "plain": "SELECT id, v FROM {s}",
    "cte": "WITH a AS (SELECT * FROM {s}), b AS (SELECT id, upper(v) AS v FROM a) SELECT id, lower(v) AS v FROM b",
    "subquery": "SELECT x.id, x.v FROM (SELECT id, v, length(v) AS n FROM {s} WHERE id < 90) AS x WHERE n > 0",
    "joined": "SELECT s.id, concat(s.v, r.suffix) AS v FROM {s} AS s JOIN {suffixes!r} AS r ON r.suffix = ''",
    "left_joined": "SELECT s.*, r.suffix FROM {s} AS s LEFT JOIN {suffixes!r} AS r ON r.suffix = s.v",
    "in_table": "SELECT id, v FROM {s} WHERE '' IN (SELECT suffix FROM {suffixes!r})",
    "lateral": "SELECT id, part AS v FROM {s} LATERAL VIEW explode(array(v)) AS part",
}


@pytest.fixture
def arrivals(project: Project) -> Project:
    """Records of three keys in an order that only their offsets tell."""
    project.stream("suffix", {"suffix": "string"})
    project.model("suffixes", "SELECT * FROM {suffix}", mode="append")
    project.record("suffix", [{"suffix": ""}])
    project.stream("s", COLUMNS)
    offsets = [8, 3, 5, 9, 1, 2, 7, 4, 6, 0]
    rows = [
        Fields(offset=offset, value={"id": offset % 3, "v": f"v{offset}"})
        for offset in offsets
    ]
    project.record("s", rows)
    return project


def test_arrival_decides_through_every_shape_of_select(arrivals: Project) -> None:
    for name, select in SELECTS.items():
        arrivals.model(name, select, mode="upsert", keys="id")

    arrivals.run().check()

    for name in SELECTS:
        assert {row["id"]: row["v"] for row in arrivals.rows(name)} == {
            0: "v9",
            1: "v7",
            2: "v8",
        }, name
        assert not [
            column for column in arrivals.rows(name)[0] if column.startswith("_")
        ], name


def test_a_union_of_streams_keeps_each_rows_position(project: Project) -> None:
    project.stream("a", COLUMNS)
    project.stream("b", {"key": "int", "text": "string"})
    two = "SELECT id, v FROM {a} UNION ALL SELECT key, text FROM {b} WHERE key > 1"
    one = "SELECT id, v FROM {a} UNION ALL SELECT id + 10, v FROM {a} WHERE id < 3"
    project.model("two", two, mode="append")
    project.model("two_keyed", two, mode="upsert", keys="id")
    project.model("one", one, mode="append")
    project.model("one_keyed", one, mode="upsert", keys="id")
    project.record(
        "a",
        [
            {"id": 1, "v": "a1"},
            {"id": 2, "v": "a2"},
            {"id": 2, "v": "a3"},
            {"id": 3, "v": "a4"},
            "x",
        ],
    )
    project.record(
        "b",
        [
            {"key": 1, "text": "b1"},
            {"key": 2, "text": "b2"},
            {"key": None, "text": "b3"},
            "y",
            "z",
        ],
    )

    ran = project.run().check()

    assert [(row["id"], row["v"]) for row in project.rows("two", "v")] == [
        (1, "a1"),
        (2, "a2"),
        (2, "a3"),
        (3, "a4"),
        (2, "b2"),
    ]
    # Between topics the topic's name decides.
    assert {row["id"]: row["v"] for row in project.rows("two_keyed")} == {
        1: "a1",
        2: "b2",
        3: "a4",
    }
    ones = sorted((row["id"], row["v"]) for row in project.rows("one"))
    assert ones == [
        (1, "a1"),
        (2, "a2"),
        (2, "a3"),
        (3, "a4"),
        (11, "a1"),
        (12, "a2"),
        (12, "a3"),
    ]
    keyed = {row["id"]: row["v"] for row in project.rows("one_keyed")}
    assert keyed == {1: "a1", 2: "a3", 3: "a4", 11: "a1", 12: "a3"}
    for name in ("two", "two_keyed"):
        assert project.reasons(name) == {"unparsable": 3}
        assert {row["stream"] for row in project.rows(f"{name}__dead_letter")} == {
            "a",
            "b",
        }
    for name in ("one", "one_keyed"):
        assert project.reasons(name) == {"unparsable": 1}
    for name, records in (("two", 10), ("two_keyed", 10), ("one", 5), ("one_keyed", 5)):
        (commit,) = ran.of(BatchCommitted, name)
        assert (name, commit.records, commit.rejected) == (
            name,
            records,
            3 if records == 10 else 1,
        )


def test_rows_exploded_from_one_record_share_its_position(project: Project) -> None:
    """The last of a record's rows has the record's position too: which one wins is the
    SELECT's to say."""
    project.stream("s", {"id": "int", "tags": "array<string>"})
    project.model(
        "m",
        "SELECT id, tag FROM {s} LATERAL VIEW explode(tags) AS tag",
        mode="upsert",
        keys=["id", "tag"],
    )
    project.record(
        "s",
        [
            {"id": 1, "tags": ["x", "y", None]},
            {"id": None, "tags": ["p", "q"]},
            {"id": 2, "tags": []},
        ],
    )

    ran = project.run().check()

    assert [(row["id"], row["tag"]) for row in project.rows("m", "tag")] == [
        (1, "x"),
        (1, "y"),
    ]
    letters = project.rows("m__dead_letter", "offset")
    assert [(letter["offset"], letter["detail"]) for letter in letters] == [
        (0, "tag"),
        (1, "id"),
    ]
    (commit,) = ran.of(BatchCommitted)
    assert commit.rejected == 2
