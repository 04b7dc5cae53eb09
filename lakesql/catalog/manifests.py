"""The files of a table's current snapshot, from its manifests: their sizes and ages,
and nothing else of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lakesql.ledger.entry import Snapshot
from lakesql.table.live_files import LiveFile

if TYPE_CHECKING:
    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot
    from pyiceberg.types import StructType

MOST_FILES = 100_000
"""From so many files on, no further manifest is read."""

READERS = 8
"""Manifests that are read at the same time."""

_DATA_FILE = 2
_ENTRY = {0: 0, 1: 1, _DATA_FILE: 2, 3: 3, 4: 4}
_FILE = {134: 0, 102: 1, 103: 2, 104: 3, 145: 4}
"""Which fields of an entry (status, snapshot, data file, sequence number, that of the
file) and of its data file (content, partition, rows, size, size of the part that is a
deletion vector) are read, by the specification's numbers, and the place that each
gets."""

_DELETED = 2
"""The status of an entry whose file has left the table."""


def list_manifests(io: FileIO, snapshot: IcebergSnapshot) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot, the newest first."""
    return tuple(
        sorted(
            snapshot.manifests(io),
            key=lambda found: found.sequence_number or 0,
            reverse=True,
        )
    )


def read_live_files(
    io: FileIO, manifests: tuple[ManifestFile, ...], snapshots: Mapping[int, Snapshot]
) -> tuple[LiveFile, ...]:
    """The files that the manifests list: all, or those of the newest manifests that
    have `MOST_FILES` between them.

    `snapshots` are those that the table still has. Raises what the file system and
    pyiceberg raise.
    """
    oldest = min((snapshot.at_ms for snapshot in snapshots.values()), default=0)
    readers: dict[str, Reader] = {}

    def read(manifest: ManifestFile) -> list[LiveFile]:
        return [*_read_manifest(io, manifest, snapshots, oldest, readers)]

    with ThreadPoolExecutor(READERS, thread_name_prefix="lakesql-manifest") as pool:
        return tuple(
            file for files in pool.map(read, _bounded(manifests)) for file in files
        )


def _bounded(manifests: tuple[ManifestFile, ...]) -> Iterator[ManifestFile]:
    files = 0
    for manifest in manifests:
        if files >= MOST_FILES:
            return
        files += (manifest.added_files_count or 0) + (
            manifest.existing_files_count or 0
        )
        yield manifest


def _read_manifest(
    io: FileIO,
    manifest: ManifestFile,
    snapshots: Mapping[int, Snapshot],
    oldest: int,
    readers: dict[str, Reader],
) -> Iterator[LiveFile]:
    for status, snapshot_id, file, of_rows, of_file in _read_entries(
        io, manifest, readers
    ):
        if status == _DELETED:
            continue
        content, partition, rows, size_bytes, vector_bytes = (
            _get(file, place) for place in range(len(_FILE))
        )
        added = manifest.added_snapshot_id if snapshot_id is None else snapshot_id
        by = None if added is None else snapshots.get(added)
        yield LiveFile(
            partition=(
                manifest.partition_spec_id,
                *(partition[index] for index in range(len(partition))),
            ),
            # a file has the vectors of many
            size_bytes=size_bytes if vector_bytes is None else vector_bytes,
            rows=rows,
            written_ms=by.at_ms if by else oldest,
            is_delete=bool(content),  # a manifest of format version 1 does not say it
            # A file of older rows has their sequence number, also when the snapshot
            # that wrote it is gone.
            is_compacted=of_rows < of_file
            or (by is not None and by.summary.get("operation") == "replace"),
        )


def _read_entries(
    io: FileIO, manifest: ManifestFile, readers: dict[str, Reader]
) -> Iterator[tuple[Any, Any, Any, int, int]]:
    """The entries of a manifest: status, snapshot, data file, its rows' sequence number
    and its own.

    A number that an entry does not have is the manifest's, which has none (0) in format
    version 1.

    pyiceberg's own reading makes a reader of each manifest's schema, which takes ten
    times as long as the entries of a small one: `readers` keeps them by the schema's
    text, which manifests of one table share.
    """
    from pyiceberg.avro.file import AvroFile

    class ManifestAvro(AvroFile[Any]):
        def __enter__(self) -> ManifestAvro:
            from pyiceberg.avro.decoder import new_decoder

            with self.input_file.open() as file:
                self.decoder = new_decoder(file.read())
            self.header = self._read_header()
            text = self.header.meta["avro.schema"]
            if text not in readers:
                readers[text] = _reader(self.header.get_schema().as_struct(), _ENTRY)
            self.reader = readers[text]
            return self

    inherited = manifest.sequence_number or 0
    with ManifestAvro(io.new_input(manifest.manifest_path)) as entries:
        for entry in entries:
            said = (_get(entry, place) for place in (3, 4))
            of_rows, of_file = (
                inherited if number is None else number for number in said
            )
            yield entry[0], entry[1], entry[2], of_rows, of_file


def _get(record: Any, place: int) -> Any:
    """A field that was read to this place; None where the manifest, of an older format
    version, does not have it."""
    return record[place] if place < len(record) else None


def _reader(struct: StructType, places: Mapping[int, int]) -> Reader:
    """What reads the fields that have a place, and passes over the others: bounds and
    counts of each column."""
    from pyiceberg.avro.reader import OptionReader, StructReader
    from pyiceberg.avro.resolver import construct_reader
    from pyiceberg.typedef import Record

    fields = []
    for field in struct.fields:
        if field.field_id == _DATA_FILE and isinstance(field.field_type, type(struct)):
            reader = _reader(field.field_type, _FILE)
        else:
            reader = construct_reader(field.field_type)
        fields.append(
            (
                places.get(field.field_id),
                reader if field.required else OptionReader(reader),
            )
        )
    return StructReader(tuple(fields), Record, struct)
