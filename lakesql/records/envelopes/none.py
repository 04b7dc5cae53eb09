"""No envelope: a record is a row."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.envelope import RecordEnvelope


class NoEnvelope(RecordEnvelope):
    """Rows that are no changes."""

    name: ClassVar[str] = "none"
    is_feed: ClassVar[bool] = False
