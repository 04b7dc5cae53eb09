"""The comments at the top of a compiled file: what happens to a model's rows that its
statements do not show."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import assert_never

from lakesql.compile.checks import show_checks
from lakesql.compile.growth import (
    ROW_BYTES,
    ROWS_PER_SECOND,
    assume,
    grow_assumed,
)
from lakesql.compile.notes import find_notes
from lakesql.compile.quote import event_time, field_path, identifier, text, whole_name
from lakesql.compile.select import Select
from lakesql.model.config import AvailableNow, Every, OnChange
from lakesql.model.maintenance_tasks import maintenance_tasks, own_tasks
from lakesql.modes.batches.all_batches import batches_of, refreshes_of
from lakesql.modes.batches.batches import Batches, listed
from lakesql.names import CHANGE, COMPILED_FROM
from lakesql.stream.stream import Column, LateFiles, Stream
from lakesql.table.simulation import TableCounts, TableGrowth

_WIDTH = 120


def render_header(select: Select) -> str:
    """The origin of the model, and what happens around its statements, as comment
    lines; long ones are wrapped."""
    model = select.model
    first = f"-- {'.'.join(model.fqn)}: mode {select.writing.mode}, table {model.table}; {COMPILED_FROM}{model.path}"
    says = (
        _say_batches(select)
        if model.config.reads == "streams"
        else _say_refreshes(select)
    )
    return "\n".join(
        (
            first,
            *(
                line
                for what, said in says.items()
                if said
                for line in _lines(f"{what}: {said}")
            ),
        )
    )


def _say_batches(select: Select) -> dict[str, str]:
    """The comments on the batches of a model that reads streams, by their labels; ''
    for a comment that does not apply."""
    mode = batches_of(select)
    return {
        **{
            f"FROM {identifier(name)}": _source(select, name)
            for name in select.query.streams_read
        },
        "of these": _routed(select),
        "batches": _batches(select),
        "rows": mode.rows(),
        "updates": mode.updates(),
        "filtered rows": mode.filtered(),
        "unsent values": mode.unsent(),
        "bad records": _bad(select),
        "expectations": "; ".join(show_checks(select.checks)),
        **dict(find_notes(select)),
        "state": _state(select),
        "late records": _late(select, mode),
        "equal changes": _equal(select),
        "several topics": _between_topics(select),
        "tombstones": _tombstones(select),
        "deletes": mode.deletes(),
        "deleted keys": mode.deleted_keys(),
        "progress": _progress(select),
        "maintenance": _maintenance(select),
        "a day": _day(select),
    }


def _say_refreshes(select: Select) -> dict[str, str]:
    """The comments on the refreshes of a model that reads tables, by their labels."""
    names = map(whole_name, select.query.tables)
    mode = refreshes_of(select)
    if not select.model.config.is_stored:
        read = {
            f"FROM {name}": "the table as it is when somebody reads the view"
            for name in names
        }
        return {**read, "rows": mode.rows(), "kept": mode.kept_by()}
    return {
        **{
            f"FROM {name}": "the table as it is when a refresh begins" for name in names
        },
        "refreshes": _refreshes(select),
        "rows": mode.rows(),
        "kept": mode.kept_by(),
        "expectations": "; ".join(show_checks(select.checks)),
        "progress": "which snapshots of these tables it is made of stands in the snapshot of each refresh (the ledger)",
        "maintenance": _maintenance(select),
    }


def _refreshes(select: Select) -> str:
    match select.model.trigger:
        case AvailableNow():
            return "once in a run, where a table that it reads has changed (trigger available_now)"
        case Every(text=interval):
            return f"every {interval} in a continuous run, where a table that it reads has changed"
        case OnChange():
            return "as soon as a table that it reads has changed"
        case _:
            assert_never(select.model.trigger)


def _lines(said: str) -> Iterator[str]:
    """Comment lines of a text, without line breaks and other unprintable characters
    that a project's file may have put into it."""
    plain = (
        said
        if said.isprintable()
        else "".join(each if each.isprintable() else " " for each in said)
    )
    if len(plain) + 3 <= _WIDTH and "  " not in plain:
        yield f"-- {plain}"
        return
    yield from _wrapped(plain)


