"""The columns of a stream whose contract is a schema in the project's files, after
newer schemas have arrived. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakesql.errors import ProjectError, RunError
from lakesql.registry.registered import Registered
from lakesql.stream.feed_schema import wider_type
from lakesql.stream.registry_columns import columns_of
from lakesql.stream.stream import Column, Stream
from lakesql.stream.types import parse_type


@dataclass(frozen=True, slots=True)
class Followed:
    """The columns of a stream after newer schemas, and the differences to its own
    columns, in words."""

    columns: tuple[Column, ...]
    differences: tuple[str, ...]


def follow_schemas(stream: Stream, newer: Iterable[Registered]) -> Followed:
    """The columns of the stream, with wider types where newer schemas need them,
    followed by the columns that these add. Columns that newer schemas lack stay.

    Raises `RunError` (`contract-behind`) if no column can hold a field of one of them.
    """
    columns = {column.field.lower(): column for column in stream.columns}
    differences: list[str] = []
    for schema in newer:
        if schema.kind != stream.record_format.schema_kind:
            continue  # its records are dead letters
        for found in _columns_of(stream, schema):
            known = columns.get(found.field.lower())
            column = found if known is None else _wider(stream, schema, known, found)
            if column == known:
                continue
            columns[found.field.lower()] = column
            change = f"{column.name} {column.type} is new"
            if known is not None:
                change = f"{column.name} is {column.type} and was {known.type}"
            differences.append(f"{change} (schema {schema.id})")
    return Followed(tuple(columns.values()), tuple(differences))


def _columns_of(stream: Stream, schema: Registered) -> tuple[Column, ...]:
    try:
        return columns_of(stream, schema, stream.place)
    except ProjectError as error:
        raise RunError.of(
            "contract-behind",
            f"Schema {schema.id} of subject '{stream.value_subject}', which stream '{stream.name}' reads, is newer "
            f"than its contract, and makes no columns. {error.problems[0].what}",
            why="Nothing of this batch was written.",
            fix=f"Declare the `columns` of stream '{stream.name}', without what no column holds.",
            place=stream.place,
        ) from None


def _wider(stream: Stream, schema: Registered, known: Column, found: Column) -> Column:
    """The column with a type that holds its own values and those of a newer schema.
    Raises `RunError` (`contract-behind`) if there is none."""
    old, new = parse_type(known.type), parse_type(found.type)
    wide = (
        wider_type(old, new, as_text=False)
        if old is not None and new is not None
        else None
    )
    if wide is None:
        raise RunError.of(
            "contract-behind",
            f"Schema {schema.id} of subject '{stream.value_subject}', which stream '{stream.name}' reads, has "
            f"{known.name} as {found.type}, and the contract has it as {known.type}.",
            why="No column is widened to hold both. Nothing of this batch was written.",
            fix=f"Declare the `columns` of stream '{stream.name}' with the type that you want: values that do not fit "
            f"it are dead letters then. Or `lakesql schema pull {stream.name}`, and cast {known.name} in the SELECT to "
            "the table's type, or rebuild the model.",
            place=stream.place,
        )
    return known if wide == old else replace(known, type=wide.text)
