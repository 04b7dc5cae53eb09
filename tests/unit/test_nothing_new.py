"""A run without anything new, and each thing that leaves it to Spark; over tables that
pyiceberg wrote."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.catalog.metadata_text import open_metadata, read_opened
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.clock import now_ms
from lakesql.compile.build_select import build_selects
from lakesql.events import (
    Emit,
    Event,
    ModelFinished,
    RunFinished,
    RunStarted,
    StreamEmpty,
)
from lakesql.graph.manifest import Manifest
from lakesql.model.table_name import TableName
from lakesql.names import (
    LEDGER_BATCH,
    LEDGER_CHECKPOINT,
    LEDGER_KEYS,
    LEDGER_MODE,
    LEDGER_MODEL,
    LEDGER_OFFSETS,
    LEDGER_STATE,
    MAINTAINED_PROPERTY,
    MAINTENANCE_PROPERTY,
)
from lakesql.progress.analyzed import shape_of
from lakesql.project.files import write_atomically
from lakesql.run.start.analysis import keep_analysis
from lakesql.run.start.nothing_new import report_nothing_new
from lakesql.run.streams.bind import bind_selects
from lakesql.table.maintenance_record import MaintenanceRecord, render_record
from lakesql.table.metadata import parse_metadata
from tests.share import a_few

PROFILES = """\
shop:
  target: dev
  outputs:
    dev:
      namespace: shop
      catalog: {name: lake, type: sql, uri: "sqlite:///catalog.db", warehouse: warehouse}
      checkpoints: checkpoints
      connections: {landing: {type: files, path: landing}, broker: {type: kafka, bootstrap_servers: "127.0.0.1:1"}}
"""
STREAMS = """\
streams:
  - {name: sales, connection: landing, path: "sales/*.json", format: json, columns: {id: bigint}}
  - {name: topic, connection: broker, topic: topic, columns: {id: bigint, at: timestamp}}
