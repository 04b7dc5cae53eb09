"""JSON after the id of its schema, as clients of a schema registry write it."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class JsonSchemaFormat(RecordFormat):
    """JSON objects whose members are the columns. The id is ignored, as the contract
    has all that is needed."""

    name: ClassVar[str] = "json_schema"
    is_text: ClassVar[bool] = True
    is_framed: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """True: each record names its fields."""
        return True

    def may_count_times(self, csv: Csv) -> bool:
        """True: a timestamp may be a number."""
        return True
