"""Bytes: each record, or each line of a file, is one value, whatever it contains."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.format import RecordFormat


class BytesFormat(RecordFormat):
    """Records of one column of type binary."""

    name: ClassVar[str] = "bytes"
    column_type: ClassVar[str] = "binary"
