"""The columns of what `stream('…')` or `ref('…')` reads, with their types and
descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakesql.compile.select import output_columns
from lakesql.graph.manifest import Manifest
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.sql_scopes import KnownColumn
from lakesql.model.model import Model
from lakesql.names import CHANGE, RECORD, RECORD_FIELDS
from lakesql.stream.stream import Column, Stream, change_fields


def columns_read(
    project: OpenProject, function: str, name: str
) -> Sequence[KnownColumn]:
    """The columns of what `stream` or `ref` with this name reads; empty if they are not
    known."""
    manifest = project.manifest
    if manifest is None:
        return ()
    if function == "stream" and name in manifest.streams:
        return [*stream_columns(manifest.streams[name])]
    if name in manifest.models:
        return [
            *model_columns(
                project, manifest, manifest.models[name], is_stream=function == "stream"
            )
        ]
    if name in manifest.seeds:
        seed = manifest.seeds[name]
        return [
            _known(column, column.description, f"seed {name}")
            for column in seed.columns
        ]
    return ()


def own_columns(project: OpenProject, path: str) -> Sequence[KnownColumn]:
    """The columns of the model in a file; empty for a file without a model, or with
    several."""
    manifest = project.manifest
    for model in manifest.models.values() if manifest is not None else ():
        if model.path == path and model.member is None:
            return columns_read(project, "ref", model.name)
    return ()


def stream_columns(stream: Stream) -> Iterator[KnownColumn]:
    """The columns of a declared stream, and the metadata columns that lakesql adds."""
    for column in stream.columns:
        yield _known(column, column.description, f"stream {stream.name}")
    fields = ", ".join(f"{name} {kind}" for name, kind in RECORD_FIELDS.items())
    yield KnownColumn(
        RECORD,
        "struct",
        f"Where the record is from: {fields}.",
        f"stream {stream.name}",
    )
    changes = change_fields(stream)
    if changes:
        said = ", ".join(
            f"{name} {kind}" for name, kind in changes.items() if name != "before"
        )
        yield KnownColumn(
            CHANGE,
            "struct",
            f"The change that the row is of: {said}.",
            f"stream {stream.name}",
        )


def model_columns(
    project: OpenProject, manifest: Manifest, model: Model, *, is_stream: bool
) -> Iterator[KnownColumn]:
    """The columns of a model's table."""
    select = project.select(model.name)
    origin = f"model {model.name}"
    if select is None:
        columns: Sequence[Column] = project.columns(model.name)
    else:
        columns = output_columns(select)
    for column in columns:
        yield _known(column, model.properties.description_of(column.name), origin)
    for added in select.writing.added if select is not None else ():
        yield KnownColumn(
            added.name, added.type, f"Added by mode {model.config.mode}.", origin
        )
    if is_stream and model.config.changes_rows:
        yield KnownColumn(
            CHANGE, "struct", "The change of the row of the table.", origin
        )


def _known(column: Column, description: str, origin: str) -> KnownColumn:
    return KnownColumn(column.name, column.type, description, origin)
