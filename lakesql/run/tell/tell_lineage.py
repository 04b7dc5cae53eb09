"""The lineage of a run: collects the facts about its jobs, and connects the renderer of
their runs with the sender."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from uuid import uuid4

from lakesql.compile.compiled import compiled_files
from lakesql.compile.select import Select
from lakesql.graph.manifest import Manifest
from lakesql.lineage.lineage_jobs import LineageFacts, lineage_facts
from lakesql.model.config import Every, Trigger
from lakesql.observe.lineage_runs import LineageRuns
from lakesql.project.lineage_target import LineageTarget
from lakesql.run.tell.send_lineage import open_sender
from lakesql.secrets import find_secrets

FAST_MS = 60_000
"""Batches at shorter intervals are reported together as one lineage run, unless the
target configures a period."""

TOGETHER_MS = 3_600_000
"""The period whose batches are reported together."""


@contextmanager
def tell_lineage(
    manifest: Manifest, selects: Mapping[str, Select], *, continuous: bool
) -> Iterator[LineageRuns]:
    """Yields the renderer that sends the run's lineage to where the target configures.
    Raises what `open_sender` raises."""
    target = manifest.target.lineage
    assert target is not None, "whoever asks knows that there is one"
    triggers = {
        name: select.model.trigger if continuous else None
        for name, select in selects.items()
    }
    period_ms = {name: period_of(target, trigger) for name, trigger in triggers.items()}
    facts = partial(_find_facts, manifest, selects, target)
    with open_sender(
        target, facts, manifest.target.connections, find_secrets(os.environ)
    ) as sender:
        yield LineageRuns(sender, period_ms, lambda: str(uuid4()))


def _find_facts(
    manifest: Manifest, selects: Mapping[str, Select], target: LineageTarget
) -> LineageFacts:
    return lineage_facts(manifest, compiled_files(manifest), selects, target.namespace)


def period_of(target: LineageTarget, trigger: Trigger | None) -> int:
    """The period, in milliseconds, whose batches are reported as one lineage run; 0 if
    each batch is a run of its own.

    `trigger` is None in a run that reads what has arrived: its batches follow each
    other without a pause.
    """
    if target.every is not None:
        return target.every.length_ms
    is_slow = isinstance(trigger, Every) and trigger.interval_ms >= FAST_MS
    return 0 if is_slow else TOGETHER_MS
