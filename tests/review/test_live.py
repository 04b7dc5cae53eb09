"""`lakesql plan --live` over tables that pyiceberg has made, as a run leaves them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from lakesql.catalog.checkpoint_files import _S3Files
from lakesql.catalog.connect import open_catalog
from lakesql.catalog.tables import load_metadata
from lakesql.cli.main import run_command
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.build_select import build_select
from lakesql.compile.table import DEFAULT_PROPERTIES
from lakesql.model.table_name import TableName
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import (
    LEDGER_BATCH,
    LEDGER_CHECKPOINT,
    LEDGER_KEYS,
    LEDGER_MODE,
    LEDGER_MODEL,
    LEDGER_OFFSETS,
    LEDGER_STATE,
)
from lakesql.progress.state import Checkpoint
from lakesql.progress.stored import LocalFiles, read_checkpoint
from lakesql.review.tables_now import Unread
from lakesql.run.tell.live_tables import read_live
from lakesql.table.metadata import TableMetadata
from tests.review.corpus import apply

MODEL = """\
{{ config(mode='upsert', keys='id', on_schema_change='sync_all_columns') }}
SELECT id, size FROM {{ stream('landing') }}
"""
COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "size", IntegerType()))

Plan = Callable[..., dict[str, Any]]


@pytest.fixture
def plan(project: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Says what is planned for the model `sizes`, compared with the project as it
    was."""
    (project / "models/sizes.sql").write_text(MODEL)
    assert run_command(["parse"]) == 0
    (project / "target").rename(project / "before")

    def plan() -> dict[str, Any]:
        capsys.readouterr()
        assert (
            run_command(
                [
                    "plan",
                    "--live",
                    "--state",
                    "before",
                    "--select",
                    "sizes",
                    "--output",
                    "json",
                ]
            )
            == 0
        )
        (model,) = json.loads(capsys.readouterr().out)["models"]
        return dict(model)

    return plan


def make_table(project: Path, *columns: NestedField) -> Table:
    target = load_project(Options(project_dir=project)).target
    opened = open_catalog(target.catalog)
    opened.iceberg.create_namespace_if_not_exists("shop")
    table = opened.iceberg.create_table(
        "shop.sizes", Schema(*(columns or COLUMNS)), properties=dict(DEFAULT_PROPERTIES)
    )
    checkpoint(project, table)
    return table


def write(table: Table, batch: int = 0, **ledger: str) -> None:
    rows = pa.table(
        {"id": pa.array([1], pa.int64()), "size": pa.array([2], pa.int32())}
    )
    offsets = json.dumps({"landing": {"logOffset": batch}})
    entry = {
        LEDGER_MODEL: "sizes",
        LEDGER_CHECKPOINT: "c",
        LEDGER_BATCH: str(batch),
        LEDGER_OFFSETS: offsets,
        **ledger,
    }
    table.append(rows, snapshot_properties=entry)


def checkpoint(project: Path, table: Table, through: int = 0) -> Path:
    """A checkpoint as Spark and lakesql leave it, with the batches up to `through`
    done."""
    folder = project / ".lakesql/checkpoints/sizes"
    origin = {
        "model": "sizes",
        "table_id": str(table.metadata.table_uuid),
        "streams": ["landing"],
        "state": "",
    }
    files = {
        "metadata": json.dumps({"id": "c"}),
        "lakesql.json": json.dumps({**origin, "follows": None}),
    }
    for batch in range(through + 1):
        files[f"offsets/{batch}"] = f'v1\n{{}}\n{{"logOffset":{batch}}}'
        files[f"commits/{batch}"] = "v1\n{}"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


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


def test_a_table_that_was_altered_by_hand_is_said_with_what_a_run_does(
    plan: Plan, project: Path
) -> None:
    table = ordered(make_table(project))
    write(table, **BY_ID)
    with table.update_schema() as update:
        update.add_column("note", StringType())
    found = plan()
    assert reasons(found) == [("alter", "table-drifted")]
    assert [step["statements"] for step in found["steps"]] == [
        ["ALTER TABLE lake.shop.sizes DROP COLUMN note"]
    ]


