"""The messages of AWS DMS: `data` and `metadata`, of all tables in one topic."""

from __future__ import annotations

import re
from typing import ClassVar

from lakesql.records.envelope import RecordEnvelope


class DmsEnvelope(RecordEnvelope):
    """The row after the change. Rows of the initial load have no position."""

    name: ClassVar[str] = "dms"
    says_positions: ClassVar[bool] = False
    needs_source_table: ClassVar[bool] = True
    source_table: ClassVar[re.Pattern[str]] = re.compile(r"[^.]*\.[^.]+")
