"""Spark SQL's types as values with one canonical spelling: the types that `columns:` of
a stream may declare, and the types that Iceberg stores for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

MAX_DEPTH = 50
"""The maximum depth of nested types: far beyond any real record, and far from Python's
recursion limit."""

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
    "char": "char",
    "character": "char",
    "varchar": "varchar",
}
"""The types that are written as one word, and the canonical name of each
(SqlBaseParser.g4, primitiveType)."""

WHOLE_TYPES = ("tinyint", "smallint", "int", "bigint")
"""The integer types, from the narrowest to the widest."""

NUMBER_TYPES = frozenset({*WHOLE_TYPES, "float", "double", "decimal"})

TYPE_NAMES = frozenset(_SIMPLE) | {"array", "map", "struct", "interval"}
"""The words with which a type can begin."""

_INTERVALS = (("year", "month"), ("day", "hour", "minute", "second"))
"""The units of Spark's two kinds of interval, from the largest."""

_WORDS = re.compile(
    r"\s*(?:([A-Za-z_0-9]+)|`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[<>(),:]))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class SparkType:
    """A type of Spark SQL. `parameters` are the numbers in brackets, or an interval's
    units; `fields` are a struct's fields, or the unnamed parts of an array or a map.

    `text` is its canonical spelling, in lower case except for the names of fields.
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
        return (
            f"{self.name}({','.join(self.parameters)})"
            if self.parameters
            else self.name
        )


@dataclass(frozen=True, slots=True)
class TypeField:
    """A field of a struct, or an unnamed part of an array or a map."""

    name: str
    type: SparkType
    required: bool = False

    @property
    def text(self) -> str:
        """The field as Spark reads it inside `struct<…>`."""
        return f"{field_name(self.name)}:{self.type.text}" + (
            " not null" if self.required else ""
        )


def field_name(name: str) -> str:
    """The name of a struct's field as it is written in a type's text, in backticks if
    needed."""
    return (
        name
        if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name)
        else f"`{name.replace('`', '``')}`"
    )


@lru_cache(maxsize=4096)
def parse_type(text: str) -> SparkType | None:
    """The type that `text` names, or None if Spark knows no such type. Comments of
    fields are dropped."""
    try:
        words = _read_words(text)
        found = _parse(words, 0)
    except _NoTypeError:
        return None
    return None if words else found


def stored_type(text: str) -> str:
    """The type of the Iceberg column that stores values of Spark's type `text`.

    `smallint` is stored as `int`, `varchar(9)` as `string`; `decimal` is
    `decimal(10,0)`; fields lose their NOT NULL. A text that `parse_type` does not know
    is returned in lower case with single blanks.
    """
    parsed = parse_type(text)
    return (
        _stored(parsed).text if parsed is not None else " ".join(text.lower().split())
    )


_STORED_AS = {
    "tinyint": "int",
    "smallint": "int",
    "char": "string",
    "varchar": "string",
}


def _stored(kind: SparkType) -> SparkType:
    match kind.name:
        case "decimal":
            precision, scale = (
                (*kind.parameters, "0")[:2] if kind.parameters else ("10", "0")
            )
            return SparkType("decimal", (precision, scale))
        case name if name in _STORED_AS:
            return SparkType(_STORED_AS[name])
        case _ if not kind.fields:
            return kind
        case _:
            fields = tuple(
                TypeField(field.name, _stored(field.type)) for field in kind.fields
            )
            return replace(kind, fields=fields)


_WIDENINGS = {
    ("tinyint", "smallint"),
    ("smallint", "int"),
    ("int", "bigint"),
    ("float", "double"),
}
_WIDENINGS |= {("tinyint", "int"), ("tinyint", "bigint"), ("smallint", "bigint")}


def widens(old: SparkType, new: SparkType) -> bool:
    """Whether Iceberg can promote a column of type `old` to `new`, which holds all its
    values (Iceberg's specification, schema evolution)."""
    if old.name == new.name == "decimal" and old.parameters and new.parameters:
        (before, *scale), (after, *new_scale) = old.parameters, new.parameters
        return scale == new_scale and int(before) < int(after)
    return (old.name, new.name) in _WIDENINGS


@dataclass(frozen=True, slots=True)
class Growth:
    """One change of a column so that it can hold values of a larger type: at `path`,
    which begins with the column's name, a field is added (`is_added`) or the type is
    widened."""

    path: tuple[str, ...]
    type: SparkType
    is_added: bool


def find_growth(
    old: SparkType, new: SparkType, path: tuple[str, ...]
) -> tuple[Growth, ...] | None:
    """The changes after which a column of type `old` can hold all values of type `new`;
    empty if it can already, None if no change makes it possible.

    The order of a struct's fields does not matter: Spark writes them by name. The parts
    of arrays and maps are named as in ALTER TABLE: `element`, `key`, `value`.
    """
    if old == new or widens(new, old):
        return ()
    if widens(old, new):
        return (Growth(path, new, is_added=False),)
    if old.name != new.name or not old.fields:
        return None
    steps: list[Growth] = []
    names = {"array": ("element",), "map": ("key", "value")}.get(old.name) or tuple(
        it.name for it in new.fields
    )
    there = (
        dict(zip(names, old.fields, strict=True))
        if old.name != "struct"
        else {it.name: it for it in old.fields}
    )
    if not there.keys() <= set(names):
        return None  # what the new type lacks could not be written
    for name, field in zip(names, new.fields, strict=True):
        if name not in there:
            steps.append(Growth((*path, name), field.type, is_added=True))
            continue
        within = find_growth(there[name].type, field.type, (*path, name))
        if within is None:
            return None
        steps += within
    return tuple(steps)


def find_lost(
    old: SparkType, new: SparkType, path: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """The paths of the struct fields in a column of type `old` that the type `new`
    lacks."""
    if old.name != new.name or not old.fields:
        return ()
    if old.name != "struct":
        names = ("element",) if old.name == "array" else ("key", "value")
        parts = zip(names, old.fields, new.fields, strict=True)
        return tuple(
            lost
            for name, was, now in parts
            for lost in find_lost(was.type, now.type, (*path, name))
        )
    found: list[tuple[str, ...]] = []
    for was in old.fields:
        field = find_field(new, was.name)
        found += (
            find_lost(was.type, field.type, (*path, was.name))
            if field
            else [(*path, was.name)]
        )
    return tuple(found)


def find_field(kind: SparkType | None, name: str) -> TypeField | None:
    """The field of a struct with this name, ignoring case; None if there is none or if
    `kind` is no struct."""
    fields = kind.fields if kind is not None and kind.name == "struct" else ()
    return next((field for field in fields if field.name.lower() == name.lower()), None)


def type_at(types: Mapping[str, str | None], path: str) -> str:
    """The type of a column, or of a field of a struct by its path (`s.t`); '' if it
    does not exist or its type is unknown.

    `types` are the types of the columns, by their names in lower case.
    """
    name, *fields = path.split(".")
    text = types.get(name.lower()) or ""
    if not fields:
        return text
    kind = parse_type(text)
    for each in fields:
        found = find_field(kind, each)
        kind = found.type if found is not None else None
    return kind.text if kind is not None else ""


UNKNOWN = SparkType("unknown")
"""The part of a type that only Spark's analyzer can determine."""


def whole(kind: SparkType | None) -> SparkType | None:
    """The type if all of its parts are known, else None."""
    if kind is None or any(part.name == UNKNOWN.name for part in parts_of(kind)):
        return None
    return kind


def known(kind: SparkType) -> SparkType | None:
    """The type unless it is entirely unknown; None then."""
    return None if kind.name == UNKNOWN.name else kind


def struct_of(fields: Iterable[tuple[str, SparkType | None]]) -> SparkType:
    """The struct type with these fields; None is a field of unknown type."""
    return SparkType(
        "struct", (), tuple(TypeField(name, kind or UNKNOWN) for name, kind in fields)
    )


def array_of(element: SparkType | None) -> SparkType:
    """The array type with elements of this type; None if that is unknown."""
    return SparkType("array", (), (TypeField("", element or UNKNOWN),))


def map_of(key: SparkType | None, value: SparkType | None) -> SparkType:
    """The map type with keys and values of these types; None if one is unknown."""
    return SparkType(
        "map", (), (TypeField("", key or UNKNOWN), TypeField("", value or UNKNOWN))
    )


def parts_of(kind: SparkType) -> Iterator[SparkType]:
    """The type itself and all types nested in it."""
    yield kind
    for field in kind.fields:
        yield from parts_of(field.type)


class _NoTypeError(Exception):
    """The text is no type of Spark's."""


_Words = list[tuple[str, bool]]
"""The words that are still to be read, the next one last, each with whether it was
quoted: a quoted word can only be a name."""


def _read_words(text: str) -> _Words:
    words: _Words = []
    end = 0
    stripped = text.rstrip()
    while end < len(stripped):
        match = _WORDS.match(stripped, end)
        if match is None:
            raise _NoTypeError
        plain, quoted, sign = match.groups()
        words.append(
            (quoted.replace("``", "`"), True)
            if quoted is not None
            else (plain or sign, False)
        )
        end = match.end()
    return words[::-1]


def _parse(words: _Words, depth: int) -> SparkType:
    name, quoted = _take(words)
    name = name.lower()
    if quoted or depth > MAX_DEPTH:
        raise _NoTypeError
    match name:
        case "array":
            return SparkType("array", (), _parse_parts(words, depth, 1))
        case "map":
            parts = _parse_parts(words, depth, 2)
            if parts[0].type.name == "map":
                raise _NoTypeError
            return SparkType("map", (), parts)
        case "struct":
            return SparkType("struct", (), _parse_fields(words, depth))
        case "interval":
            return _parse_interval(words)
    return _parse_simple(words, name)


def _parse_simple(words: _Words, name: str) -> SparkType:
    """The type that begins with the word `name`, with its numbers in brackets if it has
    any."""
    numbers: list[str] = []
    if _skip(words, "("):
        numbers.append(_take(words)[0])
        while _skip(words, ","):
            numbers.append(_take(words)[0])
        _expect(words, ")")
    if name not in _SIMPLE or not all(number.isdecimal() for number in numbers):
        raise _NoTypeError
    found = SparkType(_SIMPLE[name], tuple(str(int(number)) for number in numbers))
    if not _fits(found.name, [int(number) for number in numbers]):
        raise _NoTypeError
    return found


def _fits(name: str, numbers: list[int]) -> bool:
    """Whether the type may have these numbers: a length of at least 1, a precision of
    at most 38 and a scale of at most the precision."""
    match name, numbers:
        case "char" | "varchar", [length]:
            return length >= 1
        case "decimal", [precision]:
            return 1 <= precision <= 38
        case "decimal", [precision, scale]:
            return 1 <= precision <= 38 and scale <= precision
        case "time", [precision]:
            return precision <= 6
        case _:
            return not numbers and name not in ("char", "varchar")


def _parse_parts(words: _Words, depth: int, count: int) -> tuple[TypeField, ...]:
    """The parts of an array or a map: `<type>` or `<type, type>`."""
    parts: list[TypeField] = []
    for opening in ("<", ",")[:count]:
        _expect(words, opening)
        parts.append(TypeField("", _parse(words, depth + 1)))
    _expect(words, ">")
    return tuple(parts)


def _parse_fields(words: _Words, depth: int) -> tuple[TypeField, ...]:
    """The fields of a struct: `<name: type NOT NULL COMMENT '…', …>`. The colon may be
    missing, and the list may be empty."""
    fields: dict[str, TypeField] = {}
    _expect(words, "<")
    if _skip(words, ">"):
        return ()
    while True:
        name, quoted = _take(words)
        if name.lower() in fields or (
            not quoted and (name.isdecimal() or not re.match(r"\w", name))
        ):
            raise _NoTypeError
        _skip(words, ":")
        found = _parse(words, depth + 1)
        required = _skip(words, "not")
        if required:
            _expect(words, "null")
        if _skip(words, "comment") and _take(words)[0][:1] not in ("'", '"'):
            raise _NoTypeError
        fields[name.lower()] = TypeField(name, found, required)
        if _skip(words, ">"):
            return tuple(fields.values())
        _expect(words, ",")


def _parse_interval(words: _Words) -> SparkType:
    """The interval type, the word `interval` being read: `interval`, `interval day`,
    `interval day to second`."""
    for units in _INTERVALS:
        for index, first in enumerate(units):
            if _skip(words, first):
                if not _skip(words, "to"):
                    return SparkType("interval", (first,))
                last = _take(words)[0].lower()
                if last not in units[index + 1 :]:
                    raise _NoTypeError
                return SparkType("interval", (first, last))
    return SparkType("interval")


def _skip(words: _Words, word: str) -> bool:
    """Whether the next word is this one; if so, it is consumed."""
    if not words or words[-1][1] or words[-1][0].lower() != word:
        return False
    words.pop()
    return True


def _expect(words: _Words, word: str) -> None:
    if not _skip(words, word):
        raise _NoTypeError


def _take(words: _Words) -> tuple[str, bool]:
    if not words:
        raise _NoTypeError
    return words.pop()