def test_what_a_change_does_is_worked_out_from_the_table(
    plan: Plan, project: Path
) -> None:
    write(ordered(make_table(project)), **BY_ID)
    apply(
        "-SELECT id, size\n+SELECT id, CAST(size AS bigint) AS size",
        project / "models/sizes.sql",
    )
    found = plan()
    assert ("alter", "column-widened") in reasons(found)
    (step,) = found["steps"]
    assert step["statements"] == [
        "ALTER TABLE lake.shop.sizes ALTER COLUMN size TYPE bigint"
    ]


def test_rows_of_other_keys_are_found_in_the_ledger(plan: Plan, project: Path) -> None:
    write(ordered(make_table(project)), **{**BY_ID, LEDGER_KEYS: '["id", "size"]'})
    assert reasons(plan()) == [("rebuild", "keys-changed")]
    select = build_select(load_project(Options(project_dir=project)), "sizes")
    assert batches_of(select).identity == ("id",)


def test_rows_of_other_keys_are_found_whichever_model_wrote_them(
    plan: Plan, project: Path
) -> None:
    table = ordered(make_table(project))
    shutil.rmtree(project / ".lakesql/checkpoints/sizes")
    write(table, **{**BY_ID, LEDGER_MODEL: "lengths"})
    assert reasons(plan()) == [("alter", "table-drifted")]  # it is taken over
    write(table, **{**BY_ID, LEDGER_MODEL: "lengths", LEDGER_KEYS: '["id", "size"]'})
    found = plan()
    assert reasons(found) == [("rebuild", "keys-changed"), ("alter", "table-drifted")]
    assert found["steps"] == []


