"""What a table is like at this moment, as values, and the text of a column's type in one spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakesql.model.config import PartitionField, SortField
from lakesql.model.table import TableName


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column that a table has. `type` is canonical (`canonical_type`); a `required` one takes no NULL."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as its newest metadata says.

    `properties` hold `format-version` too. `snapshot_id` is None before the first commit. `ledger_models` are the
    models that have a ledger entry in any snapshot which the table still has.
    """

    name: TableName
    uuid: str
    columns: tuple[StateColumn, ...]
    partition_by: tuple[PartitionField, ...]
    order_by: tuple[SortField, ...]
    properties: Mapping[str, str]
    snapshot_id: int | None
    ledger_models: frozenset[str]


def canonical_type(text: str) -> str:
    """One spelling for a type of Spark's: `DECIMAL(12, 2)` is `decimal(12,2)`, `struct<a: Long>` is `struct<a:bigint>`.

    It names the type of the Iceberg column that Spark makes of it: `smallint` is `int`, `varchar(9)` is `string`.
    Field names of structs keep their case; comments and NOT NULL of fields are left out. A text that is not a type of
    Spark's comes back in lower case, its blanks squeezed.
    """
    tokens = _TOKEN.findall(text)
    try:
        found, rest = _type(tokens)
    except (IndexError, ValueError):
        return " ".join(text.lower().split())
    return " ".join([found, *(token.lower() for token in rest)])


_TOKEN = re.compile(r"`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[<>(),:]|[^\s<>(),:`'\"]+")

_ALIASES = {
    "byte": "int",
    "tinyint": "int",
    "short": "int",
    "smallint": "int",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "char": "string",
    "character": "string",
    "varchar": "string",
    "timestamp_ltz": "timestamp",
}


def _type(tokens: list[str]) -> tuple[str, list[str]]:
    word = _ALIASES.get(tokens[0].lower(), tokens[0].lower())
    rest = tokens[1:]
    if word == "decimal":
        if rest[:1] != ["("]:
            return "decimal(10,0)", rest
        end = rest.index(")")
        digits = [token for token in rest[1:end] if token != ","]
        return f"decimal({digits[0]},{digits[1] if len(digits) > 1 else '0'})", rest[end + 1 :]
    if word == "string" and rest[:1] == ["("]:
        return word, rest[rest.index(")") + 1 :]
    if word == "struct" and rest[:1] == ["<"]:
        return _members(word, rest[1:], _field)
    if word in ("array", "map") and rest[:1] == ["<"]:
        return _members(word, rest[1:], _type)
    return word, rest


def _members(word: str, tokens: list[str], read: Callable[[list[str]], tuple[str, list[str]]]) -> tuple[str, list[str]]:
    members: list[str] = []
    while tokens[0] != ">":
        member, tokens = read(tokens)
        members.append(member)
        if tokens[0] == ",":
            tokens = tokens[1:]
    return f"{word}<{','.join(members)}>", tokens[1:]


def _field(tokens: list[str]) -> tuple[str, list[str]]:
    # `a b:int` is how Spark prints a field whose name has a blank, `a int` how SQL may declare the field a.
    colon = next((at for at, token in enumerate(tokens) if token in "<>(),:"), 0)
    named = tokens[colon] == ":" if colon else False
    name = " ".join(tokens[:colon]) if named else tokens[0]
    kind, rest = _type(tokens[colon + 1 :] if named else tokens[1:])
    while rest[0] not in (",", ">"):
        rest = rest[1:]
    return f"{name.strip('`').replace('``', '`')}:{kind}", rest
