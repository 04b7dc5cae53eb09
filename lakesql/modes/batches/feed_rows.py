"""What modes `cdc` and `scd2`, whose SELECT reads the rows of a change feed, have in
common: what they refuse, and texts of the compiled file."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.compile.batch import CheckRows
from lakesql.compile.checks import checked_rows
from lakesql.compile.select import Select
from lakesql.errors import Problem, did_you_mean
from lakesql.modes.batches.batches import StoredRows, listed
from lakesql.names import ACCEPTED_VIEW, BATCH_VIEW, CHANGE
from lakesql.stream.stream import change_fields

_CHANGE = f"{CHANGE}."

GIVEN_ROWS = "the rows that the batch's changes leave"
"""The description of what such a SELECT reads under the name of its feed."""


def check_feed(select: Select) -> Iterator[Problem]:
    """The problems of a SELECT that does not read exactly one change feed, does not
    select its key as `keys`, or does not select the columns of `sequence_by`."""
    model, query = select.model, select.query
    mode = model.config.mode
    streams = [select.streams[name] for name in query.streams_read]
    feeds = [stream for stream in streams if stream.is_feed]
    if len(streams) != 1 or not feeds:
        yield Problem(
            "cdc-stream",
            f"Mode '{mode}' mirrors one change feed, and model '{model.name}' reads "
            f"{', '.join(stream.name for stream in streams) or 'none'}.",
            fix="Read one stream with `envelope: debezium`, `debezium_flat` or `dms`, or one model whose rows change.",
            place=model.option_place("mode"),
        )
        return
    (feed,) = feeds
    wanted = {name.lower() for name in feed.key}
    found = [column.lower() for column in select.feed_keys.values()]
    if others := [key for key in select.writing.keys if key not in select.feed_keys]:
        yield Problem(
            "cdc-keys",
            f"'{others[0]}' in keys is no column of stream '{feed.name}' as the feed brings it.",
            "A row of the source is found in the table by the feed's key alone: another value may change with the row, "
            "and a delete does not bring it.",
            "Name the columns of the feed's key in keys, and no other. Rows of several sources that have the same keys "
            "are mirrored by a model for each, which a view puts together; or the connector adds to the key of each "
            "record what tells the sources apart.",
            model.option_place("keys"),
        )
    elif not wanted or len(found) != len(wanted) or set(found) != wanted:
        yield Problem(
            "cdc-keys",
            f"The keys of a mirror are those of its feed, and stream '{feed.name}' has "
            f"{'the key ' + ', '.join(feed.key) if feed.key else 'no such columns'}.",
            "A row of the source is found in the table by them.",
            "Select these columns as they are, renamed at most, and name them in keys.",
            model.option_place("keys"),
        )
    for index, word in enumerate(select.writing.sequence_by):
        if select.sequenced(word):
            continue
        fields = [
            f"{_CHANGE}{name}" for name in change_fields(feed) if name != "before"
        ]
        suggested = ""
        if word.lower() in fields:
            suggested = f"Add `{word} AS {word.removeprefix(_CHANGE)}` to the SELECT."
        columns = [*fields, *(column.name for column in feed.columns)]
        yield Problem(
            "sequence-not-selected",
            f"'{word}' in sequence_by is not a column of the SELECT that it has as the feed brings it.",
            "The table keeps it, to tell an older change from a newer one.",
            suggested or did_you_mean(word, columns),
            model.option_place("sequence_by", index),
        )


def check_state(select: Select, row: str) -> Iterator[Problem]:
    """A problem if the SELECT keeps state. `row` is what the table has one row for, as
    a word of the message."""
    if not select.query.stateful:
        return
    fix = "Leave that out: the table keeps the rows, and a model in mode 'materialized_view' aggregates them."
    if select.query.joins_streams:
        fix = "Read each stream in a model, and join their tables in mode 'materialized_view': {{ ref('…') }}."
    yield Problem(
        "cdc-stateful",
        f"Mode '{select.model.config.mode}' cannot aggregate, take DISTINCT rows or join streams: its table has a row "
        f"for each {row} of the source.",
        fix=fix,
        place=select.model.option_place("mode"),
    )


def check_rows(select: Select, deleted: str) -> tuple[CheckRows, ...]:
    """The step that checks the expectations on the rows of a batch, except those for
    which the condition `deleted` holds; none if the model expects nothing."""
    if not select.checks or select.feed is None:
        return ()
    query = checked_rows(select.checks, BATCH_VIEW, f"NOT ({deleted})")
    when = f"each batch: its rows, each with what it fails, read as {BATCH_VIEW} from there on"
    return (CheckRows(when, BATCH_VIEW, query, ACCEPTED_VIEW),)


def say_incomplete(select: Select) -> str:
    """The text on which changes are dead letters because they lack a value of
    `sequence_by` or, if the feed is another model's table, of the key; '' if none."""
    if select.feed is not None and select.feed.has_table_changes:
        ordering = [
            name for name in select.sequence.values() if not name.startswith(_CHANGE)
        ]
        return f"changes whose {listed((*select.feed_keys.values(), *ordering), 'or')} is NULL"
    return (
        f"changes without {' or '.join(select.sequence.values())}"
        if select.sequence
        else ""
    )


def say_unsent(select: Select) -> str:
    """The text on what happens to large values that are missing in a change event, as
    the update has not changed them; '' if the feed has none."""
    if select.feed is None or not select.feed.record_envelope.is_of_log:
        return ""
    large = [
        column.name
        for stream in select.streams.values()
        for column in stream.columns
        if column.name not in (*select.feed_keys.values(), *select.unused_of(stream))
        if column.type.startswith(_LARGE) and not column.is_rescued
    ]
    kept = [name for name in large if name in select.kept]
    lost = [name for name in large if name not in select.kept]
    says = (
        [f"{listed(tuple(kept), 'and')} stay as they are in the table"] if kept else []
    )
    says += (
        [f"an update without {listed(tuple(lost), 'or')} is a dead letter"]
        if lost
        else []
    )
    return "; ".join(says)


_LARGE = ("string", "binary", "array", "map", "struct", "variant")
"""Types whose values may be so large that a database does not send them with each
update."""


def untraceable_change(select: Select) -> str:
    """The reason why a row of a mirror cannot become a dead letter."""
    return (
        f"Mode '{select.model.config.mode}' mirrors a feed: without the change the table would keep a version "
        "of the row that the source has no more."
    )


def stored_until_changed(kind: str, is_of_feed: bool) -> StoredRows:
    """What happens to stored rows if the SELECT changes: they stay until their source
    row changes. `kind` names the table in the text."""
    what = f"Rows of {kind} that are in the table stay as they were until their source changes."
    fill = (
        "(a DEFAULT is in no event: let the connector read the table again first)"
        if is_of_feed
        else ""
    )
    return StoredRows(
        "rebuild",
        what,
        "To fill the table again from what the streams have: lakesql rebuild",
        fill,
    )
