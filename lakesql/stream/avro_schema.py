"""The Avro schema of a stream's values, read from a file of the project."""

from __future__ import annotations

import json
from pathlib import Path

from lakesql.errors import Place, ProjectError, did_you_mean
from lakesql.project.files import read_text
from lakesql.stream.stream import Stream


def read_avro_schema(directory: Path, stream: Stream) -> str:
    """The text of the stream's schema.

    Raises `ProjectError` (`avro-schema`) if it is not the schema of a record that has
    the contract's columns as fields.
    """
    path = directory / stream.schema
    if not path.is_file():
        raise ProjectError.of(
            "avro-schema",
            f"There is no file {stream.schema}, which stream '{stream.name}' names.",
            place=stream.place,
        )
    text = read_text(path, stream.schema)
    fields = _field_names(text, stream.schema)
    in_small_letters = {name.lower() for name in fields}
    in_values = (column.field for column in stream.columns if not column.is_in_key)
    missing = [field for field in in_values if field.lower() not in in_small_letters]
    if missing:
        raise ProjectError.of(
            "avro-schema",
            f"The schema in {stream.schema} has no field {', '.join(missing)}, which is a column of '{stream.name}'.",
            fix=did_you_mean(missing[0], fields),
            place=stream.place,
        )
    return text


def _field_names(text: str, shown: str) -> list[str]:
    """The names of the fields in a record schema."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ProjectError.of(
            "avro-schema", f"This is not JSON: {error}.", place=Place(shown)
        ) from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ProjectError.of(
            "avro-schema", "This is not the schema of a record.", place=Place(shown)
        )
    fields = schema.get("fields", [])
    return [
        str(field["name"])
        for field in fields
        if isinstance(field, dict) and "name" in field
    ]
