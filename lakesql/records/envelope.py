"""What every envelope around a stream's rows answers about itself: `RecordEnvelope`.
Pure.

A new envelope is a file in `envelopes/`, a line in `kinds_of_records.py`, and its
reader in `engine/records`.
"""

from __future__ import annotations

import re
from typing import ClassVar, Protocol


class RecordEnvelope(Protocol):
    """What a record holds besides its row."""

    name: ClassVar[str]
    """Its name in a stream's `envelope`."""

    is_feed: ClassVar[bool] = True
    """Whether the records are changes of rows."""

    says_columns: ClassVar[bool] = False
    """Whether the records may name the columns of their rows, so that a stream need not
    declare them."""

    says_positions: ClassVar[bool] = True
    """Whether each change has a position in its database's log."""

    needs_source_table: ClassVar[bool] = False
    """Whether a stream must set `source_table`, as a topic may have the changes of all
    tables."""

    has_field_prefix: ClassVar[bool] = False
    """Whether the metadata of a change is among the columns, with a prefix that the
    stream may set."""

    has_sides: ClassVar[bool] = False
    """Whether an event has the row before and after the change."""

    is_of_log: ClassVar[bool] = True
    """Whether its changes come from a database's log, where a transaction may change
    the key of a row, values may be missing in an update, a table may be truncated, and
    a delete is followed by a tombstone."""

    tells_transactions: ClassVar[bool] = False
    """Whether an event may name its transaction, in JSON."""

    change_fields: ClassVar[tuple[str, ...]] = (
        *(
            "op",
            "ts",
            "position",
            "tx",
            "snapshot",
            "source_db",
            "source_schema",
            "source_table",
        ),
        "before",
    )
    """The fields of `_change` that its changes have."""

    may_be_registered: ClassVar[bool] = False
    """Whether its events may be in Avro with schemas in a registry, as Kafka Connect's
    converters write them."""

    source_table: ClassVar[re.Pattern[str]] = re.compile(r"([^.]+\.)?[^.]*\.[^.]+")
    """The pattern of a table's name in its events."""
