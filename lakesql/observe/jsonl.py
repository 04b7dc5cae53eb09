"""Every event as one line of JSON, for `--log-format json`."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, replace
from typing import Any, TextIO

from lakesql.events import Event, Progress
from lakesql.observe.tally import RunTally
from lakesql.observe.text import iso_time

PROGRESS_EVERY_MS = 5_000


class JsonLines:
    """Writes each event as a line, flushed at once, so that whoever reads the pipe is
    never behind.

    Of a model's progress, which is told twice a second, a line every 5 seconds at most,
    and none that says it again.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._progress: dict[str, Progress] = {}

    def __call__(self, event: Event, run: RunTally) -> None:
        """Writes the event."""
        if isinstance(event, Progress):
            last = self._progress.get(event.model)
            if last and (
                event.at_ms - last.at_ms < PROGRESS_EVERY_MS
                or replace(event, at_ms=last.at_ms) == last
            ):
                return
            self._progress[event.model] = event
        self._out.write(render_json(event) + "\n")
        self._out.flush()


def render_json(event: Event) -> str:
    """`{"event": "batch_committed", "at": "2026-03-01T12:03:05.120Z", "model":
    "orders", …}`, in ASCII.

    The other keys are the event's fields by name; `reasons` is an object of counts, and
    a number that JSON does not have (a speed before the first batch) is null.
    """
    fields: dict[str, Any] = asdict(event)
    at_ms = fields.pop("at_ms")
    if "reasons" in fields:
        fields["reasons"] = dict(fields["reasons"])
    plain = {key: _without_nan(value) for key, value in fields.items()}
    return json.dumps(
        {"event": event_name(type(event)), "at": iso_time(at_ms), **plain},
        allow_nan=False,
    )


def event_name(kind: type[Event]) -> str:
    """`batch_committed` for `BatchCommitted`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _without_nan(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
