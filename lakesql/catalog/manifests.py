"""How the files of a table's current snapshot are read from its manifests: only their
sizes, ages, partitions and numbers of rows, not their statistics."""

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
"""The number of files from which on no further manifest is read."""

READERS = 8
"""The number of manifests that are read at the same time."""

_DATA_FILE = 2
_ENTRY = {0: 0, 1: 1, _DATA_FILE: 2, 3: 3, 4: 4}
_FILE = {134: 0, 102: 1, 103: 2, 104: 3, 145: 4}
"""The fields that are read of a manifest's entry (status, snapshot, data file, sequence
number, file sequence number) and of its data file (content, partition, rows, size, size
of the deletion vector in it), as field ids of Iceberg's specification, each with its
position in the record that is read."""

_DELETED = 2
"""The status of an entry whose file was removed from the table."""


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
    """The live files in the manifests; of a very large table, only those of the newest
    manifests, until there are `MOST_FILES`.

    `snapshots` are those that the table still has; a file of an expired one counts as
    written at the time of the oldest. Raises what the file system and pyiceberg raise.
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
            # A file may hold deletion vectors of many data files.
            size_bytes=size_bytes if vector_bytes is None else vector_bytes,
            rows=rows,
            written_ms=by.at_ms if by else oldest,
            is_delete=bool(content),  # a manifest of format version 1 does not say it
            # A compacted file keeps the sequence number of its rows, by which it is
            # recognized also when the snapshot that wrote it has expired.
            is_compacted=of_rows < of_file
            or (by is not None and by.summary.get("operation") == "replace"),
        )


def _read_entries(
    io: FileIO, manifest: ManifestFile, readers: dict[str, Reader]
) -> Iterator[tuple[Any, Any, Any, int, int]]:
    """The entries of a manifest: status, snapshot, data file, the data sequence number,
    and the file sequence number.

    An entry without a sequence number inherits that of the manifest; both are 0 in
    format version 1.

    pyiceberg builds a reader for each manifest's schema, which takes ten times as long
    as reading a small manifest. So readers are cached in `readers` by the schema's
    text, which the manifests of a table have in common.
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
    """The field at this position of a record; None if the manifest, of an older format
    version, does not have it."""
    return record[place] if place < len(record) else None


def _reader(struct: StructType, places: Mapping[int, int]) -> Reader:
    """A reader of the fields that have a position in `places`, which skips all others,
    such as the bounds and counts of columns."""
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
