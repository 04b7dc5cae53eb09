"""Whether a group's stream can be separated into tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakesql.errors import Problem, did_you_mean
from lakesql.graph.check_routes import check_route
from lakesql.model.group import ModelGroup
from lakesql.stream.stream import Stream


def feed_of(
    group: ModelGroup, streams: Mapping[str, Stream], problems: list[Problem]
) -> Stream | None:
    """The stream that a group reads; None if it does not exist or cannot be separated
    into tables, with the problems added to `problems`."""
    feed = streams.get(group.stream)
    if feed is None:
        problems.append(_unknown_stream(group, streams))
        return None
    wrong = [*_check_feed(group, feed)]
    problems.extend(wrong)
    return None if wrong else feed


def _check_feed(group: ModelGroup, feed: Stream) -> Iterator[Problem]:
    """Problems of a stream that is to be separated into tables."""
    if group.tables.route:
        yield from check_route(group, feed)
        return
    if "{value}" in group.tables.name:
        what = f"`name` of group '{group.name}' has {{value}} in it, and the group has no route."
        yield Problem(
            "group-route", what, "", "Write {table}, or name the `route`.", group.place
        )
    if not feed.is_feed:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}', of whose tables '{group.name}' makes models, is no change feed.",
            "Which table a record belongs to, and which columns that has, stand in the records of a change feed.",
            "Give the stream an `envelope`; or name the column each of whose values is to have a table: "
            "tables={'route': 'event_type'}.",
            group.place,
        )
    if feed.origin.brings != "records":
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}', of whose tables '{group.name}' makes models, reads files.",
            fix="Name the topics of the feed: `pattern`, `topics` or `topic`.",
            place=feed.place,
        )
    tells_transactions = (
        feed.record_envelope.tells_transactions
        and not feed.registry
        and not feed.schema
    )
    if group.config.consistent and feed.is_feed and not tells_transactions:
        yield Problem(
            "group-transactions",
            f"Group '{group.name}' says consistent=True, and stream '{feed.name}' tells of no transactions.",
            "Debezium's own events in JSON do, where the connector says provide.transaction.metadata=true.",
            "Leave `consistent` out, or read the connector's events as they are: envelope: debezium.",
            feed.place,
        )
    if feed.is_feed and not feed.tells_columns:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}', of whose tables '{group.name}' makes models, has the envelope '{feed.envelope}' in "
            f"format '{feed.format}'.",
            "Which tables a feed has, and which columns they have, is read of events as Debezium's connectors make "
            "them: in JSON, or in Avro by schemas of a registry.",
            "Let the connector write these, without ExtractNewRecordState, and the stream say `envelope: debezium`. Or "
            "write a model for each table, without `tables`.",
            feed.place,
        )
    elif feed.columns or feed.key:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}' declares `columns` or a `key`, which each of its tables has by itself.",
            fix="Leave them out there; `source_tables` has those of each table.",
            place=feed.place,
        )


def _unknown_stream(group: ModelGroup, streams: Mapping[str, Stream]) -> Problem:
    reference = next(
        (found for found in group.facts.streams if found.name == group.stream), None
    )
    place = reference.place if reference is not None else group.place
    what = f"stream('{group.stream}') names no stream."
    return Problem(
        "unknown-stream", what, "", did_you_mean(group.stream, streams), place
    )