def test_who_streams_a_table_that_is_to_be_rebuilt_is_told(
    plan: Plan, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the files nothing has changed: the ledger says that the rows were written in
    another mode."""
    for name, stream in {"sizes": "landing", "late": "sizes"}.items():
        text = f"{{{{ config(mode='append') }}}}\nSELECT id, size FROM {{{{ stream('{stream}') }}}}\n"
        (project / f"models/{name}.sql").write_text(text)
    assert run_command(["parse"]) == 0
    shutil.rmtree(project / "before")
    (project / "target").rename(project / "before")
    sizes = make_table(project)
    opened = open_catalog(load_project(Options(project_dir=project)).target.catalog)
    late = opened.iceberg.create_table(
        "shop.late", sizes.schema(), properties=dict(DEFAULT_PROPERTIES)
    )
    stands = {"version": 1, "snapshot_id": 1, "position": 1, "scan_all_files": False}
    write(late, **{LEDGER_MODEL: "late", LEDGER_OFFSETS: json.dumps({"sizes": stands})})

    def conditions() -> list[str]:
        capsys.readouterr()
        assert (
            run_command(
                [
                    "plan",
                    "--live",
                    "--state",
                    "before",
                    "--select",
                    "late",
                    "--output",
                    "json",
                ]
            )
            == 0
        )
        (model,) = json.loads(capsys.readouterr().out)["models"]
        return [condition for _, condition in reasons(model)]

    assert "upstream-rebuilt" not in conditions()
    write(sizes, **BY_ID)
    assert conditions()[0] == "upstream-rebuilt"


def test_a_table_without_a_row_follows_its_model(plan: Plan, project: Path) -> None:
    table = ordered(make_table(project))
    apply("-keys='id'\n+keys=['id', 'size']", project / "models/sizes.sql")
    assert "keys-changed" not in [condition for _, condition in reasons(plan())]
    write(table, **BY_ID)
    assert reasons(plan())[0] == ("rebuild", "keys-changed")


def test_a_type_that_no_widening_leads_to_is_refused(plan: Plan, project: Path) -> None:
    columns = (COLUMNS[0], NestedField(2, "size", StringType()))
    make_table(project, *columns).append(
        pa.table({"id": pa.array([1], pa.int64()), "size": ["2"]})
    )
    assert reasons(plan())[0] == ("breaks", "ledger-missing")
    shutil.rmtree(project / ".lakesql/checkpoints/sizes")
    assert ("refused", "type-change") in reasons(plan())


def test_nothing_is_altered_where_the_run_refuses(plan: Plan, project: Path) -> None:
    write(ordered(make_table(project)), **{**BY_ID, LEDGER_MODE: "append"})
    apply(
        "-SELECT id, size\n+SELECT id, CAST(size AS bigint) AS size",
        project / "models/sizes.sql",
    )
    found = plan()
    assert reasons(found)[0] == ("rebuild", "mode-changed")
    assert found["steps"] == []


def test_a_table_that_was_rolled_back_is_behind_its_checkpoint(
    plan: Plan, project: Path
) -> None:
    table = ordered(make_table(project))
    checkpoint(project, table, through=1)
    for batch in (0, 1):
        write(table, batch, **BY_ID)
    assert reasons(plan()) == []
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    found = plan()
    assert reasons(found) == [("breaks", "table-behind")]
    assert found["reasons"][0]["do"].startswith(
        "To write again what is missing: `lakesql rewind sizes`."
    )
    assert found["steps"] == []


def test_a_checkpoint_that_is_older_than_its_table_is_said(
    plan: Plan, project: Path
) -> None:
    table = ordered(make_table(project))
    for batch in (0, 1):
        write(table, batch, **BY_ID)
    assert reasons(plan()) == [("breaks", "checkpoint-behind")]
    checkpoint(project, table, through=1)
    assert reasons(plan()) == []


def test_a_checkpoint_of_a_table_that_is_gone_or_was_made_again(
    plan: Plan, project: Path
) -> None:
    table = make_table(project)
    write(table, **BY_ID)
    open_catalog(
        load_project(Options(project_dir=project)).target.catalog
    ).iceberg.drop_table("shop.sizes")
    assert reasons(plan()) == [("breaks", "table-recreated"), ("added", "table-absent")]
    shutil.rmtree(project / ".lakesql/checkpoints/sizes")
    found = plan()
    assert (reasons(found), found["reasons"][0]["do"]) == (
        [("added", "table-absent")],
        "",
    )


_GROUPED = " max(size) AS size FROM {{ stream('landing') }} GROUP BY id"


def test_what_could_not_be_continued_is_not_said_where_nothing_has_begun(
    plan: Plan, project: Path
) -> None:
    write(ordered(make_table(project)), **BY_ID)
    source = project / "models/sizes.sql"
    source.write_text(
        source.read_text().replace(" size FROM {{ stream('landing') }}", _GROUPED)
    )
    assert ("rebuild", "state-changed") in reasons(plan())
    shutil.rmtree(project / ".lakesql")
    assert "state-changed" not in [condition for _, condition in reasons(plan())]


def test_a_lost_checkpoint_is_said_with_what_becomes_of_it(
    plan: Plan, project: Path
) -> None:
    table = ordered(make_table(project))
    write(table, **BY_ID)
    shutil.rmtree(project / ".lakesql/checkpoints/sizes")
    # which files were read stood in it alone
    assert reasons(plan()) == [("breaks", "checkpoint-lost")]
    recorded = MODEL.replace(
        "SELECT id, size",
        "SELECT CAST(order_id AS bigint) AS id, CAST(1 AS int) AS size",
    )
    (project / "models/sizes.sql").write_text(recorded.replace("landing", "orders"))
    assert run_command(["parse"]) == 0
    shutil.rmtree(project / "before")
    (project / "target").rename(project / "before")
    offsets = json.dumps(
        {"orders": {"logOffset": 0, "through": {"shop.orders": "1.jsonl"}}}
    )
    write(table, 1, **{**BY_ID, LEDGER_OFFSETS: offsets})
    found = plan()
    assert reasons(found) == [("next-batch", "checkpoint-absent")]
    assert (
        "a new one continues where table lake.shop.sizes stands, after batch 1"
        in found["reasons"][0]["what"]
    )


def test_a_checkpoint_that_spark_alone_reaches_is_said(
    plan: Plan, project: Path
) -> None:
    table = ordered(make_table(project))
    for batch in (0, 1):
        write(table, batch, **BY_ID)
    apply(
        "-      checkpoints: .lakesql/checkpoints\n+      checkpoints: abfss://lake@store/checkpoints",
        project / "profiles.yml",
    )
    assert reasons(plan()) == [("none", "checkpoint-unread")]
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert reasons(plan()) == [
        ("breaks", "table-rolled-back"),
        ("none", "checkpoint-unread"),
    ]
    # rewound since: another checkpoint has gone on
    write(table, 0, **{**BY_ID, LEDGER_CHECKPOINT: "d"})
    assert reasons(plan()) == [("none", "checkpoint-unread")]


def test_a_checkpoint_that_is_being_written_is_not_judged(
    plan: Plan, project: Path
) -> None:
    table = ordered(make_table(project))
    write(table, **BY_ID)
    target, names = (
        load_project(Options(project_dir=project)).target,
        {"sizes": TableName("lake", "shop", "sizes")},
    )
    assert isinstance(read_live(target, names)["sizes"].checkpoint, Checkpoint)
    with pytest.MonkeyPatch.context() as patch:
        through = iter(range(1, 20))

        def busy(*arguments: Any) -> TableMetadata | None:
            checkpoint(project, table, next(through))
            return load_metadata(*arguments)

        patch.setattr("lakesql.run.tell.live_tables.load_metadata", busy)
        assert read_live(target, names)["sizes"].checkpoint == Unread("")
        shutil.rmtree(project / ".lakesql/checkpoints/sizes")
        assert reasons(plan()) == []


def test_a_table_that_cannot_be_read_hides_no_other(
    plan: Plan, project: Path, capsys: Any
) -> None:
    write(ordered(make_table(project)), **BY_ID)
    for file in (project / ".lakesql/warehouse").rglob("*.metadata.json"):
        file.write_text("{")
    assert reasons(plan()) == [("breaks", "table-unreadable")]
    capsys.readouterr()
    assert run_command(["plan", "--live", "--state", "before", "--output", "json"]) == 0
    models = {it["name"]: it for it in json.loads(capsys.readouterr().out)["models"]}
    assert (
        reasons(models["orders"]) == [("added", "table-absent")] and len(models) == 16
    )


def test_files_of_s3_are_read_as_local_ones_are(project: Path) -> None:
    """By pyarrow's own file system over a folder, which answers as that of S3 does."""
    stored = _S3Files(
        SubTreeFileSystem(str(project), LocalFileSystem()), "bucket/checkpoints/sizes"
    )
    local = LocalFiles(project / "bucket/checkpoints/sizes")
    assert (stored.names(), stored.names("offsets"), stored.read("metadata")) == (
        [],
        [],
        None,
    )
    shutil.copytree(checkpoint(project, make_table(project), 2), local.folder)
    assert sorted(stored.names()) == sorted(local.names()) != []
    assert sorted(stored.names("offsets")) == ["0", "1", "2"]
    assert read_checkpoint(stored) == read_checkpoint(local)


HISTORY = """\
{{ config(mode='scd2', keys='id') }}
SELECT id, size FROM lake.raw.sizes
"""


def test_a_history_of_tables_is_planned_from_its_table(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = project / "models/sizes.sql"
    model.write_text(HISTORY)
    assert run_command(["parse"]) == 0
    (project / "target").rename(project / "before")

    def plan_edited(old: str, new: str) -> tuple[list[tuple[str, str]], list[str]]:
        model.write_text(HISTORY.replace(old, new))
        capsys.readouterr()
        assert (
            run_command(
                [
                    "plan",
                    "--live",
                    "--state",
                    "before",
                    "--select",
                    "sizes",
                    "--output",
                    "json",
                ]
            )
            == 0
        )
        (found,) = json.loads(capsys.readouterr().out)["models"]
        return [(it["verdict"], it["condition"]) for it in found["reasons"]], [
            it["text"] for it in found["steps"]
        ]

    assert ("added", "table-absent") in plan_edited(
        "size FROM", "size + 1 AS size FROM"
    )[0]
    times = (
        NestedField(3, "valid_from", TimestamptzType()),
        NestedField(4, "valid_to", TimestamptzType()),
    )
    table = make_table(
        project, *COLUMNS, *times, NestedField(5, "is_current", BooleanType())
    )
    row = pa.table({"id": pa.array([1], pa.int64()), "is_current": pa.array([True])})
    table.append(
        row,
        snapshot_properties={
            LEDGER_MODEL: "sizes",
            LEDGER_BATCH: "0",
            LEDGER_MODE: "scd2",
        },
    )
    assert plan_edited("size FROM", "CAST(size AS bigint) AS size FROM")[1] == [
        "widen column size of lake.shop.sizes from int to bigint",
        "order lake.shop.sizes from now on by id, valid_from",
    ]
    judged, steps = plan_edited("keys='id'", "keys='id', is_current='is_newest'")
    assert ("refused", "schema-change") in judged
    assert not steps
    judged, steps = plan_edited("size FROM", "CAST(size AS string) AS size FROM")
    assert ("refused", "type-change") in judged
    assert not steps
    judged, steps = plan_edited("keys='id'", "keys=['id', 'size']")
    assert judged[0] == ("breaks", "keys-changed")
    assert not steps