"""
SALES = "{{ config(mode='append') }}\nSELECT id FROM {{ stream('sales') }}\n"
COPIES = "{{ config(mode='append') }}\nSELECT id FROM {{ stream('sold') }}\n"
COUNTS = "{{ config(mode='upsert', keys='id') }}\nSELECT id, count(*) AS n FROM {{ stream('sold') }} GROUP BY id\n"
MANIFESTS = {"manifests-created": "1", "manifests-kept": "0"}

FILES = {
    "pyproject.toml": '[tool.lakesql]\nname = "shop"\n',
    "profiles.yml": PROFILES,
    "streams/streams.yml": STREAMS,
    "models/sold.sql": SALES,
    "models/copies.sql": COPIES,
    "landing/sales/a b.json": '{"id": 1}\n',
}


class Shop:
    """A project of two models, as the run that has read all of their streams has left
    it.

    `sold` reads files, and `copies` its table.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "landing/sales/a b.json"
        self.catalog = open_catalog(
            load_project(Options(project_dir=folder)).target.catalog
        )

    @classmethod
    def make(cls, folder: Path) -> None:
        """Write its files, its tables and its checkpoints."""
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        made = cls(folder)
        made.catalog.iceberg.create_namespace("shop")
        made.commit(made.make_table("sold"), {"sales": {"logOffset": 0}})
        made.checkpoint("sold", made.sold, ["sales"], {"logOffset": 0})
        made.see(made.file)
        made.make_table("copies")
        made.follow()
        for model in ("sold", "copies"):
            made.release(model)
        made.keep()

    @property
    def sold(self) -> Table:
        return self.catalog.iceberg.load_table("shop.sold")

    @property
    def copies(self) -> Table:
        return self.catalog.iceberg.load_table("shop.copies")

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def make_table(self, name: str) -> Table:
        return self.catalog.iceberg.create_table(
            f"shop.{name}", Schema(NestedField(1, "id", LongType()))
        )

    def commit(
        self, table: Table, positions: dict[str, Any], batch: int = 0, **more: str
    ) -> None:
        """A batch of a model in its table."""
        entry = {
            LEDGER_MODEL: table.name()[-1],
            LEDGER_CHECKPOINT: "c",
            LEDGER_BATCH: str(batch),
            LEDGER_OFFSETS: json.dumps(positions),
            LEDGER_MODE: "append",
        }
        rows = pa.table({"id": pa.array([1], pa.int64())})
        table.append(rows, snapshot_properties={**entry, **MANIFESTS, **more})

    def checkpoint(
        self,
        model: str,
        table: Table | None,
        streams: list[str],
        *positions: Any,
        state: str = "",
    ) -> None:
        """A checkpoint as Spark and lakesql leave it, with a batch for each
        position."""
        table_id = str(table.metadata.table_uuid) if table is not None else ""
        origin = {
            "model": model,
            "table_id": table_id,
            "streams": streams,
            "state": state,
        }
        folder = f"checkpoints/{model}"
        self.write(f"{folder}/metadata", json.dumps({"id": "c"}))
        self.write(f"{folder}/lakesql.json", json.dumps({**origin, "follows": None}))
        for batch, position in enumerate(positions):
            self.write(f"{folder}/offsets/{batch}", f"v1\n{{}}\n{json.dumps(position)}")
            self.write(f"{folder}/commits/{batch}", "v1\n{}")

    def see(self, *files: Path, batch: int = 0) -> None:
        """The list of a source's batch, as Spark writes it."""
        entries = [
            {
                "path": file.as_uri(),
                "timestamp": file.stat().st_mtime_ns // 1_000_000,
                "batchId": batch,
            }
            for file in files
        ]
        self.write(
            f"checkpoints/sold/sources/0/{batch}",
            "\n".join(["v1", *map(json.dumps, entries)]),
        )

    def follow(self) -> None:
        """Let `copies` have read the table of `sold` to its end."""
        (head,) = self.sold.metadata.snapshots
        position = {
            "version": 1,
            "snapshot_id": head.snapshot_id,
            "position": 1,
            "scan_all_files": False,
        }
        self.commit(self.copies, {"sold": position})
        self.checkpoint("copies", self.copies, ["sold"], position)

    def release(self, model: str, **changes: Any) -> None:
        holder = {
            "token": "t",
            "host": "h",
            "machine": "",
            "processes": [],
            "since": "",
            "beat": 1,
        }
        self.write(
            f"checkpoints/{model}.lease/0",
            json.dumps({**holder, "is_released": True, **changes}),
        )

    def keep(self) -> None:
        """What Spark has said of the models last."""
        manifest = load_project(Options(project_dir=self.folder))
        for name, bound in bind_selects(
            manifest, build_selects(manifest, ["sold", "copies"])
        ).items():
            keep_analysis(
                manifest,
                self.catalog,
                bound,
                _Written(self.folder / "checkpoints" / name),
            )

    def manifest(self) -> Manifest:
        return load_project(Options(project_dir=self.folder))

    def events(
        self,
        *models: str,
        fail_if_empty: bool = False,
        manifest: Manifest | None = None,
    ) -> list[Event]:
        """What is said of a run of these models; nothing where it is left to Spark."""
        said: list[Event] = []

        @contextmanager
        def open_events() -> Iterator[Emit]:
            yield said.append

        manifest = manifest or self.manifest()
        selects = build_selects(manifest, models or ["sold", "copies"])
        found = report_nothing_new(manifest, selects, open_events, fail_if_empty)
        assert found == bool(said)
        return said


