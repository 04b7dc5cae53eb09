"""Remarks for people on the state of a stream when a query starts. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.source.stream_state import NO_ID, SourceState

SHOWN = 5
"""The maximum number of partitions that are named."""


def remark_on(source: SourceState) -> Iterator[str]:
    """Sentences about the stream's state; none if nothing is unusual."""
    without_id = sorted(topic for topic, id_ in source.topics.items() if id_ == NO_ID)
    if without_id:
        yield (
            f"the broker gives no ids to the topics of stream '{source.name}' ({', '.join(without_id)}), which Kafka "
            "does since 2.8: if one is deleted and made again, that is not noticed, and its first records are skipped"
        )
    held = [
        f"{source.ends[topic][partition] - since} offsets of {topic}-{partition}, from {since} on"
        for topic, partitions in sorted(source.held.items())
        for partition, since in sorted(partitions.items())
    ]
    if held:
        more = (
            f" and of {len(held) - SHOWN} more partitions" if len(held) > SHOWN else ""
        )
        yield (
            f"a producer's transaction is open in stream '{source.name}': {', '.join(held[:SHOWN])}{more}, are read "
            "once it ends. Where this is said again of the same offset, its producer has left it open"
        )
