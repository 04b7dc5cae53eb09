"""The newest ledger entries kept in a property of their table, for catalogs that return
only a table's newest snapshot.

Nessie is such a catalog: an entry disappears as soon as a commit without one follows,
such as a rewrite of data files or somebody else's INSERT. So each commit with an entry
also sets the property `lakesql.ledger`, which every later commit, by whomever, keeps.
It holds the snapshots of the entries, without their files, by model. It is looked at
after the snapshots that the table has. A snapshot newer than the table's head is
ignored, as the table was rolled back to before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakesql.ledger.entry import Snapshot, snapshot_of
from lakesql.names import CARRIED_PROPERTY, LEDGER_MODEL

_OF_NESSIE = "nessie."
"""The prefix of the properties that Nessie adds to each table."""

_KEPT = ("snapshot-id", "sequence-number", "timestamp-ms", "summary")
"""The keys of a snapshot in Iceberg's JSON that the property keeps."""


def shows_newest_alone(properties: Mapping[str, str]) -> bool:
    """Whether the catalog of the table with these properties returns only the newest
    snapshot."""
    return any(key.startswith(_OF_NESSIE) for key in properties)


def may_carry(properties: str) -> bool:
    """Whether a table may carry entries, or is of such a catalog, by a text that
    contains all of its properties; true if in doubt."""
    return _OF_NESSIE in properties or CARRIED_PROPERTY in properties


def carry(properties: Mapping[str, str], facts: Mapping[str, Any]) -> dict[str, str]:
    """The property to be set in the commit of a snapshot with an entry, which `facts`
    describe in Iceberg's JSON.

    Empty if the catalog returns all snapshots, or if there is no entry.
    """
    model = facts["summary"].get(LEDGER_MODEL)
    if model is None or not shows_newest_alone(properties):
        return {}
    carried = {
        **_decode(properties),
        model: {key: facts[key] for key in _KEPT if key in facts},
    }
    return {CARRIED_PROPERTY: json.dumps(carried, separators=(",", ":"))}


def carried_facts(
    properties: Mapping[str, str], head_sequence: int
) -> Iterator[Mapping[str, Any]]:
    """The snapshots in a table's property, in Iceberg's JSON, the newest first.

    `head_sequence` is the sequence number of the table's current snapshot.
    """
    found = [
        facts
        for facts in _decode(properties).values()
        if _sequence(facts) <= head_sequence
    ]
    yield from sorted(found, key=_sequence, reverse=True)


def carried_in(metadata: Mapping[str, Any]) -> tuple[Snapshot, ...]:
    """The snapshots that a table carries in its property, the newest first, from its
    metadata in Iceberg's JSON."""
    head = metadata.get("current-snapshot-id")
    sequence = next(
        (
            _sequence(each)
            for each in metadata.get("snapshots", ())
            if each["snapshot-id"] == head
        ),
        -1,
    )
    found = carried_facts(metadata.get("properties") or {}, sequence)
    return tuple(map(snapshot_of, found))


def _sequence(facts: Mapping[str, Any]) -> int:
    return int(facts.get("sequence-number", 0))


def _decode(properties: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """The content of the property; empty if it is invalid, so that only the snapshots
    count."""
    try:
        found: Any = json.loads(properties.get(CARRIED_PROPERTY, "{}"))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(model): facts for model, facts in found.items() if _is_snapshot(facts)}


def _is_snapshot(facts: Any) -> bool:
    return (
        isinstance(facts, dict)
        and all(
            isinstance(facts.get(key), int) for key in ("snapshot-id", "timestamp-ms")
        )
        and isinstance(facts.get("sequence-number", 0), int)
        and isinstance(facts.get("summary"), dict)
    )
