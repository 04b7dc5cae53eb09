"""How topics are asked for what they hold where no Spark runs, and what was found in
them, kept for the commands that ask no broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


@contextmanager
def open_kafka(say: Callable[[str], None] = lambda _: None) -> Iterator[Any]:
    """A JVM with Kafka's clients alone, which starts in half a second. `say` hears of
    jars that are fetched first, as they show in the terminal."""
    # Only here: what asks a cluster is not loaded for a project that declares all of
    # its streams.
    from lakesql.engine.sources.broker import open_java
    from lakesql.engine.spark.jars import ensure_jars, user_cache
    from lakesql.engine.spark.java import find_java
    from lakesql.observe.download import download_bars

    java = find_java(os.environ)
    with download_bars() as show:
        jars = ensure_jars(frozenset({"kafka"}), user_cache(os.environ), say, show=show)
    with open_java(java, jars) as jvm:
        yield jvm
