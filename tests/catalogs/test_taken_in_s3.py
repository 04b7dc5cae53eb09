"""Files of a bucket that are archived or deleted once a commit has their records: a
copy, and then a delete."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lakesql.engine.sources.globs import list_files
from lakesql.engine.sources.move_files import is_same_second
from lakesql.events import BatchCommitted, FilesLeftOut
from tests.catalogs.bucket import Bucket
from tests.catalogs.command import Command
from tests.catalogs.places import Place
from tests.servers.seaweed import Seaweed
from tests.spark.project import Project

FILES = 300
ODD = "a b/day=3/ü+%25.json"


class Landing:
    """A project whose stream `s` reads files of a bucket, and takes them away."""

    def __init__(
        self, place: Place, seaweed: Seaweed, directory: Path, name: str, **options: Any
    ) -> None:
        self.session = place.lake.session
        self.bucket = Bucket(self.session, seaweed.make_bucket(name))
        self.project = Project(place.lake, directory, name.replace("-", "_"))
        self.project.checkpoints = f"{place.checkpoints}/{name}"
        self.project.connections["lake"] = {
            "type": "files",
            "path": f"{self.bucket.url}/land",
        }
        self.project.stream(
            "s", {"id": "int"}, connection="lake", path="in/**/*.json", **options
        )
        self.project.model("m", "SELECT id FROM {s}", mode="append")

    def write(self, name: str, *ids: int) -> None:
        self.bucket.write(f"land/{name}", *ids)

    def names(self, folder: str) -> set[str]:
        below = f"/land/{folder}/"
        found = list_files(self.session, f"{self.bucket.url}{below}**")
        return {file.decoded.partition(below)[2] for file in found}

    def ids(self) -> list[int]:
        return [row["id"] for row in self.project.rows("m", "id")]


@pytest.mark.parametrize("after", ["archive", "delete"])
def test_objects_go_behind_the_commit(
    rest_on_s3: Place, seaweed: Seaweed, tmp_path: Path, after: str
) -> None:
    options = {"archive": "done"} if after == "archive" else {}
    landing = Landing(
        rest_on_s3, seaweed, tmp_path, f"taken-{after}", after=after, **options
    )
    landing.write("in/1.json", 1, 2)
    landing.write(f"in/{ODD}", 3)
    landing.write("in/other.txt", 9)
    steps = list[set[str]]()
    landing.project.run(
        reached=lambda model, step: steps.append(landing.names("in"))
    ).check()

    assert steps and all({"1.json", ODD} <= there for there in steps), (
        "nothing goes before the commit"
    )
    assert landing.names("in") == {"other.txt"}
    assert landing.names("done") == (
        {"in/1.json", f"in/{ODD}"} if after == "archive" else set()
    )
    landing.write("in/2.json", 4)
    assert not landing.project.run().check().of(FilesLeftOut)
    assert not landing.project.run().check().of(BatchCommitted)
    assert landing.ids() == [1, 2, 3, 4] and landing.names("in") == {"other.txt"}


def test_a_copy_without_its_delete_is_made_good(
    rest_on_s3: Place, seaweed: Seaweed, tmp_path: Path
) -> None:
    landing = Landing(
        rest_on_s3, seaweed, tmp_path, "taken-half", after="archive", archive="done"
    )
    for number in range(1, 4):
        landing.write(f"in/{number}.json", number)

    def copy(model: str, step: str) -> None:
        # as a runner leaves it that is killed between copy and delete
        landing.write("done/in/1.json", 1)
        landing.write("done/in/2.json", 9)  # another file of that name
        if step == "finish":
            raise RuntimeError("the machine is gone")

    assert not landing.project.run(reached=copy).succeeded
    assert landing.names("in") == {"1.json", "2.json", "3.json"}
    time.sleep(1.1)  # the times of S3 have no parts of a second
    landing.write("in/3.json", 7)  # it was read as it was before

    ran = landing.project.run().check()

    assert landing.ids() == [1, 2, 3]
    assert landing.names("in") == {"3.json"} and ran.of(FilesLeftOut)
    (kept,) = landing.names("done") - {"in/1.json", "in/2.json"}
    assert kept.startswith("in/2.")


def test_a_runner_that_is_killed_as_it_moves(
    rest_on_s3: Place, seaweed: Seaweed, tmp_path: Path
) -> None:
    landing = Landing(rest_on_s3, seaweed, tmp_path / "shared", "taken-killed")
    for number in range(FILES):
        landing.write(f"in/{number:03}.json", number)
    command = Command(tmp_path / "own")
    login = {
        "credential": f"{seaweed.access_key}:{seaweed.secret_key}",
        **seaweed.s3_properties,
    }
    warehouse = seaweed.make_warehouse("taken-tables")
    lake = {"type": "files", "path": f"{landing.bucket.url}/land"}
    catalog = {
        "name": "lake",
        "type": "rest",
        "uri": seaweed.catalog_uri,
        "warehouse": warehouse,
        **login,
    }
    command.write({"connections": {"lake": lake}, "catalog": catalog})
    said = "{name: orders, connection: lake, path: in/*.json, after: archive, archive: done, columns: {id: bigint}}"
    (command.directory / "streams/orders.yml").write_text(f"streams: [{said}]")
    (command.directory / "models/orders.sql").write_text(
        "{{ config(mode='append') }}\nSELECT id FROM {{ stream('orders') }}\n"
    )

    killed = command.start("run", "--once")
    while not landing.names("done") and killed.poll() is None:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    left = landing.names("in")
    assert left, "it was killed before all had gone"

    done = command.run("run", "--once")

    assert done.code == 0, done
    shown = command.run("show", "orders", "--limit", str(2 * FILES), "-o", "json")
    assert len(shown.out.split('"id"')) - 1 == FILES, shown
    assert not landing.names("in")
    assert landing.names("done") == {f"in/{number:03}.json" for number in range(FILES)}


def test_one_time_of_an_object_is_said_in_two_ways() -> None:
    assert is_same_second(1_700_000_001_000, 1_700_000_001_234)
    assert not is_same_second(1_700_000_001_234, 1_700_000_001_235)
    assert not is_same_second(1_700_000_002_000, 1_700_000_001_999)
