"""Of which snapshots of which tables a table is made: what the ledger entry of a
refresh says of its inputs. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.model.table_name import TableName

Inputs = Mapping[str, "InputSnapshot"]
"""The tables that a SELECT reads, by their whole names as Spark reads them."""


@dataclass(frozen=True, slots=True)
class InputSnapshot:
    """A table as a refresh has read it: its UUID, the snapshot, when that was made, and
    the schema that the table had (None where the ledger does not say it). One without a
    row may have no snapshot yet.

    A snapshot alone does not say what a SELECT makes of a table: a column that is
    renamed, or dropped and added again, is another one under its name, and no snapshot
    is made for it.
    """

    table_id: str
    snapshot: int | None
    at_ms: int = 0
    schema: int | None = None


def write_inputs(inputs: Inputs) -> str:
    """The inputs as the ledger has them, by name: `{"table": …, "snapshot": …, "at_ms":
    …, "schema": …}` of each."""
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
    """What `write_inputs` has written; nothing of an empty text."""
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
    """When the versions begin that a refresh opens, and those end that it ends: in
    milliseconds.

    It is when rows of its inputs were changed last (`newest_ms`): from then on they
    were as the refresh has read them. So a refresh that has died, and is begun anew,
    opens the same versions. `former_ms` is the time of the refresh before it; where no
    row was changed since, it is another SELECT, or another past of an input, that makes
    other rows, as it is time itself where the rows are `is_timed`. These are so from
    now on.
    """
    if newest_ms > former_ms and not is_timed:
        return newest_ms
    return max(now_ms, former_ms + 1)


def table_of(name: str) -> TableName:
    """A table by its whole name, as Spark reads it."""
    catalog, *namespace, table = (
        quoted.replace("``", "`") or plain for quoted, plain in _PARTS.findall(name)
    )
    return TableName(catalog, ".".join(namespace), table)


_PARTS = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
"""The parts of a table's name, in backticks or without."""