class _Written:
    """The files of a checkpoint, as Spark writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> str | None:
        file = self.folder / name
        return file.read_text() if file.exists() else None

    def names(self, name: str = "") -> list[str]:
        return [file.name for file in (self.folder / name).iterdir()]

    def write(self, name: str, text: str) -> None:
        write_atomically(self.folder / name, text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of the project, of which the tables know the path; and a copy of all
    that is in it."""
    folder, copy = (
        tmp_path_factory.mktemp("shop"),
        tmp_path_factory.mktemp("copy") / "shop",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Shop.make(folder)
    shutil.copytree(folder, copy)
    return folder, copy


@pytest.fixture
def shop(made: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Shop:
    folder, copy = made
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    monkeypatch.chdir(folder)
    return Shop(folder)


def test_nothing_new_is_said_as_a_run_says_it(shop: Shop) -> None:
    started, *finished, ended = shop.events("sold", "copies")
    assert isinstance(started, RunStarted) and (started.models, started.continuous) == (
        ("sold", "copies"),
        False,
    )
    assert isinstance(ended, RunFinished) and not ended.interrupted
    done = [event for event in finished if isinstance(event, ModelFinished)]
    assert [(event.model, event.status, event.batches) for event in done] == [
        ("sold", "success", 0),
        ("copies", "success", 0),
    ]


@pytest.mark.checks
def test_the_command_loads_neither_pyspark_nor_pyiceberg(shop: Shop) -> None:
    program = (
        "import sys; from lakesql.cli.main import run_command; code = run_command(['run']);"
        "print(sorted({'pyspark', 'py4j', 'pyiceberg', 'sqlalchemy'} & sys.modules.keys()), code)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said[-1] == "[] 0"
    assert said[-2].startswith("Nothing new to read: 2 models up to date")
    results = json.loads((shop.folder / "target/run_results.json").read_text())[
        "results"
    ]
    assert [(result["name"], result["message"]) for result in results] == [
        ("sold", "up to date"),
        ("copies", "up to date"),
    ]


def roll_back(shop: Shop) -> None:
    """`sold` gets a second batch, and stands where it stood before."""
    first = shop.sold.metadata.snapshots[0].snapshot_id
    shop.commit(shop.sold, {"sales": {"logOffset": 1}}, batch=1)
    shop.checkpoint("sold", shop.sold, ["sales"], {"logOffset": 0}, {"logOffset": 1})
    shop.see(shop.file, batch=1)
    shop.sold.manage_snapshots().rollback_to_snapshot(first).commit()


def make_again(shop: Shop) -> None:
    shop.catalog.iceberg.drop_table("shop.sold")
    shop.commit(shop.make_table("sold"), {"sales": {"logOffset": 0}})


def append_as_others(table: Table) -> None:
    table.append(pa.table({"id": pa.array([2], pa.int64())}))


def move(shop: Shop, **changes: Any) -> None:
    """Let `copies` stand elsewhere, in its checkpoint and in its table."""
    position = json.loads(
        (shop.folder / "checkpoints/copies/offsets/0").read_text().splitlines()[2]
    )
    shop.commit(shop.copies, {"sold": {**position, **changes}})
    shop.checkpoint("copies", shop.copies, ["sold"], {**position, **changes})


def edit(shop: Shop, key: str, value: Any) -> None:
    """What the checkpoint of `sold` was made for becomes something else."""
    file = shop.folder / "checkpoints/sold/lakesql.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))


def break_catalog(shop: Shop) -> None:
    with closing(sqlite3.connect(shop.folder / "catalog.db")) as opened:
        opened.execute("DROP TABLE iceberg_tables")


def link(shop: Shop) -> None:
    """A folder that a pattern means has a link in it."""
    (shop.folder / "landing/sales/c.json").mkdir()
    (shop.folder / "empty").mkdir()
    (shop.folder / "landing/sales/c.json/d").symlink_to(shop.folder / "empty")


Change = Callable[[Shop], object]

CHANGES: dict[str, Change] = {
    "a file more": lambda shop: shop.write("landing/sales/b.json", ""),
    "a file in a folder that a pattern means": lambda shop: shop.write(
        "landing/sales/c.json/d.json", ""
    ),
    "a file of another time": lambda shop: os.utime(shop.file, (1, 1)),
    "a file elsewhere": lambda shop: shop.file.rename(shop.file.with_name("b.json")),
    "no file": lambda shop: shop.file.unlink(),
    "a list that no batch was planned for": lambda shop: shop.see(shop.file, batch=1),
    "no list": lambda shop: (shop.folder / "checkpoints/sold/sources/0/0").unlink(),
    "a batch that is planned": lambda shop: shop.write(
        "checkpoints/sold/offsets/1", 'v1\n{}\n{"logOffset":0}'
    ),
    "a checkpoint that does not know its table": lambda shop: edit(
        shop, "table_id", ""
    ),
    "a checkpoint of other streams": lambda shop: edit(shop, "streams", ["0", "1"]),
    "no checkpoint": lambda shop: (shop.folder / "checkpoints/sold/metadata").unlink(),
    "a batch of the table that the checkpoint has not": lambda shop: shop.commit(
        shop.sold, {"sales": {"logOffset": 1}}, batch=1
    ),
    "a table that was rolled back": lambda shop: roll_back(shop),
    "a table that was dropped": lambda shop: shop.catalog.iceberg.drop_table(
        "shop.sold"
    ),
    "a table that was made again": lambda shop: make_again(shop),
    "a column more": lambda shop: (
        shop.sold.update_schema().add_column("note", StringType()).commit()
    ),
    "a property": lambda shop: (
        shop.sold.transaction().set_properties(owner="somebody").commit_transaction()
    ),
    "another SELECT": lambda shop: shop.write(
        "models/sold.sql", SALES.replace("id FROM", "id + 1 AS id FROM")
    ),
    "another option": lambda shop: shop.write(
        "models/sold.sql", SALES.replace("'append'", "'append', order_by='id'")
    ),
    "another contract": lambda shop: shop.write(
        "streams/streams.yml", STREAMS.replace("bigint}}", "int}}", 1)
    ),
    "another setting of Spark": lambda shop: shop.write(
        "profiles.yml",
        PROFILES.replace(
            "namespace: shop", "namespace: shop\n      spark: {conf: {spark.a: b}}"
        ),
    ),
    "another place of files": lambda shop: shop.write(
        "profiles.yml", PROFILES.replace("path: landing", "path: other")
    ),
    "nothing kept": lambda shop: (
        shop.folder / "checkpoints/sold/analyzed.json"
    ).unlink(),
    "something else kept": lambda shop: shop.write(
        "checkpoints/sold/analyzed.json", "{"
    ),
    "a runner": lambda shop: shop.release("sold", is_released=False),
    "no runner ever": lambda shop: (shop.folder / "checkpoints/sold.lease/0").unlink(),
    "somebody who wants the lease": lambda shop: shop.write(
        "checkpoints/sold.lease/wanted", "{}"
    ),
    "a rebuild": lambda shop: shop.write("checkpoints/sold__rebuild/metadata", "{}"),
    "a catalog that cannot be read": lambda shop: break_catalog(shop),
    "metadata that is gone": lambda shop: Path(
        shop.sold.metadata_location.removeprefix("file://")
    ).unlink(),
    "a link to a folder": lambda shop: link(shop),
}


CHANGES_OF_COPIES: dict[str, Change] = {
    "rows that another model has to read": lambda shop: append_as_others(shop.sold),
    "deletes that another model has to read": lambda shop: shop.sold.delete(),
    "a part of a commit that another model has to read": lambda shop: move(
        shop, position=0
    ),
    "a commit that is not in the table": lambda shop: move(shop, snapshot_id=1),
    "a first reading of a table": lambda shop: move(shop, scan_all_files=True),
    "a number of manifests that nobody says": lambda shop: append_as_others(
        shop.copies
    ),
}


@pytest.mark.parametrize(
    ("model", "change"),
    a_few(
        [
            *(("sold", it) for it in CHANGES),
            *(("copies", it) for it in CHANGES_OF_COPIES),
        ],
        12,
    ),
)
def test_any_change_is_left_to_spark(shop: Shop, model: str, change: str) -> None:
    assert shop.events(model)
    (CHANGES | CHANGES_OF_COPIES)[change](shop)
    assert shop.events(model) == []


ANYTHING = ("", "{", "null", "[]", "{}", "7", '"x"', "[null]")


def damage(text: str, random: Random) -> str:
    """The text of a file as it may be after a crash of a disk, or a hand that has
    edited it: cut off, something else as a whole, or in one of its lines."""
    lines = text.splitlines() or [""]
    at = random.randrange(len(lines))
    other = "\n".join([*lines[:at], random.choice(ANYTHING), *lines[at + 1 :]])
    return random.choice(
        [text[: random.randrange(len(text) + 1)], random.choice(ANYTHING), other]
    )


@pytest.mark.checks
@pytest.mark.parametrize("seed", a_few(range(12), 1))
def test_whatever_stands_in_a_file_is_left_to_spark_and_no_defect(
    shop: Shop, seed: int
) -> None:
    random, manifest = Random(seed), shop.manifest()
    metadata = [
        Path(table.metadata_location.removeprefix("file://"))
        for table in (shop.sold, shop.copies)
    ]
    files = [
        *metadata,
        *(path for path in (shop.folder / "checkpoints").rglob("*") if path.is_file()),
    ]
    for file in files:
        said = file.read_text()
        for _ in range(4):
            file.write_text(damage(said, random))
            # raises what is no answer
            shop.events("sold", "copies", manifest=manifest)
        file.write_text(said)
    assert shop.events("sold", "copies")


def test_a_model_alone_is_not_held_up_by_another(shop: Shop) -> None:
    shop.sold.append(
        pa.table({"id": pa.array([2], pa.int64())}), snapshot_properties=MANIFESTS
    )
    assert shop.events("copies") == []
    assert shop.events("sold")


def test_a_rewrite_of_files_is_nothing_new_to_who_reads_the_table(shop: Shop) -> None:
    def positions(operation: str) -> list[Event]:
        metadata = Path(shop.sold.metadata_location.removeprefix("file://"))
        found = json.loads(metadata.read_text())
        (first, *_) = found["snapshots"]
        head = {**first, "snapshot-id": 7, "parent-snapshot-id": first["snapshot-id"]}
        head["summary"] = {"operation": operation, **MANIFESTS}
        found["snapshots"], found["current-snapshot-id"] = [first, head], 7
        metadata.write_text(json.dumps(found))
        return shop.events("copies")

    assert positions("replace")
    assert positions("overwrite") == []


@pytest.mark.parametrize(
    ("maintenance", "is_due"),
    [
        ("{'rewrite_data_files': {'small_files': 2}}", True),
        ("{'rewrite_data_files': {'small_files': 3}}", False),
    ],
)
def test_maintenance_that_is_due_is_left_to_spark(
    shop: Shop, maintenance: str, is_due: bool
) -> None:
    shop.write(
        "models/sold.sql",
        SALES.replace("'append'", f"'append', maintenance={maintenance}"),
    )
    shop.keep()
    assert (shop.events("sold") == []) == is_due


@pytest.mark.parametrize(
    ("rests_ms", "spent_ms", "is_due"),
    [(0, 0, True), (60_000, 0, False), (-1, 0, True), (0, 9_999_999, False)],
)
def test_a_procedure_that_waits_or_has_no_time_left_needs_no_spark(
    shop: Shop, rests_ms: int, spent_ms: int, is_due: bool
) -> None:
    maintenance = "{'rewrite_data_files': {'small_files': 2}}"
    shop.write(
        "models/sold.sql",
        SALES.replace("'append'", f"'append', maintenance={maintenance}"),
    )
    now = now_ms()
    rests = {"sold.rewrite_data_files": now + rests_ms} if rests_ms else {}
    with shop.sold.transaction() as transaction:
        record = MaintenanceRecord({}, ((now, spent_ms),), retry_at=rests)
        transaction.set_properties({MAINTENANCE_PROPERTY: render_record(record)})
    shop.keep()
    assert (shop.events("sold") == []) == is_due


def test_a_model_of_which_a_run_says_that_it_is_not_maintained_is_left_to_spark(
    shop: Shop,
) -> None:
    shop.write(
        "models/sold.sql",
        SALES.replace(
            "'append'", f"'append', properties={{'{MAINTAINED_PROPERTY}': 'false'}}"
        ),
    )
    shop.keep()
    assert shop.events("sold") == []


def test_a_table_of_which_a_run_says_that_it_is_not_maintained_is_left_to_spark(
    shop: Shop,
) -> None:
    with shop.sold.transaction() as transaction:
        transaction.set_properties({MAINTAINED_PROPERTY: "false"})
    shop.keep()
    assert shop.events("sold") == []


def test_a_catalog_that_is_not_there_is_not_made(shop: Shop) -> None:
    (shop.folder / "catalog.db").rename(shop.folder / "elsewhere.db")
    assert shop.events("sold") == []
    assert not (shop.folder / "catalog.db").exists()


class TestState:
    """A model that counts, with the query of its dead letters beside it."""

    @pytest.fixture
    def counts(self, shop: Shop) -> Shop:
        shop.write("models/copies.sql", COUNTS)
        manifest = load_project(Options(project_dir=shop.folder))
        shape = build_selects(manifest, ["copies"])["copies"].query.state
        (head,) = shop.sold.metadata.snapshots
        self.position = {
            "version": 1,
            "snapshot_id": head.snapshot_id,
            "position": 1,
            "scan_all_files": False,
        }
        keyed = {LEDGER_MODE: "upsert", LEDGER_KEYS: '["id"]', LEDGER_STATE: shape}
        shop.commit(shop.copies, {"sold": self.position}, batch=1, **keyed)
        positions = [self.position, self.position]
        shop.checkpoint("copies", shop.copies, ["sold"], *positions, state=shape)
        shop.checkpoint("copies__dead_letter", None, ["sold"], self.position)
        self.watermark(shop, planned=5, committed=5)
        shop.keep()
        return shop

    def watermark(self, shop: Shop, **at_ms: int) -> None:
        folder = "checkpoints/copies"
        planned, committed = (
            {"batchWatermarkMs": at_ms["planned"]},
            {"nextBatchWatermarkMs": at_ms["committed"]},
        )
        shop.write(
            f"{folder}/offsets/1",
            f"v1\n{json.dumps(planned)}\n{json.dumps(self.position)}",
        )
        shop.write(f"{folder}/commits/1", f"v1\n{json.dumps(committed)}")

    def test_nothing_new_is_said_where_both_queries_have_read_all(
        self, counts: Shop
    ) -> None:
        done = [event for event in counts.events() if isinstance(event, ModelFinished)]
        assert [(event.model, event.status) for event in done] == [
            ("sold", "success"),
            ("copies", "success"),
        ]

    def test_a_batch_that_the_watermark_may_bring_is_left_to_spark(
        self, counts: Shop
    ) -> None:
        self.watermark(counts, planned=5, committed=6)
        assert counts.events("copies") == []
        counts.write("checkpoints/copies/commits/1", "v1\n{}")
        assert counts.events("copies") == []

    def test_rows_of_the_stream_and_a_query_that_lags_are_left_to_spark(
        self, counts: Shop
    ) -> None:
        letters = "checkpoints/copies__dead_letter"
        counts.write(
            f"{letters}/offsets/0",
            f"v1\n{{}}\n{json.dumps({**self.position, 'position': 0})}",
        )
        assert counts.events("copies") == []
        counts.write(f"{letters}/offsets/0", f"v1\n{{}}\n{json.dumps(self.position)}")
        assert counts.events("copies")
        counts.write(f"{letters}/offsets/1", f"v1\n{{}}\n{json.dumps(self.position)}")
        assert counts.events("copies") == [], "a batch of dead letters is planned"
        (counts.folder / letters / "offsets/1").unlink()
        counts.sold.append(
            pa.table({"id": pa.array([2], pa.int64())}), snapshot_properties=MANIFESTS
        )
        assert counts.events("copies") == []

    def test_a_checkpoint_that_is_gone_is_left_to_spark(self, counts: Shop) -> None:
        shutil.rmtree(counts.folder / "checkpoints/copies__dead_letter")
        assert counts.events("copies") == []


def test_a_stream_without_a_record_is_said_and_left_to_spark_where_that_is_a_failure(
    shop: Shop,
) -> None:
    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    shop.write(
        "profiles.yml", PROFILES.replace("127.0.0.1:1", f"{broker.host}:{broker.port}")
    )
    shop.write(
        "streams/streams.yml", STREAMS.replace("topic: topic", "pattern: 'none[.].*'")
    )
    shop.write("models/sold.sql", SALES.replace("sales", "topic"))
    shop.commit(shop.sold, {"topic": {}}, batch=1)
    shop.checkpoint("sold", shop.sold, ["topic"], {}, {})
    shop.keep()
    _, empty, finished, _ = shop.events("sold")
    assert isinstance(empty, StreamEmpty) and (
        empty.model,
        empty.stream,
        empty.others_have,
    ) == ("sold", "topic", False)
    assert isinstance(finished, ModelFinished) and finished.status == "success"
    assert finished.warnings == (f"stream topic: {empty.why}",)
    assert shop.events("sold", fail_if_empty=True) == []


@pytest.mark.parametrize(
    "options", ["", ", options: {metric.reporters: x.Y}"], ids=["away", "of Java"]
)
def test_a_topic_that_cannot_be_asked_for_without_java_is_left_to_spark(
    shop: Shop, options: str
) -> None:
    shop.write("profiles.yml", PROFILES.replace(':1"}', f':1"{options}}}'))
    shop.write("models/sold.sql", SALES.replace("sales", "topic"))
    kept = shop.folder / "checkpoints/sold/analyzed.json"
    kept.unlink()
    shop.keep()
    assert kept.exists() == (not options)
    assert shop.events("sold") == []


def test_pyiceberg_reads_the_metadata_that_a_file_of_an_embedded_catalog_has(
    shop: Shop,
) -> None:
    name = TableName("lake", "shop", "sold")
    text = open_metadata(shop.catalog.profile)(name)
    other = OpenCatalog(
        replace(shop.catalog.profile, uri="postgresql://"), shop.catalog.iceberg
    )
    by_pyiceberg = read_opened(other, name)
    assert text is not None and by_pyiceberg is not None
    assert parse_metadata(text).history == parse_metadata(by_pyiceberg).history != ()
    assert (
        read_opened(other, name.dead_letter)
        is None
        is read_opened(shop.catalog, name.dead_letter)
    )


def test_the_shape_of_a_table_is_as_it_was_when_rows_and_maintenance_have_come(
    shop: Shop,
) -> None:
    def shape() -> str:
        return shape_of(
            json.loads(
                read_opened(shop.catalog, TableName("lake", "shop", "sold")) or ""
            )
        )

    before = shape()
    append_as_others(shop.sold)
    with shop.sold.transaction() as transaction:
        transaction.set_properties({MAINTENANCE_PROPERTY: "{}"})
    assert shape() == before
    with shop.sold.update_schema() as update:
        update.add_column("note", StringType())
    assert shape() != before
