"""What the runs of a model tell of it in lineage, and what its inputs are called there. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakesql.compile.checks import Check
from lakesql.compile.compiled import CompiledFiles
from lakesql.compile.made_columns import MadeColumn, ModelLineage, SourceColumn
from lakesql.compile.select import Select
from lakesql.events import ReadRange
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.model.config import Every, Trigger
from lakesql.model.table_name import TableName
from lakesql.project.lineage_target import LineageTarget
from lakesql.project.profiles import Catalog
from lakesql.select.lineage_edges import through
from lakesql.source.dataset import Dataset, dataset_at, without_login
from lakesql.source.kinds import project_files
from lakesql.source.source import Source, is_places, offsets_of
from lakesql.stream.stream import Column, Stream

FAST_MS = 60_000
"""Batches that follow each other faster than this are told together, unless the target says otherwise."""

TOGETHER_MS = 3_600_000
"""For so long."""


@dataclass(frozen=True, slots=True)
class LineageJob:
    """A model, or a seed, as a job of lineage. `sql` is what it selects, '' of a seed, which is made of a `file`."""

    name: str
    table: TableName
    description: str
    sql: str
    columns: tuple[Column, ...]
    made: ModelLineage = ModelLineage()
    checks: tuple[Check, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class LineageFacts:
    """What is the same in all runs of a project on a target: its jobs by their names, and the streams that they read.

    `sources` are what the streams are read from, `tables` the tables of models and seeds, by the ids of their nodes.
    """

    project: str
    namespace: str
    jobs: Mapping[str, LineageJob]
    streams: Mapping[str, Stream]
    sources: Mapping[str, Source]
    tables: Mapping[str, TableName]
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What is read of a partition: the first offset, None where it is not known, and the one behind the last."""

    partition: str
    begin: int | None
    end: int


@dataclass(frozen=True, slots=True)
class LineageInput:
    """A dataset that is read, and what of it: offsets of partitions, or a position before and one behind, as JSON.

    `table` is its name in the catalog, '' of what is no table, and `snapshot` the one that is read.
    """

    dataset: Dataset
    columns: tuple[Column, ...] = ()
    partitions: tuple[PartitionRange, ...] = ()
    before: str = ""
    after: str = ""
    table: str = ""
    snapshot: str = ""


def lineage_facts(
    manifest: Manifest, compiled: CompiledFiles, selects: Mapping[str, Select], target: LineageTarget
) -> LineageFacts:
    """The facts of the models of `selects`, and of the project's seeds."""
    jobs = {name: _model_job(manifest, compiled, select) for name, select in selects.items()}
    for seed in manifest.seeds.values():
        file = str(manifest.directory / seed.path)
        jobs[seed.name] = LineageJob(seed.name, seed.table, seed.properties.description, "", seed.columns, file=file)
    connections, own = manifest.target.connections, project_files(str(manifest.directory))
    sources = {name: connections.get(stream.connection, own) for name, stream in manifest.streams.items()}
    tables = {node_id("model", name): model.table for name, model in manifest.models.items()}
    tables |= {node_id("seed", name): seed.table for name, seed in manifest.seeds.items()}
    tables |= {node_id("model", name): table for name, table in manifest.deferred.items() if name in manifest.models}
    project = manifest.settings.name
    return LineageFacts(
        project=project,
        namespace=target.namespace or f"{project}.{manifest.target.name}",
        jobs=jobs,
        streams=manifest.streams,
        sources=sources,
        tables=tables,
        catalog=manifest.target.catalog,
    )


def period_of(target: LineageTarget, trigger: Trigger | None) -> int:
    """How long the batches of a model are told together, in milliseconds; 0 where each is a run of its own.

    `trigger` is None where the run takes what is there: its batches follow each other without a pause.
    """
    if target.every is not None:
        return target.every.length_ms
    is_slow = isinstance(trigger, Every) and trigger.interval_ms >= FAST_MS
    return 0 if is_slow else TOGETHER_MS


def _model_job(manifest: Manifest, compiled: CompiledFiles, select: Select) -> LineageJob:
    model, known = select.model, compiled.known(select.model.name)
    made = known.lineage if known is not None else ModelLineage()
    return LineageJob(
        name=model.name,
        table=model.table,
        description=model.properties.description,
        sql=select.query.sql.strip(),
        columns=table_columns(compiled, select),
        made=_without_views(manifest, compiled, made),
        checks=select.checks,
    )


def table_columns(compiled: CompiledFiles, select: Select) -> tuple[Column, ...]:
    """The columns of a model's table with their descriptions, those too that the mode adds; none where Spark's analyzer
    alone knows them. A type that it alone knows is the empty text."""
    known, properties = compiled.known(select.model.name), select.model.properties
    if known is None or known.columns is None:
        return ()
    columns = [Column(it.name, it.type, description=properties.description_of(it.name)) for it in known.columns]
    types = {column.name.lower(): column.type for column in columns}
    for added in select.writing.added:
        type_ = added.type or types.get(added.like.lower(), "")
        columns.append(Column(added.name, type_, description=added.comment))
    return tuple(columns)


