"""The records of a stream that a unit test gives, as a broker would deliver them: with
keys and values as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import NewType

from lakesql.decode import Node, decode, option
from lakesql.errors import ProjectError
from lakesql.names import RECORD, RESCUED
from lakesql.records.formats.csv import Csv
from lakesql.stream.stream import Column, Stream
from lakesql.unit.change_given import GivenChange, read_change, read_table_change
from lakesql.unit.fixture_values import Value, exact, json_text, read_time
from lakesql.unit.fixtures import Other, read_each, read_items, read_row

EPOCH = datetime(1970, 1, 1)

Raw = NewType("Raw", Node)
"""A string, a mapping that is written as JSON, or null."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record of a topic with a single partition. `given` is the entry of the test
    that it was made of."""

    key: str | None
    value: str | None
    offset: int
    timestamp_ms: int
    headers: tuple[tuple[str, str], ...]
    given: Node


def _read_timestamp(node: Node) -> datetime:
    found = read_time(node.value) if isinstance(node.value, str) else None
    if found is None:
        raise ProjectError.of(
            "bad-fixture", f"{node.shown} is no time.", place=node.place
        )
    return found


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What a record has besides its columns, under `_record`."""

    key: Raw | None = option(
        "The record's key: a text, or a mapping that becomes JSON.",
        default=None,
        read=Raw,
    )
    value: Raw | None = option(
        "Raw value of the record, in place of columns: a text, a mapping that becomes JSON, or nothing, as in a "
        "record that deletes its key.",
        default=None,
        read=Raw,
    )
    timestamp: datetime = option(
        "Time at which the record was written; the test's `now`, or 1970, if left out.",
        default=EPOCH,
        read=_read_timestamp,
    )
    headers: Mapping[str, Node] = option(
        "Headers of the record.", factory=dict, read=lambda node: node.entries()
    )


def topic_stream(stream: Stream, connection: str) -> Stream:
    """The stream with a recorded topic as its origin: what a test gives arrives as
    records, whatever the stream is read from in a run."""
    return replace(
        stream,
        connection=connection,
        origin=stream.origin.recorded(stream.name),
        format="json"
        if stream.record_format.has_typed_rows or stream.registry
        else stream.format,
        schema="",
        registry="",
        key_format="json",
        start="earliest",
        max_per_batch=None,
    )


def read_arrivals(
    node: Node, stream: Stream, folder: Path, now: datetime, first: int, other: Other
) -> list[Arrival]:
    """The records of one batch. `first` is the offset of its first record. `other`
    makes a value for a column whose type fixtures do not know.

    Raises `ProjectError` for records that do not fit the stream's columns.
    """
    numbered = list(enumerate(read_items(node, folder), start=first))
    read = partial(_read_arrival, stream=stream, now=now, other=other)
    return read_each(
        numbered, lambda each: read(each[1], each[0]), lambda each: each[1].place
    )


def read_table_changes(
    node: Node,
    stream: Stream,
    types: Mapping[str, str],
    folder: Path,
    now: datetime,
    other: Other,
) -> list[Arrival]:
    """The changes of a table's rows in one batch, each as a record with the JSON object
    that `given_changes` reads. `types` are the types of the table's columns. `now` is
    the time of a commit whose change does not give one.

    Raises `ProjectError` for changes that do not fit the columns.
    """
    names = {name.lower() for name in stream.key}
    key = tuple(name for name in types if name.lower() in names)

    def read(numbered: tuple[int, Node]) -> Arrival:
        number, item = numbered
        change = read_table_change(
            item,
            tuple(types),
            lambda row: read_row(row, types, f"'{stream.name}'", other),
            key,
        )
        value = {
            "op": change.op,
            "now": None if change.op == "d" else change.row,
            "before": change.before,
            "at_ms": utc_ms(change.ts or now),
            "number": number,
        }
        return Arrival(None, json_text(value), number, 0, (), item)

    return read_each(
        [*enumerate(read_items(node, folder))], read, lambda each: each[1].place
    )


