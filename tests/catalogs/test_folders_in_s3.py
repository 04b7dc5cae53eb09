"""Folders in S3 whose names grow: S3 is asked for the names behind the last one that
was read, and for no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lakesql.engine.sources import names_there
from lakesql.events import FilesLate
from tests.catalogs.bucket import Bucket
from tests.catalogs.places import Place
from tests.servers.seaweed import Seaweed
from tests.spark.project import Project

OLD = 1_100


@pytest.fixture
def listed() -> Iterator[list[str]]:
    """The keys that S3 has been asked for."""
    keys, read = list[str](), names_there._read_page

    def note(page: Any) -> Iterator[tuple[str, int, int]]:
        for found in read(page):
            keys.append(found[0])
            yield found

    with mock.patch.object(names_there, "_read_page", note):
        yield keys


def test_names_behind_the_last_one_are_asked_for(
    rest_on_s3: Place, seaweed: Seaweed, tmp_path: Path, listed: list[str]
) -> None:
    bucket = Bucket(rest_on_s3.lake.session, seaweed.make_bucket("folders"))
    project = Project(rest_on_s3.lake, tmp_path, "folders")
    project.checkpoints = f"{rest_on_s3.checkpoints}/folders"
    project.connections["lake"] = {"type": "files", "path": f"{bucket.url}/land"}
    options = {"connection": "lake", "path": "in/**/*.json", "ordered_by": "name"}
    project.stream("s", {"id": "int"}, **options, list_all_every="1000 days")
    project.model("m", "SELECT id FROM {s}", mode="append")

    def ids() -> list[int]:
        return [row["id"] for row in project.rows("m", "id")]

    for number in range(OLD):
        bucket.write(f"land/in/2026-01/{number:05}.json", number)
    bucket.write("land/in/2026-01/_SUCCESS")
    bucket.write("land/other/9.json", -1)
    project.run().check()
    assert ids() == [*range(OLD)]

    listed.clear()
    bucket.write("land/in/2026-02/a b+%25, LastModified=[1].json", OLD)
    bucket.write("land/in/2026-02/ü.json", OLD + 1)
    project.run().check()
    assert ids() == [*range(OLD + 2)]
    behind = [key for key in listed if "/2026-02/" in key]
    assert {*behind} == {
        f"land/in/2026-02/{name}.json" for name in ("a b+%25, LastModified=[1]", "ü")
    }
    assert len(listed) - len(behind) <= 1_000, (
        "one page from the start, to see whether there is a file at all"
    )

    bucket.write("land/in/2026-01/00000-late.json", OLD + 2)
    bucket.remove("land/in/2026-01/00001.json")
    project.stream("s", {"id": "int"}, **options, list_all_every="1 millisecond")
    assert [event.files for event in project.run().check().of(FilesLate)] == [1]
    assert not project.run().check().of(FilesLate)
    assert ids() == [*range(OLD + 3)]
