"""How long batches of a model remember what later ones may need."""

from __future__ import annotations

from lakesql.compile.quote import table_name
from lakesql.compile.select import Select
from lakesql.names import DELETED_AT, Memory


def forget(select: Select, kind: Memory) -> str:
    """Remove what has been remembered for long enough, whole days at a time."""
    seconds = select.writing.memories[kind].length_ms // 1000
    oldest = f"date_trunc('DAY', current_timestamp() - INTERVAL '{seconds}' SECOND)"
    return f"DELETE FROM {table_name(select.model.table.memory(kind))} WHERE {DELETED_AT} < {oldest}"
