"""The events with which a run reports, before it reads, that a stream is empty or that
files of it are left out."""

from __future__ import annotations

from collections.abc import Sequence

from lakesql.events import FilesLeftOut, StreamEmpty
from lakesql.source.stream_state import SourceState


def empty_streams(
    model: str, sources: Sequence[SourceState]
) -> tuple[StreamEmpty, ...]:
    """Events for those streams of a model that have nothing to read."""
    others_have = any(not source.nothing for source in sources)
    empty = [source for source in sources if source.nothing]
    return tuple(
        StreamEmpty(model, source.name, source.nothing, others_have) for source in empty
    )


def left_out_files(
    model: str, sources: Sequence[SourceState]
) -> tuple[FilesLeftOut, ...]:
    """Events for those streams of a model of which some files are not read."""
    return tuple(
        FilesLeftOut(model, source.name, source.left_out)
        for source in sources
        if source.left_out
    )
