"""What was found in the topics of a target's streams, kept for the commands that ask no
broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakesql.project.cache import CacheFile, digest
from lakesql.project.files import Outputs
from lakesql.stream.stream import Stream


class KeptStreams:
    """A cache file with a value in JSON for each stream, as long as the stream reads
    the same topics."""

    def __init__(
        self, outputs: Outputs, file: str, target: str, streams: Iterable[str]
    ) -> None:
        self._file = CacheFile(outputs.cache / file)
        self._target = target
        self._names = [self._name(stream) for stream in streams]

    def get(self, stream: Stream) -> Any | None:
        """What is kept of a stream; None where nothing is."""
        return self._file.get(
            self._name(stream.name), digest(stream.connection, str(stream.origin))
        )

    def put(self, stream: Stream, value: Any) -> None:
        """Keep a value of a stream, in the place of the one before."""
        self._file.put(
            self._name(stream.name),
            digest(stream.connection, str(stream.origin)),
            value,
        )

    def save(self) -> None:
        """Write what is kept of the streams that there are."""
        self._file.save(self._names)

    def _name(self, stream: str) -> str:
        return f"{self._target}.{stream}"
