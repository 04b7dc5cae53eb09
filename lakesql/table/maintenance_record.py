"""What maintenance has done to a table so far, kept between runs in the table's
property `lakesql.maintenance`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesql.model.maintenance_tasks import UnknownFiles, read_unknown
from lakesql.project.procedures import WHOLE_EVERY


@dataclass(frozen=True, slots=True)
class MaintenanceRecord:
    """When each procedure last ran (`done`), and what the next run has to know.

    `rewritten` is the sequence number of the newest commit all of whose files a rewrite
    has looked at, and `rewritten_whole` of the newest one all of whose small files a
    rewrite has rewritten, without sparing the larger ones. `since_whole` counts the
    rewrites since such a one; it is the maximum if that is unknown. `since_ms` is the
    time of the oldest snapshot when this was first recorded, and stays after that one
    has expired. `unknown` are the files that the last removal of orphans has left.

    The record of the model's own table also has what all of the model's tables share:
    when the last calls ended and how long they took (`spent`), from when on a task that
    has failed may be called again, by its name (`retry_at`), and how many bytes a
    rewrite processes in a millisecond (`bytes_per_ms`).
    """

    done: Mapping[str, int] = field(default_factory=dict)
    spent: tuple[tuple[int, int], ...] = ()
    rewritten: int | None = None
    rewritten_whole: int | None = None
    since_whole: int = WHOLE_EVERY
    since_ms: int | None = None
    bytes_per_ms: int | None = None
    retry_at: Mapping[str, int] = field(default_factory=dict)
    unknown: UnknownFiles = UnknownFiles()

    def may(self, task: str, now_ms: int) -> bool:
        """Whether a task may be called: it has not recently failed or found nothing to
        do."""
        return now_ms >= self.retry_at.get(task, 0)


_NUMBERS = {
    "rewritten": "rewritten",
    "rewritten_whole": "taken_in",
    "since_whole": "since_whole",
    "since_ms": "since",
    "bytes_per_ms": "speed",
}
"""The fields that are numbers, with their names in the property."""

_NO_RECORD = MaintenanceRecord()


def parse_record(text: str) -> MaintenanceRecord:
    """The record in the text of the property; an empty record if it cannot be read."""
    try:
        found: Any = json.loads(text or "{}")
        return MaintenanceRecord(
            done={
                str(name): int(at_ms) for name, at_ms in found.get("done", {}).items()
            },
            spent=tuple(
                (int(at_ms), int(took_ms)) for at_ms, took_ms in found.get("spent", ())
            ),
            retry_at={
                str(task): int(until_ms)
                for task, until_ms in found.get("rests", {}).items()
            },
            unknown=read_unknown(found.get("unknown")),
            **{name: int(found[key]) for name, key in _NUMBERS.items() if key in found},
        )
    except (ValueError, TypeError, AttributeError):
        return MaintenanceRecord()


def render_record(record: MaintenanceRecord) -> str:
    """The text of the property for a record."""
    said: dict[str, object] = {
        "done": dict(record.done),
        "spent": [list(each) for each in record.spent],
    }
    for name, key in _NUMBERS.items():
        if getattr(record, name) != getattr(_NO_RECORD, name):
            said[key] = getattr(record, name)
    if record.retry_at:
        said["rests"] = dict(record.retry_at)
    unknown = record.unknown
    if unknown.count:
        said["unknown"] = [
            unknown.count,
            unknown.bytes,
            unknown.example,
            unknown.listed,
        ]
    return json.dumps(said, separators=(",", ":"))
