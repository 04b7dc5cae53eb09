"""Finds the columns that the streams of a SELECT have by now: those that batches of a
run have found in open streams, and those of newer schemas in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesql.engine.batch.kept_schemas import follow_kept
from lakesql.events import Emit, Noted
from lakesql.graph.manifest import Manifest
from lakesql.run.streams.bind import BoundSelect
from lakesql.run.streams.found_columns import with_fields, with_followed
from lakesql.stream.registry_columns import schema_path
from lakesql.stream.stream import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def follow_streams(
    session: SparkSession,
    manifest: Manifest,
    bound: BoundSelect,
    schema_fields: Mapping[str, tuple[str, ...]],
    emit: Emit,
    *,
    asks: bool,
) -> Manifest | None:
    """The project with the columns that the SELECT's streams have now; None if the
    SELECT was built with the same ones.

    `schema_fields` are those that the run has found in open streams, by stream. With
    `asks`, registries are asked for new schemas. Raises what `follow_kept` raises.
    """
    streams = bound.select.streams
    found = {name: each for name, each in schema_fields.items() if name in streams}
    followed = _follow_registries(session, manifest, bound, emit, asks=asks)
    has_other_fields = any(
        streams[name].schema_fields != each for name, each in found.items()
    )
    has_other_columns = any(
        streams[name].columns != columns for name, columns in followed.items()
    )
    if not (has_other_fields or has_other_columns):
        return None
    return with_followed(with_fields(manifest, found), followed)


def _follow_registries(
    session: SparkSession,
    manifest: Manifest,
    bound: BoundSelect,
    emit: Emit,
    *,
    asks: bool,
) -> dict[str, tuple[Column, ...]]:
    """The columns of the streams that follow a registry's schemas, by stream. Emits a
    note if the schema file in the project is older than the schema in use."""
    model, found = bound.select.model, {}
    if model.config.on_schema_change == "ignore":
        return {}
    for binding in bound.bindings:
        if binding.stream.pulled is None:
            continue
        stream = manifest.streams[binding.stream.name]
        followed = follow_kept(session, replace(binding, stream=stream), asks=asks)
        found[stream.name] = followed.columns
        if followed.differences:
            path = schema_path(stream, manifest.settings.paths.streams)
            behind = f"stream {stream.name}: {path} is behind what arrives: {'; '.join(followed.differences)}"
            text = f"{behind}. To have it in the project: lakesql schema pull {stream.name}"
            emit(Noted(text, model.name))
    return found
