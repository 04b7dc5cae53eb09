"""Converts a Protobuf descriptor to the text of a .proto, which people can read and
compare between versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakesql.registry.proto_schema import KINDS

INDENT = "  "


def proto_text(file: Any) -> str:
    """The text of a FileDescriptorProto. Options, extensions and services are left out,
    as they do not affect records."""
    lines = [f'edition = "{2000 + file.edition - _FIRST_EDITION}";']
    if file.syntax != "editions":
        lines = [f'syntax = "{file.syntax or "proto2"}";']
    if file.package:
        lines.append(f"package {file.package};")
    if file.dependency:
        lines += ["", *(f'import "{name}";' for name in file.dependency)]
    for enum in file.enum_type:
        lines += ["", *_enum(enum)]
    for message in file.message_type:
        lines += ["", *_message(message, file)]
    return "\n".join(lines) + "\n"


_FIRST_EDITION = 977
"""The number of the edition of the year 2000; that of 2023 is 1000."""


def _message(message: Any, file: Any) -> Iterator[str]:
    yield f"message {message.name} {{"
    for range_ in message.reserved_range:
        last = range_.end - 1
        said = (
            str(range_.start) if last == range_.start else f"{range_.start} to {last}"
        )
        yield f"{INDENT}reserved {said};"
    for name in message.reserved_name:
        yield f'{INDENT}reserved "{name}";'
    entries = {
        each.name: each for each in message.nested_type if each.options.map_entry
    }
    for enum in message.enum_type:
        yield from _indented(_enum(enum))
    for nested in message.nested_type:
        if nested.name not in entries:
            yield from _indented(_message(nested, file))
    written: set[int] = set()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield INDENT + _field(field, entries, file)
        elif field.oneof_index not in written:
            written.add(field.oneof_index)
            yield f"{INDENT}oneof {message.oneof_decl[field.oneof_index].name} {{"
            members = [
                each for each in message.field if _is_member(each, field.oneof_index)
            ]
            yield from (
                INDENT * 2 + _field(each, entries, file, is_member=True)
                for each in members
            )
            yield f"{INDENT}}}"
    yield "}"


def _is_member(field: Any, oneof: int) -> bool:
    return (
        field.HasField("oneof_index")
        and field.oneof_index == oneof
        and not field.proto3_optional
    )


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (INDENT + line for line in lines)


def _enum(enum: Any) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{INDENT}option allow_alias = true;"
    yield from (f"{INDENT}{value.name} = {value.number};" for value in enum.value)
    yield "}"


def _field(
    field: Any, entries: dict[str, Any], file: Any, is_member: bool = False
) -> str:
    entry = (
        entries.get(field.type_name.rpartition(".")[2])
        if field.type == _MESSAGE
        else None
    )
    if entry is not None and field.label == _REPEATED:
        key, value = (_type(each) for each in entry.field)
        return f"map<{key}, {value}> {field.name} = {field.number};"
    label = "" if is_member else _label(field, file)
    default = (
        f" [default = {_default(field)}]" if field.HasField("default_value") else ""
    )
    return f"{label}{_type(field)} {field.name} = {field.number}{default};"


_MESSAGE, _REPEATED, _REQUIRED, _STRING, _BYTES = 11, 3, 2, 9, 12


def _label(field: Any, file: Any) -> str:
    if field.label == _REPEATED:
        return "repeated "
    if field.label == _REQUIRED:
        return "required "
    has_word = field.proto3_optional or file.syntax in ("", "proto2")
    return "optional " if has_word else ""


def _type(field: Any) -> str:
    """The word for a field's type; for a message or an enum, its full name with a
    leading dot."""
    return str(field.type_name) or KINDS[field.type]


def _default(field: Any) -> str:
    if field.type == _STRING:
        said = (
            field.default_value.replace("\\", "\\\\")
            .replace('"', '\\"')
            .replace("\n", "\\n")
        )
        return f'"{said}"'
    return (
        f'"{field.default_value}"' if field.type == _BYTES else str(field.default_value)
    )
