"""The modes by their words: the only place where `config(mode=…)` finds what it names."""

from __future__ import annotations

from lakesql.model.config import MaintenanceConfig, TableConfig
from lakesql.modes.append import Append
from lakesql.modes.cdc import Cdc
from lakesql.modes.materialized_view import MaterializedView
from lakesql.modes.scd2 import Scd2
from lakesql.modes.upsert import Upsert
from lakesql.modes.view import View
from lakesql.modes.whole_table import WholeTable

MODES: dict[str, type[TableConfig]] = {
    kind.mode: kind for kind in (Append, Upsert, Cdc, Scd2, WholeTable, MaterializedView, View)
}
"""The modes that write a table. Another one is added here, and to `modes/batches/all_batches.py`."""

MAINTENANCE = "maintenance"
"""The mode of a file that makes no table, and maintains that of a model."""


def all_modes() -> dict[str, type[TableConfig | MaintenanceConfig]]:
    """Every word that `config(mode=…)` takes, with the options that it has."""
    return {**MODES, MAINTENANCE: MaintenanceConfig}
