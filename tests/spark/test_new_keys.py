"""Keys that no file of the table can have are appended, in the modes that merge, with
the rows of a MERGE."""

from __future__ import annotations

from typing import Any

import pytest

from lakesql.compile.batch import KeyRange
from lakesql.engine.batch.bounds import spare_files
from lakesql.engine.ledger.snapshots import load_table
from lakesql.model.table_name import TableName
from tests.spark.project import Fields, Project
from tests.spark.test_cdc import feed, mirror_by_position, send, send_at, values

pytestmark = pytest.mark.long


def operations(project: Project, model: str) -> list[str]:
    """What Iceberg says of each published snapshot, oldest first; nothing of those that
    only write rows anew."""
    metadata = project.iceberg(model).metadata
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    found, at = [], metadata.current_snapshot_id
    while at is not None:
        found.append(by_id[at].summary.operation.value)
        at = by_id[at].parent_snapshot_id
    return [operation for operation in found[::-1] if operation != "replace"]


@pytest.mark.parametrize("properties", [{}, {"write.merge.mode": "copy-on-write"}])
def test_the_first_rows_are_appended_in_the_order_of_the_table_and_the_next_ones_merged(
    project: Project, properties: dict[str, str]
) -> None:
    project.stream("s", {"id": "int", "p": "int", "v": "int", "at": "int"}, key=["id"])
    select, options = (
        "SELECT id, p, v, at FROM {s}",
        {"properties": properties} if properties else {},
    )
    models: dict[str, dict[str, Any]] = {
        "arrived": {},
        "sequenced": {
            "sequence_by": "at",
            "delete_when": "v < 0",
            "exclude_columns": "v",
        },
        "parts": {"partition_by": ["p"], "ignore_null_updates": True},
    }
    for name, config in models.items():
        project.model(name, select, mode="upsert", keys="id", **config, **options)

    def batch(*rows: tuple[int, int | None, int]) -> None:
        records = [
            Fields(
                key=id_,
                value=None
                if v is None
                else {"id": id_, "p": id_ % 2, "v": v, "at": at},
            )
            for id_, v, at in rows
        ]
        project.record("s", records)
        project.run().check()

    # of 'sequenced' no row: the next batch is the first to bring one
    batch((1, -1, 5), (2, None, 0))
    batch(
        (1, 1, 4),
        (3, 30, 1),
        (4, 40, 1),
        (3, 31, 2),
        (5, 50, 1),
        (5, None, 0),
        (7, 70, 1),
    )
    batch((3, 32, 3), (6, 60, 1), (4, None, 0))
    expected = {
        "arrived": {1: 1, 3: 32, 6: 60, 7: 70},
        "sequenced": {3: 30, 6: 60, 7: 70},
        "parts": {1: 1, 3: 32, 6: 60, 7: 70},
    }
    for name, rows in expected.items():
        assert {row["id"]: row["v"] for row in project.rows(name)} == rows
    assert operations(project, "arrived") == ["append", "overwrite", "overwrite"]
    assert operations(project, "sequenced") == ["append", "append", "overwrite"]
    partitions = project.sql(
        f"SELECT partition, file_count FROM {project.table('parts')}.partitions"
    )
    assert len(partitions) == 2


KEYS: dict[str, list[Any]] = {
    "bigint": [-5, 2**40, 2**40 + 1],
    "string": ["a", "ä" * 20, "ä" * 20 + "b"],
    "date": ["1969-12-30", "2026-03-01", "2026-03-02"],
    "timestamp": [
        "1969-12-31T23:59:59.999999Z",
        "2026-03-01T00:00:00.000001Z",
        "2026-03-01T00:00:00.000002Z",
    ],
    "decimal(20,2)": ["-1.50", "2.00", "2.01"],
}
"""Keys of each type, in their order: the second may be near the third for the
statistics of a file."""


def test_keys_beyond_those_of_all_files_are_appended(project: Project) -> None:
    """Of decimals it is not asked. Texts are cut in the statistics, so that the second
    and the third seem the same."""
    for number, kind in enumerate(KEYS):
        project.stream(f"s{number}", {"k": kind, "v": "int"})
        project.model(
            f"m{number}", f"SELECT k, v FROM {{s{number}}}", mode="upsert", keys="k"
        )
    for value, rows in enumerate([(1, 1), (2,), (0,), (0, 1, 2)]):
        for number, keys in enumerate(KEYS.values()):
            project.record(f"s{number}", [{"k": keys[row], "v": value} for row in rows])
        project.run().check()
    for number, kind in enumerate(KEYS):
        assert [row["v"] for row in project.rows(f"m{number}", "k")] == [3, 3, 3], kind
        if kind not in ("string", "decimal(20,2)"):
            assert operations(project, f"m{number}") == [
                "append",
                "append",
                "append",
                "overwrite",
            ], kind


@pytest.mark.parametrize("step", ["stage", "publish"])
def test_rows_of_another_writer_that_come_meanwhile_are_merged_with(
    project: Project, step: str
) -> None:
    feed(project, v="int")
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys=["id"])
    project.model(
        "soft", "SELECT id, v FROM {s}", mode="cdc", keys=["id"], apply_deletes="soft"
    )
    send(project, ("r", 1, 1), ("r", 2, 2), ("r", 3, 3), ("d", 3, None))
    came: set[str] = set()

    def come(model: str, reached: str) -> None:
        if reached == step and model not in came:
            came.add(model)
            added = ", NULL" if model == "soft" else ""
            project.sql(
                f"INSERT INTO {project.table(model)} VALUES (2, 20{added}), (9, 90{added})"
            )

    project.run(reached=come).check()
    assert came == {"m", "soft"}
    assert values(project) == {1: 1, 2: 2, 9: 90}
    assert {row["id"]: row["v"] for row in project.rows("soft")} == {
        1: 1,
        2: 2,
        3: 3,
        9: 90,
    }
    assert operations(project, "m") == ["append", "overwrite"]


def test_what_is_remembered_counts_before_there_is_a_row(project: Project) -> None:
    mirror_by_position(project)
    send_at(project, ("d", 1, None, 20), ("d", 2, None, 21))
    project.run().check()
    send_at(project, ("t", None, None, 30), ("c", 4, 4, 31))
    project.run().check()
    send_at(project, ("d", 4, None, 40))
    project.run().check()
    project.sql(f"DELETE FROM {project.table('m')}")
    send_at(
        project,
        ("c", 1, 1, 10),
        ("c", 3, 3, 29),
        ("c", 4, 4, 31),
        ("r", 5, 5, 50),
        ("r", 2, 2, 51),
    )
    project.run().check()
    assert values(project) == {2: 2, 5: 5}


def test_bounds_spare_files_if_half_of_them_lie_beyond_the_keys(
    project: Project,
) -> None:
    project.sql(f"CREATE TABLE {project.table('m')} (id INT) USING iceberg")
    for first in range(0, 40, 10):
        project.sql(
            f"INSERT INTO {project.table('m')} SELECT CAST(id AS INT) FROM range({first}, {first + 10}, 1, 1)"
        )
    table = load_table(project.lake.session, TableName("lake", project.namespace, "m"))
    assert len(project.sql(f"SELECT file_path FROM {project.table('m')}.files")) == 4

    def spared(low: int, high: int) -> bool:
        return spare_files(table, (KeyRange("id", low=low, high=high),))

    assert spared(32, 35) and spared(10, 29) and spared(50, 60)
    assert not spared(9, 20) and not spared(0, 39) and not spared(-5, 50)
