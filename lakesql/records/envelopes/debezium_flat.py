"""Debezium's events as its ExtractNewRecordState leaves them: the row, and among its
columns what is said of it."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.envelope import RecordEnvelope


class FlatEnvelope(RecordEnvelope):
    """The row after the change, with `__op`, `__deleted` and others."""

    name: ClassVar[str] = "debezium_flat"
    has_field_prefix: ClassVar[bool] = True
    may_be_registered: ClassVar[bool] = True
