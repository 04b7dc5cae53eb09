"""A model with its checked SELECT, and what follows from both for how its batches are
written. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesql.compile.checks import (
    INVALID_TEXT,
    Check,
    names_of,
)
from lakesql.errors import Place
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.model.writing import Writing
from lakesql.names import CHANGE, CHANGE_FIELDS, RECORD, RESCUED
from lakesql.select.functions import is_unsteady
from lakesql.select.query import Query, carry_position
from lakesql.select.text_of_bytes import find_text_of_bytes
from lakesql.stream.stream import Column, Stream
from lakesql.template.template import Rendered

_CHANGE = f"{CHANGE}."


@dataclass(frozen=True, slots=True)
class Select:
    """A model with its checked SELECT, and how its batches are written.

    `streams` are what it reads: declared streams, and other models' tables that are
    read as streams, whose table names are in `read_tables`. `checks` are the
    expectations of its rows. `input_columns` has, for each table that it reads, the
    names and types of its columns, by the parts of the table's name in lower case; a
    type is '' if unknown.
    """

    model: Model
    query: Query
    streams: Mapping[str, Stream]
    rendered: Rendered
    writing: Writing
    read_tables: Mapping[str, TableName]
    checks: tuple[Check, ...] = ()
    input_columns: Mapping[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]] = (
        field(default_factory=dict)
    )

    @property
    def text(self) -> str:
        """The SELECT that Spark runs: the author's text, with the record's position
        passed through if it is needed, and with columns for the event times that its
        streams compute."""
        if self.query.timed is not None:
            return self.query.timed.sql
        return (
            carry_position(self.query) if self.writing.is_positioned else self.query.sql
        )

    @property
    def query_hash(self) -> str:
        """A hash of the SELECT, by which the ledger recognizes it."""
        return hashlib.sha256(self.query.sql.encode()).hexdigest()[:16]

    def place(self, offset: int) -> Place:
        """The place in the model's file of the character at `offset` of `text`."""
        if self.query.timed is not None:
            return self.rendered.place(self.query.timed.original(offset))
        if self.writing.is_positioned:
            for at, inserted in reversed(self.query.carry):
                start = at + sum(
                    len(text) for before, text in self.query.carry if before < at
                )
                if offset >= start:
                    offset -= min(len(inserted), offset - start)
        return self.rendered.place(offset)

    @property
    def feed(self) -> Stream | None:
        """The change feed that the SELECT mirrors: it then reads the rows that result
        from the changes. None if it reads the records of its streams."""
        if self.writing.given == "records":
            return None
        return next(
            (stream for stream in self.streams.values() if stream.is_feed), None
        )

    @property
    def is_copy(self) -> bool:
        """Whether the table holds exactly the SELECT's result over the present rows of
        the feed's source: no older versions, and no soft-deleted rows."""
        return (
            self.feed is not None
            and self.model.config.versions is None
            and self.writing.deletes != "soft"
        )

    @property
    def has_positions(self) -> bool:
        """Whether records are identified by their position: topic, partition and
        offset."""
        return self.writing.is_positioned or self.feed is not None

    @property
    def adds_columns(self) -> bool:
        """Whether lakesql adds columns to a stream, such as `_record` and `_change`,
        which a `*` would include."""
        query = self.query
        return self.writing.is_positioned or bool(
            query.record_fields or query.change_fields or self.late_text
        )

    @property
    def finds_by_key(self) -> bool:
        """Whether records are matched with rows of the table by the key of the
        stream."""
        return self.feed is not None or bool(self.writing.tombstones)

    @property
    def change_fields(self) -> frozenset[str]:
        """The fields of `_change` that the SELECT or the mode uses."""
        if self.feed is None:
            return self.query.change_fields
        needed = {
            "op",
            "position",
            "tx",
            *(each.removeprefix(_CHANGE) for each in self.order),
        }
        if self.writing.deletes == "soft":
            needed |= {"ts"}
        return self.query.change_fields | (
            needed & {*self.feed.record_envelope.change_fields}
        )

    @property
    def change_columns(self) -> tuple[str, ...]:
        """The fields of `_change` that the SELECT or the mode uses, in the order of
        `_change`."""
        return tuple(
            name for name in (*CHANGE_FIELDS, "before") if name in self.change_fields
        )

    @property
    def feed_keys(self) -> Mapping[str, str]:
        """The columns of the feed's key, by the names that the model's `keys` give
        them. A key that is no plain column of the stream is left out."""
        outputs = {output.name.lower(): output for output in self.query.outputs or ()}
        columns = {
            column.name.lower(): column.name
            for stream in self.streams.values()
            for column in stream.columns
        }
        found = {}
        for key in self.writing.keys:
            output = outputs.get(key.lower())
            # If only Spark knows the output columns, a column is assumed to keep its
            # name in the stream.
            made_of = (
                output.column
                if output
                else None
                if self.query.outputs is not None
                else key
            )
            if made_of and made_of.lower() in columns:
                found[key] = columns[made_of.lower()]
        return found

    @property
    def sequence(self) -> Mapping[str, str]:
        """The columns that order the changes of a mirrored feed, by their names in the
        model: columns of the stream, or fields of `_change`.

        A column that the SELECT does not pass on unchanged is left out.
        """
        words = self.writing.sequence_by if self.feed is not None else ()
        return dict(found for word in words if (found := self.sequenced(word)))

    def sequenced(self, word: str) -> tuple[str, str] | None:
        """The output column that a name in a mirror's `sequence_by` means, and what it
        is in the feed: a column, or a field of `_change`. None if the SELECT does not
        pass it on unchanged."""
        columns = {
            column.name.lower(): column.name
            for stream in self.streams.values()
            for column in stream.columns
        }
        for output in self.query.outputs or ():
            field = (
                f"{_CHANGE}{output.change}" if output.change in CHANGE_FIELDS else ""
            )
            if word.lower() in (output.name.lower(), field):
                made_of = field or columns.get((output.column or "").lower(), "")
                return (output.name, made_of) if made_of else None
        return None

    @property
    def compared(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of the table with which a batch compares its rows, by the option
        that names them."""
        return {
            **self.writing.compared,
            **({"sequence_by": tuple(self.sequence)} if self.sequence else {}),
        }

    @property
    def kept(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of a mirrored feed whose values the table keeps if they are
        missing in the change event, each with the names by which the SELECT passes it
        on.

        A column that the SELECT also uses otherwise, or that is a key or orders
        changes, is left out.
        """
        query = self.query
        if self.writing.unsent == "dead letter" or "star-in-function" in query.noted:
            return {}
        found: dict[str, tuple[str, ...]] = {}
        needed = {
            *(
                name.lower()
                for name in (*self.feed_keys.values(), *self.sequence.values())
            ),
            *query.used,
        }
        if any(stream.rescues for stream in self.streams.values()):
            needed.add(RESCUED)  # a change always has it
        for output in query.outputs or ():
            if (
                output.column
                and output.stream
                and not {output.column.lower(), output.name.lower()} & needed
            ):
                found[output.column] = (*found.get(output.column, ()), output.name)
        return found

    def unused_of(self, stream: Stream) -> tuple[str, ...]:
        """The columns of a feed that nothing reads: neither the SELECT, nor its key or
        watermark."""
        words = self.query.words
        if words is None or not stream.is_feed or stream.has_table_changes:
            return ()
        asked = {name.lower() for name in stream.key}
        asked |= {
            word.lower()
            for word in re.findall(
                r"\w+", stream.watermark.column if stream.watermark else ""
            )
        }
        return tuple(
            it.name
            for it in stream.columns
            if it.name.lower() not in words | asked and not it.is_rescued
        )

    @property
    def has_moves(self) -> bool:
        """Whether a change of a row's key is distinguished from a delete and an
        insert."""
        return "moves" in self.writing.memories

    @property
    def has_one_table(self) -> bool:
        """Whether all changes of its feed must be of one table of the database.

        Not if the stream reads several topics, or declares the tables that it takes as
        one. Nor if the SELECT, not being a mirror, reads the table's name from
        `_change` and so can keep the rows apart; a mirror has only the newest change of
        each key, of any table.
        """
        feeds = [stream for stream in self.streams.values() if stream.is_feed]
        looks = (
            self.feed is None
            and {"source_db", "source_schema", "source_table"}
            & self.query.change_fields
        )
        if not self.writing.mixes_tables or looks or len(feeds) != 1:
            return False
        return not feeds[0].reads_several and not feeds[0].takes_several_tables

    @property
    def is_placed(self) -> bool:
        """Whether all changes of a mirrored feed, truncates too, are ordered only by
        their position in the database's log."""
        return tuple(self.sequence.values()) == (f"{_CHANGE}position",)

    @property
    def order(self) -> tuple[str, ...]:
        """What orders the changes of a row in a batch, before their order of arrival:
        columns of the feed, or fields of `_change`.

        Between topics the order of arrival means nothing, so without `sequence_by` the
        changes of several topics are ordered by position and time.
        """
        is_of_several = self.feed is not None and any(
            stream.reads_several for stream in self.streams.values()
        )
        if self.sequence or not is_of_several:
            return tuple(self.sequence.values())
        return f"{_CHANGE}position", f"{_CHANGE}ts"

    @property
    def orders_reads(self) -> bool:
        """Whether rows that a database snapshot has read are ordered in a batch by the
        snapshot's position in the log."""
        return self.order[:1] == (f"{_CHANGE}position",)

    @property
    def drops_late(self) -> bool:
        """Whether a watermark drops late rows."""
        has_watermark = any(
            self.streams[name].watermark for name in self.query.streams_read
        )
        keeps_times = self.query.grouped_by_event_time or self.query.joins_streams
        return self.query.stateful and has_watermark and keeps_times

    @property
    def late_text(self) -> str:
        """The SELECT among whose rows the late ones are found by event time; '' if late
        rows do not become dead letters."""
        return (
            self.query.ungrouped
            if self.drops_late and self.model.config.late == "dead_letter"
            else ""
        )

    @property
    def judges_text(self) -> bool:
        """Whether a row with text that is not UTF-8 becomes a dead letter."""
        return any(check.name == INVALID_TEXT for check in self.checks)

    @property
    def text_of_bytes(self) -> frozenset[str]:
        """The columns, in lower case, whose text may be made of bytes by functions,
        with U+FFFD where the bytes are no UTF-8."""
        uses_bytes = bool(self.query.record_fields & {"key", "headers"})
        columns: dict[str, tuple[str, ...] | None] = {}
        bytes_ = set()
        for name, stream in self.streams.items():
            relation = name.lower()
            columns[relation] = (
                *(column.name.lower() for column in stream.columns),
                RECORD,
                CHANGE,
            )
            bytes_ |= {
                (relation, column.name.lower())
                for column in stream.columns
                if "binary" in column.type
            }
            bytes_ |= {(relation, RECORD)} if uses_bytes else set()
        return find_text_of_bytes(self.query.sql, columns, frozenset(bytes_))

    @property
    def has_unsteady_checks(self) -> bool:
        """Whether a row may fail other expectations when it is computed again for its
        dead letter, because the SELECT or a condition is not deterministic."""
        conditions = (check.condition for check in self.checks)
        return bool(names_of(self.checks, "dead_letter")) and is_unsteady(
            self.query.sql, *conditions
        )

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the table's columns; None if only Spark's analyzer knows
        them."""
        return (
            tuple(output.name for output in self.query.outputs)
            if self.query.outputs is not None
            else None
        )


def output_columns(select: Select) -> tuple[Column, ...]:
    """The columns of the SELECT with the types that are known without Spark; '' for an
    unknown type."""
    columns = []
    for output in select.query.outputs or ():
        declared = select.streams[output.stream].columns if output.stream else ()
        wanted = (output.column or "").lower()
        plain = next(
            (item.type for item in declared if item.name.lower() == wanted), ""
        )
        columns.append(
            Column(
                output.name,
                output.cast
                or plain
                or output.type
                or CHANGE_FIELDS.get(output.change or "", ""),
            )
        )
    return tuple(columns)
