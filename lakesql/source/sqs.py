"""Amazon SQS: queues whose messages announce new files. A queue forgets a message once
it is deleted.

So a message is deleted only after its text is in lakesql's own log of events
(`queue_log.py`). If the process dies in between, the message is delivered again, as it
is after its visibility timeout: the log then has it twice, which does no harm, as files
are recognized by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from lakesql.counts import count
from lakesql.decode import option
from lakesql.errors import LakesqlError, ProfileError, TransientError
from lakesql.source.aws import REFUSED, explain_client, open_service
from lakesql.source.origin import Brings
from lakesql.source.source import AskedStream, Source

if TYPE_CHECKING:
    from lakesql.errors import Place, Problem
    from lakesql.source.origin import StreamOrigin
    from lakesql.source.stream_state import Position

Given = TypeVar("Given")
Answer = TypeVar("Answer")

CALL_MESSAGES = 10
"""The maximum number of messages that SQS returns, or deletes, in one call."""

CALLERS = 8
"""How many calls are made in parallel."""

HIDDEN_S = 120
"""The visibility timeout: how long nobody else receives a message while it is written
to the log. After a kill it is delivered again."""

LOOK_S = 1
"""How long SQS waits before it reports that there is no message; a call that does not
wait asks only some of its servers."""


_REFUSED = REFUSED | {"SignatureDoesNotMatch", "AuthFailure"}
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Sqs(Source):
    """Queues of Amazon SQS, which announce files. Without credentials here, boto3's are
    used."""

    region: str = option("AWS region; as boto3 finds it if left out.", default="")
    endpoint: str = option("URL of the service, if it is not that of AWS.", default="")
    access_key_id: str = option(
        "Id of an access key; as boto3 finds it if left out.", default=""
    )
    secret_access_key: str = option("Secret of the access key.", default="")
    session_token: str = option("Session token of temporary credentials.", default="")
    profile: str = option("Profile in the configuration files of boto3.", default="")

    kind: ClassVar[str] = "sqs"
    label: ClassVar[str] = "SQS"
    brings: ClassVar[Brings] = "records"
    has_offsets: ClassVar[bool] = False
    events_in: ClassVar[str] = "queue"

    def problems(self, origin: StreamOrigin, place: Place) -> Iterator[Problem]:
        """The problem of a stream that is to be read from a queue itself."""
        from lakesql.errors import Problem

        what = "A stream is not read from a queue of SQS, which tells of files alone."
        fix = "Name it under `notifications` of a stream of files: `{connection: queues, queue: lake-events}`."
        yield Problem("wrong-value", what, fix=fix, place=place)

    def check(self) -> str:
        """The endpoint, or the region, in words."""
        return self.endpoint or f"SQS in region {self.region or 'of boto3'}"

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """The endpoint in words, with roughly how many messages wait in the queues that
        announce the streams' files."""
        names = {
            stream.notifications.queue
            for stream in streams
            if stream.notifications is not None
        }
        if not names:
            return f"{self.check()}, which the first run will ask"
        waiting = sum(open_queue(self, name).waiting() for name in names)
        return f"{self.check()} answers, about {count(waiting, 'message')} in {count(len(names), 'queue')}"

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """False: no stream is read from a queue."""
        return False


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message, and the handle by which it is deleted."""

    text: str
    handle: str


def open_queue(source: Sqs, name: str) -> Queue:
    """The queue with this name or URL. Raises `ProfileError` (`unknown-queue`, and what
    `Queue` raises)."""
    queue = Queue(open_service(source, source.kind, source.label), name, name)
    if "://" in name:
        return queue
    url = queue.ask("get_queue_url", QueueName=name)["QueueUrl"]
    return Queue(queue.client, name, url)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue. `client` is boto3's, or one with its interface.

    Its methods raise `ProfileError` (`unknown-queue`, `queue-forbidden`,
    `wrong-credentials`) and `TransientError`.
    """

    client: Any
    name: str
    url: str

    def receive(self, most: int) -> list[QueueMessage]:
        """Up to about `most` waiting messages; empty if the queue reports none. They
        are hidden from others for `HIDDEN_S`, so they have to be deleted by then."""
        found = self._receive(LOOK_S)
        while found and len(found) < most:
            more = self._side_by_side(lambda _: self._receive(0), range(CALLERS))
            arrived = [message for messages in more for message in messages]
            if not arrived:
                break
            found += arrived
        return found

    def delete(self, messages: Sequence[QueueMessage]) -> None:
        """Delete messages from the queue. A message whose visibility timeout is over
        may be delivered again nevertheless."""
        parts = [
            messages[at : at + CALL_MESSAGES]
            for at in range(0, len(messages), CALL_MESSAGES)
        ]
        self._side_by_side(self._delete, parts)

    def waiting(self) -> int:
        """The approximate number of waiting messages."""
        wanted = ["ApproximateNumberOfMessages"]
        found = self.ask(
            "get_queue_attributes", QueueUrl=self.url, AttributeNames=wanted
        )
        return int(found["Attributes"][wanted[0]])

    def _receive(self, wait_s: int) -> list[QueueMessage]:
        limits = {
            "MaxNumberOfMessages": CALL_MESSAGES,
            "WaitTimeSeconds": wait_s,
            "VisibilityTimeout": HIDDEN_S,
        }
        found = self.ask("receive_message", QueueUrl=self.url, **limits)
        return [
            QueueMessage(each["Body"], each["ReceiptHandle"])
            for each in found.get("Messages", [])
        ]

    def _delete(self, messages: Sequence[QueueMessage]) -> None:
        entries = [
            {"Id": str(at), "ReceiptHandle": each.handle}
            for at, each in enumerate(messages)
        ]
        # a message that is not deleted is delivered again, and is recognized
        self.ask("delete_message_batch", QueueUrl=self.url, Entries=entries)

    def _side_by_side(
        self, do: Callable[[Given], Answer], given: Sequence[Given]
    ) -> list[Answer]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(CALLERS, "sqs") as callers:
            return [*callers.map(do, given)]

    def ask(self, operation: str, **words: Any) -> Mapping[str, Any]:
        """The answer of SQS to an operation. Raises lakesql's errors instead of
        boto3's."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: Mapping[str, Any] = getattr(self.client, operation)(**words)
        except ClientError as error:
            raise self._explain(error.response) from None
        except BotoCoreError as error:
            raise explain_client(error, Sqs.label) from None
        return answer

    def _explain(self, answer: Mapping[str, Any]) -> LakesqlError:
        error = answer["Error"]
        code, said = error.get("Code", "").rpartition(".")[2], error.get("Message", "")
        is_forbidden = (
            answer.get("ResponseMetadata", {}).get("HTTPStatusCode") == _FORBIDDEN
        )
        if code in ("QueueDoesNotExist", "NonExistentQueue"):
            what = f"There is no queue '{self.name}': {said}"
            return ProfileError.of("unknown-queue", what)
        # in the XML protocol such an error may have no code
        if code in _REFUSED or (
            is_forbidden and any(each in said for each in _REFUSED)
        ):
            return ProfileError.of(
                "wrong-credentials", f"SQS does not take the credentials: {said}"
            )
        if is_forbidden or code in (
            "AccessDenied",
            "AccessDeniedException",
            "InvalidSecurity",
        ):
            return ProfileError.of(
                "queue-forbidden", f"Queue '{self.name}' may not be used: {said}"
            )
        return TransientError.of(
            "connection-unreachable",
            f"SQS does not answer as it should: {code}: {said}",
        )
