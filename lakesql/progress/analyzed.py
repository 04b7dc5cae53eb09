"""The results of Spark's analyzer that a checkpoint keeps, so that a run with nothing
to read need not analyze again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from lakesql.names import CARRIED_PROPERTY, MAINTENANCE_PROPERTY
from lakesql.project.cache import digest
from lakesql.source.stream_state import StoredFiles

ANALYZED_FILE = "analyzed.json"


@dataclass(frozen=True, slots=True)
class Analyzed:
    """A SELECT whose rows its table can hold, as a digest of everything that decides
    it; and the shapes that the tables it reads and writes had then, by their names."""

    select: str
    shapes: Mapping[str, str]


class WritableFiles(StoredFiles, Protocol):
    """The files of a checkpoint, for reading and writing."""

    def write(self, name: str, text: str) -> None:
        """Write a file, replacing any of that name."""


def read_analyzed(files: StoredFiles) -> Analyzed | None:
    """The result that was kept; None if there is none, or if it cannot be read."""
    try:
        return Analyzed(**json.loads(files.read(ANALYZED_FILE) or ""))
    except (ValueError, TypeError):
        return None


def is_analyzed(files: StoredFiles) -> bool:
    """Whether a result was kept."""
    return ANALYZED_FILE in files.names()


def keep_analyzed(files: WritableFiles, analyzed: Analyzed) -> None:
    """Write the result to the checkpoint, unless it is there already."""
    if read_analyzed(files) != analyzed:
        files.write(ANALYZED_FILE, json.dumps(asdict(analyzed), indent=1))


def shape_of(metadata: Mapping[str, Any]) -> str:
    """A digest of a table's metadata that is equal as long as the table can hold the
    same rows: without snapshots, and without the properties that commits and
    maintenance change."""
    shape = {key: value for key, value in metadata.items() if key not in _OF_SNAPSHOTS}
    found = dict(metadata.get("properties") or {})
    properties = {key: value for key, value in found.items() if key not in _OF_COMMITS}
    return digest(json.dumps({**shape, "properties": properties}, sort_keys=True))


_OF_COMMITS = frozenset({MAINTENANCE_PROPERTY, CARRIED_PROPERTY, "nessie.commit.id"})
"""The properties that change with commits."""

_OF_SNAPSHOTS = frozenset(
    {
        "last-updated-ms",
        "last-sequence-number",
        "current-snapshot-id",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "refs",
        "statistics",
        "partition-statistics",
        "next-row-id",
    }
)
