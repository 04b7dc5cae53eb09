"""A mode of the tests: its options, and what they mean. Its other half is
`insert_new_batches.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakesql.decode import option
from lakesql.model.config import NOTHING_KNOWN, TableConfig, read_keys
from lakesql.model.option_effects import OF_COLUMNS, OptionEffect
from lakesql.model.writing import AddedColumn, Reads, Writing


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertNew(TableConfig):
    """`mode='insert_new'`: a row is inserted where its key is not there, with the time
    at which that was."""

    keys: tuple[str, ...] = option("Columns that identify a row.", read=read_keys)
    ignored: tuple[str, ...] = option("Keys that are never inserted.", default=())

    mode: ClassVar[str] = "insert_new"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {"ignored": OF_COLUMNS}

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Rows without a key are dead letters, whose records are found by their
        positions."""
        return Writing(
            mode=self.mode,
            keys=self.keys,
            not_null=self.keys,
            compared={"keys": self.keys},
            added=(
                AddedColumn(
                    "mode", "inserted", "Whether this mode has inserted it.", "boolean"
                ),
            ),
            is_positioned=not reads.is_stateful,
            output_mode="append",
        )
