"""The modes by their words: the only place where `config(mode=…)` finds what it
names."""

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
"""The modes that write a table, by their words and by what their SELECTs read: a word
may have two meanings. Another one is added here, and to
`modes/batches/all_batches.py`."""

MAINTENANCE = "maintenance"
"""The mode of a file that makes no table, and maintains that of a model."""


def mode_words() -> tuple[str, ...]:
    """Every word that `config(mode=…)` takes, each once."""
    return (*dict.fromkeys(word for word, _ in MODES), MAINTENANCE)


def all_modes() -> tuple[type[TableConfig | MaintenanceConfig], ...]:
    """The options of every mode."""
    return (*MODES.values(), MaintenanceConfig)


def find_mode(
    word: str, reads: ReadsFrom
) -> type[TableConfig | MaintenanceConfig] | None:
    """What a word means in a model that reads streams, or tables alone; None where it
    is no mode.

    A word that has a meaning for the other one alone has that: the mode itself refuses
    what it cannot read.
    """
    if word == MAINTENANCE:
        return MaintenanceConfig
    return MODES.get((word, reads)) or next(iter(namesakes(word)), None)


def namesakes(word: str) -> tuple[type[TableConfig], ...]:
    """What a word means, whatever is read."""
    return tuple(kind for (each, _), kind in MODES.items() if each == word)


def may_exchange(words: Iterable[str]) -> bool:
    """Whether all of these modes make their tables of others as they are, and keep
    nothing of what these were: one may take the place of another, whose rows it
    exchanges."""
    kinds = [MODES.get((word, "tables")) for word in words]
    return all(kind is not None and kind.is_exchanged for kind in kinds)
