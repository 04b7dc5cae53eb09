"""A schema as a registry has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema: its id, its kind (`AVRO`, `PROTOBUF`, `JSON`), its text, and the texts of the `files` that it imports,
    by the names that it has for them. One of Avro needs no others: they are put into it."""

    id: int
    kind: str
    text: str
    files: tuple[tuple[str, str], ...] = ()
