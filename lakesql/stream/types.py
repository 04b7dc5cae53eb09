"""Spark SQL's types as values, in one spelling: what `columns:` of a stream may say, and what a table makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_DEPTH = 50
"""How deep types may nest: far beyond any record, and far from the recursion limit."""

_SIMPLE = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "binary": "binary",
    "void": "void",
    "variant": "variant",
    "decimal": "decimal",
    "dec": "decimal",
    "numeric": "decimal",
}
"""The names that stand alone, and what each is called here (SqlBaseParser.g4, primitiveType)."""

_WITH_NUMBERS = {"decimal": (1, 2), "char": (1, 1), "varchar": (1, 1), "time": (1, 1)}
"""How many numbers in brackets a type takes, at least and at most."""

_NEED_NUMBERS = {"char": "char", "character": "char", "varchar": "varchar"}
"""Types that cannot stand without their length."""

_INTERVALS = (("year", "month"), ("day", "hour", "minute", "second"))
"""The units of Spark's two kinds of interval, from the largest."""

_WORDS = re.compile(
    r"\s*(?:([A-Za-z_0-9]+)|`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[<>(),:]))", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class SparkType:
    """A type. `parameters` are numbers and units in brackets; `fields` a struct's fields, or '' for parts of others.

    `text` is its one spelling, in small letters but for the names of fields.
    """

    name: str
    parameters: tuple[str, ...] = ()
    fields: tuple[TypeField, ...] = ()

    @property
    def text(self) -> str:
        """The type as Spark reads it."""
        if self.name == "interval":
            return " ".join(("interval", " to ".join(self.parameters))).strip()
        if self.name == "struct":
            return f"struct<{','.join(field.text for field in self.fields)}>"
        if self.fields:
            return f"{self.name}<{','.join(field.type.text for field in self.fields)}>"
        return f"{self.name}({','.join(self.parameters)})" if self.parameters else self.name


@dataclass(frozen=True, slots=True)
class TypeField:
    """A field of a struct, or an unnamed part of an array or a map."""

    name: str
    type: SparkType
    required: bool = False

    @property
    def text(self) -> str:
        """The field as Spark reads it inside `struct<…>`."""
        return f"{field_name(self.name)}:{self.type.text}" + (" not null" if self.required else "")


def field_name(name: str) -> str:
    """The name of a struct's field as a type's text has it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) else f"`{name.replace('`', '``')}`"


def parse_type(text: str) -> SparkType | None:
    """The type that `text` names, or None when Spark knows no such type. Comments of fields are left out."""
    words = _read_words(text)
    if words is None:
        return None
    try:
        found, rest = _parse(words, 0, 0)
    except _NoTypeError:
        return None
    return found if rest == len(words) else None


def stored_type(text: str) -> str:
    """The type of the column that an Iceberg table has for a column of Spark's type `text`.

    `smallint` is stored as `int`, `varchar(9)` as `string`; `decimal` is `decimal(10,0)`; fields lose their NOT NULL. A
    text that `parse_type` does not know comes back in small letters, its blanks squeezed.
    """
    parsed = parse_type(text)
    return _stored(parsed).text if parsed is not None else " ".join(text.lower().split())


_STORED_AS = {"tinyint": "int", "smallint": "int", "char": "string", "varchar": "string"}


def _stored(kind: SparkType) -> SparkType:
    match kind.name:
        case "decimal":
            precision, scale = (*kind.parameters, "0")[:2] if kind.parameters else ("10", "0")
            return SparkType("decimal", (precision, scale))
        case name if name in _STORED_AS:
            return SparkType(_STORED_AS[name])
        case _:
            fields = tuple(TypeField(field.name, _stored(field.type)) for field in kind.fields)
            return replace(kind, fields=fields)


def parts_of(kind: SparkType) -> Iterator[SparkType]:
    """The type itself, and all that are nested in it."""
    yield kind
    for field in kind.fields:
        yield from parts_of(field.type)


class _NoTypeError(Exception):
    """The words at hand are no type."""


def _read_words(text: str) -> list[tuple[str, bool]] | None:
    """The words of a type, each with whether it was quoted: then it can only be a name."""
    words: list[tuple[str, bool]] = []
    end = 0
    stripped = text.rstrip()
    while end < len(stripped):
        match = _WORDS.match(stripped, end)
        if match is None:
            return None
        plain, quoted, sign = match.groups()
        words.append((quoted.replace("``", "`"), True) if quoted is not None else (plain or sign, False))
        end = match.end()
    return words


def _parse(words: list[tuple[str, bool]], at: int, depth: int) -> tuple[SparkType, int]:
    name, quoted = _word(words, at)
    name = name.lower()
    if quoted or depth > MAX_DEPTH:
        raise _NoTypeError
    match name:
        case "array":
            parts, at = _parse_parts(words, at + 1, depth, 1)
            return SparkType("array", (), parts), at
        case "map":
            parts, at = _parse_parts(words, at + 1, depth, 2)
            if parts[0].type.name == "map":
                raise _NoTypeError
            return SparkType("map", (), parts), at
        case "struct":
            fields, at = _parse_fields(words, at + 1, depth)
            return SparkType("struct", (), fields), at
        case "interval":
            return _parse_interval(words, at + 1)
    return _parse_simple(words, at, name)


def _parse_simple(words: list[tuple[str, bool]], at: int, name: str) -> tuple[SparkType, int]:
    """A type of one word, with or without numbers in brackets."""
    known = _SIMPLE.get(name) or _NEED_NUMBERS.get(name)
    if known is None:
        raise _NoTypeError
    at += 1
    numbers: list[str] = []
    if _peek(words, at) == "(":
        while _peek(words, at) != ")":
            number = _word(words, at + 1)[0]
            if not number.isdecimal() or _peek(words, at + 2) not in (",", ")"):
                raise _NoTypeError
            numbers.append(str(int(number)))
            at += 2
        at += 1
    least, most = _WITH_NUMBERS.get(known, (0, 0))
    if (numbers or known in _NEED_NUMBERS) and not least <= len(numbers) <= most:
        raise _NoTypeError
    if not _fits(known, [int(number) for number in numbers]):
        raise _NoTypeError
    return SparkType(known, tuple(numbers)), at


def _fits(name: str, numbers: list[int]) -> bool:
    """Whether Spark takes these numbers: precision up to 38, scale up to precision, a length of at least one."""
    if not numbers:
        return True
    match name:
        case "decimal":
            scale = numbers[1] if len(numbers) > 1 else 0
            return 1 <= numbers[0] <= 38 and scale <= numbers[0]
        case "time":
            return numbers[0] <= 6
        case _:
            return numbers[0] >= 1


def _parse_parts(words: list[tuple[str, bool]], at: int, depth: int, count: int) -> tuple[tuple[TypeField, ...], int]:
    """`<type>` or `<type, type>`."""
    parts: list[TypeField] = []
    for opening in ("<", ",")[:count]:
        _expect(words, at, opening)
        part, at = _parse(words, at + 1, depth + 1)
        parts.append(TypeField("", part))
    _expect(words, at, ">")
    return tuple(parts), at + 1


def _parse_fields(words: list[tuple[str, bool]], at: int, depth: int) -> tuple[tuple[TypeField, ...], int]:
    """`<name: type NOT NULL COMMENT '…', …>`; the colon may be missing, and so may the fields."""
    fields: list[TypeField] = []
    names: set[str] = set()
    _expect(words, at, "<")
    while _peek(words, at) != ">":
        name, quoted = _word(words, at + 1)
        if name == ">" and not quoted and not fields:
            return (), at + 2
        if not quoted and (name.isdecimal() or not re.match(r"\w", name)):
            raise _NoTypeError
        at += 3 if _peek(words, at + 2) == ":" else 2
        found, at = _parse(words, at, depth + 1)
        required = _peek(words, at).lower() == "not" and _peek(words, at + 1).lower() == "null"
        at += 2 if required else 0
        if _peek(words, at).lower() == "comment" and _peek(words, at + 1)[:1] in ("'", '"'):
            at += 2
        if _peek(words, at) not in (",", ">") or name.lower() in names:
            raise _NoTypeError
        names.add(name.lower())
        fields.append(TypeField(name, found, required))
    return tuple(fields), at + 1


def _parse_interval(words: list[tuple[str, bool]], at: int) -> tuple[SparkType, int]:
    """`interval`, `interval day`, `interval day to second`."""
    first = _peek(words, at).lower()
    units = next((units for units in _INTERVALS if first in units), None)
    if units is None:
        return SparkType("interval"), at
    if _peek(words, at + 1).lower() != "to":
        return SparkType("interval", (first,)), at + 1
    last = _peek(words, at + 2).lower()
    if last not in units or units.index(last) <= units.index(first):
        raise _NoTypeError
    return SparkType("interval", (first, last)), at + 3


def _expect(words: list[tuple[str, bool]], at: int, sign: str) -> None:
    if _peek(words, at) != sign:
        raise _NoTypeError


def _peek(words: list[tuple[str, bool]], at: int) -> str:
    """The unquoted word at this place, or ''."""
    return words[at][0] if at < len(words) and not words[at][1] else ""


def _word(words: list[tuple[str, bool]], at: int) -> tuple[str, bool]:
    if at >= len(words):
        raise _NoTypeError
    return words[at]
