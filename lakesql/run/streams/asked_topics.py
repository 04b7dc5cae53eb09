"""Asks topics what they hold without Spark, and caches the answers for commands that
ask no broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lakesql.project.cache import CacheFile, digest
from lakesql.project.files import Outputs
from lakesql.stream.stream import Stream


class KeptStreams:
    """A cache file with a JSON value for each stream; a value is ignored once its
    stream reads other topics."""

    def __init__(
        self, outputs: Outputs, file: str, target: str, streams: Iterable[str]
    ) -> None:
        self._file = CacheFile(outputs.cache / file)
        self._target = target
        self._names = [self._name(stream) for stream in streams]

    def get(self, stream: Stream) -> Any | None:
        """The value of a stream; None if there is none."""
        return self._file.get(
            self._name(stream.name), digest(stream.connection, str(stream.origin))
        )

    def put(self, stream: Stream, value: Any) -> None:
        """Set the value of a stream."""
        self._file.put(
            self._name(stream.name),
            digest(stream.connection, str(stream.origin)),
            value,
        )

    def save(self) -> None:
        """Write the file, with the values of existing streams alone."""
        self._file.save(self._names)

    def _name(self, stream: str) -> str:
        return f"{self._target}.{stream}"


@contextmanager
def open_kafka(say: Callable[[str], None] = lambda _: None) -> Iterator[Any]:
    """Yields a JVM with Kafka's clients alone, which starts in half a second. `say` is
    called for jars that are fetched first; a progress bar is shown for them."""
    # Imported only here: projects that declare all of their streams ask no cluster.
    from lakesql.engine.sources.broker import open_java
    from lakesql.engine.spark.jars import ensure_jars, user_cache
    from lakesql.engine.spark.java import find_java
    from lakesql.observe.download import download_bars

    java = find_java(os.environ)
    with download_bars() as show:
        jars = ensure_jars(frozenset({"kafka"}), user_cache(os.environ), say, show=show)
    with open_java(java, jars) as jvm:
        yield jvm
