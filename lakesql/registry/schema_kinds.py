"""What is asked of a schema, whichever kind it is: Avro's and Protobuf's. Pure but for
Protobuf's compiler."""

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
    """A kind of schemas that records are read by."""

    name: ClassVar[str]
    """What registries call it."""

    title: ClassVar[str]
    """What people call it."""

    suffix: ClassVar[str]
    """The end of the names of files with such schemas."""

    condition: ClassVar[str]
    """What is wrong where one is none, or lacks a column."""

    field_pattern: ClassVar[str]
    """A regular expression of where a text has a field of this `{name}`, as its
    group."""

    def with_others(
        self, id_: int, text: str, others: Sequence[tuple[str, str]]
    ) -> Registered:
        """The schema, with the texts of those that it refers to, by the names that it
        has for them; those first that others refer to."""

    def imports(self, text: str) -> list[str]:
        """The names of the files that it imports."""
        return []

    def field_names(self, each: Registered, message: str) -> list[str]:
        """The fields of the records that are written with it, or of a `message`; none
        where it cannot be read."""

    def tidy(self, text: str) -> str:
        """The text as a file of the project."""


class AvroKind(SchemaKind):
    """JSON, in which named types are defined where they first stand."""

    name: ClassVar[str] = "AVRO"
    title: ClassVar[str] = "Avro"
    suffix: ClassVar[str] = ".avsc"
    condition: ClassVar[str] = "avro-schema"
    field_pattern: ClassVar[str] = r'"name"\s*:\s*("{name}")'

    def with_others(
        self, id_: int, text: str, others: Sequence[tuple[str, str]]
    ) -> Registered:
        """The others are put into it."""
        if not others:
            return Registered(id_, self.name, text)
        try:
            return Registered(
                id_, self.name, parse_avro(text, [other for _, other in others]).text()
            )
        except SchemaError:
            return Registered(id_, self.name, text)

    def field_names(self, each: Registered, message: str) -> list[str]:
        """Those of a record."""
        try:
            record = parse_avro(each.text).record
        except SchemaError:
            return []
        return [field["name"] for field in record["fields"]] if record else []

    def tidy(self, text: str) -> str:
        """Indented."""
        if text.strip() in PRIMITIVES:
            return json.dumps(text.strip()) + "\n"
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


class ProtobufKind(SchemaKind):
    """A .proto, or the descriptor of one in base64, which imports others."""

    name: ClassVar[str] = "PROTOBUF"
    title: ClassVar[str] = "Protobuf"
    suffix: ClassVar[str] = ".proto"
    condition: ClassVar[str] = "protobuf-schema"
    field_pattern: ClassVar[str] = r"\b({name})\s*=\s*\d"

    def with_others(
        self, id_: int, text: str, others: Sequence[tuple[str, str]]
    ) -> Registered:
        """The others are files beside it."""
        return Registered(id_, self.name, text, tuple(dict(others).items()))

    def imports(self, text: str) -> list[str]:
        """Those that its `import`s name."""
        return find_imports(text)

    def field_names(self, each: Registered, message: str) -> list[str]:
        """Those of a message, or of the first one."""
        try:
            schema = parse_proto(each.text, each.files)
        except SchemaError:
            return []
        found = schema.messages.get(find_message(schema, message))
        return [field.name for field in found.fields] if found else []

    def tidy(self, text: str) -> str:
        """As it is; a descriptor as the text that says the same."""
        found = descriptor_of(text)
        if found is not None:
            return proto_text(found)
        return text if text.endswith("\n") else f"{text}\n"


SCHEMA_KINDS: Mapping[str, SchemaKind] = {
    each.name: each for each in (AvroKind(), ProtobufKind())
}
"""The kinds of schemas that records are read by, by what registries call them."""


def is_same_schema(each: Registered, pulled: Registered) -> bool:
    """Whether a registry's schema is the one that a file of the project has."""
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
