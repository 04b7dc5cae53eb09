"""What is asked of the envelope around a stream's rows, whichever it is. Pure.

A new envelope is a file in `envelopes/`, a line in `kinds_of_records.py`, and what
reads it in `engine/records`.
"""

from __future__ import annotations

import re
from typing import ClassVar, Protocol


class RecordEnvelope(Protocol):
    """What a record is besides its row."""

    name: ClassVar[str]
    """The word for it in a stream's `envelope`."""

    is_feed: ClassVar[bool] = True
    """Whether the records are changes of rows."""

    says_columns: ClassVar[bool] = False
    """Whether the records may say which columns their rows have, so that a stream need
    not declare them."""

    says_positions: ClassVar[bool] = True
    """Whether each change has a position in its database's log."""

    needs_source_table: ClassVar[bool] = False
    """Whether a stream must say which table's changes it takes: a topic may have those
    of all."""

    has_field_prefix: ClassVar[bool] = False
    """Whether what is said of a change stands among the columns, behind a prefix that
    the stream may give."""

    has_sides: ClassVar[bool] = False
    """Whether an event has the row before and after the change."""

    is_of_log: ClassVar[bool] = True
    """Whether its changes come from a database's log, where a transaction may change
    the key of a row, an update may leave out values, a table is truncated, and a delete
    is followed by a tombstone."""

    tells_transactions: ClassVar[bool] = False
    """Whether an event may say which transaction it is of, in JSON."""

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
    """Whether its events may be in Avro, by schemas of a registry: those that Kafka
    Connect's converters write."""

    source_table: ClassVar[re.Pattern[str]] = re.compile(r"([^.]+\.)?[^.]*\.[^.]+")
    """How its events write the name of a table."""
