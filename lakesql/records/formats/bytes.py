"""Bytes: each record, or each line of a file, is one value, whatever is in it."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat


class BytesFormat(RecordFormat):
    """One column of bytes."""

    name: ClassVar[str] = "bytes"
    column_type: ClassVar[str] = "binary"
