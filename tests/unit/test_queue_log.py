"""The log of a queue's messages: written by several at once, read as pages; and what a
queue's answers mean."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest import mock

import pytest

from lakesql.errors import LakesqlError
from lakesql.source import queue_log
from lakesql.source.queue_log import QueueLog
from lakesql.source.sqs import Queue, Sqs, open_queue
from tests.cases import each_of
from tests.unit.test_known_files import Kept


class Folder(Kept):
    """A folder that several processes write to."""

    def create(self, name: str, text: str) -> bool:
        if self.read(name) is not None:
            return False
        self.write(name, text)
        return True


@each_of("seed", range(20))
def test_what_several_writers_append_is_there_once_for_each_reader(seed: int) -> None:
    random, folder = Random(seed), Folder()
    writers = [QueueLog(folder) for _ in range(3)]
    written, read, at = list[str](), list[str](), 0
    for number in range(50):
        text = f"message {number}"
        random.choice(writers).append([text])
        written.append(text)
        reader = random.choice(writers)
        end = reader.end()
        for page in range(at, end):
            read += reader.read(page) or ["gone"]
        at = end
    assert read == written
    assert {each.id for each in writers} == {QueueLog(folder).id}
    assert QueueLog(Folder()).id != writers[0].id, "another log has another id"


def test_old_pages_go_and_numbers_stay() -> None:
    folder, clock = Folder(), 1_000
    with mock.patch.object(queue_log, "now_ms", lambda: clock):
        log = QueueLog(folder)
        for text in "abc":
            log.append([text])
        clock += queue_log.KEPT_MS
        log.append(["d"])
        clock += 1
        QueueLog(folder).remove_old()
        after = QueueLog(folder)
        assert [after.read(page) for page in range(4)] == [None, None, None, ["d"]]
        assert (after.first(), after.end()) == (3, 4)
        clock += 2 * queue_log.KEPT_MS
        QueueLog(folder).remove_old()
        assert QueueLog(folder).end() == 4, "a log without pages would begin anew"


SOURCE = Sqs(
    region="us-east-1",
    endpoint="http://127.0.0.1:9",
    access_key_id="k",
    secret_access_key="s",
)
URL = "http://127.0.0.1:9/1/q"


@pytest.mark.checks
@pytest.mark.parametrize(
    ("code", "condition"),
    [
        ("AWS.SimpleQueueService.NonExistentQueue", "unknown-queue"),
        ("QueueDoesNotExist", "unknown-queue"),
        ("AccessDenied", "queue-forbidden"),
        ("AccessDeniedException", "queue-forbidden"),
        ("InvalidClientTokenId", "wrong-credentials"),
        ("SignatureDoesNotMatch", "wrong-credentials"),
        ("ServiceUnavailable", "connection-unreachable"),
    ],
)
def test_what_sqs_refuses_has_its_condition(code: str, condition: str) -> None:
    from botocore.stub import Stubber

    queue = open_queue(SOURCE, URL)
    with Stubber(queue.client) as answers:
        answers.add_client_error("get_queue_attributes", code, "no")
        with pytest.raises(LakesqlError) as raised:
            queue.waiting()
    assert [problem.condition for problem in raised.value.problems] == [condition]


class Counted:
    """A client that has so many messages, and counts what it is asked."""

    def __init__(self, messages: int) -> None:
        self.left = [*range(messages)]
        self.deleted: list[str] = []

    def receive_message(self, MaxNumberOfMessages: int, **_: Any) -> dict[str, Any]:  # noqa: N803
        given = [
            self.left.pop() for _ in range(min(MaxNumberOfMessages, len(self.left)))
        ]
        return (
            {
                "Messages": [
                    {"Body": str(each), "ReceiptHandle": f"h{each}"} for each in given
                ]
            }
            if given
            else {}
        )

    def delete_message_batch(
        self,
        Entries: list[dict[str, str]],  # noqa: N803
        **_: Any,
    ) -> dict[str, Any]:
        assert 0 < len(Entries) <= 10, "SQS takes no more"
        self.deleted += [each["ReceiptHandle"] for each in Entries]
        return {}


def test_many_messages_are_received_and_deleted_in_parts() -> None:
    client = Counted(2_345)
    queue, texts = Queue(client, "q", URL), list[str]()
    while found := queue.receive(1_000):
        assert len(found) < 1_100
        queue.delete(found)
        texts += [each.text for each in found]
    assert sorted(map(int, texts)) == [*range(2_345)]
    assert len({*client.deleted}) == len(client.deleted) == 2_345
