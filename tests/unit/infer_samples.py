"""Random samples for contracts that are found in them: as JSON objects, and as what
their values are in a text."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

NAMES = (
    *(
        "id",
        "name",
        "Amount",
        "updated_at",
        "a.b",
        "two words",
        "yes",
        "null",
        "größe",
        "x`y",
        "é",
        "#",
        "a: b",
        "0",
    ),
    *(
        'q"uote',
        "back\\slash",
        "Name",
        "ID",
        " lead",
        "",
        "_record",
        "tab\t",
        "日本",
        "select",
        "a_b",
        "🙂",
        "{b}",
    ),
)


class Written(str):
    """A piece of JSON that stands in a document as it is."""

    __slots__ = ()


def dump(value: Any) -> str:
    """JSON in which each `Written` stands as it is."""
    match value:
        case Written():
            return str(value)
        case dict():
            return (
                "{"
                + ", ".join(
                    f"{json.dumps(name)}: {dump(each)}" for name, each in value.items()
                )
                + "}"
            )
        case list():
            return "[" + ", ".join(map(dump, value)) + "]"
        case _:
            return json.dumps(value)


def random_instant(chance: random.Random) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(
        seconds=chance.randrange(-(10**9), 10**9)
    )


def random_value(chance: random.Random, kind: str, depth: int = 0) -> Any:
    """A value of a kind, as JSON has it."""
    at = random_instant(chance)
    match kind:
        case "whole":
            return chance.choice(
                (0, -1, chance.randrange(10**6), 2**31, -(2**63), 2**63 - 1)
            )
        case "large":
            return chance.choice((2**63, 10**30, -(10**37), 10**45))
        case "fraction":
            return Written(
                chance.choice(
                    ("0.5", "1.0", "-12.25", "1e3", "1.5E-7", "3.1415926535", "0.1")
                )
            )
        case "money":
            return Written(f"{chance.randrange(10**4)}.{chance.randrange(100):02d}")
        case "exact":
            return Written(
                chance.choice(
                    ("0.12345678901234567890", "12345678901234567.89", "1.10")
                )
            )
        case "word":
            return Written(chance.choice(("NaN", "Infinity", "-Infinity", "1.5")))
        case "bool":
            return chance.random() < 0.5
        case "date":
            return at.date().isoformat()
        case "instant":
            zone = timezone(timedelta(hours=chance.randrange(-11, 13)))
            text = at.astimezone(zone).isoformat(sep=chance.choice("T "))
            return text.replace("+00:00", "Z") if chance.random() < 0.5 else text
        case "local":
            return at.replace(tzinfo=None).isoformat(
                timespec=chance.choice(("seconds", "milliseconds", "microseconds"))
            )
        case "digits":
            return f"{chance.randrange(10**5)}.{chance.randrange(10**4)}"
        case "object":
            kinds = {
                "n": "whole",
                "deep name": "text",
                "at": "instant",
                "more": "object" if depth < 2 else "bool",
            }
            names = [name for name in kinds if chance.random() < 0.8]
            return {
                name: random_value(chance, kinds[name], depth + 1) for name in names
            }
        case "array":
            return [
                random_value(chance, "fraction", depth + 1)
                for _ in range(chance.randrange(3))
            ]
        case "objects":
            return [
                random_value(chance, "object", depth + 1)
                for _ in range(chance.randrange(3))
            ]
        case "mixed":
            return random_value(chance, chance.choice(SIMPLE), depth)
        case _:
            return chance.choice(
                (
                    "",
                    "x",
                    "007",
                    "+41 44",
                    "é🙂",
                    'a"b',
                    "a\\b",
                    "line\nbreak",
                    "true",
                    "12:30",
                    "1,5",
                )
            )


TEXTS = (
    "",
    "x",
    "007",
    "+41 44",
    "é🙂",
    'a"b',
    "a\\b",
    "line\nbreak",
    "true",
    "12:30",
    "1,5",
    "2026-02-30",
)
SIMPLE = (
    "whole",
    "fraction",
    "bool",
    "date",
    "instant",
    "local",
    "text",
    "object",
    "array",
    "digits",
)
KINDS = (*SIMPLE, "large", "money", "exact", "word", "objects", "mixed")


def random_documents(chance: random.Random) -> list[dict[str, Any]]:
    """Objects whose fields have a kind each, and are missing or NULL now and then."""
    kinds = {
        name: chance.choice(KINDS)
        for name in chance.sample(NAMES, chance.randrange(1, 9))
    }
    rare = {name: chance.choice((0.0, 0.1, 0.5, 1.0)) for name in kinds}
    found = []
    for _ in range(chance.randrange(1, 12)):
        row = {
            name: random_value(chance, kind)
            for name, kind in kinds.items()
            if chance.random() >= rare[name]
        }
        row |= {name: None for name in kinds if chance.random() < 0.1}
        found.append(row)
    return found
