"""The files of a table's current snapshot and the sizes of its metadata, as read from
manifests."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple


class LiveFile(NamedTuple):
    """A file of the current snapshot.

    `written_ms` is when it was committed; if that snapshot has expired, the time of the
    oldest one that exists, so the file is at least that old. `is_compacted`: a
    compaction has written it. The `rows` of a delete file are its deletes.
    """

    partition: Hashable
    size_bytes: int
    rows: int
    written_ms: int
    is_delete: bool
    is_compacted: bool


class ManifestSize(NamedTuple):
    """A manifest of the current snapshot: its bytes and its number of entries."""

    size_bytes: int
    entries: int
    is_delete: bool


@dataclass(frozen=True, slots=True)
class MetadataSizes:
    """The sizes of a table's metadata in bytes: the metadata file, in it the average
    snapshot of a batch and the entry of each of `log` earlier metadata files, the
    manifest list, and the manifests."""

    file_bytes: int
    snapshot_bytes: float = 0
    log: int = 0
    log_entry_bytes: float = 0
    list_bytes: int = 0
    manifests: tuple[ManifestSize, ...] = ()

    @property
    def total_bytes(self) -> int:
        """The bytes that a reader reads before it knows the table's files."""
        return (
            self.file_bytes
            + self.list_bytes
            + sum(each.size_bytes for each in self.manifests)
        )
