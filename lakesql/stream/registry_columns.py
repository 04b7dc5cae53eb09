"""The contract of a stream with a registry and no declared columns: the subject's
schema, as the project keeps it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote

from lakesql.errors import Place
from lakesql.registry.registered import Registered
from lakesql.registry.schema_kinds import SCHEMA_KINDS, AvroKind, ProtobufKind
from lakesql.stream.avro_columns import avro_columns
from lakesql.stream.proto_columns import proto_columns
from lakesql.stream.stream import Column, Stream, with_columns

SCHEMAS = "schemas"
"""The folder of the subjects' schemas, in the streams' folder."""


def schema_path(stream: Stream, folder: str) -> str:
    """The path at which the project keeps the schema of the stream's subject; `folder`
    is that of its streams."""
    suffix = SCHEMA_KINDS[stream.record_format.schema_kind].suffix
    return f"{folder}/{SCHEMAS}/{quote(stream.value_subject, safe='')}{suffix}"


def takes_pulled(stream: Stream) -> bool:
    """Whether the columns of a stream are those of its subject's schema."""
    return bool(stream.registry) and not stream.columns and not stream.is_feed


def with_pulled(stream: Stream, path: str, texts: Mapping[str, str]) -> Stream:
    """The stream with the columns of the schema in a file; `texts` are the project's
    schemas by their paths. Raises `ProjectError` (`avro-schema`, `protobuf-schema`)."""
    name = stream.record_format.schema_kind
    beside = f"{path.removesuffix(SCHEMA_KINDS[name].suffix)}/"
    files = {
        each.removeprefix(beside): text
        for each, text in texts.items()
        if each.startswith(beside)
    }
    pulled = Registered(0, name, texts[path], tuple(sorted(files.items())))
    columns = columns_of(stream, pulled, Place(path))
    return replace(with_columns(stream, columns, (), ()), pulled=pulled)


def columns_of(stream: Stream, schema: Registered, place: Place) -> tuple[Column, ...]:
    """The columns of a schema of the stream's kind. Raises `ProjectError`
    (`avro-schema`, `protobuf-schema`)."""
    return _COLUMNS[schema.kind](stream, place, schema.text, schema.files)


_COLUMNS: Mapping[
    str, Callable[[Stream, Place, str, tuple[tuple[str, str], ...]], tuple[Column, ...]]
] = {
    AvroKind.name: avro_columns,
    ProtobufKind.name: proto_columns,
}
"""The function for each kind of schema that makes columns of its text and of the files
that it imports."""
