"""Files of a bucket that messages of SQS tell of: each is read once, whatever messages
come twice, late, or never."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock
from urllib.parse import quote_plus, urlsplit

import pytest

from lakesql.cli.checks import check_connection
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.errors import LakesqlError, ProjectError
from lakesql.events import BatchCommitted, FilesLate, FilesLeftOut
from lakesql.source import sqs
from lakesql.source.sqs import Queue, Sqs, open_queue
from tests.catalogs.bucket import Bucket
from tests.catalogs.places import Place
from tests.servers.moto import Moto
from tests.servers.process import running
from tests.servers.seaweed import Seaweed
from tests.sources.runs import kill_at
from tests.spark.project import Project, Ran
from tests.spark.test_files_by_name import breaking_off, rewind

ALWAYS, NEVER = "1 millisecond", "1000 days"


@pytest.fixture(scope="module")
def lake_bucket(seaweed: Seaweed) -> str:
    return seaweed.make_bucket("queues")


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    with running(Moto(tmp_path_factory.mktemp("moto"))) as server:
        yield server


class Queued:
    """A project with a stream of a bucket, and the queue that tells of it."""

    def __init__(
        self, place: Place, bucket: str, moto: Moto, directory: Path, name: str
    ) -> None:
        self.name, self.moto = name, moto
        self.url = moto.make_queue(name)
        self.client = moto.client("sqs")
        self.bucket = Bucket(place.lake.session, bucket)
        self.project = Project(place.lake, directory, name.replace("-", "_"))
        lake = {"type": "files", "path": f"{self.bucket.url}/{name}"}
        self.project.connections = {"lake": lake, "queues": moto.connection}
        self.make()
        self.project.model("m", "SELECT id FROM {s}", mode="append")

    def make(self, every: str = NEVER, **options: Any) -> None:
        told = {"connection": "queues", "queue": self.name}
        given = {
            "path": "in/**/*.json",
            "notifications": told,
            "list_all_every": every,
            **options,
        }
        self.project.stream("s", {"id": "int"}, connection="lake", **given)

    def write(self, name: str, *ids: int) -> None:
        self.bucket.write(f"{self.name}/in/{name}", *ids)

    def event(self, name: str, what: str = "ObjectCreated:Put") -> dict[str, Any]:
        key = quote_plus(f"{self.name}/in/{name}")
        found = {
            "bucket": {"name": urlsplit(self.bucket.url).netloc},
            "object": {"key": key, "size": 10},
        }
        return {"Records": [{"eventSource": "aws:s3", "eventName": what, "s3": found}]}

    def tell(self, *names: str) -> None:
        self.send(*(json.dumps(self.event(name)) for name in names))

    def send(self, *texts: str) -> None:
        for text in texts:
            self.client.send_message(QueueUrl=self.url, MessageBody=text)

    def run(self) -> Ran:
        return self.project.run().check()

    def ids(self, model: str = "m") -> list[int]:
        return [row["id"] for row in self.project.rows(model, "id")]

    def left(self) -> int:
        """How many messages the queue has, those included that somebody has
        received."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(
            QueueUrl=self.url, AttributeNames=names
        )["Attributes"]
        return sum(int(found[name]) for name in names)


