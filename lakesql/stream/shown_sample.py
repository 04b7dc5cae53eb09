"""Recorded records as others may see them: a value is shown where the contract knows it
as nobody's secret. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakesql.names import KEY_FIELD
from lakesql.secrets import SHORTEST
from lakesql.stream.recording import parse_json
from lakesql.stream.stream import Column, Stream
from lakesql.stream.types import SparkType, parse_type

MASKED = "•••"
"""What stands where a value is not shown."""

SENSITIVE_WORDS = frozenset(
    [
        "address",
        "birth",
        "birthdate",
        "birthday",
        "bic",
        "card",
        "cvc",
        "cvv",
        "dob",
        "email",
        "fax",
        "firstname",
        "fullname",
        "iban",
        "ip",
        "lastname",
        "lat",
        "latitude",
        "lng",
        "lon",
        "longitude",
        "mail",
        "mobile",
        "pan",
        "passport",
        "password",
        "passwd",
        "phone",
        "pin",
        "postal",
        "postcode",
        "pwd",
        "salary",
        "secret",
        "ssn",
        "street",
        "surname",
        "tax",
        "tel",
        "telephone",
        "token",
        "zip",
    ]
)
"""Words of a name by which a column is taken for sensitive, unless the contract says
that it is not."""

_NAMES = re.compile(r"(first|last|full|given|family|middle|maiden|nick|user)_?name")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_PLACES = frozenset({"partition", "offset", "timestamp", "topic"})
"""What of a recorded line is no content of the record."""

_EVENT = frozenset(
    {"op", "ts_ms", "ts_us", "ts_ns", "source", "transaction", "metadata"}
)
"""What of a change is not of the row: by whose log it is, and where it stands there."""

_ROWS = ("before", "after", "data")
"""Where a change has its rows."""


def is_sensitive(column: Column, also: Collection[str] = ()) -> bool:
    """Whether values of a column are nobody's to see: the contract says so, or, where
    it says nothing, the name does.

    `also` are names, in small letters, that somebody else has said it of.
    """
    if column.name.lower() in also:
        return True
    return (
        sounds_sensitive(column.name) if column.sensitive is None else column.sensitive
    )


def sounds_sensitive(name: str) -> bool:
    """Whether a name has a word that is said of people and of secrets: `billing_email`,
    `ipAddress`."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return bool(words & SENSITIVE_WORDS) or _NAMES.search(name.lower()) is not None


def show_lines(
    lines: Iterable[str], stream: Stream, also: Collection[str] = ()
) -> tuple[str, ...]:
    """The lines of a recording with `•••` for each value that is not known to be
    harmless.

    Shown are the values of declared columns that are not sensitive, and where a record
    stands. Masked are those of sensitive columns, of fields that the contract does not
    know, of headers, and what is no JSON object as a whole. A value that is masked once
    is masked wherever else it stands in these lines, also within a longer text.
    """
    hidden = _Hidden()
    known = {
        column.field.lower(): _ShownColumn(column, is_sensitive(column, also))
        for column in stream.columns
    }
    shown = [_show_line(line, stream, known, hidden) for line in lines]
    return tuple(
        json.dumps(hidden.hide(line), ensure_ascii=False, separators=(",", ":"))
        for line in shown
    )


@dataclass(frozen=True, slots=True)
class _ShownColumn:
    column: Column
    is_hidden: bool


@dataclass(slots=True)
class _Hidden:
    """The values that were masked, as texts."""

    texts: set[str] = field(default_factory=set)

    def mask(self, value: Any) -> Any:
        """`•••` for each value in what was parsed; NULL stays, and so do the keys of
        objects."""
        match value:
            case None:
                return None
            case dict():
                return {key: self.mask(each) for key, each in value.items()}
            case list():
                return [self.mask(each) for each in value]
            case _:
                self.texts |= {_text(value)} - {"true", "false", ""}
                return MASKED

    def hide(self, value: Any) -> Any:
        """What is shown, without any of the masked values in it."""
        match value:
            case dict():
                return {
                    key: each if key in _PLACES else self.hide(each)
                    for key, each in value.items()
                }
            case list():
                return [self.hide(each) for each in value]
            case str() if value != MASKED:
                return self._hide_within(value)
            case int() | float() if not isinstance(value, bool):
                return MASKED if _text(value) in self.texts else value
            case _:
                return value

    def _hide_within(self, text: str) -> str:
        """A text, without those of the masked values that are long enough not to stand
        in it by chance."""
        if text in self.texts:
            return MASKED
        long = sorted(
            (each for each in self.texts if len(each) >= SHORTEST),
            key=len,
            reverse=True,
        )
        if not long:
            return text
        return re.sub("|".join(map(re.escape, long)), MASKED, text, flags=re.IGNORECASE)


