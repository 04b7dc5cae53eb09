"""The files of a table's current snapshot, and what its metadata takes, as they are
read from manifests."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple


class LiveFile(NamedTuple):
    """A file of the current snapshot.

    `written_ms` is when it was committed, or where that snapshot is gone, when the
    oldest one was that is left: it is as old at least. `is_compacted`: it was written
    by a compaction. A delete file's `rows` are the deletes in it.
    """

    partition: Hashable
    size_bytes: int
    rows: int
    written_ms: int
    is_delete: bool
    is_compacted: bool


class ManifestSize(NamedTuple):
    """A manifest of the current snapshot: its bytes, and how many entries it has."""

    size_bytes: int
    entries: int
    is_delete: bool


@dataclass(frozen=True, slots=True)
class MetadataSizes:
    """What a table's metadata takes: the metadata file with a snapshot of a batch and
    an earlier metadata file in it, of which it names `log`; the manifest list, and the
    manifests."""

    file_bytes: int
    snapshot_bytes: float = 0
    log: int = 0
    log_entry_bytes: float = 0
    list_bytes: int = 0
    manifests: tuple[ManifestSize, ...] = ()

    @property
    def total_bytes(self) -> int:
        """What a reader reads before it knows the files."""
        return (
            self.file_bytes
            + self.list_bytes
            + sum(each.size_bytes for each in self.manifests)
        )