def _without_views(manifest: Manifest, compiled: CompiledFiles, lineage: ModelLineage) -> ModelLineage:
    """The lineage in which the columns of a view are those that it is made of: it has no rows of its own."""

    def resolved(sources: Iterable[SourceColumn]) -> tuple[SourceColumn, ...]:
        return tuple(dict.fromkeys(each for source in sources for each in _behind(manifest, compiled, source)))

    columns = tuple(MadeColumn(column.name, resolved(column.sources)) for column in lineage.columns)
    return ModelLineage(columns, resolved(lineage.rows))


def _behind(manifest: Manifest, compiled: CompiledFiles, source: SourceColumn) -> Iterator[SourceColumn]:
    type_, _, name = source.node.partition(".")
    model = manifest.models.get(name) if type_ == "model" else None
    if model is None or model.config.is_stored or name in manifest.deferred:
        yield source
        return
    known = compiled.known(name)
    columns = known.lineage.columns if known is not None else ()
    of_column = (column for column in columns if column.name.lower() == source.column.lower())
    for each in (each for column in of_column for each in column.sources):
        for node, column, kind in through(frozenset({(each.node, each.column, each.kind)}), source.kind):
            yield from _behind(manifest, compiled, SourceColumn(node, column, kind))


# --- what inputs are called


def inputs_of(facts: LineageFacts, reads: Sequence[ReadRange]) -> tuple[LineageInput, ...]:
    """The datasets of what a batch reads. One that several streams read stands once for each."""
    return tuple(found for each in reads for found in _input_of(facts, each))


def _input_of(facts: LineageFacts, read: ReadRange) -> Iterator[LineageInput]:
    stream = facts.streams.get(read.name)
    if stream is None:  # a table: of a model that is read as it grows, or one of those of a refresh
        table = facts.tables.get(node_id("model", read.name))
        name = str(table) if table is not None else read.name.replace("`", "")
        snapshot = read.after if read.after.isdecimal() else ""
        position = ("", "") if snapshot or not read.after else (read.before, read.after)
        columns = _columns_of(facts, name)
        dataset = table_dataset(facts.catalog, name, read.location)
        yield LineageInput(dataset, columns, (), *position, table=name, snapshot=snapshot)
        return
    before, after = (json.loads(text) if text else None for text in (read.before, read.after))
    topics = tuple(after) if after is not None and is_places(after) else ()
    offsets, begins = offsets_of(after), offsets_of(before) or {}
    datasets = facts.sources[read.name].datasets(stream, topics)
    for number, dataset in enumerate(datasets):
        if offsets is None or len(topics) != len(datasets):
            yield LineageInput(dataset, stream.columns, (), read.before, read.after)
            continue
        topic = topics[number]
        partitions = _partitions(begins.get(topic, {}), offsets[topic])
        yield LineageInput(dataset, stream.columns, partitions)


def _partitions(begins: Mapping[str, int], ends: Mapping[str, int]) -> tuple[PartitionRange, ...]:
    found = (PartitionRange(number, begins.get(number), end) for number, end in ends.items())
    return tuple(sorted(found, key=lambda each: (len(each.partition), each.partition)))


def _columns_of(facts: LineageFacts, table: str) -> tuple[Column, ...]:
    """The columns of a table of the project, where these are known."""
    return next((job.columns for job in facts.jobs.values() if str(job.table) == table), ())


def datasets_of_node(facts: LineageFacts, node: str, inputs: Sequence[LineageInput]) -> tuple[Dataset, ...]:
    """What a node of the column graph is called: as the batch's inputs are, else as it is known without its place."""
    type_, _, name = node.partition(".")
    if type_ == "stream":
        stream = facts.streams[name]
        named = facts.sources[name].datasets(stream, ())
        read = tuple(dict.fromkeys(each.dataset for each in inputs if each.columns == stream.columns))
        # A pattern of topics means those that were read.
        return named if {*named} <= {each.dataset for each in inputs} or not read else read
    table = str(facts.tables.get(node, name))
    known = (each.dataset for each in inputs if each.table.lower() == table.lower())
    return (next(known, None) or table_dataset(facts.catalog, table, ""),)


def table_dataset(catalog: Catalog, table: str, location: str) -> Dataset:
    """A table by the place of its files; by its name in the catalog where that is not known."""
    return dataset_at(location) if location else symlink_of(catalog, table)


def symlink_of(catalog: Catalog, table: str) -> Dataset:
    """A table by its name in the catalog."""
    return Dataset(catalog_namespace(catalog), table.partition(".")[2])


def catalog_namespace(catalog: Catalog) -> str:
    """The catalog by its address, without a login."""
    uri = without_login(catalog.uri).partition("?")[0].rstrip("/")
    if not uri:
        return f"{catalog.type}://{catalog.name}"
    parts: Any = urlsplit(uri)
    scheme = {"thrift": "hive"}.get(parts.scheme, parts.scheme.partition("+")[0])
    return f"{scheme}{uri[len(parts.scheme) :]}"