def _read_arrival(
    item: Node, number: int, stream: Stream, now: datetime, other: Other
) -> Arrival:
    arrival = Arrival(None, None, number, utc_ms(now), (), item)
    match item.value:
        case None:
            return arrival
        case str() as raw if not stream.record_format.has_typed_rows:
            return replace(arrival, value=raw)
        case Mapping():
            pass
        case _:
            fix = "Write the columns of the record."
            raise ProjectError.of(
                "bad-fixture", f"{item.shown} is no record.", fix=fix, place=item.place
            )
    said = item.get(RECORD)
    if said is not None:
        options = decode(said, RecordOptions, what=f"{RECORD} of a record")
        moment = (
            utc_ms(options.timestamp) if said.get("timestamp") else arrival.timestamp_ms
        )
        headers = tuple(
            (name, _raw_text(Raw(it)) or "") for name, it in options.headers.items()
        )
        arrival = replace(
            arrival, key=_raw_text(options.key), timestamp_ms=moment, headers=headers
        )
        item = Node(
            {name: it for name, it in item.entries().items() if name != RECORD},
            item.place,
            item.keys,
        )
        if said.get("value") is not None:
            if item.value:
                what = f"A record has either a value in {RECORD} or columns."
                raise ProjectError.of("bad-fixture", what, place=item.place)
            return replace(arrival, value=_raw_text(options.value))
    types, what = (
        {column.name: column.type for column in stream.columns},
        f"stream '{stream.name}'",
    )
    if stream.record_envelope.has_sides:
        lowered = {name.lower() for name in stream.key}
        names = tuple(
            column.name for column in stream.columns if column.name.lower() in lowered
        )
        change = read_change(
            item,
            number + 1,
            tuple(types),
            lambda row: read_row(row, types, what, other),
            names,
        )
        key = {
            column.field: change.row[column.name]
            for column in stream.columns
            if column.name in names
        }
        has_key = change.op != "t" and arrival.key is None
        return replace(
            arrival,
            key=json_text(key) if has_key else arrival.key,
            value=_event_text(change, stream, item),
        )
    if stream.is_feed:
        return replace(arrival, value=json_text(exact(item)))
    row = read_row(item, types, what, other)
    in_key = {
        column.name: column.key_field
        for column in stream.columns
        if column.is_in_key and column.name in row
    }
    if in_key and arrival.key is None:
        arrival = replace(
            arrival, key=json_text({field: row[name] for name, field in in_key.items()})
        )
    row = {name: value for name, value in row.items() if name not in in_key}
    return replace(arrival, value=_value_text(row, stream, item))


def utc_ms(time: datetime) -> int:
    """A time in UTC, without a zone, as milliseconds since 1970."""
    return round(time.replace(tzinfo=UTC).timestamp() * 1000)


def _raw_text(node: Raw | None) -> str | None:
    match node.value if node is not None else None:
        case None:
            return None
        case str() as text:
            return text
        case _:
            assert node is not None
            return json_text(exact(node))


def _event_text(change: GivenChange, stream: Stream, item: Node) -> str:
    """A change as the JSON of Debezium's event. A truncate has neither `before` nor
    `after`, a delete has no `after`."""
    units = {column.name: column for column in stream.columns}

    def written(row: Mapping[str, Value] | None) -> Value:
        if row is None:
            return None
        values = ((units[name], value) for name, value in row.items())
        return {
            column.field: _event_value(value, column, item) for column, value in values
        }

    after = change.row if change.op in ("c", "u", "r") else None
    source = {
        "snapshot": "true" if change.op == "r" else "false",
        "lsn": change.position,
        **({"ts_ms": utc_ms(change.ts)} if change.ts is not None else {}),
        **({"txId": change.tx} if change.tx is not None else {}),
        **_source_table(change, stream),
    }
    return json_text(
        {
            "op": change.op,
            "before": written(change.before),
            "after": written(after),
            "source": source,
        }
    )


