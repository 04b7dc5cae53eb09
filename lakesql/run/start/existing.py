"""What exists now, according to the catalog, files and brokers, read without Java: each
thing is read once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from lakesql.catalog.metadata_text import ReadMetadata
from lakesql.errors import LakesqlError
from lakesql.model.table_name import TableName
from lakesql.progress.analyzed import shape_of
from lakesql.run.streams.ask_sources import read_topics
from lakesql.source.source import Source
from lakesql.source.stream_state import SourceState
from lakesql.stream.stream import Stream
from lakesql.table.metadata import TableMetadata, read_metadata

UNREADABLE = (
    LakesqlError,
    ImportError,
    OSError,
    ValueError,
    LookupError,
    sqlite3.Error,
)
"""The exceptions of reading something that is missing, or not in the form in which
lakesql, Spark or Iceberg write it."""


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """A table's metadata, and a digest of the parts of it that determine Spark's
    analysis of statements on it."""

    metadata: TableMetadata
    shape: str


FindTable = Callable[[TableName], MetadataTable | None]


class Existing:
    """The tables and streams as they are now. Each table is read once; each connection
    is asked once, for all of its streams."""

    def __init__(
        self,
        read: ReadMetadata,
        read_view: ReadMetadata,
        connections: Mapping[str, Source],
        streams: Sequence[Stream],
    ) -> None:
        self.find = open_finder(read)
        """Finds a table by name, with the digest of what determines Spark's analysis
        of statements on it."""
        self.read_view = read_view
        """Reads the metadata of a view by name."""
        self._connections = connections
        self._streams = streams
        self._states: Mapping[str, SourceState] | None = None

    def table(self, name: str) -> TableMetadata | None:
        """The metadata of the table of this name; None if it does not exist."""
        found = self.find(TableName(*name.split(".")))
        return found.metadata if found is not None else None

    def found(self, stream: str) -> SourceState | None:
        """The state of a stream, as its connection reports it; None if one of its
        topics is not available."""
        if self._states is None:
            read, _ = read_topics(self._connections, self._streams)
            self._states = {
                name: each.source for name, each in read.items() if not each.problems
            }
        return self._states.get(stream)


def open_finder(read: ReadMetadata) -> FindTable:
    """A function that finds a table by name, and reads the metadata of each once."""

    @cache
    def find(name: TableName) -> MetadataTable | None:
        text = read(name)
        if text is None:
            return None
        try:
            metadata = json.loads(text)
            return MetadataTable(read_metadata(metadata), shape_of(metadata))
        # a value has another type than Iceberg writes
        except (TypeError, AttributeError) as error:
            raise ValueError(
                f"the metadata of {name} is none of Iceberg's: {error}"
            ) from error

    return find
