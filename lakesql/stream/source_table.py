"""One table of the database behind a change feed, as the project declares it or as it
was found in the feed: its topic, key and columns.

For a topic with other records, each value of the route's column is such a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lakesql.decode import Node, decode, option, read_each, read_filled
from lakesql.errors import Place, Problem, ProjectError
from lakesql.project.yaml import render_yaml
from lakesql.stream.feed_schema import FieldSchema, merge_fields, parse_field
from lakesql.stream.route import Route
from lakesql.stream.stream import Column, Stream, read_columns, with_columns


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of a feed's source. `name` is `schema.table`, or `database.table` if the
    database has no schemas, or the value of a route.

    `stream` is the feed. `topic` has the table's changes; '' if all tables are in one
    topic. Its columns are those in `schema_fields`, each the text of a `FieldSchema`,
    or `columns` if the feed carries no schema. A table that is not declared was found
    in the feed; its place is then that of the stream.
    """

    stream: str
    name: str
    topic: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    schema_fields: tuple[str, ...]
    place: Place
    is_declared: bool = True

    @property
    def parts(self) -> Mapping[str, str]:
        """The parts of its name by their meaning; schema and database are '' if
        unknown."""
        *outer, table = self.name.split(".")
        database = outer[-2] if len(outer) > 1 else ""
        schema = outer[-1] if outer else ""
        return {
            "table": table,
            "schema": schema,
            "database": database,
            "topic": self.topic,
            "value": self.name,
        }


@dataclass(frozen=True, slots=True)
class _FieldOptions:
    """One field of a Kafka Connect schema, as a feed carries it."""

    field: str = option("Name of the column.", read=read_filled)
    type: str = option("Type in which values are written.", read=read_filled)
    name: str = option(
        "Meaning of the values, by a name such as `io.debezium.time.Date`.", default=""
    )
    scale: str = option(
        "Scale of a decimal.", default="", read=lambda node: str(node.value)
    )
    precision: str = option(
        "Precision of a decimal.", default="", read=lambda node: str(node.value)
    )
    items: str = option("For an array: the schema of its items, as JSON.", default="")
    fields: str = option(
        "For a struct: the schemas of its fields, as JSON.", default=""
    )


@dataclass(frozen=True, slots=True)
class _SourceTableOptions:
    """The keys of one entry under `source_tables:`."""

    stream: str = option("Stream that has the changes of the table.", read=read_filled)
    name: str = option(
        "Name of the table in its source, as `schema.table`; or a value of `route`.",
        read=read_filled,
    )
    topic: str = option(
        "Topic with the changes of the table, if the stream reads several.", default=""
    )
    key: tuple[str, ...] = option("Columns of the table's primary key.", default=())
    columns: tuple[Column, ...] = option(
        "Columns of the table, as those of a stream, if the feed carries no schema.",
        default=(),
        read=read_columns,
    )
    fields: tuple[str, ...] = option(
        "Columns of the table as in the feed's schema: {field, type, name, scale, precision, items, fields}.",
        default=(),
        read=lambda node: read_each(node.items(), _read_field),
    )


def _read_field(node: Node) -> str:
    said = decode(node, _FieldOptions, what="a field of a source table")
    return FieldSchema(
        said.field,
        said.type,
        said.name,
        said.scale,
        said.precision,
        said.items,
        said.fields,
    ).text


def read_source_table(node: Node) -> SourceTable:
    """The table that one entry of a file's `source_tables:` declares. Raises
    `ProjectError` with all problems of the entry."""
    said = decode(node, _SourceTableOptions, what="a source table")
    place = node.key_place("name")
    if said.columns and said.fields:
        what = f"Table '{said.name}' has `columns` and `fields`."
        raise ProjectError.of(
            "wrong-value",
            what,
            fix="Keep one of them.",
            place=node.key_place("columns"),
        )
    return SourceTable(
        said.stream, said.name, said.topic, said.key, said.columns, said.fields, place
    )


