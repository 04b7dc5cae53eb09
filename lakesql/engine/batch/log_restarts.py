"""Whether the log of a database counts anew, so that what is new in it looks older than
what the table has."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakesql.engine.batch.counters import BatchCounts
from lakesql.engine.batch.sink import Sink
from lakesql.engine.ledger import snapshots
from lakesql.errors import RunError

FAR = 10
"""A log whose newest place is so many times smaller than one that was read before
counts anew: a connector that was killed sends the last changes again, and not a log
from its beginning."""


@dataclass(frozen=True, slots=True)
class NewestPlace:
    """The greatest place in the log of the changes that were read, and the time of that
    record, in microseconds."""

    place: tuple[int, ...]
    read_us: int

    @property
    def text(self) -> str:
        """The place and the time as JSON, in the form that the ledger keeps."""
        return json.dumps(
            {"place": self.place, "read_us": self.read_us}, separators=(",", ":")
        )


def check_log(sink: Sink, table: snapshots.JavaTable, counts: BatchCounts) -> str:
    """The newest place that was read until and with this batch, as the ledger has it;
    '' where places are nothing to the model.

    Raises `RunError` (`log-restarted`) where all changes of the batch, which came after
    those, are far below it; or where it has none, and the snapshots that its rows are
    of. Records that are read again, as after a rewind, came before, and say nothing.
    """
    if not sink.select.is_placed or sink.letters is not None:
        return ""
    entry = snapshots.read_entry(table, sink.progress.identity.owner)
    known = _read(entry.newest_place) if entry else None
    if counts.place_us is None or counts.first_us is None:
        if known is not None and counts.first_read_us is not None:
            read = NewestPlace(_place(counts.read_place), counts.first_read_us)
            _check(sink, known, read, counts.first_read_us)
        return known.text if known else ""
    newest = NewestPlace(_place(counts.place), counts.place_us)
    if known is None or newest.place >= known.place:
        return newest.text
    _check(sink, known, newest, counts.first_us)
    return known.text


def _check(sink: Sink, known: NewestPlace, newest: NewestPlace, first_us: int) -> None:
    if first_us > known.read_us and newest.place[0] * FAR < known.place[0]:
        raise _restarted(sink, known, newest)


def _place(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _read(text: str) -> NewestPlace | None:
    if not text:
        return None
    found = json.loads(text)
    return NewestPlace(tuple(found["place"]), found["read_us"])


def _restarted(sink: Sink, known: NewestPlace, newest: NewestPlace) -> RunError:
    model = sink.model
    return RunError.of(
        "log-restarted",
        f"The log that model '{model.name}' orders its changes by counts anew: the newest change of this batch has the "
        f"position {list(newest.place)}, and one that was read before has {list(known.place)}. Nothing of the batch "
        "was written.",
        why="The database was moved or restored, or another server has taken over. Each change of a row that the table "
        "has would be taken for an older one, and be ignored.",
        fix="Let the connector take a new snapshot, let the stream begin with it (`start`, or another topic), and "
        f"`lakesql rebuild {model.name}`. If old changes were sent again on purpose, skip them: "
        f"`lakesql rewind {model.name} --to TIME`.",
        place=model.option_place("sequence_by"),
    )
