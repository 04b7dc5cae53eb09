"""Whether the queries of a model have read everything that its streams have, according
to checkpoints and ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from lakesql.catalog.checkpoint_files import open_stored
from lakesql.engine.sources.binding import StreamBinding
from lakesql.ledger.entry import ledger_tag, newest_entry
from lakesql.progress.decide import decide_all
from lakesql.progress.state import (
    Checkpoint,
    Origin,
    ProgressState,
    QueryIdentity,
    Resume,
    query_identities,
    state_of,
)
from lakesql.progress.stored import is_watermark_behind, read_checkpoint
from lakesql.project.profiles import Catalog
from lakesql.run.start.existing import Existing
from lakesql.run.streams.bind import BoundSelect
from lakesql.source.stream_state import Position, SourceState, StoredFiles


def has_read_all(
    bound: BoundSelect, folder: str, catalog: Catalog, found: Existing
) -> bool:
    """Whether each query of a model would resume from its checkpoint with nothing left
    to read in its streams."""
    sources = sources_now(bound, found)
    if len(sources) < len(bound.bindings):
        return False
    queries = [
        _read_query(identity, catalog, found, sources)
        for identity in query_identities(bound.select, folder)
    ]
    there = [query for query in queries if query is not None]
    if len(there) < len(queries):
        return False
    decisions = decide_all([query.state for query in there])
    return all(
        isinstance(decision, Resume) and _is_behind_all(query, bound, found)
        for query, decision in zip(there, decisions, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _FormerQuery:
    """A query that has run before: its identity, the files of its checkpoint, and the
    state from which `decide` decides how it continues."""

    identity: QueryIdentity
    files: StoredFiles
    checkpoint: Checkpoint
    origin: Origin
    state: ProgressState


def _read_query(
    identity: QueryIdentity,
    catalog: Catalog,
    found: Existing,
    sources: Sequence[SourceState],
) -> _FormerQuery | None:
    """A query's state, from its checkpoint and its table; None if either is missing. A
    companion query may have no dead-letter table yet."""
    files, table = open_stored(catalog, identity.folder), found.find(identity.table)
    checkpoint = read_checkpoint(files) if files is not None else None
    if files is None or checkpoint is None or checkpoint.origin is None:
        return None
    if table is None and not identity.is_companion:
        return None
    metadata = table.metadata if table is not None else None
    entry = written = None
    if metadata is not None:
        entry = newest_entry(
            metadata.ledger(ledger_tag(identity.owner)), identity.owner, metadata.find
        )
        written = newest_entry(metadata.ledger(), None, metadata.find)
    state = state_of(
        identity,
        sources,
        checkpoint,
        table_id=metadata.id if metadata is not None else "",
        entry=entry,
        has_rows=metadata is not None and metadata.has_rows,
        written=written,
    )
    return _FormerQuery(identity, files, checkpoint, checkpoint.origin, state)


def _is_behind_all(query: _FormerQuery, bound: BoundSelect, found: Existing) -> bool:
    """Whether a query that resumes has no batch to run: none is planned, and its
    streams have nothing after its position."""
    checkpoint, origin = query.checkpoint, query.origin
    batch = checkpoint.newest_committed
    if checkpoint.newest_planned != batch:
        return False
    is_of_this_table = (
        query.identity.is_companion or origin.table_id == query.state.table_id
    )
    if not is_of_this_table:
        return False
    if origin.streams != tuple(source.name for source in query.state.sources):
        return False
    positions = checkpoint.positions.get(batch, ())
    if len(positions) != len(bound.bindings):
        return False
    if query.identity.shape and is_watermark_behind(query.files, batch):
        # a batch without records is still to advance the watermark
        return False
    return _are_read(query, positions, bound.bindings, found)


def _are_read(
    query: _FormerQuery,
    positions: Sequence[Position],
    bindings: Sequence[StreamBinding],
    found: Existing,
) -> bool:
    """Whether no stream has anything after its position.

    Spark may order the streams of a stateful query otherwise than its FROM does, so any
    order in which none has counts.
    """

    def is_read(binding: StreamBinding, number: int) -> bool:
        return binding.source.is_read(
            binding.stream, number, positions[number], query.files, found
        )

    numbers = range(len(bindings))
    if not query.identity.shape:
        return all(is_read(bindings[number], number) for number in numbers)
    read = [[is_read(binding, number) for binding in bindings] for number in numbers]
    return any(
        all(read[number][place] for number, place in enumerate(order))
        for order in permutations(numbers)
    )


def sources_now(bound: BoundSelect, found: Existing) -> Sequence[SourceState]:
    """The present state of each stream, without streams whose topics are not
    available."""
    states = (
        binding.source.state_now(binding.stream, found) for binding in bound.bindings
    )
    return [state for state in states if state is not None]
