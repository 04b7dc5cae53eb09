"""What a project is in dbt's files `manifest.json` and `catalog.json`, for data
catalogs that read these. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from lakesql.compile.compiled import CompiledFiles
from lakesql.compile.select import Select
from lakesql.graph.graph import GraphNode, node_id
from lakesql.graph.manifest import Manifest, reads_model
from lakesql.lineage.lineage_jobs import table_columns
from lakesql.model.table_name import TableName
from lakesql.stream.stream import Column, Stream

MANIFEST_SCHEMA = "https://schemas.getdbt.com/dbt/manifest/v12.json"
CATALOG_SCHEMA = "https://schemas.getdbt.com/dbt/catalog/v1.json"
DBT_VERSION = "1.10.0"
"""The version of dbt whose files these have the form of."""

MATERIALIZED: Mapping[str, str] = {
    "view": "view",
    "table": "table",
    "materialized_view": "materialized_view",
}
"""dbt's materialization of a mode. All other modes are `incremental`."""

FILES = "files"
"""The name of the dbt source of streams that are read without a connection."""

Artifact = dict[str, Any]


def dbt_manifest(
    manifest: Manifest, compiled: CompiledFiles, selects: Mapping[str, Select], at: str
) -> Artifact:
    """dbt's `manifest.json`: models and seeds as its nodes, streams as its sources.
    `selects` are those of all models; `at` is the time of generation.

    It has no tests, expectations and maintenance, and no lineage of columns, for which
    dbt's file has no place.
    """
    nodes = _nodes(manifest, compiled, selects)
    sources = {
        _source_id(manifest, stream): _source(manifest, stream)
        for stream in manifest.streams.values()
    }
    depends = {
        id_: node["depends_on"]["nodes"]
        for id_, node in nodes.items()
        if "depends_on" in node
    }
    parents = {
        **{id_: depends.get(id_, []) for id_ in nodes},
        **{id_: [] for id_ in sources},
    }
    children: dict[str, list[str]] = {id_: [] for id_ in parents}
    for id_, above in parents.items():
        for each in above:
            children[each].append(id_)
    empty = (
        "macros",
        "docs",
        "exposures",
        "metrics",
        "groups",
        "selectors",
        "disabled",
        "semantic_models",
    )
    return {
        "metadata": {
            **_metadata(manifest, MANIFEST_SCHEMA, at),
            "project_name": _project(manifest),
        }
        | {"adapter_type": "spark"},
        "nodes": nodes,
        "sources": sources,
        **{name: {} for name in (*empty, "saved_queries", "unit_tests", "group_map")},
        "parent_map": parents,
        "child_map": children,
    }


def dbt_catalog(
    manifest: Manifest, compiled: CompiledFiles, selects: Mapping[str, Select], at: str
) -> Artifact:
    """dbt's `catalog.json`: the columns of each table, as far as they are known without
    Spark. `at` is the time of generation."""
    nodes = {}
    for node in _of_tables(manifest):
        table, columns = (
            _table(manifest, node),
            _columns(manifest, compiled, selects, node),
        )
        nodes[_id(manifest, node.id)] = {
            "unique_id": _id(manifest, node.id),
            "metadata": {
                "type": "VIEW"
                if _materialized(manifest, node) == "view"
                else "BASE TABLE",
                "database": table.catalog,
                "schema": table.namespace,
                "name": table.name,
                "comment": _description(manifest, node) or None,
                "owner": None,
            },
            "columns": {
                column.name: {
                    "type": column.type or "unknown",
                    "index": number,
                    "name": column.name,
                    "comment": column.description or None,
                }
                for number, column in enumerate(columns, 1)
            },
            "stats": {},
        }
    return {
        "metadata": _metadata(manifest, CATALOG_SCHEMA, at),
        "nodes": nodes,
        "sources": {},
        "errors": None,
    }


def _metadata(manifest: Manifest, schema: str, at: str) -> Artifact:
    id_ = uuid5(
        NAMESPACE_URL,
        f"urn:lakesql:{manifest.settings.name}:{manifest.target.name}:{at}",
    )
    return {
        "dbt_schema_version": schema,
        "dbt_version": DBT_VERSION,
        "generated_at": at,
        "invocation_id": str(id_),
        "env": {},
    }


# --- models and seeds


def _of_tables(manifest: Manifest) -> list[GraphNode]:
    found = (
        node
        for node in manifest.graph.nodes.values()
        if node.resource_type in ("model", "seed")
    )
    return sorted(found, key=lambda node: node.id)


def _nodes(
    manifest: Manifest, compiled: CompiledFiles, selects: Mapping[str, Select]
) -> dict[str, Artifact]:
    return {
        _id(manifest, node.id): _seed(manifest, compiled, selects, node)
        if node.resource_type == "seed"
        else _model(manifest, compiled, selects, node)
        for node in _of_tables(manifest)
    }


