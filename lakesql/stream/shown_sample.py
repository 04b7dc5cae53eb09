"""Recorded records as a reader of the docs may see them: a value is shown only if the
contract declares its column and nothing marks it as sensitive. Pure."""

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
"""The text that replaces a value that is not shown."""

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
"""Words that make a column sensitive if they are in its name, unless the contract says
that it is not."""

_NAMES = re.compile(r"(first|last|full|given|family|middle|maiden|nick|user)_?name")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_PLACES = frozenset({"partition", "offset", "timestamp", "topic"})
"""The entries of a recorded line that are not content of the record."""

_EVENT = frozenset(
    {"op", "ts_ms", "ts_us", "ts_ns", "source", "transaction", "metadata"}
)
"""The entries of a change event that are not values of the row, but say where the
change comes from."""

_ROWS = ("before", "after", "data")
"""The entries of a change event that hold rows."""


def is_sensitive(column: Column, also: Collection[str] = ()) -> bool:
    """Whether the values of a column must be hidden: by the contract or, if it does not
    say, by the column's name.

    `also` are names, in lower case, that are sensitive by another declaration.
    """
    if column.name.lower() in also:
        return True
    return (
        sounds_sensitive(column.name) if column.sensitive is None else column.sensitive
    )


def sounds_sensitive(name: str) -> bool:
    """Whether a name contains a word for personal or secret data: `billing_email`,
    `ipAddress`."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return bool(words & SENSITIVE_WORDS) or _NAMES.search(name.lower()) is not None


def show_lines(
    lines: Iterable[str], stream: Stream, also: Collection[str] = ()
) -> tuple[str, ...]:
    """The lines of a recording with `•••` for each value that is not known to be
    harmless.

    The values of declared columns that are not sensitive are shown, and so are
    partition, offset, timestamp and topic. Sensitive columns, fields that the contract
    does not know, headers, and content that is no JSON object are masked. A value that
    is masked once is masked everywhere in these lines, also within a longer text.
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
    """The masked values, as texts."""

    texts: set[str] = field(default_factory=set)

    def mask(self, value: Any) -> Any:
        """The parsed value with `•••` for each value in it; NULL and the keys of
        objects stay."""
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
        """The parsed value without any masked value in it."""
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
        """The text with every masked value in it replaced that is long enough not to
        occur in it by chance."""
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
    """The entries of a recorded record, masked as needed."""
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
    """A header with its name, and with its value masked."""
    match header:
        case [name, *values]:
            return [name, *(hidden.mask(value) for value in values)]
        case _:
            return hidden.mask(header)


def _of_keys(known: Mapping[str, _ShownColumn]) -> dict[str, _ShownColumn]:
    """The columns by their field names in a key: those read from the key, and those of
    the value."""
    return {
        **known,
        **{name.removeprefix(KEY_FIELD.lower()): each for name, each in known.items()},
    }


def _is_shown_key(stream: Stream, known: Mapping[str, _ShownColumn]) -> bool:
    """Whether a key that is a single value is that of a column which may be shown."""
    names = {name.lower() for name in stream.key}
    columns = [each for each in known.values() if each.column.name.lower() in names]
    return len(names) == 1 and len(columns) == 1 and not columns[0].is_hidden


def _show_event(
    found: dict[str, Any], row: Callable[[dict[str, Any]], Any], hidden: _Hidden
) -> dict[str, Any]:
    """A change event with its rows masked; an event without nested rows is itself the
    row."""
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
    """A function that masks a row by the columns of the contract."""

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
    """A value of a column that may be shown; of a struct, fields that the type does not
    have or whose names sound sensitive are masked."""
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
        # a map, whose keys are values too, or a value that does not fit the type
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
    """The text by which a value is recognized: a text itself, everything else as
    JSON."""
    return value if isinstance(value, str) else json.dumps(value)