def _source_table(change: GivenChange, stream: Stream) -> dict[str, str]:
    """The database's table as the `source` of an event names it: the given one, or else
    one that the stream's `source_table` matches."""
    name = change.source_table or (
        stream.source_table[0].replace("*", "") if stream.source_table else ""
    )
    parts = name.split(".")
    found = dict(zip(("table", "schema", "db"), reversed(parts), strict=False))
    return {part: text for part, text in found.items() if text}


_PER_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def _event_value(value: Value, column: Column, item: Node) -> Value:
    """A value as the event has it: a time becomes a number where the stream's contract
    gives its column a unit, and other values stay as they are. Raises `ProjectError`
    for a time that is no whole number of units."""
    if not isinstance(value, datetime) or column.unit is None:
        return value
    passed = value - EPOCH
    micros = (passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds
    number, rest = divmod(micros * _PER_SECOND[column.unit], 10**6)
    if rest:
        what = f"Column '{column.name}' counts {column.unit}, and {value.isoformat()}Z is between two of them."
        raise ProjectError.of("bad-fixture", what, place=item.place)
    return number


def _value_text(row: Mapping[str, Value], stream: Stream, item: Node) -> str:
    """The value of a record with these columns, in the stream's format."""
    kind = stream.record_format
    if kind.column_type:
        value = next(iter(row.values()), None)
        if isinstance(value, str):
            return value
        what = f"A record of format {kind.name} is its value: a text."
        raise ProjectError.of(
            "bad-fixture", what, fix="Write the text alone.", place=item.place
        )
    if kind.is_separated:
        return stream.csv.delimiter.join(
            _csv_text(row.get(it.name), stream.csv, item) for it in stream.columns
        )
    given = [column for column in stream.columns if column.name in row]
    values = {
        column.field: row[column.name] for column in given if not column.is_rescued
    }
    rescued = next((row[column.name] for column in given if column.is_rescued), None)
    return json_text(
        values if rescued is None else {**values, **_fields_of(rescued, values, item)}
    )


def _fields_of(
    rescued: Value, values: Mapping[str, Value], item: Node
) -> Mapping[str, Value]:
    """The fields of a record outside its columns, from the JSON object that the test
    gives as `_rescued`. Raises `ProjectError` if it is no such object."""
    found = None
    with suppress(ValueError, TypeError):
        found = json.loads(rescued, parse_float=Decimal)
    if isinstance(found, dict) and not any(
        name in values or set(name) & set(".[]`") for name in found
    ):
        return found
    what = f"{RESCUED} of a record is a text: a JSON object of fields that stand beside its columns."
    fix = (
        "Write a record with other fields within its columns as it arrives, as a text."
    )
    raise ProjectError.of("bad-fixture", what, fix=fix, place=item.place)


def _csv_text(value: Value, csv: Csv, item: Node) -> str:
    if value is None:
        return csv.null_value
    text = value if isinstance(value, str) else json_text(value).strip('"')
    if (
        isinstance(value, int | float | Decimal)
        and not isinstance(value, bool)
        and csv.decimal != "."
    ):
        text = text.replace(".", csv.decimal)
        return f"{csv.quote}{text}{csv.quote}" if csv.delimiter in text else text
    if text in ("", csv.null_value) or _has_pattern(value, csv):
        what = f"A line of CSV with the value {text!r} of a column is not the same value when it is read."
        raise ProjectError.of(
            "bad-fixture",
            what,
            fix="Write the line as it arrives, as a text.",
            place=item.place,
        )
    escaped = (
        text if csv.escape == csv.quote else text.replace(csv.escape, csv.escape * 2)
    )
    escaped = escaped.replace(csv.quote, csv.escape + csv.quote)
    return f"{csv.quote}{escaped}{csv.quote}" if isinstance(value, str) else text


def _has_pattern(value: Value, csv: Csv) -> bool:
    """Whether a value is a time or a date for which the stream's CSV options set a
    pattern."""
    if isinstance(value, datetime):
        return bool(csv.timestamp_format)
    return isinstance(value, date) and bool(csv.date_format)