@pytest.fixture
def queued(
    rest_on_s3: Place,
    lake_bucket: str,
    moto: Moto,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Queued:
    name = (
        str(request.node.name)
        .replace("_", "-")
        .replace("[", "-")
        .replace("]", "")[:50]
        .rstrip("-")
    )
    return Queued(rest_on_s3, lake_bucket, moto, tmp_path, name)


@contextmanager
def hidden_for(seconds: int) -> Iterator[None]:
    """Messages come again so soon."""
    with mock.patch.object(sqs, "HIDDEN_S", seconds):
        yield


def test_messages_name_what_is_read(queued: Queued) -> None:
    queued.write("old.json", 1)
    assert not queued.run().of(FilesLate), "what is there as it begins is listed"
    for number, name in enumerate(
        ("a b+%25/ü.json", "sns.json", "bridge.json", "untold.json"), 2
    ):
        queued.write(name, number)
    queued.tell("a b+%25/ü.json", "a b+%25/ü.json", "old.json", "gone.json")
    wrapped = {"Type": "Notification", "Message": json.dumps(queued.event("sns.json"))}
    detail = {
        "bucket": {"name": "queues"},
        "object": {"key": f"{queued.name}/in/bridge.json", "size": 9},
    }
    queued.send(
        json.dumps(wrapped),
        json.dumps({"detail-type": "Object Created", "detail": detail}),
        json.dumps(
            {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": queued.name}
        ),
        json.dumps(queued.event("untold.json", "ObjectRemoved:Delete")),
        "hello",
    )
    ran = queued.run()
    assert queued.ids() == [1, 2, 3, 4]
    said = " ".join(event.why for event in ran.of(FilesLeftOut))
    assert f"1 event of queue {queued.name}" in said and "in/gone.json" in said
    assert queued.left() == 0
    assert not queued.run().of(BatchCommitted), "nothing is read again"

    queued.make(ALWAYS)
    time.sleep(0.1)
    (late,) = queued.run().of(FilesLate)
    assert late.files == 1 and "untold.json" in late.why
    assert queued.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("step", ["log", "delete"])
def test_a_message_is_deleted_once_it_is_in_the_log(queued: Queued, step: str) -> None:
    queued.run()
    queued.write("1.json", 1)
    queued.tell("1.json")
    broken = (CheckpointFiles, "create") if step == "log" else (Queue, "delete")
    with (
        hidden_for(1),
        mock.patch.object(*broken, side_effect=OSError("the machine is gone")),
    ):
        assert queued.project.run().conditions("m"), "it dies"
    assert queued.left() == 1 and queued.ids() == []
    time.sleep(1.1)
    queued.run()
    assert queued.left() == 0 and queued.ids() == [1]


def test_messages_whose_time_is_over_come_again_and_are_known(queued: Queued) -> None:
    queued.run()
    queued.write("1.json", 1)
    queued.tell("1.json")
    with (
        hidden_for(0),
        mock.patch.object(Queue, "delete", lambda *_: time.sleep(0.1)),
        mock.patch("lakesql.engine.sources.event_queues.TAKEN_MESSAGES", 3),
    ):
        queued.run()
    assert queued.ids() == [1] and queued.left() == 1
    queued.run()
    assert queued.ids() == [1] and queued.left() == 0


def test_a_runner_that_is_killed_has_what_it_took(queued: Queued) -> None:
    queued.run()
    for number in (1, 2, 3):
        queued.write(f"{number}.json", number)
        queued.tell(f"{number}.json")
    kill_at(queued.project, "publish")
    assert queued.left() == 0, "the files are in the log by then"
    queued.write("4.json", 4)
    queued.tell("4.json", "1.json")
    assert not queued.run().of(FilesLate)
    assert queued.ids() == [1, 2, 3, 4]


def test_models_share_a_queue_and_a_rebuild_takes_nothing_from_them(
    queued: Queued,
) -> None:
    queued.project.model("n", "SELECT id FROM {s}", mode="append")
    queued.run()
    for number in (1, 2, 3):
        queued.write(f"{number}.json", number)
        queued.tell(f"{number}.json")
        queued.project.run("m" if number % 2 else "n").check()
    queued.write("4.json", 4)
    queued.tell("4.json")
    queued.project.rebuild("m").check()
    assert queued.left() == 0
    assert not queued.run().of(FilesLate)
    assert queued.ids() == queued.ids("n") == [1, 2, 3, 4]


def test_a_rewind_and_a_lost_log_read_each_file_once(queued: Queued) -> None:
    for number in (1, 2, 3):
        queued.write(f"{number}.json", number)
        queued.tell(f"{number}.json")
        queued.run()
    first = queued.project.snapshot_ids("m")[0]
    table = f"{queued.project.namespace}.m"
    catalog = queued.project.lake.catalog.profile.name
    queued.project.sql(
        f"CALL {catalog}.system.rollback_to_snapshot('{table}', {first})"
    )
    assert queued.project.run().conditions("m") == ["table-behind"]
    rewind(queued.project, "ledger")
    queued.run()
    assert queued.ids() == [1, 2, 3]

    CheckpointFiles(
        queued.project.lake.session,
        queued.project.manifest().target.checkpoints + "/_events",
    ).remove_all()
    queued.write("4.json", 4)  # its event is lost with the log
    queued.write("5.json", 5)
    queued.tell("5.json")
    queued.run()
    assert queued.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(2))
def test_each_file_is_read_once_by_whatever_messages(queued: Queued, seed: int) -> None:
    random, written, waiting = Random(seed), list[int](), list[str]()
    queued.make(max_per_batch=2)
    with hidden_for(1):
        for _ in range(6):
            for _ in range(random.randint(0, 4)):
                written.append(len(written))
                name = f"{random.randint(0, 9)}/{written[-1]}.json"
                queued.write(name, written[-1])
                if random.random() < 0.8:  # or its message is lost
                    waiting += [name] * random.choice((1, 1, 2))
            random.shuffle(waiting)
            for _ in range(random.randint(0, len(waiting))):  # or it comes late
                queued.tell(waiting.pop())
            forgets = (
                mock.patch.object(Queue, "delete")
                if random.random() < 0.3
                else nullcontext()
            )
            breaks = breaking_off(random) if random.random() < 0.5 else nullcontext()
            with (
                forgets,
                breaks,
                mock.patch("lakesql.engine.sources.event_queues.TAKEN_MESSAGES", 20),
            ):
                queued.project.run()
        queued.tell(*waiting)
        time.sleep(1.1)
        queued.make(ALWAYS, max_per_batch=2)
        queued.run()
        queued.run()
    assert queued.ids() == written


def conditions(error: LakesqlError) -> list[str]:
    return [problem.condition for problem in error.problems]


def test_what_a_queue_is_refused_for(
    queued: Queued, moto: Moto, tmp_path: Path
) -> None:
    known = Sqs(
        **{key: value for key, value in moto.connection.items() if key != "type"}
    )
    with running(Moto(tmp_path / "strict", admits=False)) as strict:
        wrong = Sqs(
            region="us-east-1",
            endpoint=strict.url,
            access_key_id="k",
            secret_access_key="s",
        )
        with pytest.raises(LakesqlError) as caught:
            open_queue(wrong, "q")
        assert conditions(caught.value) == ["wrong-credentials"]
    with pytest.raises(LakesqlError) as caught:
        open_queue(wrong, "q")
    assert conditions(caught.value) == ["connection-unreachable"], "it was stopped"
    with pytest.raises(LakesqlError) as caught:
        open_queue(known, "nowhere")
    assert conditions(caught.value) == ["unknown-queue"]
    with (
        mock.patch.dict(sys.modules, {"boto3": None}),
        pytest.raises(LakesqlError) as caught,
    ):
        open_queue(known, "q")
    (missing,) = caught.value.problems
    assert missing.condition == "extra-missing"
    assert "[sqs]" in missing.fix
    queued.make(notifications={"connection": "queues", "queue": "nowhere"})
    assert queued.project.run().conditions("m") == ["unknown-queue"]


def test_debug_says_how_many_messages_wait(queued: Queued) -> None:
    queued.tell("1.json", "2.json")
    manifest = queued.project.manifest()
    streams = [*manifest.streams.values()]
    found = check_connection(manifest.target.connections["queues"], streams)
    assert "about 2 messages in 1 queue" in found.text


@pytest.mark.parametrize(
    "given",
    [
        {"connection": "lake", "queue": "q"},
        {"connection": "queues", "topic": "t"},
        {"connection": "queues"},
    ],
)
def test_a_connection_without_queues_tells_of_nothing(
    queued: Queued, given: dict[str, str]
) -> None:
    queued.make(notifications=given)
    with pytest.raises(ProjectError) as caught:
        queued.project.run()
    expected = "wrong-value" if len(given) == 2 else "missing-option"
    assert conditions(caught.value) == [expected]


def test_no_stream_is_read_from_a_queue(queued: Queued) -> None:
    queued.project.stream("s", {"id": "int"}, connection="queues", topic="t")
    with pytest.raises(ProjectError) as caught:
        queued.project.run()
    assert conditions(caught.value) == ["wrong-value"]
