"""Parses Protobuf schemas: the messages, fields and enums of a .proto and of the files
that it imports."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakesql.registry.proto_compiler import compile_files
from lakesql.registry.schema_error import SchemaError

MAIN = "lakesql_schema.proto"
"""The name of a schema's own file while it is compiled. The files that it imports have
the names in its imports."""


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message.

    `kind` is Protobuf's word for its type; for `message`, `enum` and `group`, `of` is
    the full name of the type. `has_presence` is true if a field that was not written
    differs from one with the default value. `default` is the default that the schema
    declares. A map is a repeated field of entry messages.
    """

    name: str
    number: int
    kind: str
    of: str = ""
    is_repeated: bool = False
    has_presence: bool = False
    default: bool | int | float | str | bytes | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A message with its full name. `is_entry` is true for the entry of a map, with the
    fields `key` and `value`."""

    name: str
    fields: tuple[ProtoField, ...] = ()
    is_entry: bool = False

    def of_number(self, number: int) -> ProtoField | None:
        """The field with this number; None if there is none."""
        return next((each for each in self.fields if each.number == number), None)

    def of_name(self, name: str) -> ProtoField | None:
        """The field with this name; if there is none, the only one with that name in
        other capitals; otherwise None."""
        exact = [each for each in self.fields if each.name == name]
        found = exact or [
            each for each in self.fields if each.name.lower() == name.lower()
        ]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """All messages and enums that a schema knows, by their full names. `paths` has the
    full names of the messages in its own file, by the index path with which records
    refer to them: the index of each message in the one around it."""

    messages: Mapping[str, ProtoMessage] = field(default_factory=dict)
    enums: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    paths: Mapping[tuple[int, ...], str] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """The full name of the first message; '' if the file has none."""
        return self.paths.get((0,), "")

    def path_of(self, name: str) -> tuple[int, ...] | None:
        """The index path of a message of the schema's own file; None if it has no such
        message."""
        return next((path for path, known in self.paths.items() if known == name), None)


@lru_cache(maxsize=512)
def parse_proto(text: str, files: tuple[tuple[str, str], ...] = ()) -> ProtoSchema:
    """The schema in a text. `files` has the names and texts of the files that it
    imports.

    The text is that of a .proto, or a FileDescriptorProto in base64, which Confluent's
    serializer for Python registers. Raises `SchemaError` for an invalid schema, and
    `ProfileError` (`extra-missing`) if Protobuf is not installed.
    """
    descriptors = _described(text, files)
    pool = _pool()
    try:
        for each in descriptors:
            pool.AddSerializedFile(each.SerializeToString())
        file = pool.FindFileByName(descriptors[-1].name)
    except (TypeError, KeyError, ValueError) as error:
        raise SchemaError(f"it does not hold together: {error}") from None
    comments = _comments(descriptors[-1])
    messages: dict[str, ProtoMessage] = {}
    enums: dict[str, Mapping[int, str]] = {}
    paths = dict(_paths(file.message_types_by_name.values(), ()))
    for found in paths.values():
        _read_message(found, comments, messages, enums)
    return ProtoSchema(
        messages, enums, {path: found.full_name for path, found in paths.items()}
    )


def find_message(schema: ProtoSchema, name: str) -> str:
    """The full name of a message of the schema's own file, by its full name or the last
    part of it; the first message if `name` is ''. '' if there is none."""
    if not name:
        return schema.first
    return next(
        (
            each
            for each in schema.paths.values()
            if each == name or each.endswith(f".{name}")
        ),
        "",
    )


def find_imports(text: str) -> list[str]:
    """The names of the files that a .proto, or a descriptor in base64, imports."""
    found = descriptor_of(text)
    if found is not None:
        return list(found.dependency)
    return re.findall(
        r"""^\s*import\s+(?:public\s+|weak\s+)?["']([^"']+)["']\s*;""",
        text,
        re.MULTILINE,
    )


def _described(text: str, files: tuple[tuple[str, str], ...]) -> list[Any]:
    """The descriptors of a schema's file and of all files that it imports, each after
    those that it imports itself."""
    own = descriptor_of(text)
    ready = {
        name: found
        for name, other in files
        if (found := descriptor_of(other)) is not None
    }
    for name, found in ready.items():
        found.name = name
    texts = {name: other for name, other in files if name not in ready}
    bundle = _file_set(ready.values())
    if own is None:
        return list(_parse_set(compile_files({**texts, MAIN: text}, MAIN, bundle)).file)
    imported = "".join(f'import "{name}";\n' for name in own.dependency)
    stub = f'syntax = "proto3";\n{imported}'
    needed = (
        [*_parse_set(compile_files({**texts, MAIN: stub}, MAIN, bundle)).file][:-1]
        if imported
        else []
    )
    own.name = MAIN
    return [*needed, own]


def descriptor_of(text: str) -> Any:
    """The descriptor in a text, if that is one in base64; otherwise None."""
    if not re.fullmatch(r"[A-Za-z0-9+/\s]+={0,2}\s*", text):
        return None
    from google.protobuf.message import DecodeError

    try:
        found = _library().FileDescriptorProto.FromString(
            base64.b64decode(text, validate=False)
        )
    except (DecodeError, binascii.Error):
        return None
    return found if found.name else None


def _library() -> Any:
    from google.protobuf import descriptor_pb2

    return descriptor_pb2


def _pool() -> Any:
    from google.protobuf import descriptor_pool

    return descriptor_pool.DescriptorPool()


def _file_set(files: Iterable[Any]) -> bytes:
    return bytes(_library().FileDescriptorSet(file=files).SerializeToString())


def _parse_set(written: bytes) -> Any:
    return _library().FileDescriptorSet.FromString(written)


def _paths(
    messages: Iterable[Any], around: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Any]]:
    for place, message in enumerate(messages):
        path = (*around, place)
        yield path, message
        yield from _paths(message.nested_types, path)


def _read_message(
    found: Any,
    comments: Mapping[str, str],
    messages: dict[str, ProtoMessage],
    enums: dict[str, Mapping[int, str]],
) -> None:
    """Add a message, and the types of all its fields, to `messages` and `enums`."""
    if found.full_name in messages:
        return
    messages[found.full_name] = ProtoMessage(found.full_name)  # it may be in itself
    fields = []
    for each in found.fields:
        fields.append(_field(each, comments))
        if each.message_type is not None:
            _read_message(each.message_type, comments, messages, enums)
        elif each.enum_type is not None:
            enums[each.enum_type.full_name] = _names_of(each.enum_type)
    is_entry = bool(found.GetOptions().map_entry)
    messages[found.full_name] = ProtoMessage(found.full_name, tuple(fields), is_entry)


def _names_of(enum: Any) -> dict[int, str]:
    """The names of an enum's numbers; for a number with several names, the first
    one."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    return names