def _show_line(
    line: str, stream: Stream, known: Mapping[str, _ShownColumn], hidden: _Hidden
) -> dict[str, Any]:
    record = parse_json(line)
    if not isinstance(record, dict):
        return {"value": hidden.mask(line)}
    return dict(_parts(record, stream, known, hidden))


def _parts(
    record: Mapping[str, Any],
    stream: Stream,
    known: Mapping[str, _ShownColumn],
    hidden: _Hidden,
) -> Iterator[tuple[str, Any]]:
    """The parts of a record, each as it may be seen."""
    row = _row_of(known, hidden)
    for name, part in record.items():
        found = parse_json(part) if isinstance(part, str) else part
        if name in _PLACES:
            yield name, part
        elif name == "headers" and isinstance(part, list):
            yield name, [_header(each, hidden) for each in part]
        elif name == "value" and isinstance(found, dict):
            yield (
                name,
                _show_event(found, row, hidden) if stream.is_feed else row(found),
            )
        elif name == "key" and isinstance(found, dict):
            yield name, _row_of(_of_keys(known), hidden)(found)
        elif name == "key" and _is_shown_key(stream, known):
            yield name, part
        else:
            yield name, hidden.mask(part)


def _header(header: Any, hidden: _Hidden) -> Any:
    """A header: its name, and that it has a value."""
    match header:
        case [name, *values]:
            return [name, *(hidden.mask(value) for value in values)]
        case _:
            return hidden.mask(header)


def _of_keys(known: Mapping[str, _ShownColumn]) -> dict[str, _ShownColumn]:
    """The columns by what a key calls them: those that are read from it, and those of
    values."""
    return {
        **known,
        **{name.removeprefix(KEY_FIELD.lower()): each for name, each in known.items()},
    }


def _is_shown_key(stream: Stream, known: Mapping[str, _ShownColumn]) -> bool:
    """Whether a key that is one value is one of a column which may be seen."""
    names = {name.lower() for name in stream.key}
    columns = [each for each in known.values() if each.column.name.lower() in names]
    return len(names) == 1 and len(columns) == 1 and not columns[0].is_hidden


def _show_event(
    found: dict[str, Any], row: Callable[[dict[str, Any]], Any], hidden: _Hidden
) -> dict[str, Any]:
    """A change, whose rows stand in it, or are itself."""
    if isinstance(found.get("payload"), dict):
        rest = {
            name: hidden.mask(each) for name, each in found.items() if name != "payload"
        }
        return {**rest, "payload": _show_event(found["payload"], row, hidden)}
    rows = [name for name in _ROWS if isinstance(found.get(name), dict)]
    if not rows:
        own = {name: each for name, each in found.items() if name.startswith("__")}
        shown = row({name: each for name, each in found.items() if name not in own})
        return {**shown, **own}
    return {
        name: row(each)
        if name in rows
        else each
        if name in _EVENT
        else hidden.mask(each)
        for name, each in found.items()
    }


def _row_of(
    known: Mapping[str, _ShownColumn], hidden: _Hidden
) -> Callable[[dict[str, Any]], Any]:
    """What shows a row by the columns of the contract."""

    def show(row: dict[str, Any]) -> dict[str, Any]:
        return {name: show_field(name, value) for name, value in row.items()}

    def show_field(name: str, value: Any) -> Any:
        column = known.get(name.lower())
        if column is None or column.is_hidden:
            return hidden.mask(value)
        if column.column.sensitive is False:
            return value
        return _show_typed(value, parse_type(column.column.type), hidden)

    return show


def _show_typed(value: Any, kind: SparkType | None, hidden: _Hidden) -> Any:
    """A value of a column by its type: of structs the fields that it knows and that do
    not sound sensitive."""
    match value:
        case dict() if kind is not None and kind.name == "struct":
            fields = {each.name.lower(): each.type for each in kind.fields}
            return {
                name: hidden.mask(each)
                if name.lower() not in fields or sounds_sensitive(name)
                else _show_typed(each, fields[name.lower()], hidden)
                for name, each in value.items()
            }
        case list() if kind is not None and kind.name == "array":
            return [_show_typed(each, kind.fields[0].type, hidden) for each in value]
        # a map, whose keys are values too, or what the type does not say
        case dict() | list():
            hidden.mask(_leaves(value))
            return MASKED
        case _:
            return value


def _leaves(value: Any) -> Sequence[Any]:
    match value:
        case dict():
            return [
                *value,
                *(leaf for each in value.values() for leaf in _leaves(each)),
            ]
        case list():
            return [leaf for each in value for leaf in _leaves(each)]
        case _:
            return [value]


def _text(value: Any) -> str:
    """What a value is known by, as a text or as JSON has it."""
    return value if isinstance(value, str) else json.dumps(value)
