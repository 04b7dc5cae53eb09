"""JSON: a document for each record, or lines of them in a file."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class JsonFormat(RecordFormat):
    """JSON objects whose members are the columns."""

    name: ClassVar[str] = "json"
    is_text: ClassVar[bool] = True
    is_document: ClassVar[bool] = True
    tells_columns: ClassVar[bool] = True
    may_span_lines: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """True: each record names its fields."""
        return True

    def may_count_times(self, csv: Csv) -> bool:
        """True: a timestamp may be a number."""
        return True
