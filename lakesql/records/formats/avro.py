"""Avro: files of rows with their schema, and single records with a schema that the
stream or a registry has."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class AvroFormat(RecordFormat):
    """Rows in files, or single records in bytes that need a schema to be read."""

    name: ClassVar[str] = "avro"
    has_typed_rows: ClassVar[bool] = True
    tells_columns: ClassVar[bool] = True
    schema_kind: ClassVar[str] = "AVRO"
    takes_schema_file: ClassVar[bool] = True
    is_converted: ClassVar[bool] = True
    rounds_decimals: ClassVar[bool] = True
    jars: ClassVar[frozenset[str]] = frozenset({"avro"})

    def names_fields(self, csv: Csv) -> bool:
        """True: its schema names the fields."""
        return True
