"""A model with its SELECT, which has been read and checked, and how its batches are
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
    """A model with its SELECT, and how its batches are written.

    `streams` are what it reads: declared ones, and other models' tables as such, whose
    names are in `read_tables`. `checks` are what is expected of its rows.
    `input_columns` are the names of the columns of the tables that it reads, and their
    types ('' where it is not known), by the parts of the tables' names in small
    letters.
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
        """The SELECT that Spark runs: the author's text, with the position carried
        through it where it is needed, and with columns for the event times that its
        streams make."""
        if self.query.timed is not None:
            return self.query.timed.sql
        return (
            carry_position(self.query) if self.writing.is_positioned else self.query.sql
        )

    @property
    def query_hash(self) -> str:
        """The hash by which the ledger identifies the SELECT."""
        return hashlib.sha256(self.query.sql.encode()).hexdigest()[:16]

    def place(self, offset: int) -> Place:
        """Where in the model's file the character at `offset` of `text` stands."""
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
        """The change feed that the SELECT is a mirror of: it reads the rows which the
        changes leave. None where it reads the records of its streams."""
        if self.writing.given == "records":
            return None
        return next(
            (stream for stream in self.streams.values() if stream.is_feed), None
        )

    @property
    def is_copy(self) -> bool:
        """Whether the table holds what the SELECT makes of the rows that the feed's
        source has now, and nothing else."""
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
        which a `*` would give too."""
        query = self.query
        return self.writing.is_positioned or bool(
            query.record_fields or query.change_fields or self.late_text
        )

    @property
    def finds_by_key(self) -> bool:
        """Whether records find their row of the table by the key of the stream."""
        return self.feed is not None or bool(self.writing.tombstones)

    @property
    def change_fields(self) -> frozenset[str]:
        """The fields of `_change` that the SELECT, or the mode, uses."""
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
        """The fields of `_change` that the SELECT, or the mode, uses, in the order in
        which `_change` has them."""
        return tuple(
            name for name in (*CHANGE_FIELDS, "before") if name in self.change_fields
        )

    @property
    def feed_keys(self) -> Mapping[str, str]:
        """The columns of the feed's key, by the names that `keys` of a mirroring model
        has for them.

        Of a key that is no plain column of the stream there is none.
        """
        outputs = {output.name.lower(): output for output in self.query.outputs or ()}
        columns = {
            column.name.lower(): column.name
            for stream in self.streams.values()
            for column in stream.columns
        }
        found = {}
        for key in self.writing.keys:
            output = outputs.get(key.lower())
            # Where a table's columns are known to Spark alone, a column has the name
            # that the stream gives it.
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
        """The columns that order the changes of a mirrored feed, by the model's names
        for them: columns of the stream, or fields of `_change`.

        A column that the SELECT does not pass on as it is, is left out.
        """
        words = self.writing.sequence_by if self.feed is not None else ()
        return dict(found for word in words if (found := self.sequenced(word)))

    def sequenced(self, word: str) -> tuple[str, str] | None:
        """The column of the SELECT that a word of a mirror's `sequence_by` names, and
        what it is in the feed: a column, or a field of `_change`. None where the SELECT
        does not pass it on as it is."""
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
        """The table's columns that a batch compares its rows with, by the option that
        names them."""
        return {
            **self.writing.compared,
            **({"sequence_by": tuple(self.sequence)} if self.sequence else {}),
        }

    @property
    def kept(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of a mirrored feed whose values the table keeps where a change
        does not send them.

        The SELECT does nothing with them but pass them on, by these names.
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
        """The columns of a feed that nothing reads: neither the SELECT, nor what finds
        and orders its rows."""
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
        """Whether changes of a row's key are distinguished from a delete and an
        insert."""
        return "moves" in self.writing.memories

    @property
    def has_one_table(self) -> bool:
        """Whether all changes of its feed must be of one table of the database.

        Not where the stream reads several topics, or says which tables it takes as one.
        A SELECT that looks at the table tells rows apart by it; a mirror's has the
        newest change of each key alone, of whichever table that is.
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
        """Whether the changes of a mirrored feed, truncates too, are ordered by their
        places in the log alone."""
        return tuple(self.sequence.values()) == (f"{_CHANGE}position",)

    @property
    def order(self) -> tuple[str, ...]:
        """What orders the changes of a row in a batch before their arrival: columns of
        the feed, fields of `_change`.

        Where the mode leaves it to arrival, there is none between topics: what is known
        of a change orders them.
        """
        is_of_several = self.feed is not None and any(
            stream.reads_several for stream in self.streams.values()
        )
        if self.sequence or not is_of_several:
            return tuple(self.sequence.values())
        return f"{_CHANGE}position", f"{_CHANGE}ts"

    @property
    def orders_reads(self) -> bool:
        """Whether rows that a snapshot has read are ordered in a batch by the
        snapshot's place in the log."""
        return self.order[:1] == (f"{_CHANGE}position",)

    @property
    def drops_late(self) -> bool:
        """Whether a watermark drops rows that come too late."""
        has_watermark = any(
            self.streams[name].watermark for name in self.query.streams_read
        )
        keeps_times = self.query.grouped_by_event_time or self.query.joins_streams
        return self.query.stateful and has_watermark and keeps_times

    @property
    def late_text(self) -> str:
        """The SELECT of the rows among which the late ones are looked for, by event
        time; '' where none is."""
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
        """The columns, in small letters, whose text functions may have made of bytes,
        with U+FFFD where these are no UTF-8."""
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
        """Whether a row that is looked at again, as its record becomes a dead letter,
        may fail something else."""
        conditions = (check.condition for check in self.checks)
        return bool(names_of(self.checks, "dead_letter")) and is_unsteady(
            self.query.sql, *conditions
        )

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the table; None where only Spark's analyzer knows them."""
        return (
            tuple(output.name for output in self.query.outputs)
            if self.query.outputs is not None
            else None
        )


def output_columns(select: Select) -> tuple[Column, ...]:
    """The SELECT's columns with the types that are known without Spark; an unknown type
    is the empty text."""
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
