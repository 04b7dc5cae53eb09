"""Parquet: files of rows in columns, with types."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class ParquetFormat(RecordFormat):
    """Rows of files. A topic holds none."""

    name: ClassVar[str] = "parquet"
    has_typed_rows: ClassVar[bool] = True
    is_for_records: ClassVar[bool] = False
    has_nanoseconds: ClassVar[bool] = True
    is_converted: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """The schema of each file does."""
        return True
