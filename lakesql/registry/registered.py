"""A schema as a registry has it."""

from __future__ import annotations

from dataclasses import dataclass


def of_global(number: int) -> int:
    """The id that a schema is kept by which records name by its global id.

    Apicurio counts the versions of all subjects, which are global ids, and what stands
    in them, which are content ids: one number means two schemas. So a global id is kept
    as a negative number.
    """
    return ~number


def global_of(id_: int) -> int | None:
    """The global id that an id stands for; None for one that stands for itself."""
    return ~id_ if id_ < 0 else None


def say_schema(id_: int) -> str:
    """What people are told of the schema of an id: `schema id 7`, `schema of global id
    7`."""
    number = global_of(id_)
    return f"schema id {id_}" if number is None else f"schema of global id {number}"


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema: its id, its kind (`AVRO`, `PROTOBUF`, `JSON`), its text, and the texts
    of the `files` that it imports, by the names that it has for them. One of Avro needs
    no others: they are put into it."""

    id: int
    kind: str
    text: str
    files: tuple[tuple[str, str], ...] = ()
