"""The tables of feeds that groups mirror: those of recordings, found by a former run, or as the broker has them now."""

from __future__ import annotations

from collections.abc import Sequence

from lakesql.errors import Place
from lakesql.graph.load_manifest import GroupFeeds
from lakesql.graph.manifest import Manifest
from lakesql.project.codec import decoder, encode
from lakesql.run.columns import SAMPLE, cluster_of, newest_recorded
from lakesql.run.kafka_java import open_kafka
from lakesql.run.kept_streams import KeptStreams
from lakesql.stream.found_tables import tables_in
from lakesql.stream.source_table import SourceTable, tables_text
from lakesql.stream.stream import Column, Stream


def known_tables(feeds: GroupFeeds) -> list[SourceTable]:
    """The tables that recordings have, and those that were found in Kafka before."""
    kept = _KeptTables(feeds)
    found: list[SourceTable] = []
    for stream in feeds.streams:
        source = feeds.target.connections.get(stream.connection)
        folder = source.recording if source is not None else None
        if folder is None:
            found += kept.get(stream)
        else:
            found += tables_in(newest_recorded(stream.origin, folder), stream)
    return found


def ask_tables(feeds: GroupFeeds) -> list[SourceTable]:
    """The tables of feeds as the brokers have them now. For a feed of several topics the newest records of new topics
    are read; for one with a single topic its newest records.

    A table that had no key is looked at again: it may have got one, and its first records may have been without.
    """
    asked = [(stream, cluster) for stream in feeds.streams if (cluster := cluster_of(feeds.target, stream)) is not None]
    if not asked:
        return known_tables(feeds)
    from lakesql.engine.sources.broker import open_broker  # only here: few projects have a group

    kept = _KeptTables(feeds)
    with open_kafka() as jvm:
        for stream, cluster in asked:
            whole = (*(table for table in kept.get(stream) if table.key), *feeds.declared)
            known = {table.topic for table in whole if table.stream == stream.name}
            with open_broker(jvm, cluster) as broker:
                topics = broker.find_topics(stream.origin, stream.place)
                new = [topic for name, topic in topics.items() if name not in known]
                count = PULLED * len(new) if stream.origin.may_be_several else SAMPLE
                records = broker.read_newest(new, count) if new else []
            kept.add(stream, tables_in(records, stream))
    kept.save()
    return known_tables(feeds)


def pull_tables(manifest: Manifest, stream: Stream) -> dict[str, str]:
    """The file that declares the tables of a feed which groups mirror, each as its newest records have it: its text, by
    its path.

    Tables that another file of the project declares are not in it. Raises what asking a broker raises.
    """
    path = tables_path(manifest, stream)
    elsewhere = {table.name for table in manifest.source_tables if _is_elsewhere(table, stream, path)}
    groups = [group for group in manifest.groups.values() if group.stream == stream.name]
    found = [
        table
        for table in _tables_now(manifest, stream)
        if table.name not in elsewhere and any(group.tables.takes(table.name) for group in groups)
    ]
    return {path: tables_text(found)}


def tables_path(manifest: Manifest, stream: Stream) -> str:
    """Where the tables of a feed are declared by a pull."""
    return f"{manifest.settings.paths.streams}/{stream.name}.tables.yml"


def _is_elsewhere(table: SourceTable, stream: Stream, path: str) -> bool:
    return table.stream == stream.name and table.is_declared and table.place.path != path


def _tables_now(manifest: Manifest, stream: Stream) -> list[SourceTable]:
    """All tables of a feed, as its newest records tell of them."""
    source = manifest.target.connections.get(stream.connection)
    if source is not None and source.recording is not None:
        return tables_in(newest_recorded(stream.origin, source.recording), stream)
    cluster = cluster_of(manifest.target, stream)
    if cluster is None:
        return []
    from lakesql.engine.sources.broker import open_broker  # only here: few projects have a group

    with open_kafka() as jvm, open_broker(jvm, cluster) as broker:
        topics = broker.find_topics(stream.origin, stream.place)
        return tables_in(broker.read_newest(topics.values(), PULLED * max(1, len(topics))), stream)


PULLED = 100
"""So many of the newest records of a topic are read to know the table that it has."""


class _KeptTables:
    """The tables that were found in the topics of a target's feeds."""

    def __init__(self, feeds: GroupFeeds) -> None:
        names = [stream.name for stream in feeds.streams]
        self._kept = KeptStreams(feeds.outputs, "tables.json", feeds.target.name, names)
        self._decode = decoder((SourceTable, Column, Place))

    def get(self, stream: Stream) -> Sequence[SourceTable]:
        found = self._kept.get(stream)
        return [] if found is None else self._decode(found)

    def add(self, stream: Stream, tables: Sequence[SourceTable]) -> None:
        merged = {table.name: table for table in (*self.get(stream), *tables)}
        self._kept.put(stream, encode([*merged.values()]))

    def save(self) -> None:
        self._kept.save()
