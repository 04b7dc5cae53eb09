"""Text: each record, or each line of a file, is one value."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat


class StringFormat(RecordFormat):
    """Records of one column of type string."""

    name: ClassVar[str] = "string"
    column_type: ClassVar[str] = "string"
