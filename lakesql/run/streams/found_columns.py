"""Finds the columns of open streams, which declare none, in the records of their topics
on one target."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from lakesql.errors import Problem, ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.project.profiles import Target
from lakesql.run.streams.asked_topics import KeptStreams, open_kafka
from lakesql.run.streams.events_in_json import in_json
from lakesql.source.kafka import Kafka
from lakesql.source.origin import StreamOrigin
from lakesql.stream.feed_schema import (
    infer_columns,
    merge_fields,
    parse_field,
    schema_fields,
)
from lakesql.stream.found_tables import key_names
from lakesql.stream.recording import RawRecord, parse_json, parse_line, payload_of
from lakesql.stream.stream import Column, Stream, with_columns

SAMPLE = 1_000
"""How many of the newest records of a stream are read to find its columns."""


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """The columns of a stream as its records describe them. `schema_fields` are the
    fields of the records' schemas; without them the columns are guessed from values."""

    columns: tuple[Column, ...]
    schema_fields: tuple[str, ...]
    key: tuple[str, ...]


def find_recorded(manifest: Manifest) -> Manifest:
    """The project with the columns of its open streams filled in, from recordings or
    from the cache of what was last found in topics. Asks no broker.

    Columns guessed from a recording add a warning. A stream of which nothing is known
    keeps no columns. Raises `ProjectError` if what was found is not a valid contract.
    """
    streams, warnings = dict(manifest.streams), list(manifest.warnings)
    kept = _KeptColumns(manifest)
    for stream in _open_streams(manifest, manifest.streams):
        source = manifest.target.connections.get(stream.connection)
        folder = source.recording if source is not None else None
        if folder is None:
            found = kept.get(stream)
        else:
            found = find_columns(
                recorded_events(manifest.target, stream, folder), stream
            )
            if found and not found.schema_fields:
                what = f"Stream '{stream.name}' declares no columns; these are guessed from its recording: "
                fix = f"Declare them: {_as_yaml(found.columns)}"
                text = what + ", ".join(column.name for column in found.columns) + "."
                warnings.append(
                    Problem("columns-guessed", text, fix=fix, place=stream.place)
                )
        if found and stream.schema_fields:
            found = _with_declared(found, stream)
        if found:
            streams[stream.name] = with_columns(
                stream, found.columns, found.schema_fields, found.key
            )
    return replace(manifest, streams=streams, warnings=tuple(warnings))


def _with_declared(found: FoundColumns, stream: Stream) -> FoundColumns | None:
    """The columns found in a topic, merged with those that the project declares for the
    schema's table; None if the two contradict each other."""
    kept = [parse_field(text) for text in found.schema_fields]
    merged = merge_fields(kept, map(parse_field, stream.schema_fields))
    if merged.clashing:
        return None
    return FoundColumns(
        merged.columns, tuple(field.text for field in merged.fields), found.key
    )


def ask_topics(manifest: Manifest, models: Iterable[str]) -> Manifest:
    """The project with the columns of the open streams that the models read, found in
    the newest records in Kafka.

    The columns are cached for commands that ask no broker. Raises what asking a broker
    raises, and `ProjectError` (`no-columns`) if the records carry no schema.
    """
    read = {
        reference.name
        for name in models
        for reference in manifest.models[name].facts.streams
    }
    read -= _follow_themselves(manifest)
    clusters = (
        (stream, cluster_of(manifest.target, stream))
        for stream in _open_streams(manifest, read)
    )
    wanted = [(stream, cluster) for stream, cluster in clusters if cluster is not None]
    if not wanted:
        return manifest
    # imported only here: most projects declare their columns
    from lakesql.engine.sources.broker import open_broker

    streams, kept = dict(manifest.streams), _KeptColumns(manifest)
    with open_kafka() as jvm:
        for stream, connection in wanted:
            with open_broker(jvm, connection) as broker:
                topics = broker.find_topics(stream.origin, stream.place)
                records = broker.read_newest(topics.values(), SAMPLE)
            found = find_columns(in_json(records, stream, manifest.target), stream)
            if found is not None and not found.schema_fields:
                what = f"The records of stream '{stream.name}' carry no schema, and it declares no columns."
                fix = f"Declare them, once you have checked this guess: {_as_yaml(found.columns)}"
                raise ProjectError.of("no-columns", what, fix=fix, place=stream.place)
            if found is not None:
                streams[stream.name] = with_columns(
                    stream, found.columns, found.schema_fields, found.key
                )
                kept.put(stream, found)
    kept.save()
    return replace(manifest, streams=streams)


def with_fields(manifest: Manifest, found: Mapping[str, Sequence[str]]) -> Manifest:
    """The project with the given schema fields for its open streams, by stream name.
    Those of streams read from Kafka are cached."""
    streams, kept = dict(manifest.streams), _KeptColumns(manifest)
    for name, texts in found.items():
        stream = streams[name]
        columns = merge_fields((), map(parse_field, texts)).columns
        streams[name] = with_columns(stream, columns, tuple(texts), stream.key)
        if cluster_of(manifest.target, stream) is not None:
            kept.put(stream, FoundColumns(columns, tuple(texts), stream.key))
    kept.save()
    return replace(manifest, streams=streams)


def with_followed(
    manifest: Manifest, found: Mapping[str, tuple[Column, ...]]
) -> Manifest:
    """The project with the given columns for streams whose contracts were pulled from a
    registry, by stream name.

    Raises `ProjectError` if one has a name that no column can have.
    """
    streams = dict(manifest.streams)
    for name, columns in found.items():
        streams[name] = with_columns(streams[name], columns, (), ())
    return replace(manifest, streams=streams)


