"""Which of the files that no version of a table refers to were written by lakesql's
runs: only these are orphans.

The name of a data or delete file identifies its writer (`progress/writer.py`). A
manifest is identified by the files that it lists, a manifest list by its manifests, and
a metadata file by the table's UUID. Each counts only in a folder where Iceberg puts
files of its kind: a copy in another folder was made by somebody else.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from py4j.protocol import Py4JJavaError

from lakesql.engine.ledger.snapshots import JavaTable, table_id
from lakesql.engine.maintenance.places import local_path, plain_path, read_places
from lakesql.engine.progress.writer import writer_of
from lakesql.engine.spark.gateway import java_class

ENTRIES_READ = 100
"""How many entries of a manifest, or of a manifest list, are read to find one that is
known."""

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_DATA_FILE = re.compile(
    rf"(?:[01]{{8}}-)?\d{{5,}}-(?P<task>\d+)-{_UUID}(?:-\d+)?-\d{{5,}}(?:-deletes)?\.[a-z]+"
)
_DATA_FOLDER = re.compile(r"[^/=]+=[^/]*|[01]{4,8}")
"""A folder of a partition, or a hash folder that `write.object-storage.enabled`
makes."""

_MANIFEST = re.compile(rf"(?:optimized-m-)?{_UUID}(?:-m\d+)?\.avro")
_MANIFEST_LIST = re.compile(rf"snap-\d+-\d+-{_UUID}\.avro")
_METADATA_FILE = re.compile(rf"\d+-{_UUID}(?:\.gz)?\.metadata\.json(?:\.gz)?")


_TYPES = "org.apache.iceberg.types.Types"
_SCHEMA = "org.apache.iceberg.Schema"


@dataclass(slots=True)
class OwnFiles:
    """What has been found about the files of one table. `writer` is None if no run has
    a writer's number."""

    table: JavaTable
    writer: int | None
    manifests: dict[str, bool] = field(default_factory=dict)

    def owns(self, file: str) -> bool:
        """Whether lakesql's runs have written a file below the table's location."""
        places = read_places(self.table)
        path = plain_path(file)
        if _is_behind_link(places.location, path):
            return False
        name = PurePosixPath(path).name
        if any(
            _lies_in_data(root, path) for root in places.data
        ) and self._has_own_name(name):
            return True
        if str(PurePosixPath(path).parent) not in places.metadata:
            return False
        try:
            return self._owns_metadata(file, name)
        except (Py4JJavaError, ValueError):  # whatever it is, Iceberg cannot read it
            return False

    def _owns_metadata(self, file: str, name: str) -> bool:
        if _METADATA_FILE.fullmatch(name):
            return read_uuid(self.table.io(), file) == table_id(self.table)
        if _MANIFEST_LIST.fullmatch(name):
            return any(
                self._owns_manifest(each)
                for each in self._entries(file, _manifest_paths())
            )
        return bool(_MANIFEST.fullmatch(name)) and self._owns_manifest(file)

    def _owns_manifest(self, file: str) -> bool:
        if file not in self.manifests:
            try:
                named = self._entries(file, _data_paths(), is_nested=True)
                self.manifests[file] = any(
                    self._has_own_name(PurePosixPath(each).name) for each in named
                )
            except Py4JJavaError:  # it is gone, or none
                self.manifests[file] = False
        return self.manifests[file]

    def _has_own_name(self, name: str) -> bool:
        found = _DATA_FILE.fullmatch(name)
        return (
            found is not None
            and self.writer is not None
            and writer_of(int(found["task"])) == self.writer
        )

    def _entries(self, file: str, schema: Any, is_nested: bool = False) -> list[str]:
        avro = java_class("org.apache.iceberg.FileFormat").AVRO
        reader = java_class("org.apache.iceberg.InternalData").read(
            avro, self.table.io().newInputFile(file)
        )
        with closing(reader.project(schema).build()) as rows:
            read = islice(_iterate(rows.iterator()), ENTRIES_READ)
            return [str((row.get(0) if is_nested else row).get(0)) for row in read]


def read_uuid(io: Any, file: str) -> str | None:
    """The UUID of the table that a metadata file is of; None if it has none."""
    content = java_class("org.apache.commons.io.IOUtils")
    parser = java_class("org.apache.iceberg.TableMetadataParser$Codec")
    is_gzip = str(parser.fromFileName(file).name()) == "GZIP"
    with closing(io.newInputFile(file).newStream()) as raw:
        stream = java_class("java.util.zip.GZIPInputStream")(raw) if is_gzip else raw
        found = json.loads(str(content.toString(stream, "UTF-8")))
    uuid = found.get("table-uuid") if isinstance(found, dict) else None
    return str(uuid) if uuid is not None else None


def _iterate(rows: Any) -> Any:
    while rows.hasNext():
        yield rows.next()


def _manifest_paths() -> Any:
    return java_class(_SCHEMA)([_text_field(500, "manifest_path")])


def _data_paths() -> Any:
    struct = java_class(f"{_TYPES}$StructType").of([_text_field(100, "file_path")])
    return java_class(_SCHEMA)(
        [java_class(f"{_TYPES}$NestedField").required(2, "data_file", struct)]
    )


def _text_field(number: int, name: str) -> Any:
    return java_class(f"{_TYPES}$NestedField").required(
        number, name, java_class(f"{_TYPES}$StringType").get()
    )


def _lies_in_data(root: str, path: str) -> bool:
    if not path.startswith(f"{root}/"):
        return False
    *folders, _ = path.removeprefix(f"{root}/").split("/")
    return all(_DATA_FOLDER.fullmatch(folder) for folder in folders)


def _is_behind_link(location: str, path: str) -> bool:
    """Whether a link leads from the table's folder to the file, which may then belong
    to another table."""
    folder, file = local_path(location), local_path(path)
    if folder is None or file is None:
        return False
    return os.path.realpath(file) != str(
        Path(os.path.realpath(folder), os.path.relpath(file, folder))
    )
