"""Tables with a long past, made at once: real manifests and metadata of commits that
nobody has to make one by one.

The data files that the manifests list do not exist: what reads metadata alone does not
miss them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from lakesql.catalog.connect import OpenCatalog

FIRST_ID = 10**18


@dataclass(frozen=True)
class Past:
    """A commit: the sizes of the data files and of the delete files that it has added,
    each with `rows` rows.

    `drops` is whether it has removed all files that were there before. `partition` is
    theirs.
    """

    at_ms: int
    data: tuple[int, ...] = ()
    deletes: tuple[int, ...] = ()
    rows: int = 100
    operation: str = "append"
    summary: Mapping[str, str] = field(default_factory=dict)
    drops: bool = False
    partition: tuple[Any, ...] = ()


class _Entry(NamedTuple):
    """A file of the commit of a number, with the sequence number of its rows."""

    number: int
    rows_of: int
    file: DataFile


def make_past(
    opened: OpenCatalog,
    name: tuple[str, str],
    schema: Schema,
    past: Sequence[Past],
    **options: Any,
) -> Table:
    """A table with these commits, the oldest first; a manifest holds the files of a
    hundred of them."""
    opened.iceberg.create_namespace_if_not_exists(name[0])
    return rewrite_past(
        opened, opened.iceberg.create_table(name, schema, **options), past
    )


def rewrite_past(opened: OpenCatalog, table: Table, past: Sequence[Past]) -> Table:
    folder = Path(table.metadata_location.removeprefix("file://")).parent
    entries: list[_Entry] = []
    snapshots: list[dict[str, Any]] = []
    total: Counter[str] = Counter()
    for number, commit in enumerate(past):
        if commit.drops:
            entries, total = [], Counter()
        added = [
            *((DataFileContent.DATA, size) for size in commit.data),
            *((DataFileContent.POSITION_DELETES, size) for size in commit.deletes),
        ]
        # what is rewritten is older than its file
        rows_of = number if commit.operation == "replace" else number + 1
        entries += [
            _Entry(number, rows_of, _file(folder, number, index, *each, commit))
            for index, each in enumerate(added)
        ]
        total["data-files"] += len(commit.data)
        total["delete-files"] += len(commit.deletes)
        total["records"] += commit.rows * len(commit.data)
        total["position-deletes"] += commit.rows * len(commit.deletes)
        total["files-size"] += sum(commit.data) + sum(commit.deletes)
        snapshots.append(_snapshot(folder, number, commit, total))
    _write_manifests(table, folder, entries, len(past))
    place = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(place.read_text())
    metadata |= {"snapshots": snapshots, "last-sequence-number": len(past)}
    if past:
        head = snapshots[-1]["snapshot-id"]
        metadata |= {
            "current-snapshot-id": head,
            "refs": {"main": {"snapshot-id": head, "type": "branch"}},
        }
        log = [
            {"snapshot-id": each["snapshot-id"], "timestamp-ms": each["timestamp-ms"]}
            for each in snapshots
        ]
        metadata |= {"snapshot-log": log, "last-updated-ms": past[-1].at_ms}
    place.write_text(json.dumps(metadata))
    return opened.iceberg.load_table(table.name())


def _file(
    folder: Path,
    number: int,
    index: int,
    content: DataFileContent,
    size: int,
    commit: Past,
) -> DataFile:
    columns = range(1, 21)
    file = DataFile.from_args(
        content=content,
        file_path=f"{folder.parent}/data/{number:05}-{index}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(*commit.partition),
        record_count=commit.rows,
        file_size_in_bytes=size,
        column_sizes=dict.fromkeys(columns, 1000),
        value_counts=dict.fromkeys(columns, commit.rows),
        null_value_counts=dict.fromkeys(columns, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(columns, b"aaaaaaaaaaaaaaaa"),
        upper_bounds=dict.fromkeys(columns, b"zzzzzzzzzzzzzzzz"),
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=0,
    )
    file.spec_id = 0
    return file


def _snapshot(
    folder: Path, number: int, commit: Past, total: Counter[str]
) -> dict[str, Any]:
    kinds = (
        "data-files",
        "delete-files",
        "records",
        "position-deletes",
        "equality-deletes",
        "files-size",
    )
    summary = {
        "operation": commit.operation,
        "added-data-files": len(commit.data),
        "added-records": commit.rows * len(commit.data),
        "added-files-size": sum(commit.data) + sum(commit.deletes),
        **{f"total-{kind}": total[kind] for kind in kinds},
        "engine-name": "spark",
        "engine-version": "4.1.3",
        "iceberg-version": "Apache Iceberg 1.10.0 (commit 2114bf631e49af532d66e2ce148ee49dd1dd1f1f)",
    }
    return {
        "snapshot-id": FIRST_ID + number,
        **({"parent-snapshot-id": FIRST_ID + number - 1} if number else {}),
        "sequence-number": number + 1,
        "timestamp-ms": commit.at_ms,
        "manifest-list": f"file://{folder}/snap-{number}.avro",
        "summary": {
            **{key: str(value) for key, value in summary.items()},
            **commit.summary,
        },
        "schema-id": 0,
    }


def _write_manifests(
    table: Table, folder: Path, entries: Sequence[_Entry], commits: int
) -> None:
    manifests: list[ManifestFile] = []
    for content in (ManifestContent.DATA, ManifestContent.DELETES):
        of_content = [
            entry
            for entry in entries
            if (entry.file.content == DataFileContent.DATA) == (content.value == 0)
        ]
        for first in range(0, commits, 100):
            some = [
                entry for entry in of_content if first <= entry.number < first + 100
            ]
            if some:
                manifests.append(_write_manifest(table, folder, content, some))
    head = f"file://{folder}/snap-{commits - 1}.avro"
    output = table.io.new_output(head)
    with write_manifest_list(
        2, output, FIRST_ID + commits - 1, None, commits, "deflate"
    ) as lists:
        lists.add_manifests(manifests)


def _write_manifest(
    table: Table, folder: Path, content: ManifestContent, entries: Sequence[_Entry]
) -> ManifestFile:
    first, last = entries[0].number, entries[-1].number
    output = table.io.new_output(
        f"file://{folder}/{content.name.lower()}-{first}-{last}.avro"
    )
    with write_manifest(
        2, table.spec(), table.schema(), output, FIRST_ID + last, "deflate"
    ) as writer:
        for number, rows_of, file in entries:
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.EXISTING,
                    snapshot_id=FIRST_ID + number,
                    sequence_number=rows_of,
                    file_sequence_number=number + 1,
                    data_file=file,
                )
            )
    written = writer.to_manifest_file()
    written._data[3] = content  # pyiceberg writes manifests of data files alone
    written.sequence_number = last + 1
    return written
