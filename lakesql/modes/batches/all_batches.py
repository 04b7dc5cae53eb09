"""Which class has the batches of each mode, by the class of the mode's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakesql.compile.select import Select
from lakesql.model.config import TableConfig
from lakesql.modes.append import Append
from lakesql.modes.batches.append_batches import AppendBatches
from lakesql.modes.batches.batches import Batches
from lakesql.modes.batches.cdc_batches import CdcBatches
from lakesql.modes.batches.refreshed_batches import RefreshedBatches
from lakesql.modes.batches.scd2_batches import Scd2Batches
from lakesql.modes.batches.scd2_refreshes import Scd2Refreshes
from lakesql.modes.batches.upsert_batches import UpsertBatches
from lakesql.modes.batches.view_refreshes import ViewRefreshes
from lakesql.modes.batches.view_statement import ViewStatement
from lakesql.modes.cdc import Cdc
from lakesql.modes.materialized_view import MaterializedView
from lakesql.modes.scd2 import Scd2
from lakesql.modes.scd2_of_tables import Scd2OfTables
from lakesql.modes.upsert import Upsert
from lakesql.modes.view import View
from lakesql.modes.whole_table import WholeTable

BATCHES: dict[type[TableConfig], Callable[[Select, Any], Batches]] = {
    Append: AppendBatches,
    Upsert: UpsertBatches,
    Cdc: CdcBatches,
    Scd2: Scd2Batches,
    WholeTable: RefreshedBatches,
    MaterializedView: ViewRefreshes,
    View: ViewStatement,
    Scd2OfTables: Scd2Refreshes,
}


def batches_of(select: Select) -> Batches:
    """The batches of the SELECT in its mode."""
    config = select.model.config
    return BATCHES[type(config)](select, config)


def view_of(select: Select) -> ViewStatement:
    """The view of a SELECT in mode `view`; the mode must be that."""
    view = batches_of(select)
    assert isinstance(view, ViewStatement), "the rows of other modes are stored"
    return view


def refreshes_of(select: Select) -> RefreshedBatches:
    """The refreshes of a SELECT in its mode, which must be one over tables."""
    refreshes = batches_of(select)
    assert isinstance(refreshes, RefreshedBatches), (
        "a model that reads streams has batches"
    )
    return refreshes
