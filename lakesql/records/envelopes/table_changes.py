"""The changes of another model's table, which lakesql derives itself: no stream
declares this envelope."""

from __future__ import annotations

from typing import ClassVar

from lakesql.records.envelope import RecordEnvelope


class TableEnvelope(RecordEnvelope):
    """The row after a commit, or the one that it removed, with the row before."""

    name: ClassVar[str] = "table_changes"
    says_positions: ClassVar[bool] = False
    is_of_log: ClassVar[bool] = False
    change_fields: ClassVar[tuple[str, ...]] = ("op", "ts", "before")
