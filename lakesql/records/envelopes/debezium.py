"""Debezium's own events: the row before and after a change, and where it comes from."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.envelope import RecordEnvelope


class DebeziumEnvelope(RecordEnvelope):
    """Events with `before`, `after`, `op` and `source`, with or without a schema beside
    them."""

    name: ClassVar[str] = "debezium"
    says_columns: ClassVar[bool] = True
    has_sides: ClassVar[bool] = True
    may_be_registered: ClassVar[bool] = True
    tells_transactions: ClassVar[bool] = True
