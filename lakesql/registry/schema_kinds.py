"""The kinds of schemas that records of a registry can have, Avro and Protobuf, behind
one interface. Pure, except for Protobuf's compiler."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from lakesql.registry.avro import PRIMITIVES, parse_avro
from lakesql.registry.proto_schema import (
    descriptor_of,
    find_imports,
    find_message,
    parse_proto,
)
from lakesql.registry.proto_text import proto_text
from lakesql.registry.registered import Registered
from lakesql.registry.schema_error import SchemaError


class SchemaKind(Protocol):
    """A kind of schema by which records are read."""

    name: ClassVar[str]
    """What registries call it."""

    title: ClassVar[str]
    """What messages call it."""

    suffix: ClassVar[str]
    """The suffix of files with such a schema."""

    condition: ClassVar[str]
    """The condition of the error if a schema is invalid, or lacks a column."""

    field_pattern: ClassVar[str]
    """A regular expression that finds the field `{name}` in the text of a schema; its
    first group is the name."""

    def with_others(
        self, id_: int, text: str, others: Sequence[tuple[str, str]]
    ) -> Registered:
        """The schema together with those that it refers to: `others` has their names
        and texts, each after those that it refers to itself."""

    def imports(self, text: str) -> list[str]:
        """The names of the files that a schema imports."""
        return []

    def field_names(self, each: Registered, message: str) -> list[str]:
        """The fields of the records that are written with a schema, or of its
        `message`; empty if it cannot be read."""

    def tidy(self, text: str) -> str:
        """The text of a schema as it is written into a file of the project."""


class AvroKind(SchemaKind):
    """Avro: JSON in which named types are defined at their first use."""

    name: ClassVar[str] = "AVRO"
    title: ClassVar[str] = "Avro"
    suffix: ClassVar[str] = ".avsc"
    condition: ClassVar[str] = "avro-schema"
    field_pattern: ClassVar[str] = r'"name"\s*:\s*("{name}")'

    def with_others(
        self, id_: int, text: str, others: Sequence[tuple[str, str]]
    ) -> Registered:
        """The schema with the types of the others put into its text."""
        if not others:
            return Registered(id_, self.name, text)
        try:
            return Registered(
                id_, self.name, parse_avro(text, [other for _, other in others]).text()
            )
        except SchemaError:
            return Registered(id_, self.name, text)

    def field_names(self, each: Registered, message: str) -> list[str]:
        """The fields of the record; empty if the schema is no record or cannot be
        read."""
        try:
            record = parse_avro(each.text).record
        except SchemaError:
            return []
        return [field["name"] for field in record["fields"]] if record else []

    def tidy(self, text: str) -> str:
        """The text as indented JSON."""
        if text.strip() in PRIMITIVES:
            return json.dumps(text.strip()) + "\n"
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


class ProtobufKind(SchemaKind):
    """Protobuf: a .proto, or its descriptor in base64. It may import others."""

    name: ClassVar[str] = "PROTOBUF"
    title: ClassVar[str] = "Protobuf"
    suffix: ClassVar[str] = ".proto"
    condition: ClassVar[str] = "protobuf-schema"
    field_pattern: ClassVar[str] = r"\b({name})\s*=\s*\d"

    def with_others(
        self, id_: int, text: str, others: Sequence[tuple[str, str]]
    ) -> Registered:
        """The schema with the others as its files."""
        return Registered(id_, self.name, text, tuple(dict(others).items()))

    def imports(self, text: str) -> list[str]:
        """The names in the `import` statements."""
        return find_imports(text)

    def field_names(self, each: Registered, message: str) -> list[str]:
        """The fields of the message, or of the first one if none is named; empty if the
        schema cannot be read."""
        try:
            schema = parse_proto(each.text, each.files)
        except SchemaError:
            return []
        found = schema.messages.get(find_message(schema, message))
        return [field.name for field in found.fields] if found else []

    def tidy(self, text: str) -> str:
        """The text of the .proto, with a line break at its end; a descriptor is
        converted to a .proto."""
        found = descriptor_of(text)
        if found is not None:
            return proto_text(found)
        return text if text.endswith("\n") else f"{text}\n"


SCHEMA_KINDS: Mapping[str, SchemaKind] = {
    each.name: each for each in (AvroKind(), ProtobufKind())
}
"""The kinds of schemas that records can be read by, by what registries call them."""


def is_same_schema(each: Registered, pulled: Registered) -> bool:
    """Whether a registry's schema equals the one in a file of the project."""
    kind = SCHEMA_KINDS.get(pulled.kind)
    if kind is None or each.kind != pulled.kind:
        return False
    try:
        texts = [
            (kind.tidy(one.text), {name: kind.tidy(text) for name, text in one.files})
            for one in (each, pulled)
        ]
    except ValueError:
        return False
    return texts[0] == texts[1]
