"""Checkpoints in S3: their files, a lost one, and one runner at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.events import BatchCommitted
from tests.catalogs.places import Place
from tests.spark.project import Project


@pytest.fixture
def files(rest_on_s3: Place, request: pytest.FixtureRequest) -> CheckpointFiles:
    return CheckpointFiles(
        rest_on_s3.lake.session, f"{rest_on_s3.checkpoints}/{request.function.__name__}"
    )


def test_files_are_written_read_listed_moved_and_removed(
    files: CheckpointFiles,
) -> None:
    assert files.read("metadata") is None
    assert files.names("offsets") == []
    files.write("metadata", "first")
    files.write("metadata", "secönd")
    files.write("offsets/0", "0")
    files.write("offsets/1", "1")
    assert files.read("metadata") == "secönd"
    assert sorted(files.names("offsets")) == ["0", "1"]
    files.remove("offsets/1")
    assert files.names("offsets") == ["0"]
    files.move_to(f"{files.folder}.aside")
    assert files.read("metadata") is None
    assert files.names("offsets") == []  # SeaweedFS keeps the empty folder


def test_a_file_is_made_by_one_alone(files: CheckpointFiles) -> None:
    assert files.create("0", "mine")
    assert not files.create("0", "yours")
    assert files.read("0") == "mine"
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: files.create("1", str(number)), range(8)))
    assert won.count(True) == 1
    assert files.read("1") == str(won.index(True))


def test_a_lost_checkpoint_is_rebuilt_from_the_ledger(
    rest_on_s3: Place, tmp_path: Path
) -> None:
    project = Project(rest_on_s3.lake, tmp_path, "lost")
    project.checkpoints = f"{rest_on_s3.checkpoints}/lost"
    project.stream("orders", {"id": "bigint"})
    project.model("orders", "SELECT id FROM {orders}", mode="append")
    project.record("orders", [{"id": number} for number in range(10)])
    project.run().check()
    CheckpointFiles(rest_on_s3.lake.session, f"{project.checkpoints}/orders").move_to(
        f"{project.checkpoints}/gone"
    )
    project.record("orders", [{"id": number} for number in range(10, 15)])

    resumed = project.run().check()

    assert [event.rows for event in resumed.of(BatchCommitted)] == [5]
    assert [row["id"] for row in project.rows("orders", "id")] == list(range(15))