def stream_of_table(
    stream: Stream, table: SourceTable, name: str, *, shares_topic: bool = False
) -> Stream:
    """The stream of one table: its own topic, or its changes in a topic that it shares,
    with its columns and key.

    Raises `ProjectError` if a column has a type that no table can hold, or if no
    columns are known (`no-columns`).
    """
    origin = stream.origin.one_topic(table.topic) if table.topic else stream.origin
    own = replace(
        stream,
        name=name,
        origin=origin,
        source_table=() if table.topic and not shares_topic else (table.name,),
        key=table.key,
        names_key=bool(table.columns),
        place=table.place,
    )
    if table.columns:
        return replace(own, columns=table.columns, is_open=False)
    if not table.schema_fields:
        raise ProjectError.of(
            "no-columns",
            f"Nothing says which columns table '{table.name}' of stream '{stream.name}' has.",
            why="Its records carry no schema.",
            fix="Let the connector write schemas (value.converter.schemas.enable=true), or declare the `columns` of "
            "the table under `source_tables`.",
            place=table.place,
        )
    columns = merge_fields((), map(parse_field, table.schema_fields)).columns
    return with_columns(
        replace(own, is_open=True),
        columns,
        table.schema_fields,
        table.key,
        _how_to_declare(table),
    )


def stream_of_value(
    stream: Stream, table: SourceTable, name: str, route: Route
) -> Stream:
    """The stream of the records with one value of a route; topic, columns and key are
    those of `stream`."""
    return replace(stream, name=name, route=route, place=table.place)


def _how_to_declare(table: SourceTable) -> str:
    """The advice on how a project declares the columns of a table itself."""
    known = {
        "stream": table.stream,
        "name": table.name,
        "topic": table.topic,
        "key": list(table.key),
    }
    entry = ", ".join(
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in known.items()
        if value
    )
    return f"Declare its `columns` in a file of streams/: source_tables: [{{{entry}, columns: {{…}}}}]"


def merge_tables(
    declared: Sequence[SourceTable], found: Iterable[SourceTable]
) -> list[SourceTable]:
    """The declared tables, ordered by stream and name, followed by the tables that were
    found and are not among them. So a declared table keeps its name if a found one
    would get the same."""
    called: dict[str, list[SourceTable]] = {}
    for table in declared:
        called.setdefault(table.parts["table"], []).append(table)
    new = [
        table
        for table in found
        if not any(
            is_same(table, each) for each in called.get(table.parts["table"], ())
        )
    ]
    return [*sorted(declared, key=lambda table: (table.stream, table.name)), *new]


def is_same(found: SourceTable, declared: SourceTable) -> bool:
    """Whether a table that was found in a feed is the declared one: their names are
    equal, and their topics too if both have one. A declaration with the same topic may
    also have the database in its name."""
    if found.stream != declared.stream:
        return False
    if found.name == declared.name:
        return found.topic == declared.topic or not (found.topic and declared.topic)
    return (
        bool(found.topic)
        and found.topic == declared.topic
        and declared.name.endswith(f".{found.name}")
    )


def find_ambiguous(tables: Iterable[SourceTable]) -> Iterator[Problem]:
    """Problems of tables that are declared twice."""
    first: dict[tuple[str, str], SourceTable] = {}
    for table in tables:
        earlier = first.setdefault((table.stream, table.name), table)
        if earlier is not table:
            what = f"Table '{table.name}' of stream '{table.stream}' stands at {earlier.place} already."
            yield Problem("duplicate-name", what, place=table.place)


def tables_text(tables: Iterable[SourceTable], route: str = "") -> str:
    """The text of the file that declares these tables, for review; a later `schema
    pull` replaces it."""
    in_order = sorted(tables, key=lambda table: table.name)
    if route:
        entries = [{"stream": table.stream, "name": table.name} for table in in_order]
        return _HEAD_OF_VALUES.format(route=route) + render_yaml(
            {"source_tables": entries}
        )
    return _HEAD + render_yaml({"source_tables": [_entry(table) for table in in_order]})


_HEAD_OF_VALUES = "# Written by `lakesql schema pull`: the values of {route}, of which each makes a table.\n"

_HEAD = "# Written by `lakesql schema pull`: the tables of a change feed, with the columns that its records say.\n"


def _entry(table: SourceTable) -> dict[str, Any]:
    entry: dict[str, Any] = {"stream": table.stream, "name": table.name}
    if table.topic:
        entry["topic"] = table.topic
    entry["key"] = list(table.key)
    entry["fields"] = [_field_entry(parse_field(text)) for text in table.schema_fields]
    return entry


def _field_entry(field: FieldSchema) -> dict[str, str]:
    parts = {part.name: getattr(field, part.name) for part in fields(field)}
    return {name: value for name, value in parts.items() if value}