KINDS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    10: "group",
    11: "message",
    12: "bytes",
    13: "uint32",
    14: "enum",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""Protobuf's words for the types of fields, by their numbers in descriptors."""

NUMBERS: Mapping[str, int] = {kind: number for number, kind in KINDS.items()}
"""The numbers of field types in descriptors, by Protobuf's words."""


def _field(found: Any, comments: Mapping[str, str]) -> ProtoField:
    of = found.message_type or found.enum_type
    default = found.default_value if found.has_default_value else None
    return ProtoField(
        found.name,
        found.number,
        KINDS[found.type],
        of.full_name if of is not None else "",
        bool(found.is_repeated),
        bool(found.has_presence),
        default,
        comments.get(found.full_name, ""),
    )


def _comments(file: Any) -> dict[str, str]:
    """The comment before each field of a file, or else the one after it, by the full
    names of fields."""
    said = {}
    located = file.source_code_info.location
    places = {
        tuple(each.path): each.leading_comments or each.trailing_comments
        for each in located
    }
    for path, name, message in _written_messages(file.message_type, (4,), file.package):
        for number, each in enumerate(message.field):
            comment = places.get((*path, 2, number), "")
            if comment:
                said[f"{name}.{each.name}"] = " ".join(comment.split())
    return said


def _written_messages(
    messages: Iterable[Any], around: tuple[int, ...], space: str
) -> Iterator[tuple[tuple[int, ...], str, Any]]:
    """The messages in a file's descriptor, each with its path in the descriptor and its
    full name."""
    for place, message in enumerate(messages):
        path, name = (*around, place), f"{space}.{message.name}".lstrip(".")
        yield path, name, message
        yield from _written_messages(message.nested_type, (*path, 3), name)
