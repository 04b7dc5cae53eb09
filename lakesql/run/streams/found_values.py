"""The values of routes that the batches of a run have found and that had no table when
the run began."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence, Set

from lakesql.events import Emit, Noted
from lakesql.graph.load_manifest import feeds_of
from lakesql.graph.manifest import Manifest
from lakesql.run.streams.group_tables import KeptValues
from lakesql.stream.route_values import MOST_VALUES


class FoundValues:
    """The values that a run has found, by stream. They are also added to the cache that
    each command reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, None]] = {}
        self._untold: set[str] = set()

    def note(self, manifest: Manifest, stream: str, values: Sequence[str]) -> None:
        """Add values of a stream's route. Called before the batch that has them is
        published."""
        with self._lock:
            known = self._values.setdefault(stream, {})
            self._untold |= {stream} if {*values} - known.keys() else set()
            known.update(dict.fromkeys(values))
            self._keep(manifest, stream)

    def keep(self, manifest: Manifest) -> None:
        """Write all of them to the cache again, in case another run on this machine has
        overwritten it."""
        with self._lock:
            for stream in self._values:
                self._keep(manifest, stream)

    @property
    def values(self) -> Mapping[str, Sequence[str]]:
        """The values found since the run began, by stream."""
        with self._lock:
            return {stream: tuple(values) for stream, values in self._values.items()}

    def take(self, stream: str) -> bool:
        """Whether new values of a stream have been found since the last call."""
        with self._lock:
            is_there = stream in self._untold
            self._untold.discard(stream)
            return is_there

    def _keep(self, manifest: Manifest, stream: str) -> None:
        groups = manifest.groups.values()
        feeds = feeds_of(
            manifest.target,
            manifest.outputs,
            groups,
            manifest.streams,
            manifest.source_tables,
        )
        KeptValues(feeds).add(manifest.streams[stream], self._values[stream])


def new_members(before: Manifest, now: Manifest, names: Set[str]) -> list[str]:
    """The models that groups have `now` and did not have `before`. Only groups count
    whose models of `before` are all in `names`: a run of all of these includes the new
    ones."""
    found: list[str] = []
    for group in before.groups.values():
        if group.name in now.groups and group.members and names >= {*group.members}:
            found += now.groups[group.name].members
    return [name for name in found if name in now.models and name not in before.models]


def tell_found(
    found: FoundValues,
    emit: Emit,
    known: Manifest,
    manifest: Manifest,
    names: Set[str],
    new: Collection[str],
) -> bool:
    """Emit notes on the values that the batches of a run have found; returns whether
    each has a table or is to have none.

    `known` is the project as it was last read, `manifest` as it was read after the run;
    `names` are the models of the run, and `new` those that the run is still to run.
    """
    lost = find_lost(found, manifest)
    before = {(warning.condition, warning.what) for warning in known.warnings}
    warnings = [
        each for each in manifest.warnings if (each.condition, each.what) not in before
    ]
    texts = [*lost, *(f"{warning.what} {warning.fix}".strip() for warning in warnings)]
    for group in manifest.groups.values():
        for name in sorted({*group.members} - known.models.keys() - {*new}):
            texts.append(
                f"'{name}' is not in this run: its table is made by the next one that has it"
            )
    for text in texts:
        emit(Noted(text))
    return not lost and not manifest.lacks_tables(names)


def find_lost(found: FoundValues, manifest: Manifest) -> list[str]:
    """Messages about values that the project, after it was read again, still does not
    know: the cache could not be written."""
    known: dict[str, set[str]] = {}
    for table in manifest.source_tables:
        known.setdefault(table.stream, set()).add(table.name)
    said = []
    for stream, values in found.values.items():
        lost = [repr(value) for value in values if value not in known.get(stream, ())]
        if lost and len(known.get(stream, ())) <= MOST_VALUES:
            folder = manifest.outputs.cache
            said.append(
                f"the values {', '.join(lost[:SHOWN])} of stream '{stream}' have no table, and could not be kept in "
                f"{folder}: declare them under source_tables"
            )
    return said


SHOWN = 10
"""How many values a message names."""
