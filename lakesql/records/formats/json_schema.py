"""JSON behind the id of its schema, as the clients of a schema registry write it."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat
from lakesql.records.formats.csv import Csv


class JsonSchemaFormat(RecordFormat):
    """An object whose members are the columns. The id says nothing that the contract
    does not say."""

    name: ClassVar[str] = "json_schema"
    is_text: ClassVar[bool] = True
    is_framed: ClassVar[bool] = True

    def names_fields(self, csv: Csv) -> bool:
        """Each record does."""
        return True

    def may_count_times(self, csv: Csv) -> bool:
        """A number may be one."""
        return True
