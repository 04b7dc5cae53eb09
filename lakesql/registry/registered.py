"""A schema as a registry returns it."""

from __future__ import annotations

from dataclasses import dataclass


def of_global(number: int) -> int:
    """The id under which a schema is kept that records name by its global id.

    Apicurio numbers both the versions of all subjects (global ids) and their contents
    (content ids), so that one number can mean two schemas. A global id is therefore
    kept as a negative number.
    """
    return ~number


def global_of(id_: int) -> int | None:
    """The global id that a kept id stands for; None for an ordinary id."""
    return ~id_ if id_ < 0 else None


def say_schema(id_: int) -> str:
    """How messages call the schema with this id: `schema id 7`, `schema of global id
    7`."""
    number = global_of(id_)
    return f"schema id {id_}" if number is None else f"schema of global id {number}"


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema: its id, its kind (`AVRO`, `PROTOBUF`, `JSON`), its text, and the names
    and texts of the `files` that it imports. An Avro schema has no files, as the types
    of others are put into its text."""

    id: int
    kind: str
    text: str
    files: tuple[tuple[str, str], ...] = ()
