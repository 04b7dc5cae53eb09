"""The modes by their names: which one `config(mode=…)` means."""

from __future__ import annotations

from collections.abc import Iterable

from lakesql.model.config import MaintenanceConfig, ReadsFrom, TableConfig
from lakesql.modes.append import Append
from lakesql.modes.cdc import Cdc
from lakesql.modes.materialized_view import MaterializedView
from lakesql.modes.scd2 import Scd2
from lakesql.modes.scd2_of_tables import Scd2OfTables
from lakesql.modes.upsert import Upsert
from lakesql.modes.view import View
from lakesql.modes.whole_table import WholeTable

MODES: dict[tuple[str, ReadsFrom], type[TableConfig]] = {
    (kind.mode, kind.reads): kind
    for kind in (
        Append,
        Upsert,
        Cdc,
        Scd2,
        WholeTable,
        MaterializedView,
        Scd2OfTables,
        View,
    )
}
"""The modes of models with a SELECT, by their names and by what the SELECT reads: a
name may mean two modes. A new mode is added here and to
`modes/batches/all_batches.py`."""

MAINTENANCE = "maintenance"
"""The mode of a maintenance model, which has no table and maintains that of a model."""


def mode_words() -> tuple[str, ...]:
    """The names of all modes, each once."""
    return (*dict.fromkeys(word for word, _ in MODES), MAINTENANCE)


def all_modes() -> tuple[type[TableConfig | MaintenanceConfig], ...]:
    """The classes of all modes' options."""
    return (*MODES.values(), MaintenanceConfig)


def find_mode(
    word: str, reads: ReadsFrom
) -> type[TableConfig | MaintenanceConfig] | None:
    """The mode of this name for a SELECT that reads streams, or tables alone; None if
    there is none.

    If only the other kind of SELECT has a mode of this name, that is returned: the mode
    itself refuses what it cannot read.
    """
    if word == MAINTENANCE:
        return MaintenanceConfig
    return MODES.get((word, reads)) or next(iter(namesakes(word)), None)


def namesakes(word: str) -> tuple[type[TableConfig], ...]:
    """All modes of this name, whatever their SELECTs read."""
    return tuple(kind for (each, _), kind in MODES.items() if each == word)


def may_exchange(words: Iterable[str]) -> bool:
    """Whether all of these modes replace the rows of their tables by the present rows
    of others (`is_exchanged`), so that a model may change from one to another."""
    kinds = [MODES.get((word, "tables")) for word in words]
    return all(kind is not None and kind.is_exchanged for kind in kinds)
