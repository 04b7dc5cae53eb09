"""Which OpenLineage datasets a batch reads: their names, and the part of each that was
read. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakesql.events import ReadRange
from lakesql.graph.graph import node_id
from lakesql.lineage.lineage_jobs import LineageFacts, LineageJob
from lakesql.project.profiles import Catalog
from lakesql.source.dataset import Dataset, dataset_at, without_login
from lakesql.source.source import is_places, offsets_of
from lakesql.stream.stream import Column


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What is read of a partition: from the offset `begin` (None: not known) up to, and
    without, `end`."""

    partition: str
    begin: int | None
    end: int


@dataclass(frozen=True, slots=True)
class LineageInput:
    """A dataset that is read, and the part of it: offsets by partition, or else the
    positions `before` and `after`, as JSON.

    `stream` is the stream that reads it, if one does. `table` is its name in the
    catalog, '' if it is no table, and `snapshot` the one that is read.
    """

    dataset: Dataset
    columns: tuple[Column, ...] = ()
    partitions: tuple[PartitionRange, ...] = ()
    before: str = ""
    after: str = ""
    stream: str = ""
    table: str = ""
    snapshot: str = ""


def inputs_of(
    facts: LineageFacts, job: LineageJob | None, reads: Sequence[ReadRange]
) -> tuple[LineageInput, ...]:
    """The datasets that a batch of a job reads. A dataset that several streams read
    occurs once for each."""
    if job is not None and any(each.name.isdecimal() for each in reads):
        # For a stream that a SELECT joins with itself, Spark has two positions without
        # the stream's name.
        reads = [ReadRange(name, "", "") for name in job.streams]
    return tuple(found for each in reads for found in _input_of(facts, each))


def _input_of(facts: LineageFacts, read: ReadRange) -> Iterator[LineageInput]:
    stream = facts.streams.get(read.name)
    # a table: that of a model which is read as a stream, or one that a refresh reads
    if stream is None:
        table = facts.tables.get(node_id("model", read.name))
        name = str(table) if table is not None else read.name.replace("`", "")
        snapshot = read.after if read.after.isdecimal() else ""
        position = ("", "") if snapshot or not read.after else (read.before, read.after)
        columns = _columns_of(facts, name)
        dataset = table_dataset(facts.catalog, name, read.location)
        yield LineageInput(
            dataset, columns, (), *position, table=name, snapshot=snapshot
        )
        return
    before, after = (
        json.loads(text) if text else None for text in (read.before, read.after)
    )
    topics = tuple(after) if after is not None and is_places(after) else ()
    offsets, begins = offsets_of(after), offsets_of(before) or {}
    datasets = facts.sources[read.name].datasets(stream, topics)
    for number, dataset in enumerate(datasets):
        if offsets is None or len(topics) != len(datasets):
            yield LineageInput(
                dataset, stream.columns, (), read.before, read.after, stream=read.name
            )
            continue
        topic = topics[number]
        partitions = _partitions(begins.get(topic, {}), offsets[topic])
        yield LineageInput(dataset, stream.columns, partitions, stream=read.name)


def _partitions(
    begins: Mapping[str, int], ends: Mapping[str, int]
) -> tuple[PartitionRange, ...]:
    found = (
        PartitionRange(number, begins.get(number), end) for number, end in ends.items()
    )
    return tuple(sorted(found, key=lambda each: (len(each.partition), each.partition)))


def _columns_of(facts: LineageFacts, table: str) -> tuple[Column, ...]:
    """The columns of a table of the project; none where they are not known."""
    return next(
        (job.columns for job in facts.jobs.values() if str(job.table) == table), ()
    )


def datasets_of_node(
    facts: LineageFacts, node: str, inputs: Sequence[LineageInput]
) -> tuple[Dataset, ...]:
    """The datasets of a node of the column graph: those of the batch's inputs, else
    those that are known without a location."""
    type_, _, name = node.partition(".")
    if type_ == "stream":
        read = dict.fromkeys(each.dataset for each in inputs if each.stream == name)
        return tuple(read) or facts.sources[name].datasets(facts.streams[name], ())
    table = str(facts.tables.get(node, name))
    known = (each.dataset for each in inputs if each.table.lower() == table.lower())
    return (next(known, None) or table_dataset(facts.catalog, table, ""),)


def table_dataset(catalog: Catalog, table: str, location: str) -> Dataset:
    """The dataset of a table, by the location of its files; by its name in the catalog
    if that is not known."""
    return dataset_at(location) if location else symlink_of(catalog, table)


def symlink_of(catalog: Catalog, table: str) -> Dataset:
    """The dataset of a table by its name in the catalog."""
    return Dataset(catalog_namespace(catalog), table.partition(".")[2])


def catalog_namespace(catalog: Catalog) -> str:
    """The dataset namespace of a catalog: its address without a login, or its type and
    name if it has none."""
    uri = without_login(catalog.uri).partition("?")[0].rstrip("/")
    if not uri:
        return f"{catalog.type}://{catalog.name}"
    parts: Any = urlsplit(uri)
    scheme = {"thrift": "hive"}.get(parts.scheme, parts.scheme.partition("+")[0])
    return f"{scheme}{uri[len(parts.scheme) :]}"
