"""Debezium's events after its ExtractNewRecordState: the row, with the change's
metadata among its columns."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.envelope import RecordEnvelope


class FlatEnvelope(RecordEnvelope):
    """The row after the change, with `__op`, `__deleted` and other metadata."""

    name: ClassVar[str] = "debezium_flat"
    has_field_prefix: ClassVar[bool] = True
    may_be_registered: ClassVar[bool] = True
