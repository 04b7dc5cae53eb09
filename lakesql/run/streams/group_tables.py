"""Finds the source tables in the feeds that groups mirror: in recordings, in the cache
of an earlier command, or by asking the broker.

If a group has a route, its tables are the values of that column: the newest records
show some, and the batches of a run find the others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakesql.errors import Place
from lakesql.graph.load_manifest import GroupFeeds
from lakesql.graph.manifest import Manifest
from lakesql.project.cache import decoder, encode
from lakesql.project.profiles import Target
from lakesql.run.streams.asked_topics import KeptStreams, open_kafka
from lakesql.run.streams.events_in_json import in_json
from lakesql.run.streams.found_columns import (
    SAMPLE,
    cluster_of,
    newest_recorded,
    recorded_events,
)
from lakesql.stream.found_tables import tables_in
from lakesql.stream.record_ids import body_of
from lakesql.stream.recording import RawRecord
from lakesql.stream.route_values import MOST_VALUES, may_look_for_values, values_in
from lakesql.stream.source_table import SourceTable, is_same, tables_text
from lakesql.stream.stream import Column, Stream


def known_tables(feeds: GroupFeeds) -> list[SourceTable]:
    """The tables found in recordings, and those found in Kafka earlier. Asks no
    broker."""
    kept, values = _KeptTables(feeds), KeptValues(feeds)
    found: list[SourceTable] = []
    for stream in feeds.streams:
        if stream.name in feeds.routes:
            found += _tables_of_values(
                stream, [*values.get(stream), *_recorded_values(feeds, stream)]
            )
            continue
        source = feeds.target.connections.get(stream.connection)
        folder = source.recording if source is not None else None
        if folder is None:
            found += kept.get(stream)
        else:
            found += tables_in(recorded_events(feeds.target, stream, folder), stream)
    return found


def ask_tables(feeds: GroupFeeds) -> list[SourceTable]:
    """The tables of feeds, after asking the brokers. Of a feed with several topics, the
    newest records of new topics are read; of one with a single topic its newest
    records.

    Topics of tables without a key are read again: their first records may have come
    without one.
    """
    asked = [
        (stream, cluster)
        for stream in feeds.streams
        if (cluster := cluster_of(feeds.target, stream)) is not None
    ]
    if not asked:
        return known_tables(feeds)
    # imported only here: few projects have a group
    from lakesql.engine.sources.broker import open_broker

    kept, values = _KeptTables(feeds), KeptValues(feeds)
    with open_kafka() as jvm:
        for stream, cluster in asked:
            if (route := feeds.routes.get(stream.name)) is not None:
                with open_broker(jvm, cluster) as broker:
                    newest = broker.read_newest(
                        broker.find_topics(stream.origin, stream.place).values(), SAMPLE
                    )
                values.add(stream, _values_of(newest, stream, route, feeds.target))
                continue
            whole = (
                *(table for table in kept.get(stream) if table.key),
                *feeds.declared,
            )
            known = {table.topic for table in whole if table.stream == stream.name}
            with open_broker(jvm, cluster) as broker:
                topics = broker.find_topics(stream.origin, stream.place)
                new = [topic for name, topic in topics.items() if name not in known]
                count = PULLED * len(new) if stream.origin.may_be_several else SAMPLE
                records = broker.read_newest(new, count) if new else []
            kept.add(stream, tables_in(in_json(records, stream, feeds.target), stream))
    kept.save()
    return known_tables(feeds)


def pull_tables(manifest: Manifest, stream: Stream) -> dict[str, str]:
    """The text of the file that declares the tables of a feed that groups mirror, by
    path. Each table is declared as in the feed's newest records.

    Tables that another file of the project declares are left out. Values of a route
    that the file already has are kept: the newest records do not show which values are
    gone. Raises what asking a broker raises.
    """
    path = tables_path(manifest, stream)
    elsewhere = [
        table for table in manifest.source_tables if _is_elsewhere(table, stream, path)
    ]
    groups = [
        group for group in manifest.groups.values() if group.stream == stream.name
    ]
    route = next((group.tables.route for group in groups), "")
    known = manifest.source_tables if route else ()
    now: dict[str, SourceTable] = {}
    for table in (*known, *_tables_now(manifest, stream, route)):
        if table.stream == stream.name:
            now.setdefault(table.name, table)
    found = [
        table
        for table in now.values()
        if not any(is_same(table, each) for each in elsewhere)
        and any(group.tables.takes(table.name) for group in groups)
    ]
    return {path: tables_text(found, route)}


def tables_path(manifest: Manifest, stream: Stream) -> str:
    """The path of the file in which a pull declares the tables of a feed."""
    return f"{manifest.settings.paths.streams}/{stream.name}.tables.yml"


def _is_elsewhere(table: SourceTable, stream: Stream, path: str) -> bool:
    return (
        table.stream == stream.name and table.is_declared and table.place.path != path
    )


def _tables_now(manifest: Manifest, stream: Stream, route: str) -> list[SourceTable]:
    """All tables that the newest records of a feed belong to."""
    source = manifest.target.connections.get(stream.connection)
    if source is not None and source.recording is not None:
        if route:
            newest = newest_recorded(stream.origin, source.recording)
            return _tables_of_values(
                stream,
                _values_of(newest, stream, route, manifest.target, is_recorded=True),
            )
        return tables_in(
            recorded_events(manifest.target, stream, source.recording), stream
        )
    cluster = cluster_of(manifest.target, stream)
    if cluster is None:
        return []
    # imported only here: few projects have a group
    from lakesql.engine.sources.broker import open_broker

    with open_kafka() as jvm, open_broker(jvm, cluster) as broker:
        topics = broker.find_topics(stream.origin, stream.place)
        count = SAMPLE if route else PULLED * max(1, len(topics))
        newest = broker.read_newest(topics.values(), count)
        if route:
            return _tables_of_values(
                stream, _values_of(newest, stream, route, manifest.target)
            )
        return tables_in(in_json(newest, stream, manifest.target), stream)


def _recorded_values(feeds: GroupFeeds, stream: Stream) -> list[str]:
    """The values of a stream's route in its recording; empty if it has none."""
    source = feeds.target.connections.get(stream.connection)
    folder = source.recording if source is not None else None
    records = newest_recorded(stream.origin, folder) if folder is not None else []
    return _values_of(
        records, stream, feeds.routes[stream.name], feeds.target, is_recorded=True
    )


