"""Binds the streams of a model to the connections of a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakesql.engine.sources.binding import StreamBinding
from lakesql.errors import ProjectError, did_you_mean
from lakesql.graph.manifest import Manifest, reads_model
from lakesql.project.cache import digest
from lakesql.registry.schemas import StreamSchemas
from lakesql.source.kinds import model_table, project_files
from lakesql.source.source import Source
from lakesql.stream.avro_schema import read_avro_schema
from lakesql.stream.stream import Stream

if TYPE_CHECKING:
    from lakesql.compile.select import Select


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """A model's SELECT, with its streams bound to the target's connections."""

    select: Select
    bindings: tuple[StreamBinding, ...]


def bind_select(manifest: Manifest, select: Select) -> BoundSelect:
    """The model's SELECT with the connections of its streams. Raises `ProjectError`."""
    bindings = tuple(
        _bind_stream(manifest, select, name) for name in select.query.streams_read
    )
    _check_offsets(select, bindings)
    return BoundSelect(select, bindings)


def _check_offsets(select: Select, bindings: Sequence[StreamBinding]) -> None:
    """Raise `ProjectError` (`no-offset`) if rows depend on `_record.offset` of a stream
    whose records have no offsets."""
    without = {
        each.stream.name: each.source
        for each in bindings
        if not each.source.has_offsets
    }
    if not without:
        return
    # imported only here: it needs the SQL parser
    from lakesql.select.offsets_used import find_offset_use

    compared = [name for names in select.compared.values() for name in names]
    at = find_offset_use(select.query, without, compared)
    if at is None:
        return
    named = ", ".join(f"'{name}' ({source.label})" for name, source in without.items())
    raise ProjectError.of(
        "no-offset",
        f"Rows of model '{select.model.name}' depend on `_record.offset`, which is NULL in {named}.",
        why=next(
            filter(None, (source.place_instead for source in without.values())), ""
        ),
        place=select.rendered.place(at),
    )


def bind_selects(
    manifest: Manifest, selects: Mapping[str, Select]
) -> dict[str, BoundSelect]:
    """`bind_select` for several models, by name."""
    return {name: bind_select(manifest, select) for name, select in selects.items()}


def _bind_stream(manifest: Manifest, select: Select, name: str) -> StreamBinding:
    read = reads_model(manifest, name)
    stream = select.streams[name]
    if read is not None:
        source = model_table(str(read.table), stream.has_table_changes)
        return StreamBinding(
            stream,
            source,
            sequence=tuple(select.sequence.values()),
            is_mirrored=select.feed is not None,
            needs_past=not select.is_copy,
            table=read.table,
        )
    return replace(
        bind_stream(manifest, stream),
        sequence=tuple(select.sequence.values()),
        kept=tuple(select.kept),
        unused=select.unused_of(stream),
        tombstones=select.writing.tombstones,
        moves=select.has_moves,
        is_mirrored=select.feed is not None,
        has_one_table=select.has_one_table,
    )


def bind_stream(manifest: Manifest, stream: Stream) -> StreamBinding:
    """The binding of a declared stream to its connection. Raises `ProjectError`."""
    name = stream.name
    if not stream.connection:
        return StreamBinding(
            stream, project_files(str(manifest.directory)).as_asked(stream)
        )
    connections = manifest.target.connections
    if stream.connection not in connections:
        raise ProjectError.of(
            "unknown-connection",
            f"Target '{manifest.target.name}' has no connection '{stream.connection}', by which '{name}' is read.",
            fix=did_you_mean(stream.connection, connections),
            place=stream.place,
        )
    events = _find_events(manifest, stream)
    folder = (
        events_folder(manifest.target.checkpoints, events, stream)
        if events is not None
        else ""
    )
    binding = StreamBinding(
        stream,
        connections[stream.connection].as_asked(stream, events),
        events_folder=folder,
    )
    if problems := list(binding.source.problems(stream.origin, stream.place)):
        raise ProjectError(problems)
    if stream.registry:
        return _with_registry(manifest, binding)
    if (
        stream.record_format.has_typed_rows
        and not stream.schema
        and binding.source.brings != "files"
    ):
        raise ProjectError.of(
            "format-needs-files",
            f"Stream '{name}' has format '{stream.format}', and connection '{stream.connection}' brings no files.",
            place=stream.place,
        )
    return (
        replace(binding, schema=read_avro_schema(manifest.directory, stream))
        if stream.schema
        else binding
    )


def _find_events(manifest: Manifest, stream: Stream) -> Source | None:
    """The connection whose topic or queue reports a stream's new files; None if the
    stream has no `notifications`. Raises `ProjectError`."""
    if stream.notifications is None:
        return None
    name, connections = stream.notifications.connection, manifest.target.connections
    found = connections.get(name)
    if found is None:
        raise ProjectError.of(
            "unknown-connection",
            f"Target '{manifest.target.name}' has no connection '{name}', which is to tell of the files of "
            f"'{stream.name}'.",
            fix=did_you_mean(name, connections),
            place=stream.place,
        )
    if found.events_in != stream.notifications.option:
        raise ProjectError.of(
            "wrong-value",
            f"Connection '{name}', whose {stream.notifications.option} is to tell of the files of stream "
            f"'{stream.name}', is of type '{found.kind}'.",
            why="Events are read from topics of Kafka and from queues of SQS.",
            fix="Name a connection of type `kafka` and a `topic` under `notifications`, or one of type `sqs` and a "
            "`queue`.",
            place=stream.place,
        )
    return found


def events_folder(checkpoints: str, events: Source, stream: Stream) -> str:
    """The folder for the events that a queue has reported of a stream's files; streams
    that name the same queue share it."""
    assert stream.notifications is not None
    queue = digest(events.check(), stream.notifications.name)
    return f"{checkpoints.rstrip('/')}/{EVENTS_FOLDER}/{queue}"


def _with_registry(manifest: Manifest, binding: StreamBinding) -> StreamBinding:
    """The binding with the stream's registry, and with no schema fetched yet."""
    stream = binding.stream
    registry = manifest.target.registry_of(stream)
    checkpoints = manifest.target.checkpoints.rstrip("/")
    folder = f"{checkpoints}/{SCHEMAS_FOLDER}/{stream.registry}-{registry.digest}"
    none = StreamSchemas(stream.wire, has_globals=registry.has_globals)
    kind, key_kind = stream.record_format.schema_kind, stream.key_kind
    return replace(
        binding,
        registry=registry,
        schemas=replace(none, kind=kind, message=stream.message) if kind else None,
        key_schemas=replace(none, kind=key_kind, side="key") if key_kind else None,
        schemas_folder=folder,
    )


SCHEMAS_FOLDER = "_schemas"
"""The folder, beside the checkpoints of models, of schemas fetched from registries."""

EVENTS_FOLDER = "_events"
"""The folder, beside the checkpoints of models, of file events read from queues."""
