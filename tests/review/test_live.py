"""`lakesql plan --live` over tables that pyiceberg has made, as a run leaves them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from lakesql.catalog.connect import open_catalog
from lakesql.cli.main import run_command
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.select import build_select
from lakesql.compile.table import GIVEN_PROPERTIES
from lakesql.names import LEDGER_BATCH, LEDGER_CHECKPOINT, LEDGER_KEYS, LEDGER_MODE, LEDGER_MODEL, LEDGER_STATE
from tests.review.corpus import apply

MODEL = """\
{{ config(mode='upsert', keys='id', on_schema_change='sync_all_columns') }}
SELECT id, size FROM {{ stream('landing') }}
"""
COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "size", IntegerType()))

Plan = Callable[..., dict[str, Any]]


@pytest.fixture
def plan(project: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Says what is planned for the model `sizes`, compared with the project as it was."""
    (project / "models/sizes.sql").write_text(MODEL)
    assert run_command(["parse"]) == 0
    (project / "target").rename(project / "before")

    def plan() -> dict[str, Any]:
        capsys.readouterr()
        assert run_command(["plan", "--live", "--state", "before", "--select", "sizes", "--output", "json"]) == 0
        (model,) = json.loads(capsys.readouterr().out)["models"]
        return dict(model)

    return plan


def make_table(project: Path, *columns: NestedField) -> Table:
    target = load_project(Options(project_dir=project)).target
    opened = open_catalog(target.catalog)
    opened.iceberg.create_namespace_if_not_exists("shop")
    return opened.iceberg.create_table("shop.sizes", Schema(*(columns or COLUMNS)), properties=dict(GIVEN_PROPERTIES))


def write(table: Table, **ledger: str) -> None:
    rows = pa.table({"id": pa.array([1], pa.int64()), "size": pa.array([2], pa.int32())})
    entry = {LEDGER_MODEL: "sizes", LEDGER_CHECKPOINT: "c", LEDGER_BATCH: "0", **ledger}
    table.append(rows, snapshot_properties=entry)


def reasons(model: dict[str, Any]) -> list[tuple[str, str]]:
    return [(reason["verdict"], reason["condition"]) for reason in model["reasons"]]


def ordered(table: Table) -> Table:
    """Ordered by the key, as lakesql orders it."""
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform(), NullOrder.NULLS_FIRST)
    return table


BY_ID = {LEDGER_MODE: "upsert", LEDGER_KEYS: '["id"]', LEDGER_STATE: ""}


def test_no_table_is_said(plan: Plan, project: Path) -> None:
    assert reasons(plan()) == [("added", "table-absent")]
    assert not (project / ".lakesql/catalog.db").exists()


def test_a_table_as_a_run_leaves_it_has_no_reason(plan: Plan, project: Path) -> None:
    write(ordered(make_table(project)), **BY_ID)
    found = plan()
    assert (found["reasons"], found["steps"]) == ([], [])


def test_a_table_that_was_altered_by_hand_is_said_with_what_a_run_does(plan: Plan, project: Path) -> None:
    table = ordered(make_table(project))
    write(table, **BY_ID)
    with table.update_schema() as update:
        update.add_column("note", StringType())
    found = plan()
    assert reasons(found) == [("alter", "table-drifted")]
    assert [step["statements"] for step in found["steps"]] == [["ALTER TABLE lake.shop.sizes DROP COLUMN note"]]


def test_what_a_change_does_is_worked_out_from_the_table(plan: Plan, project: Path) -> None:
    write(ordered(make_table(project)), **BY_ID)
    apply("-SELECT id, size\n+SELECT id, CAST(size AS bigint) AS size", project / "models/sizes.sql")
    found = plan()
    assert ("alter", "column-widened") in reasons(found)
    (step,) = found["steps"]
    assert step["statements"] == ["ALTER TABLE lake.shop.sizes ALTER COLUMN size TYPE bigint"]


def test_rows_of_other_keys_are_found_in_the_ledger(plan: Plan, project: Path) -> None:
    write(ordered(make_table(project)), **{**BY_ID, LEDGER_KEYS: '["id", "size"]'})
    assert reasons(plan()) == [("rebuild", "keys-changed")]
    assert build_select(load_project(Options(project_dir=project)), "sizes").identity == ("id",)


def test_a_table_without_a_row_follows_its_model(plan: Plan, project: Path) -> None:
    table = ordered(make_table(project))
    apply("-keys='id'\n+keys=['id', 'size']", project / "models/sizes.sql")
    assert "keys-changed" not in [condition for _, condition in reasons(plan())]
    write(table, **BY_ID)
    assert reasons(plan())[0] == ("rebuild", "keys-changed")


def test_a_type_that_no_widening_leads_to_is_refused(plan: Plan, project: Path) -> None:
    columns = (COLUMNS[0], NestedField(2, "size", StringType()))
    make_table(project, *columns).append(pa.table({"id": pa.array([1], pa.int64()), "size": ["2"]}))
    assert ("refused", "type-change") in reasons(plan())


def test_nothing_is_altered_where_the_run_refuses(plan: Plan, project: Path) -> None:
    write(ordered(make_table(project)), **{**BY_ID, LEDGER_MODE: "append"})
    apply("-SELECT id, size\n+SELECT id, CAST(size AS bigint) AS size", project / "models/sizes.sql")
    found = plan()
    assert reasons(found)[0] == ("rebuild", "mode-changed")
    assert found["steps"] == []