@lru_cache(maxsize=1024)
def _wrapped(plain: str) -> tuple[str, ...]:
    """A long comment's lines. What options mean is said of many models in the same
    words."""
    return tuple(
        textwrap.wrap(
            plain,
            _WIDTH,
            initial_indent="-- ",
            subsequent_indent="--   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


_LATE: Mapping[LateFiles, str] = {
    "read": "late ones too",
    "refuse": "late ones refused",
}
"""What happens to files that arrive late, in words."""


def _routed(select: Select) -> str:
    """The comment on which records of a topic belong to the table if the topic has
    records of several tables; '' if it has not."""
    route = next(
        (
            stream.route
            for stream in select.streams.values()
            if stream.route is not None
        ),
        None,
    )
    if route is None:
        return ""
    column = field_path(route.column)
    return (
        f"those whose {column} is {text(route.value)}; those of other tables are ignored, whatever is wrong with them, "
        f"and one without a {column} is a dead letter of each table"
    )


def _source(select: Select, name: str) -> str:
    """The comment on a stream: what the SELECT reads of it, where it comes from, and
    its contract."""
    stream, table = select.streams[name], select.read_tables.get(name)
    given = batches_of(select).given()
    if table is not None:
        what = (
            "the changes of its rows"
            if stream.has_table_changes
            else "the rows that are new"
        )
        return f"{given}, from table {table} (model {name}): {what}"
    facts = [
        f"connection {stream.connection}"
        if stream.connection
        else "the project's folder"
    ]
    if stream.origin.brings != "rows":
        facts += _reading_facts(stream, select.finds_by_key)
    if stream.start != "earliest":
        facts.append(
            f"start {stream.start.isoformat() if isinstance(stream.start, datetime) else stream.start}"
        )
    if stream.watermark:
        facts.append(f"watermark {stream.watermark.delay} on {event_time(stream)}")
    columns = map(_contract_column, stream.columns)
    return f"{given}, from {stream.origin.describe(text)} ({', '.join(facts)}): {', '.join(columns)}"


def _reading_facts(stream: Stream, finds_by_key: bool) -> Iterator[str]:
    """How records are read, and what happens to their files, a phrase for each."""
    yield (
        f"{stream.format} by {text(stream.schema)}" if stream.schema else stream.format
    )
    if stream.is_feed:
        yield f"envelope {stream.envelope}"
    if finds_by_key:
        yield f"key {', '.join(map(identifier, stream.key))}"
    if stream.key_kind:
        yield f"keys in {stream.key_format}"
    if stream.unknown_fields != "ignore":
        yield f"unknown_fields {stream.unknown_fields}"
    if stream.archive:
        yield f"read files are archived in {text(stream.archive)}"
    if stream.ordered_by:
        yield f"in the order of their names, {_LATE[stream.late_files]}"
    if stream.notifications:
        yield f"found by the events of {stream.notifications.place}"
    if stream.after == "delete":
        yield "read files are deleted"
    yield f"max_per_batch {stream.max_per_batch or 'unlimited'}"


def _contract_column(column: Column) -> str:
    """A column of a contract as text: `a_b string required from 'a.b'`."""
    required = " required" if column.required else ""
    read_from = f" from {text(column.from_field)}" if column.from_field else ""
    read_from += " in the key" if column.is_in_key else ""
    return f"{identifier(column.name)} {column.type}{required}{read_from}"


def _batches(select: Select) -> str:
    match select.model.trigger:
        case AvailableNow():
            return "what is there, until all of it is read; no run keeps the table fresh (trigger available_now)"
        case Every(text=interval):
            return f"every {interval} in a continuous run"
        case OnChange():
            raise AssertionError("a stream has batches, and no changes of tables")
        case _:
            assert_never(select.model.trigger)


def _bad(select: Select) -> str:
    writing, ratio = select.writing, select.model.config.max_dead_letter_ratio
    reasons = []
    if any(
        name not in select.read_tables and select.streams[name].origin.brings != "rows"
        for name in select.query.streams_read
    ):
        reasons.append("those that do not fit their columns")
    if incomplete := batches_of(select).incomplete():
        reasons.append(incomplete)
    if writing.not_null:
        reasons.append(f"rows whose {listed(writing.not_null, 'or')} is NULL")
    if not reasons:
        return "there can be none"
    limit = ""
    if ratio < 1 and (writing.not_null or not select.query.stateful):
        # A second query finds the bad records of a stateful model: those do not count.
        counted = "the latter" if select.query.stateful and len(reasons) > 1 else "them"
        limit = f"; a batch with more than {ratio * 100:g}% of {counted} fails"
    return f"{' and '.join(reasons)} go to {select.model.table.dead_letter}{limit}"


def _state(select: Select) -> str:
    """The comment on the state that the query keeps between two batches, and for how
    long; '' if it keeps none."""
    query, says = select.query, []
    if not query.stateful:
        return ""
    timed = [
        name
        for name in query.streams_read
        if select.streams[name].watermark is not None
    ]
    if query.joins_streams:
        bounded = [name for name in query.streams_read if name not in query.unbounded]
        if bounded:
            says.append(
                f"records of {listed(tuple(bounded), 'and')} until the watermark has passed what they can meet"
            )
        if query.unbounded:
            says.append(
                f"all records of {listed(query.unbounded, 'and')} for ever: no range of event time bounds them"
            )
    if query.aggregated or "distinct" in query.noted:
        kept = "groups" if query.aggregated else "rows"
        if query.grouped_by_event_time and timed:
            says.append(
                f"{kept} until the watermark of {listed(tuple(timed), 'and')} has passed them"
            )
        else:
            says.append(
                f"all {kept} for ever: no event time among their keys bounds them"
            )
    return "; ".join(says)


def _late(select: Select, mode: Batches) -> str:
    if select.drops_late:
        where = (
            f"go to {select.model.table.dead_letter}"
            if select.late_text
            else "are dropped and counted"
        )
        return f"those behind the watermark {where}"
    return mode.late()


def _equal(select: Select) -> str:
    """The comment on changes with equal values in all columns of `sequence_by`; '' if
    there can be none."""
    if not select.sequence or f"{CHANGE}.position" in select.sequence.values():
        return ""
    (stream,) = select.query.streams_read
    if not select.streams[stream].record_envelope.is_of_log:
        return ""
    columns = ", ".join(select.sequence.values())
    taken = f"of those with the same {columns} the one that arrives last is taken, also an older one that is sent again"
    if not select.streams[stream].record_envelope.says_positions:
        return taken
    return f"{taken}; '{CHANGE}.position' at the end of sequence_by tells them apart"


def _between_topics(select: Select) -> str:
    """The comment on the order of a row's changes in several topics; '' if one topic
    has them all, or `sequence_by` orders them."""
    if not select.order or select.sequence:
        return ""
    return (
        f"a row that moves between them is right if one batch has its changes, which are ordered by {CHANGE}.position, "
        f"then {CHANGE}.ts; of those in several batches the one that is read last is taken. '{CHANGE}.position' in "
        "sequence_by, and in the SELECT, makes it right in every batch"
    )


def _tombstones(select: Select) -> str:
    if not select.writing.tombstones:
        return ""
    (stream,) = select.query.streams_read
    return (
        f"a record of {identifier(stream)} without a value deletes the row of its key"
    )


def _progress(select: Select) -> str:
    state = "progress and state" if select.query.stateful else "progress"
    return f"in the snapshot of each batch (the ledger); Spark's own {state} in the model's checkpoint"


def _maintenance(select: Select) -> str:
    if not own_tasks(select.model):
        return "none; somebody else maintains the table"
    share = f"{select.model.config.maintenance.max_time_ratio * 100:g}%"
    own = dict.fromkeys(
        task.name if task.written else task.procedure
        for task in maintenance_tasks(select.model)
    )
    return f"{', '.join(own)}, where due, between two batches, in {share} of the time at most"


def _day(select: Select) -> str:
    """The comment on the files of a new table after a day of batches, as `lakesql
    forecast --offline` computes them."""
    unkept, kept = grow_assumed(assume(select.model))
    runs = ", run every hour" if isinstance(select.model.trigger, AvailableNow) else ""
    said = f"at {ROWS_PER_SECOND:g} rows of {ROW_BYTES:g} bytes a second{runs}, {_grown(unkept, unkept.end)}"
    if kept is None:
        return said
    return f"{said}; maintained, {_grown(kept, kept.most)} at most"


def _grown(growth: TableGrowth, counts: TableCounts) -> str:
    deletes = (
        f" and {counts.delete_files:,} delete files" if counts.delete_files else ""
    )
    return (
        f"{growth.commits:,} commits leave {counts.data_files:,} data files{deletes}, {counts.snapshots:,} snapshots "
        f"and {counts.metadata_bytes / 1e6:,.1f} MB of metadata"
    )
