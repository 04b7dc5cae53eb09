"""ORC: columnar files of rows with types."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class OrcFormat(RecordFormat):
    """Rows of files; a topic cannot have them."""

    name: ClassVar[str] = "orc"
    has_typed_rows: ClassVar[bool] = True
    is_for_records: ClassVar[bool] = False
    is_converted: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """True: the schema of each file names the fields."""
        return True