def cluster_of(target: Target, stream: Stream) -> Kafka | None:
    """The Kafka cluster that a stream is read from; None if it is read from another
    kind of source."""
    source = target.connections.get(stream.connection)
    return source.cluster if source is not None else None


def find_columns(records: Sequence[RawRecord], stream: Stream) -> FoundColumns | None:
    """The columns that records describe, given oldest first; None if they describe
    none.

    The newest schema of each topic counts: a column that it no longer has is gone from
    the source's table. Without schemas, columns are guessed from the rows' values.
    Raises `ProjectError` (`no-columns`) if the schemas of two topics contradict each
    other.
    """
    events = [(record, parse_json(record.value)) for record in records]
    newest = {
        record.topic: fields
        for record, event in events
        if (fields := schema_fields(event))
    }
    key = next(
        (names for record, _ in reversed(events) if (names := key_names(record))), ()
    )
    if newest:
        merged = merge_fields(
            (), (field for fields in newest.values() for field in fields)
        )
        if merged.clashing:
            what = f"The topics of stream '{stream.name}' do not go together: {'; '.join(merged.differences)}."
            raise ProjectError.of(
                "no-columns", what, fix="Declare its `columns`.", place=stream.place
            )
        return FoundColumns(
            merged.columns, tuple(field.text for field in merged.fields), key
        )
    columns = infer_columns(_rows(event for _, event in events))
    return FoundColumns(columns, (), key) if columns else None


def _rows(events: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for event in events:
        after = (payload_of(event) or {}).get("after")
        if isinstance(after, dict):
            yield after


def _open_streams(manifest: Manifest, names: Collection[str]) -> list[Stream]:
    """The open streams among `names`, without feeds of groups that no model reads
    directly."""
    read = {
        found.name
        for model in manifest.models.values()
        for found in model.facts.streams
    }
    feeds = {group.stream for group in manifest.groups.values()} - read
    wanted = set(names) - feeds
    return [
        stream
        for name, stream in manifest.streams.items()
        if stream.is_open and name in wanted
    ]


def _follow_themselves(manifest: Manifest) -> frozenset[str]:
    """The streams of group tables whose columns are known: their batches adapt to new
    columns by themselves."""
    of_groups = {
        model.member.stream
        for model in manifest.models.values()
        if model.member is not None
    }
    return frozenset(
        name
        for name in of_groups
        if name in manifest.streams and manifest.streams[name].columns
    )


def first_recorded(stream: Stream, folder: Path, number: int) -> list[RawRecord]:
    """The oldest `number` records of a stream's recording, oldest first."""
    return _recorded(stream.origin, folder, number, newest=False)[:number]


def recorded_events(target: Target, stream: Stream, folder: Path) -> list[RawRecord]:
    """The newest records of a feed's recording, as JSON. Raises what `in_json`
    raises."""
    return in_json(
        newest_recorded(stream.origin, folder), stream, target, is_recorded=True
    )


def newest_recorded(
    origin: StreamOrigin, folder: Path, number: int = SAMPLE
) -> list[RawRecord]:
    """The newest records of a recording, at least `number` of each topic if it has as
    many, oldest first."""
    return _recorded(origin, folder, number, newest=True)


def _recorded(
    origin: StreamOrigin, folder: Path, number: int, *, newest: bool
) -> list[RawRecord]:
    """The newest or the oldest records of a recording, at least `number` of each topic
    if it has as many, ordered oldest first."""
    there = (
        {unquote(each.name): each for each in folder.iterdir()}
        if folder.is_dir()
        else {}
    )
    topics = origin.find_topics(lambda: there.keys())
    folders = [there.get(topic, folder / quote(topic, safe="")) for topic in topics]
    records: list[RawRecord] = []
    for each in folders:
        found: list[RawRecord] = []
        for file in sorted(each.glob("*.jsonl"), reverse=newest):
            # read line by line: a file may be of any size
            with file.open(encoding="utf-8", errors="replace") as lines:
                some = deque(lines, maxlen=number) if newest else islice(lines, number)
                parsed = [
                    parse_line(line.rstrip("\r\n"), unquote(each.name)) for line in some
                ]
            found += [record for record in parsed if record]
            if len(found) >= number:
                break
        records += found
    return sorted(records, key=lambda record: record.age)


def _as_yaml(columns: Iterable[Column]) -> str:
    return f"columns: {{{', '.join(f'{column.name}: {_quoted(column.type)}' for column in columns)}}}"


def _quoted(kind: str) -> str:
    return f'"{kind}"' if re.search(r"[,<>:]", kind) else kind


class _KeptColumns:
    """The cache of columns that were found in the topics of a target's open streams."""

    def __init__(self, manifest: Manifest) -> None:
        self._kept = KeptStreams(
            manifest.outputs, "columns.json", manifest.target.name, manifest.streams
        )

    def get(self, stream: Stream) -> FoundColumns | None:
        kept = self._kept.get(stream)
        if kept is None:
            return None
        merged = merge_fields((), map(parse_field, kept["fields"]))
        return FoundColumns(merged.columns, tuple(kept["fields"]), tuple(kept["key"]))

    def put(self, stream: Stream, found: FoundColumns) -> None:
        self._kept.put(stream, {"fields": found.schema_fields, "key": found.key})

    def save(self) -> None:
        self._kept.save()
