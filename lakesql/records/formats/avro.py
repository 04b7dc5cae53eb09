"""Avro: files of rows with their schema, and single records by a schema that the stream
names."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class AvroFormat(RecordFormat):
    """Rows, or records of bytes that do not say how they are written."""

    name: ClassVar[str] = "avro"
    has_typed_rows: ClassVar[bool] = True
    tells_columns: ClassVar[bool] = True
    schema_kind: ClassVar[str] = "AVRO"
    takes_schema_file: ClassVar[bool] = True
    is_converted: ClassVar[bool] = True
    rounds_decimals: ClassVar[bool] = True
    jars: ClassVar[frozenset[str]] = frozenset({"avro"})

    def names_fields(self, csv: Csv) -> bool:
        """Its schema does."""
        return True
