"""Of which snapshots of which tables a table is made: what the ledger entry of a refresh says of its inputs. Pure."""

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
    """A table as a refresh has read it: its UUID, the snapshot, and when that was made. One without a row may have no
    snapshot yet."""

    table_id: str
    snapshot: int | None
    at_ms: int = 0


def write_inputs(inputs: Inputs) -> str:
    """The inputs as the ledger has them: `{"lake.shop.orders": {"table": …, "snapshot": …, "at_ms": …}}`."""
    found = {
        name: {"table": each.table_id, "snapshot": each.snapshot, "at_ms": each.at_ms} for name, each in inputs.items()
    }
    return json.dumps(found, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def read_inputs(text: str) -> dict[str, InputSnapshot]:
    """What `write_inputs` has written; nothing of an empty text."""
    found = json.loads(text or "{}")
    return {name: InputSnapshot(each["table"], each["snapshot"], each["at_ms"]) for name, each in found.items()}


def table_of(name: str) -> TableName:
    """A table by its whole name, as Spark reads it."""
    catalog, *namespace, table = (quoted.replace("``", "`") or plain for quoted, plain in _PARTS.findall(name))
    return TableName(catalog, ".".join(namespace), table)


_PARTS = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
"""The parts of a table's name, in backticks or without."""
