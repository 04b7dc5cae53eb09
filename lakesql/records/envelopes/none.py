"""No envelope: a record is a row."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.envelope import RecordEnvelope


class NoEnvelope(RecordEnvelope):
    """Rows, and no changes."""

    name: ClassVar[str] = "none"
    is_feed: ClassVar[bool] = False