def _values_of(
    records: Sequence[RawRecord],
    stream: Stream,
    route: str,
    target: Target,
    *,
    is_recorded: bool = False,
) -> list[str]:
    """The values of a route in records, as far as they can be read without Spark and,
    for a recording, without asking a registry; else empty."""
    if not may_look_for_values(stream):
        return []
    if stream.record_format.is_framed:
        wire = stream.wire
        records = [
            replace(record, value=body_of(wire, "value", record)) for record in records
        ]
    elif stream.registry and is_recorded and not target.registry_of(stream).path:
        return []
    return values_in(
        in_json(records, stream, target, is_recorded=is_recorded), stream, route
    )


def _tables_of_values(stream: Stream, values: Iterable[str]) -> list[SourceTable]:
    """A source table without columns for each distinct value of a route."""
    each = dict.fromkeys(values)
    return [
        SourceTable(stream.name, value, "", (), (), (), stream.place, is_declared=False)
        for value in each
    ]


PULLED = 100
"""How many of the newest records of a topic are read to find its table."""


class _KeptTables:
    """The cache of tables found in the topics of a target's feeds."""

    def __init__(self, feeds: GroupFeeds) -> None:
        names = [stream.name for stream in feeds.streams]
        self._kept = KeptStreams(feeds.outputs, "tables.json", feeds.target.name, names)
        self._decode = decoder((SourceTable, Column, Place))

    def get(self, stream: Stream) -> Sequence[SourceTable]:
        found = self._kept.get(stream)
        return [] if found is None else self._decode(found)

    def add(self, stream: Stream, tables: Sequence[SourceTable]) -> None:
        merged = {
            (table.name, table.topic): table for table in (*self.get(stream), *tables)
        }
        self._kept.put(stream, encode([*merged.values()]))

    def save(self) -> None:
        self._kept.save()


_LOCK = threading.Lock()


class KeptValues:
    """The cache of values found in the routes of a target's streams. A stream's values
    are ignored once its topics or its route change.

    `add` returns once the values are in the file. It is thread-safe, and merges them
    with those that the file has by then.
    """

    def __init__(self, feeds: GroupFeeds) -> None:
        self._feeds = feeds

    def get(self, stream: Stream) -> list[str]:
        """The values found in a stream's route, in the order of their arrival."""
        return self._read(self._open(), stream)

    def add(self, stream: Stream, values: Iterable[str]) -> None:
        """Add found values to the cache, at most one more than `MOST_VALUES` in all, by
        which a reader sees that there are too many."""
        with _LOCK:
            kept = self._open()
            before = self._read(kept, stream)
            merged = [*dict.fromkeys([*before, *values])][: MOST_VALUES + 1]
            if merged != before:
                kept.put(
                    stream,
                    {"column": self._feeds.routes[stream.name], "values": merged},
                )
                kept.save()

    def _open(self) -> KeptStreams:
        target = self._feeds.target.name
        return KeptStreams(
            self._feeds.outputs, f"routes_{target}.json", target, self._feeds.routes
        )

    def _read(self, kept: KeptStreams, stream: Stream) -> list[str]:
        found = kept.get(stream)
        return (
            [*found["values"]]
            if found is not None and found["column"] == self._feeds.routes[stream.name]
            else []
        )
