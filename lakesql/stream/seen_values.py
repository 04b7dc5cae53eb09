"""What samples of one field have held, and the narrowest type that holds all of it.
Pure.

Values are as JSON has them, except that a number with a fraction keeps its digits
(`Digits`), which a double would lose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakesql.stream.recording import Digits
from lakesql.stream.types import SparkType, TypeField, widens

DEPTH = 20
"""The maximum depth of structs and arrays in a guessed type; deeper values are
texts."""

LONG = 2**63
MAX_DIGITS = 38
USUAL_DIGITS = 18
"""The precision of a guessed decimal, unless the samples need more."""

STRING = SparkType("string")

_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,9})?"
    r"(Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])?"
)

FieldPath = tuple[str, ...]
"""The name of a column, followed by the names of the fields below it."""


@dataclass(slots=True)
class SeenValues:
    """Statistics of the values of a field: how many of each kind, the range and digits
    of numbers, and the same for the items and fields in them.

    `kinds` counts the values by kind: `boolean`, `whole`, `fraction`, `word` (NaN and
    the infinities), `digits` (a number with a fraction in a text), `date`, `local` and
    `instant` (times without and with a zone), `text`, `array`, `object`, and `map` for
    an object at one of the paths `maps`, whose fields are keys. `nulls` counts the
    NULLs. `example` is the first `text`.
    """

    path: FieldPath = ()
    maps: frozenset[FieldPath] = frozenset()
    depth: int = 0
    present: int = 0
    nulls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    example: str = ""
    items: SeenValues | None = None
    fields: dict[str, SeenValues] = field(default_factory=dict)
    whole_digits: int = 0
    scale: int = 0
    largest: int | None = None
    lowest: int | None = None
    fits_double: bool = True
    ends_in_zero: bool = False
    has_exponent: bool = False
    has_nanoseconds: bool = False

    def add(self, value: Any) -> None:
        """Count one value."""
        self.present += 1
        match value:
            case None:
                self.nulls += 1
            case bool():
                self.kinds["boolean"] += 1
            case int():
                self._add_whole(value)
            case Digits():
                self._add_fraction(value)
            case float():
                self.kinds["word"] += 1
            case list() | dict() if self.depth >= DEPTH:
                self.kinds["text"] += 1
            case list():
                self._add_items(value)
            case dict():
                self._add_fields(value)
            case _:
                self._add_text(str(value))

    def _add_whole(self, value: int) -> None:
        self.kinds["whole"] += 1
        self.largest = value if self.largest is None else max(self.largest, value)
        self.lowest = value if self.lowest is None else min(self.lowest, value)
        self.whole_digits = max(self.whole_digits, len(str(abs(value))))
        self.fits_double = self.fits_double and _is_double(value)

    def _add_fraction(self, text: Digits) -> None:
        self.kinds["fraction"] += 1
        number = Decimal(text)
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        self.scale = max(self.scale, -exponent)
        self.whole_digits = max(self.whole_digits, len(digits) + exponent)
        self.fits_double = self.fits_double and number == Decimal(repr(float(text)))
        if "e" in text.lower():
            self.has_exponent = True
        elif text.endswith("0") and -exponent > 1:
            self.ends_in_zero = True

    def _add_items(self, value: list[Any]) -> None:
        self.kinds["array"] += 1
        self._add_each(value, self.path)

    def _add_each(self, values: Iterable[Any], path: FieldPath) -> None:
        if self.items is None:
            self.items = SeenValues(path, self.maps, self.depth + 1)
        for each in values:
            self.items.add(each)

    def _add_fields(self, value: Mapping[str, Any]) -> None:
        if self.path in self.maps:
            self.kinds["map"] += 1
            self._add_each(value.values(), (*self.path, "*"))
            return
        self.kinds["object"] += 1
        for name, each in value.items():
            if name not in self.fields:
                self.fields[name] = SeenValues(
                    (*self.path, name), self.maps, self.depth + 1
                )
            self.fields[name].add(each)

    def _add_text(self, value: str) -> None:
        if _is_date(value):
            self.kinds["date"] += 1
            return
        found = _TIME.fullmatch(value)
        if found is None or not _is_time(found[1], found[2] or ""):
            self._add_other_text(value)
            return
        self.kinds["instant" if found[2] else "local"] += 1
        self.has_nanoseconds = (
            self.has_nanoseconds or re.search(r"\.\d{7}", value) is not None
        )

    def _add_other_text(self, value: str) -> None:
        if not _FRACTION.fullmatch(value):
            self.kinds["text"] += 1
            self.example = self.example or value
            return
        self.kinds["digits"] += 1
        whole, _, behind = value.lstrip("-").partition(".")
        self.whole_digits = max(self.whole_digits, len(whole.lstrip("0")))
        self.scale = max(self.scale, len(behind))

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return self.is_of("whole", "fraction", "word")

    def is_of(self, *kinds: str) -> bool:
        """Whether there are values, and all are of these kinds."""
        return bool(self.kinds) and self.kinds.keys() <= {*kinds}


def _is_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_time(text: str, zone: str) -> bool:
    """Whether the text is a valid time whose year stays within 1 to 9999 in every
    zone."""
    try:
        year = datetime.fromisoformat(text).year
    except ValueError:
        return False
    return not zone or 1 < year < 9999


def find_type(seen: SeenValues) -> SparkType:
    """The narrowest type that holds all values that were seen.

    Values that have no other type in common are a string, which holds JSON as it is
    written.
    """
    if seen.is_of("boolean"):
        return SparkType("boolean")
    if seen.is_number or seen.is_of("digits"):
        return _number_type(seen)
    if seen.is_of("date"):
        return SparkType("date")
    if seen.is_of("local"):
        return SparkType("timestamp_ntz")
    if seen.is_of("local", "instant"):
        return SparkType("timestamp")
    if seen.is_of("array") and seen.items is not None:
        return SparkType("array", fields=(TypeField("", find_type(seen.items)),))
    if seen.is_of("map") and seen.items is not None:
        return SparkType(
            "map", fields=(TypeField("", STRING), TypeField("", find_type(seen.items)))
        )
    if seen.is_of("object") and seen.fields:
        return _struct_type(seen)
    return STRING


def find_usual(seen: SeenValues) -> tuple[SparkType, int] | None:
    """The type that a field would have without a few exceptional texts, and the number
    of these; None if there is no such type."""
    others = seen.kinds["text"]
    if not others or others * FEW > seen.kinds.total():
        return None
    usual = replace(
        seen,
        kinds=Counter(
            {kind: times for kind, times in seen.kinds.items() if kind != "text"}
        ),
    )
    found = find_type(usual)
    return (found, others) if found != STRING else None


FEW = 20
"""One value in so many may be an exception."""


def _number_type(seen: SeenValues) -> SparkType:
    """`bigint` for whole numbers, `double` for fractions, as nobody knows how many
    digits will come. `decimal` if a double would lose digits, or if a double cannot
    have written the values: they end in zeros or are in texts."""
    is_whole = seen.is_of("whole")
    if is_whole and _is_long(seen.lowest) and _is_long(seen.largest):
        return SparkType("bigint")
    is_decimal = (
        is_whole
        or not seen.fits_double
        or (seen.ends_in_zero and not seen.has_exponent)
    )
    is_decimal = is_decimal or "digits" in seen.kinds
    if not is_decimal or "word" in seen.kinds:
        return SparkType("double") if seen.fits_double else STRING
    digits = max(seen.whole_digits, 0) + seen.scale
    if digits > MAX_DIGITS:
        return STRING
    precision = USUAL_DIGITS if digits <= USUAL_DIGITS else MAX_DIGITS
    return SparkType("decimal", (str(precision), str(seen.scale)))


def _is_long(value: int | None) -> bool:
    return value is not None and -LONG <= value < LONG


def _struct_type(seen: SeenValues) -> SparkType:
    """A struct of the fields; a string if two of them differ only in case, or if one
    has no valid name."""
    small = {name.lower() for name in seen.fields}
    if len(small) < len(seen.fields) or not all(map(_may_be_field, seen.fields)):
        return STRING
    return SparkType(
        "struct",
        fields=tuple(
            TypeField(name, find_type(each)) for name, each in seen.fields.items()
        ),
    )


def _may_be_field(name: str) -> bool:
    return bool(name.strip()) and "`" not in name and name.isprintable()


def common_type(old: SparkType, new: SparkType) -> SparkType | None:
    """The type that holds the values of both types: one of the two, or for structs the
    one with the fields of both. None if there is none."""
    if old == new or widens(new, old):
        return old
    if widens(old, new):
        return new
    if old.name != new.name or not old.fields:
        return None
    if old.name == "struct":
        return _common_struct(old, new)
    parts = [
        common_type(a.type, b.type) for a, b in zip(old.fields, new.fields, strict=True)
    ]
    found = tuple(TypeField("", part) for part in parts if part is not None)
    return SparkType(old.name, fields=found) if len(found) == len(parts) else None


def _common_struct(old: SparkType, new: SparkType) -> SparkType | None:
    found = {each.name: each.type for each in old.fields}
    for each in new.fields:
        merged = (
            common_type(found[each.name], each.type)
            if each.name in found
            else each.type
        )
        if merged is None:
            return None
        found[each.name] = merged
    return SparkType(
        "struct", fields=tuple(TypeField(name, kind) for name, kind in found.items())
    )
