"""Every name that lakesql reserves: columns, summary keys, table suffixes, views."""

from __future__ import annotations

RESERVED_PREFIX = "_lakesql_"
"""No column of a model or a stream may start with this."""

RECORD = "_record"
"""The struct `topic, partition, offset, timestamp, key, headers` that every stream offers."""

CHANGE = "_change"
"""The struct of a change feed (`envelope: debezium`)."""

POSITION = "_lakesql_position"
"""The source position of a row, carried through the author's SELECT: a struct that orders rows by arrival."""

REJECTED = "_lakesql_rejected"
"""A struct `reason, detail` on a stream's parsed rows; NULL on the good ones."""

VALUE = "_lakesql_value"
"""The raw bytes of a record, kept beside its parsed columns for the dead letters."""

DELETE = "_lakesql_delete"
"""Whether a row of a keyed batch deletes its key (`delete_when`)."""

STREAM_VIEW_PREFIX = "_lakesql_stream_"
"""The view that `stream('x')` names inside a compiled SELECT."""

BATCH_VIEW = "_lakesql_batch"
"""The view that holds the rows of the batch which the INSERT or MERGE writes."""

DEAD_LETTER_SUFFIX = "__dead_letter"
"""The dead-letter table of `t` is `t__dead_letter`, in the same namespace."""

LEDGER_MODEL = "lakesql.model"
LEDGER_CHECKPOINT = "lakesql.checkpoint"
LEDGER_BATCH = "lakesql.batch"
LEDGER_OFFSETS = "lakesql.offsets"
LEDGER_QUERY = "lakesql.query"
LEDGER_EVENT_TIME = "lakesql.event-time"
"""Keys of a ledger entry in the summary of the snapshot that holds the batch (docs/architecture.md, the ledger)."""


def is_reserved(column: str) -> bool:
    """Whether a column of this name belongs to lakesql and so never lands in a table by `SELECT *`."""
    lowered = column.lower()
    return lowered in (RECORD, CHANGE) or lowered.startswith(RESERVED_PREFIX)
