"""Files of a bucket that events tell of: each is read once, whatever events come twice,
late, or never."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock
from urllib.parse import quote_plus

import pytest

from lakesql.engine.sources.event_topics import EventTopic
from lakesql.errors import ProjectError
from lakesql.events import BatchCommitted, FilesLate, FilesLeftOut
from lakesql.run.start.spark import find_needs
from lakesql.source.object_events import read_event
from tests.catalogs.bucket import Bucket
from tests.catalogs.places import Place
from tests.servers.broker import Broker, Message
from tests.servers.process import running
from tests.servers.seaweed import Seaweed
from tests.spark.project import Project, Ran
from tests.spark.test_files_by_name import breaking_off, rewind

ALWAYS, NEVER = "1 millisecond", "1000 days"


class Notified:
    """A project with a stream of a bucket, and what tells of it."""

    def __init__(
        self, place: Place, seaweed: Seaweed, broker: Broker, directory: Path, name: str
    ) -> None:
        self.name, self.broker = name, broker
        self.bucket = Bucket(place.lake.session, seaweed.make_bucket(name))
        self.project = Project(place.lake, directory, name.replace("-", "_"))
        self.project.connections = {
            "lake": {"type": "files", "path": f"{self.bucket.url}/land"},
            "broker": {"type": "kafka", "bootstrap_servers": broker.servers},
        }
        broker.create_topic(name, 2)
        self.make()
        self.project.model("m", "SELECT id FROM {s}", mode="append")

    def make(self, every: str = NEVER, **options: Any) -> None:
        told = {"connection": "broker", "topic": self.name}
        given = {
            "path": "in/**/*.json",
            "notifications": told,
            "list_all_every": every,
            **options,
        }
        self.project.stream("s", {"id": "int"}, connection="lake", **given)

    def write(self, name: str, *ids: int) -> None:
        self.bucket.write(f"land/in/{name}", *ids)

    def event(
        self, key: str, what: str = "ObjectCreated:Put", bucket: str = ""
    ) -> bytes:
        found = {
            "bucket": {"name": bucket or self.name},
            "object": {"key": quote_plus(key), "size": 10},
        }
        return json.dumps(
            {
                "Records": [
                    {"eventSource": "minio:s3", "eventName": f"s3:{what}", "s3": found}
                ]
            }
        ).encode()

    def tell(self, *names: str) -> None:
        self.send(*(self.event(f"land/in/{name}") for name in names))

    def send(self, *events: bytes) -> None:
        self.broker.produce(
            self.name,
            [
                Message(event, partition=number % 2)
                for number, event in enumerate(events)
            ],
        )

    def run(self) -> Ran:
        return self.project.run().check()

    def ids(self) -> list[int]:
        return [row["id"] for row in self.project.rows("m", "id")]


@pytest.fixture
def notified(
    rest_on_s3: Place,
    seaweed: Seaweed,
    broker: Broker,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Notified:
    name = (
        str(request.node.name)
        .replace("_", "-")
        .replace("[", "-")
        .replace("]", "")[:50]
        .rstrip("-")
    )
    return Notified(rest_on_s3, seaweed, broker, tmp_path, name)


def test_events_name_what_is_read(notified: Notified) -> None:
    notified.write("old.json", 1)
    assert not notified.run().of(FilesLate), "what is there as it begins is listed"
    notified.write("a b+%25/ü.json", 2)
    notified.write("untold.json", 3)
    notified.write("other.txt", 9)
    notified.bucket.write("land/out/x.json", 9)
    notified.tell(
        "a b+%25/ü.json", "a b+%25/ü.json", "other.txt", "old.json", "gone.json"
    )
    notified.send(
        notified.event("land/out/x.json"),
        notified.event("land/in/untold.json", "ObjectRemoved:Delete"),
        notified.event("land/in/untold.json", bucket="another"),
        b"hello",
    )
    ran = notified.run()
    assert notified.ids() == [1, 2]
    said = " ".join(event.why for event in ran.of(FilesLeftOut))
    assert "1 event of topic" in said and "in/gone.json" in said
    assert not notified.run().of(BatchCommitted), "nothing is read again"

    notified.make(ALWAYS)
    time.sleep(0.1)
    (late,) = notified.run().of(FilesLate)
    assert late.files == 1 and "untold.json" in late.why
    assert not notified.run().of(FilesLate)
    assert notified.ids() == [1, 2, 3]


def test_events_that_are_gone_are_made_good_by_a_listing(notified: Notified) -> None:
    notified.write("1.json", 1)
    notified.run()
    notified.write("2.json", 2)
    notified.tell("2.json")
    notified.broker.delete_topic(notified.name)
    notified.broker.create_topic(notified.name, 2)
    notified.run()
    notified.write("3.json", 3)
    notified.tell("3.json")
    notified.run()
    notified.broker.delete_topic(notified.name)
    notified.broker.create_topic(notified.name, 2)
    notified.write("4.json", 4)
    said = notified.run().of(FilesLeftOut)
    assert ["was made anew" in event.why for event in said] == [True]
    assert notified.ids() == [1, 2, 3, 4]


def test_a_rewind_and_a_rebuild_read_each_file_once(notified: Notified) -> None:
    for number in (1, 2, 3):
        notified.write(f"{number}.json", number)
        notified.tell(f"{number}.json")
        notified.run()
    first = notified.project.snapshot_ids("m")[0]
    table = f"{notified.project.namespace}.m"
    notified.project.sql(
        f"CALL {notified.project.lake.catalog.profile.name}.system.rollback_to_snapshot('{table}', {first})"
    )
    assert notified.project.run().conditions("m") == ["table-behind"]
    rewind(notified.project, "ledger")
    notified.run()
    assert notified.ids() == [1, 2, 3]
    notified.project.rebuild("m").check()
    notified.write("4.json", 4)
    notified.tell("4.json", "1.json")
    assert not notified.run().of(FilesLate)
    assert notified.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(2))
def test_each_file_is_read_once_by_whatever_events(
    notified: Notified, seed: int
) -> None:
    random, written, waiting = Random(seed), list[int](), list[str]()
    notified.make(max_per_batch=2)
    with mock.patch.object(EventTopic, "most_places", 3):
        for _ in range(6):
            for _ in range(random.randint(0, 4)):
                written.append(len(written))
                name = f"{random.randint(0, 9)}/{written[-1]}.json"
                notified.write(name, written[-1])
                if random.random() < 0.8:  # or its event is lost
                    waiting += [name] * random.choice((1, 1, 2))
            random.shuffle(waiting)
            for _ in range(random.randint(0, len(waiting))):  # or it comes late
                notified.tell(waiting.pop())
            with breaking_off(random) if random.random() < 0.5 else nullcontext():
                notified.project.run()
        notified.tell(*waiting)
        notified.make(ALWAYS, max_per_batch=2)
        time.sleep(0.1)
        notified.run()
        notified.run()
    assert notified.ids() == written


def test_a_connection_without_topics_tells_of_nothing(notified: Notified) -> None:
    for connection, condition in (
        ("lake", "wrong-value"),
        ("brokre", "unknown-connection"),
    ):
        notified.make(notifications={"connection": connection, "topic": "t"})
        with pytest.raises(ProjectError) as caught:
            notified.project.run()
        assert [problem.condition for problem in caught.value.problems] == [condition]


def test_a_session_has_what_reads_the_topic(notified: Notified) -> None:
    manifest = notified.project.manifest()
    assert {"kafka", "s3a"} <= find_needs(manifest.target, [manifest.streams["s"]])


def test_a_folder_of_this_machine_is_listed(notified: Notified) -> None:
    notified.project.connections["lake"] = {"type": "files", "path": "disk"}
    notified.project.write("disk/in/1.json", '{"id": 1}')
    notified.run()
    notified.project.write("disk/in/2.json", '{"id": 2}')
    notified.run()
    assert notified.ids() == [1, 2]


def test_seaweedfs_tells_of_its_files(
    rest_on_s3: Place, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("filer")
    with running(Seaweed(tmp_path / "weed", tells=(broker.servers, "filer"))) as weed:
        weed.make_bucket("lake")
        conf = {"fs.s3a.endpoint": weed.s3_endpoint, "fs.s3a.path.style.access": "true"}
        bucket = Bucket(rest_on_s3.lake.session, "s3a://lake", conf)
        bucket.write("in/my file+ü.json", 1)
        bucket.remove("in/my file+ü.json")
    events = [*broker.read("filer")]
    created = [found for key, value in events for found in read_event(key, value)]
    assert {
        (found.bucket, found.key) for found in created if found.bucket == "lake"
    } == {("lake", "in/my file+ü.json")}
