"""Asks brokers, without Java, for the topics of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakesql.engine.sources.empty import explain_no_records
from lakesql.errors import explain_missing
from lakesql.progress.position import FoundTopics, Source
from lakesql.project.librdkafka_options import librdkafka_options
from lakesql.project.profiles import Connection, Kafka
from lakesql.stream.stream import Stream


def read_topics(
    connections: Mapping[str, Connection], streams: Sequence[Stream]
) -> tuple[Mapping[str, FoundTopics], tuple[str, ...]]:
    """What is there of the topics of those streams that come from Kafka, by the streams' names; and sentences that say
    of which nothing is known, and why.

    Raises what asking a broker raises that is not there, or that takes neither login nor certificate.
    """
    clusters = {name: it for name, it in connections.items() if isinstance(it, Kafka)}
    read = {name: [it for it in streams if it.connection == name] for name in clusters}
    read = {name: of for name, of in read.items() if of}
    if not read:
        return {}, ()
    try:
        from lakesql.engine.sources.offsets import read_offsets  # only here: its client is an extra
    except ModuleNotFoundError as error:
        absent = explain_missing(error)
        if absent is None:
            raise
        return {}, (f"Topics are not looked at: {absent.problems[0].what} {absent.problems[0].fix}",)
    found: dict[str, FoundTopics] = {}
    unread: list[str] = []
    for name, of in read.items():
        if unknown := librdkafka_options(clusters[name]).unknown:
            why = ", ".join(f"{option} (taken: {takes})" if takes else option for option, takes in unknown.items())
            what = "has no counterpart" if len(unknown) == 1 else "have no counterparts"
            unread.append(f"Topics of connection '{name}' are not looked at: without Java {why} {what}.")
            continue
        origins = {stream.name: stream.origin for stream in of}
        for stream, held in read_offsets(clusters[name], of).items():
            nothing = explain_no_records(origins[stream], held.beginnings, held.ends)
            source = Source(stream, "kafka", held.ids, held.beginnings, held.ends, nothing=nothing)
            missing = Source(stream, "kafka", is_asked=False)
            found[stream] = FoundTopics(missing if held.problems else source, held.problems)
    return found, tuple(unread)
