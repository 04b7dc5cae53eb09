"""The input snapshots of a table that is made of other tables, as the ledger entry of a
refresh records them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.model.table_name import TableName

Inputs = Mapping[str, "InputSnapshot"]
"""The tables that a SELECT reads, by their qualified names as Spark reads them."""


@dataclass(frozen=True, slots=True)
class InputSnapshot:
    """A table as a refresh has read it: its UUID, the snapshot and its time, and the id
    of the table's schema (None if the ledger does not have it). An empty table may have
    no snapshot yet.

    A snapshot alone does not determine what a SELECT makes of a table: a column that is
    renamed, or dropped and added again, is another column, and no snapshot is made for
    it.
    """

    table_id: str
    snapshot: int | None
    at_ms: int = 0
    schema: int | None = None


def write_inputs(inputs: Inputs) -> str:
    """The inputs as JSON for the ledger: `{"table": …, "snapshot": …, "at_ms": …,
    "schema": …}` by name."""
    found = {
        name: {
            "table": each.table_id,
            "snapshot": each.snapshot,
            "at_ms": each.at_ms,
            "schema": each.schema,
        }
        for name, each in inputs.items()
    }
    return json.dumps(found, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def read_inputs(text: str) -> dict[str, InputSnapshot]:
    """The inputs from the text of `write_inputs`; empty for an empty text."""
    found = json.loads(text or "{}")
    return {
        name: InputSnapshot(
            each["table"], each["snapshot"], each["at_ms"], each.get("schema")
        )
        for name, each in found.items()
    }


def version_time_ms(
    newest_ms: int, former_ms: int, now_ms: int, *, is_timed: bool
) -> int:
    """The time at which the versions begin that a refresh opens, and end that it
    closes, in milliseconds.

    It is when rows of its inputs were last changed (`newest_ms`), as they have been
    since then what the refresh has read. So a refresh that died and is repeated opens
    the same versions. `former_ms` is the time of the refresh before it. If no row was
    changed since, the rows differ because of another SELECT or a rolled back input, or
    because time passes if the rows are `is_timed`; these versions begin now.
    """
    if newest_ms > former_ms and not is_timed:
        return newest_ms
    return max(now_ms, former_ms + 1)


def table_of(name: str) -> TableName:
    """The table with this qualified name, as Spark reads it."""
    catalog, *namespace, table = (
        quoted.replace("``", "`") or plain for quoted, plain in _PARTS.findall(name)
    )
    return TableName(catalog, ".".join(namespace), table)


_PARTS = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
"""The parts of a table's name, with or without backticks."""
