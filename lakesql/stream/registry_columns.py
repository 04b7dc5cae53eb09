"""The contract of a stream that declares none, and whose values name schemas of a registry: the subject's own, as the
project keeps it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from lakesql.errors import Place
from lakesql.registry.schema_kinds import SCHEMA_KINDS
from lakesql.stream.avro_columns import avro_columns
from lakesql.stream.proto_columns import proto_columns
from lakesql.stream.stream import Stream, with_columns

SCHEMAS = "schemas"
"""The folder of the subjects' schemas, in that of the streams."""


def schema_path(stream: Stream, folder: str) -> str:
    """Where the project keeps the schema of the stream's subject; `folder` is that of its streams."""
    suffix = SCHEMA_KINDS[stream.record_format.schema_kind].suffix
    return f"{folder}/{SCHEMAS}/{quote(stream.value_subject, safe='')}{suffix}"


def takes_pulled(stream: Stream) -> bool:
    """Whether the columns of a stream are those of its subject's schema."""
    return bool(stream.registry) and not stream.columns


def with_pulled(stream: Stream, path: str, texts: Mapping[str, str]) -> Stream:
    """The stream with the columns that the schema in a file says; `texts` are those of the project's schemas, by their
    paths. Raises `ProjectError` (`avro-schema`, `protobuf-schema`)."""
    place, text = Place(path), texts[path]
    match stream.record_format.schema_kind:
        case "PROTOBUF":
            beside = f"{path.removesuffix('.proto')}/"
            files = {name.removeprefix(beside): other for name, other in texts.items() if name.startswith(beside)}
            columns = proto_columns(stream, place, text, tuple(sorted(files.items())))
        case _:
            columns = avro_columns(stream, place, text)
    return with_columns(stream, columns, (), ())
