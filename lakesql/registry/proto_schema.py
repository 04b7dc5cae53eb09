"""Schemas of Protobuf as values: messages, their fields and enums, of a .proto's text
and of those that it imports."""

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
"""What the file of a schema is called while it is read; what it imports has the names
that it says."""


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message. `kind` is the word for its type, `message`, `enum` and
    `group` among them; `of` is then the full name of that. `has_presence`: whether one
    that was not written differs from one with the default. `default` is the one that
    the schema itself declares. A map is repeated, of messages that are entries."""

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
    """A message by its full name. One that `is_entry` is that of a map: its fields are
    `key` and `value`."""

    name: str
    fields: tuple[ProtoField, ...] = ()
    is_entry: bool = False

    def of_number(self, number: int) -> ProtoField | None:
        """The field that has a number."""
        return next((each for each in self.fields if each.number == number), None)

    def of_name(self, name: str) -> ProtoField | None:
        """The field of a name; without one, of the same name in other capitals."""
        exact = [each for each in self.fields if each.name == name]
        found = exact or [
            each for each in self.fields if each.name.lower() == name.lower()
        ]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """All messages and enums that a schema knows, by their full names, and the messages
    of its own file by the paths that records name them by: the place of each in what is
    around it."""

    messages: Mapping[str, ProtoMessage] = field(default_factory=dict)
    enums: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    paths: Mapping[tuple[int, ...], str] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """The full name of the first message; '' where its file has none."""
        return self.paths.get((0,), "")

    def path_of(self, name: str) -> tuple[int, ...] | None:
        """The path of a message of its own file."""
        return next((path for path, known in self.paths.items() if known == name), None)


@lru_cache(maxsize=512)
def parse_proto(text: str, files: tuple[tuple[str, str], ...] = ()) -> ProtoSchema:
    """The schema of a text, with the texts of what it imports, by the names that it has
    for them.

    A text is that of a .proto, or a FileDescriptorProto in base64, which is what
    Confluent's serializer for Python registers. Raises `SchemaError`, and
    `ProfileError` (`extra-missing`) where Protobuf is not installed.
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
    """The full name of a message of a schema's own file, or of the last part of one;
    the first one of its file where no name is said, '' where there is none."""
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
    """What a text of a .proto, or a descriptor in base64, imports."""
    found = descriptor_of(text)
    if found is not None:
        return list(found.dependency)
    return re.findall(
        r"""^\s*import\s+(?:public\s+|weak\s+)?["']([^"']+)["']\s*;""",
        text,
        re.MULTILINE,
    )


def _described(text: str, files: tuple[tuple[str, str], ...]) -> list[Any]:
    """The descriptors of a schema's file and of all that it imports, each after those
    that it needs."""
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
    """The descriptor that stands in a text as base64; None where it is none."""
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
    """Add a message, and all that its fields are of, to those that are known."""
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
    """The names of an enum's numbers; of several for one, the first."""
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
"""The words for types of fields, by their numbers in descriptors."""

NUMBERS: Mapping[str, int] = {kind: number for number, kind in KINDS.items()}
"""The numbers of types in descriptors."""


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
    """What stands before each field of a file, or behind it, by the full names of
    fields."""
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
    """The messages of a file's descriptor, each with its path there and its full
    name."""
    for place, message in enumerate(messages):
        path, name = (*around, place), f"{space}.{message.name}".lstrip(".")
        yield path, name, message
        yield from _written_messages(message.nested_type, (*path, 3), name)
