"""What lineage tells of a project's models and seeds, the same in all runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.compile.checks import Check
from lakesql.compile.compiled import CompiledFiles
from lakesql.compile.made_columns import ModelLineage
from lakesql.compile.select import Select
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.lineage.behind_views import without_views
from lakesql.model.table_name import TableName
from lakesql.project.profiles import Catalog
from lakesql.source.kinds import project_files
from lakesql.source.source import Source
from lakesql.stream.stream import Column, Stream


@dataclass(frozen=True, slots=True)
class LineageJob:
    """A model or a seed as a job of lineage. `sql` is the SELECT of a model, '' for a
    seed, which is loaded from a `file`."""

    name: str
    table: TableName
    description: str
    sql: str
    columns: tuple[Column, ...]
    made: ModelLineage = ModelLineage()
    checks: tuple[Check, ...] = ()
    streams: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class LineageFacts:
    """What is the same in all runs of a project on a target: its jobs by name, and the
    streams that they read.

    `sources` are what the streams are read from, by the stream's name; `tables` are the
    tables of models and seeds, by the ids of their nodes.
    """

    project: str
    namespace: str
    jobs: Mapping[str, LineageJob]
    streams: Mapping[str, Stream]
    sources: Mapping[str, Source]
    tables: Mapping[str, TableName]
    catalog: Catalog


def lineage_facts(
    manifest: Manifest,
    compiled: CompiledFiles,
    selects: Mapping[str, Select],
    namespace: str,
) -> LineageFacts:
    """The facts of the models of `selects` and of the project's seeds. `namespace` is
    that of the jobs; if it is '', project and target are used."""
    jobs = {
        name: _model_job(manifest, compiled, select) for name, select in selects.items()
    }
    for seed in manifest.seeds.values():
        file = str(manifest.directory / seed.path)
        jobs[seed.name] = LineageJob(
            seed.name,
            seed.table,
            seed.properties.description,
            "",
            seed.columns,
            file=file,
        )
    connections, own = (
        manifest.target.connections,
        project_files(str(manifest.directory)),
    )
    sources = {
        name: connections.get(stream.connection, own)
        for name, stream in manifest.streams.items()
    }
    tables = {
        node_id("model", name): model.table for name, model in manifest.models.items()
    }
    tables |= {
        node_id("seed", name): seed.table for name, seed in manifest.seeds.items()
    }
    tables |= {
        node_id("model", name): table
        for name, table in manifest.deferred.items()
        if name in manifest.models
    }
    project = manifest.settings.name
    return LineageFacts(
        project=project,
        namespace=namespace or f"{project}.{manifest.target.name}",
        jobs=jobs,
        streams=manifest.streams,
        sources=sources,
        tables=tables,
        catalog=manifest.target.catalog,
    )


def _model_job(
    manifest: Manifest, compiled: CompiledFiles, select: Select
) -> LineageJob:
    model, known = select.model, compiled.known(select.model.name)
    made = known.lineage if known is not None else ModelLineage()
    return LineageJob(
        name=model.name,
        table=model.table,
        description=model.properties.description,
        sql=select.query.sql.strip(),
        columns=table_columns(compiled, select),
        made=without_views(manifest, compiled, made),
        checks=select.checks,
        streams=tuple(dict.fromkeys(select.query.streams_read)),
    )


def table_columns(compiled: CompiledFiles, select: Select) -> tuple[Column, ...]:
    """The columns of a model's table with their descriptions, including those that the
    mode adds; none if only Spark's analyzer knows them. A type that only it knows is
    ''."""
    known, properties = compiled.known(select.model.name), select.model.properties
    if known is None or known.columns is None:
        return ()
    columns = [
        Column(it.name, it.type, description=properties.description_of(it.name))
        for it in known.columns
    ]
    types = {column.name.lower(): column.type for column in columns}
    for added in select.writing.added:
        type_ = added.type or types.get(added.like.lower(), "")
        columns.append(Column(added.name, type_, description=added.comment))
    return tuple(columns)
