"""The columns of a stream from a Protobuf message. Pure, except that Protobuf's
compiler parses the text."""

from __future__ import annotations

from lakesql.errors import Place, ProjectError, did_you_mean
from lakesql.registry.proto_schema import (
    ProtoField,
    ProtoSchema,
    find_message,
    parse_proto,
)
from lakesql.registry.proto_types import KNOWN, SCALARS, check_held
from lakesql.registry.schema_error import NoColumnError, SchemaError
from lakesql.stream.stream import Column, Stream
from lakesql.stream.types import field_name


def proto_columns(
    stream: Stream, place: Place, text: str, files: tuple[tuple[str, str], ...] = ()
) -> tuple[Column, ...]:
    """The columns of the stream's message. Raises `ProjectError`
    (`protobuf-schema`)."""
    try:
        schema = parse_proto(text, files)
    except (SchemaError, RecursionError) as error:
        what = f"This is not a schema of Protobuf: {error}."
        raise ProjectError.of("protobuf-schema", what, place=place) from None
    message = schema.messages.get(find_message(schema, stream.message))
    if message is None:
        what = (
            f"There is no message {stream.message}, which stream '{stream.name}' reads."
        )
        if not schema.paths:
            what = "There is no message in it."
        fix = did_you_mean(stream.message, schema.paths.values())
        raise ProjectError.of("protobuf-schema", what, fix=fix, place=place)
    return tuple(_column(each, schema, stream, place) for each in message.fields)


def _column(
    field: ProtoField, schema: ProtoSchema, stream: Stream, place: Place
) -> Column:
    message = schema.messages[find_message(schema, stream.message)]
    try:
        kind = _spark_type(field, schema, (message.name,), field.name)
    except NoColumnError as error:
        raise ProjectError.of(
            "protobuf-schema",
            f"Field '{error.path}' {error.why}, which no column holds.",
            fix=f"Declare the `columns` of stream '{stream.name}', without it or as another type.",
            place=place,
        ) from None
    return Column(field.name, kind, description=field.description)


def _spark_type(
    field: ProtoField, schema: ProtoSchema, inside: tuple[str, ...], path: str
) -> str:
    """Spark's text of a field's type; `inside` are the names of the enclosing
    messages."""
    message = schema.messages.get(field.of)
    if message is not None and message.is_entry:
        key, value = (
            _single_type(each, schema, inside, f"{path}.{each.name}")
            for each in message.fields
        )
        return f"map<{key},{value}>"
    found = _single_type(field, schema, inside, path)
    return f"array<{found}>" if field.is_repeated else found


def _single_type(
    field: ProtoField, schema: ProtoSchema, inside: tuple[str, ...], path: str
) -> str:
    """The type of one value of a field, whether it is repeated or not."""
    if field.kind in SCALARS:
        return SCALARS[field.kind]
    if field.of in KNOWN:
        return KNOWN[field.of]
    message = schema.messages[field.of]
    check_held(field, message, inside, path)
    within = (*inside, message.name)
    fields = [
        f"{field_name(each.name)}:{_spark_type(each, schema, within, f'{path}.{each.name}')}"
        for each in message.fields
    ]
    return f"struct<{','.join(fields)}>"