def _common(
    manifest: Manifest,
    compiled: CompiledFiles,
    selects: Mapping[str, Select],
    node: GraphNode,
) -> Artifact:
    table, source = _table(manifest, node), manifest.texts.get(node.path, "")
    folder = node.path.partition("/")[0]
    tags, meta = sorted(node.tags), node.config.get("meta", {})
    return {
        "database": table.catalog,
        "schema": table.namespace,
        "name": node.name,
        "alias": table.name,
        "resource_type": node.resource_type,
        "package_name": _project(manifest),
        "path": node.path.removeprefix(f"{folder}/"),
        "original_file_path": node.path,
        "unique_id": _id(manifest, node.id),
        "fqn": [_project(manifest), *node.fqn[1:]]
        if len(node.fqn) > 1
        else [_project(manifest), *node.fqn],
        "checksum": {"name": "sha256", "checksum": sha256(source.encode()).hexdigest()},
        "config": {
            "enabled": True,
            "materialized": _materialized(manifest, node),
            "tags": tags,
            "meta": meta,
        },
        "tags": tags,
        "meta": meta,
        "description": _description(manifest, node),
        "columns": _columns_of(_columns(manifest, compiled, selects, node)),
        "relation_name": str(table),
    }


def _seed(
    manifest: Manifest,
    compiled: CompiledFiles,
    selects: Mapping[str, Select],
    node: GraphNode,
) -> Artifact:
    return {
        **_common(manifest, compiled, selects, node),
        "depends_on": {"macros": [], "nodes": []},
        "raw_code": "",
    }


def _model(
    manifest: Manifest,
    compiled: CompiledFiles,
    selects: Mapping[str, Select],
    node: GraphNode,
) -> Artifact:
    model = manifest.models[node.name]
    streams = [
        name
        for name in _names(model.facts.streams)
        if reads_model(manifest, name) is None
    ]
    tables = [
        name
        for name in _names(model.facts.streams)
        if reads_model(manifest, name) is not None
    ]
    refs = [*_names(model.facts.refs), *tables]
    above = [
        _id(manifest, node_id("seed" if name in manifest.seeds else "model", name))
        for name in refs
    ]
    above += [_source_id(manifest, manifest.streams[name]) for name in streams]
    text = selects[node.name].query.sql.strip()
    return {
        **_common(manifest, compiled, selects, node),
        "raw_code": manifest.texts.get(node.path, ""),
        "language": "sql",
        "refs": [{"name": name, "package": None, "version": None} for name in refs],
        "sources": [[_source_name(manifest.streams[name]), name] for name in streams],
        "metrics": [],
        "depends_on": {"macros": [], "nodes": list(dict.fromkeys(above))},
        "compiled": True,
        "compiled_path": None,
        "compiled_code": text,
    }


def _names(references: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(found.name for found in references))


def _table(manifest: Manifest, node: GraphNode) -> TableName:
    seed = manifest.seeds.get(node.name) if node.resource_type == "seed" else None
    return seed.table if seed is not None else manifest.models[node.name].table


def _materialized(manifest: Manifest, node: GraphNode) -> str:
    if node.resource_type == "seed":
        return "seed"
    return MATERIALIZED.get(manifest.models[node.name].config.mode, "incremental")


def _description(manifest: Manifest, node: GraphNode) -> str:
    seed = manifest.seeds.get(node.name) if node.resource_type == "seed" else None
    return (seed or manifest.models[node.name]).properties.description


def _columns(
    manifest: Manifest,
    compiled: CompiledFiles,
    selects: Mapping[str, Select],
    node: GraphNode,
) -> tuple[Column, ...]:
    if node.resource_type == "seed":
        return manifest.seeds[node.name].columns
    return table_columns(compiled, selects[node.name])


def _columns_of(columns: Iterable[Column]) -> Artifact:
    return {
        column.name: {
            "name": column.name,
            "description": column.description,
            "data_type": column.type or None,
            "meta": {},
            "tags": [],
        }
        for column in columns
    }


# --- streams


def _source(manifest: Manifest, stream: Stream) -> Artifact:
    node = manifest.graph.nodes[node_id("stream", stream.name)]
    connection = manifest.target.connections.get(stream.connection)
    names = stream.origin.given
    return {
        "database": connection.kind if connection is not None else FILES,
        "schema": _source_name(stream),
        "name": stream.name,
        "resource_type": "source",
        "package_name": _project(manifest),
        "path": node.path,
        "original_file_path": node.path,
        "unique_id": _source_id(manifest, stream),
        "fqn": [_project(manifest), _source_name(stream), stream.name],
        "source_name": _source_name(stream),
        "source_description": "",
        "loader": connection.kind if connection is not None else FILES,
        "identifier": names[0] if len(names) == 1 else stream.name,
        "description": stream.description,
        "columns": _columns_of(stream.columns),
        "config": {"enabled": True},
        "meta": {},
        "tags": sorted(node.tags),
    }


def _source_name(stream: Stream) -> str:
    return stream.connection or FILES


def _source_id(manifest: Manifest, stream: Stream) -> str:
    return f"source.{_project(manifest)}.{_source_name(stream)}.{stream.name}"


def _id(manifest: Manifest, id_: str) -> str:
    kind, _, name = id_.partition(".")
    return f"{kind}.{_project(manifest)}.{name}"


def _project(manifest: Manifest) -> str:
    return manifest.settings.name
