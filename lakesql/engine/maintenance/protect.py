"""What no expiry may remove: the newest entries of the ledger, and what streams of the table have still to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakesql.engine.ledger.entry import Entry, ledger_tag
from lakesql.engine.ledger.rename import is_former
from lakesql.engine.ledger.snapshots import JavaTable, load_table, read_json, table_exists
from lakesql.engine.maintenance.figures import SnapshotFacts, TableFacts, last_entries, newest_by_owner, parse_facts
from lakesql.model.table_name import TableName
from lakesql.names import LEDGER_OFFSETS


@dataclass(frozen=True, slots=True)
class Reader:
    """A model that reads a table as a stream, and the table in whose ledger it says how far it is."""

    model: str
    table: TableName


@dataclass(frozen=True, slots=True)
class Needed:
    """The oldest snapshots that readers need, by time: None where they need none.

    Nothing that those in `waiting` have written says how far they have read: readers and their rebuilds, in words.
    """

    since_ms: int | None
    waiting: tuple[str, ...] = ()


def tag_entries(table: JavaTable, facts: TableFacts) -> None:
    """Give the newest ledger entry of each query that has written to the table its tag, where it has not got it."""
    moved = {
        ledger_tag(owner): snapshot.id
        for owner, snapshot in newest_by_owner(facts).items()
        if facts.refs.get(ledger_tag(owner)) != snapshot.id and not is_former(table, owner)
    }
    if not moved:
        return
    manage = table.manageSnapshots()
    for tag, snapshot_id in moved.items():
        manage = (manage.replaceTag if tag in facts.refs else manage.createTag)(tag, snapshot_id)
    manage.commit()


def find_needed(session: SparkSession, facts: TableFacts, readers: Iterable[Reader]) -> Needed:
    """From when on the snapshots of a table are needed by the streams that read it, and by rebuilds of their models.

    A reader may take its last batch once more, from where the one before it ended. One that has never committed
    anything begins with the oldest snapshot: all are needed. A rebuild has a ledger of its own, in the table it fills.
    """
    since: list[int] = []
    waiting: list[str] = []
    for reader in readers:
        ledgers = {f"'{reader.model}'": reader.table}
        if table_exists(session, reader.table.rebuild):
            ledgers[f"the rebuild of '{reader.model}'"] = reader.table.rebuild
        for name, table in ledgers.items():
            entries = _read_entries(session, table, reader.model)
            if not entries:
                waiting.append(name)
                since.append(0)
            for snapshot in entries:
                entry = Entry(reader.model, "", 0, snapshot.summary.get(LEDGER_OFFSETS, ""), "")
                stands = (at for at in entry.positions.values() if isinstance(at, dict))
                found = (
                    facts.snapshots.get(at["snapshot_id"]) for at in stands if isinstance(at.get("snapshot_id"), int)
                )
                since += [each.at_ms for each in found if each is not None]
    return Needed(min(since, default=None), tuple(waiting))


def _read_entries(session: SparkSession, table: TableName, owner: str) -> list[SnapshotFacts]:
    """The snapshots with the last two entries of a query, newest first; none where there is no table yet."""
    if not table_exists(session, table):
        return []
    return last_entries(parse_facts(read_json(load_table(session, table))), owner, 2)
