"""A real catalog on SQLite, and tables that pyiceberg wrote."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import TableResponse
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
)
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField as IcebergPartition
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.table.sorting import SortField as IcebergSort
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
)
from pyiceberg.utils.config import Config

from lakesql.catalog.connect import (
    OpenCatalog,
    _judge_answer,
    _within,
    check_warehouse,
    open_catalog,
)
from lakesql.catalog.tables import (
    check_catalog,
    list_namespaces,
    list_tables,
    load_table_state,
    newest_writer,
    python_rows,
    read_rows,
)
from lakesql.errors import LakesqlError, ProfileError, RunError
from lakesql.model.config import PartitionField, SortField
from lakesql.model.table_name import TableName
from lakesql.project.profiles import Catalog
from lakesql.stream.types import stored_type
from lakesql.table.iceberg_schema import spark_type
from lakesql.table.table_state import StateColumn
from tests.cases import each_of

ORDERS = TableName("lake", "shop", "orders")

SCHEMA = Schema(
    types.NestedField(1, "order_id", types.LongType(), required=True),
    types.NestedField(2, "city", types.StringType()),
    types.NestedField(3, "amount", types.DecimalType(12, 2)),
    types.NestedField(4, "created_at", types.TimestamptzType()),
)


@pytest.fixture
def profile(tmp_path: Path) -> Catalog:
    file = tmp_path / "state" / "catalog.db"
    return Catalog(
        name="lake",
        type="sql",
        uri=f"sqlite:///{file}",
        warehouse=str(tmp_path / "warehouse"),
    )


@pytest.fixture
def opened(profile: Catalog) -> OpenCatalog:
    catalog = open_catalog(profile)
    catalog.iceberg.create_namespace("shop")
    return catalog


def condition(error: LakesqlError) -> str:
    (problem,) = error.problems
    return problem.condition


def rows_of(*ids: int) -> pa.Table:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows: list[dict[str, Any]] = [
        {
            "order_id": number,
            "city": f"c{number}",
            "amount": Decimal("1.50"),
            "created_at": at,
        }
        for number in ids
    ]
    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(SCHEMA))


def dated(at_us: int) -> pa.Table:
    """A row with a time, plain and within other values."""
    far = pa.array([at_us], pa.int64()).cast(pa.timestamp("us"))
    near = pa.array([0], pa.int32()).cast(pa.date32())
    return pa.table(
        {
            "far": far,
            "near": near,
            "both": pa.StructArray.from_arrays([far, near], names=["far", "near"]),
            "times": pa.ListArray.from_arrays([0, 1], far),
            "by_day": pa.MapArray.from_arrays([0, 1], near, far),
        }
    )


def make_v3_table(opened: OpenCatalog, kind: str) -> Path:
    """A table of format version 3, which pyiceberg does not write, with a column
    `more`; where its metadata lies."""
    table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
    place = Path(table.metadata_location.removeprefix("file://"))
    metadata = {**json.loads(place.read_text()), "format-version": 3, "next-row-id": 0}
    metadata["schemas"][0]["fields"].append(
        {"id": 5, "name": "more", "required": False, "type": kind}
    )
    place.write_text(json.dumps(metadata))
    return place


class TestOpening:
    def test_the_file_its_folder_and_the_tables_are_made(
        self, profile: Catalog
    ) -> None:
        open_catalog(profile)
        file = profile.sqlite_file
        assert file is not None
        with sqlite3.connect(file) as connection:
            names = {
                name
                for (name,) in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table'"
                )
            }
        assert {"iceberg_tables", "iceberg_namespace_properties"} <= names

    def test_opening_again_finds_what_is_there(
        self, profile: Catalog, opened: OpenCatalog
    ) -> None:
        assert list_namespaces(open_catalog(profile)) == {"shop"}

    def test_tables_belong_to_the_name_in_the_profile(
        self, profile: Catalog, opened: OpenCatalog
    ) -> None:
        other = Catalog(
            name="other", type="sql", uri=profile.uri, warehouse=profile.warehouse
        )
        assert list_namespaces(open_catalog(other)) == frozenset()

    def test_settings_of_pyiceberg_s_own_do_not_mix_in(
        self, profile: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__ENDPOINT", "http://elsewhere")
        # It reads the environment when imported.
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        assert (
            load_catalog("lake", type="sql", uri="sqlite://").properties["s3.endpoint"]
            == "http://elsewhere"
        )
        assert "s3.endpoint" not in open_catalog(profile).iceberg.properties

    def test_a_catalog_is_found_unreachable(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(ProfileError) as caught:
            open_catalog(
                Catalog(
                    uri=f"sqlite:///{tmp_path}/file/catalog.db", warehouse=str(tmp_path)
                )
            )
        assert condition(caught.value) == "catalog-unreachable"
        assert f"{tmp_path}/file/catalog.db" in caught.value.problems[0].why

    def test_a_file_that_is_no_database_is_unreachable(self, profile: Catalog) -> None:
        file = profile.sqlite_file
        assert file is not None
        file.parent.mkdir()
        file.write_text("not a database" * 100)
        with pytest.raises(ProfileError) as caught:
            check_catalog(profile)
        assert condition(caught.value) == "catalog-unreachable"

    def test_a_server_that_is_not_there_is_unreachable_and_keeps_its_password(
        self,
    ) -> None:
        with pytest.raises(ProfileError) as caught:
            check_catalog(
                Catalog(type="rest", uri="http://me:hush@127.0.0.1:9/catalog")
            )
        assert condition(caught.value) == "catalog-unreachable"
        assert "http://127.0.0.1:9/catalog" in caught.value.problems[0].why
        assert "hush" not in str(caught.value) + caught.value.problems[0].why

    @pytest.mark.parametrize(
        ("error", "found"),
        [
            (
                TooManyRequestsError("TooManyRequestsException: Rate limit exceeded"),
                "catalog-unreachable",
            ),
            (
                AuthorizationExpiredError("AuthenticationTimeoutException: expired"),
                "catalog-unreachable",
            ),
            (
                ServiceUnavailableError("ServiceUnavailableException: busy"),
                "catalog-unreachable",
            ),
            (
                BadRequestError("BadRequestException: no such warehouse"),
                "catalog-not-found",
            ),
            (ServerError("Received unexpected JSON Payload: <html>"), "not-a-catalog"),
        ],
    )
    def test_each_error_of_a_rest_catalog_has_its_condition(
        self, profile: Catalog, error: Exception, found: str
    ) -> None:
        assert _judge_answer(replace(profile, type="rest"), error)[0] == found

    def test_of_a_long_answer_no_piece_of_a_secret_is_shown(
        self, profile: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LAKESQL_SECRET_T", "hushhush" * 60)
        page = ServerError(
            f"Received unexpected JSON Payload: <html>Authorization: Bearer {'hushhush' * 60}</html>"
        )
        assert "hush" not in _judge_answer(profile, page)[1]

    @pytest.mark.parametrize(
        "uri", ["mysql://host/db", "sqlite://", "postgresql://host"]
    )
    def test_a_sql_catalog_is_on_sqlite_or_postgresql(self, uri: str) -> None:
        with pytest.raises(ProfileError) as caught:
            open_catalog(Catalog(uri=uri, warehouse="/wh"))
        assert condition(caught.value) == "catalog-uri"

    @each_of(
        ("block", "lacking"),
        [
            (Catalog(), ["uri", "warehouse"]),
            (Catalog(uri="sqlite:///c.db"), ["warehouse"]),
            (Catalog(type="rest"), ["uri"]),
            (
                Catalog("lake", "rest", "http://c", "", {"s3.access-key-id": "a"}),
                ["s3.secret-access-key"],
            ),
            (
                Catalog("lake", "rest", "http://c", "", {"s3.secret-access-key": "b"}),
                ["s3.access-key-id"],
            ),
        ],
    )
    def test_a_block_that_lacks_a_key_is_refused_by_all_that_use_it(
        self, block: Catalog, lacking: list[str]
    ) -> None:
        for use in (open_catalog, check_warehouse, check_catalog):
            with pytest.raises(ProfileError) as caught:
                use(block)
            said = [
                (problem.condition, problem.what.split("'")[-2])
                for problem in caught.value.problems
            ]
            assert said == [("missing-option", key) for key in lacking]

    def test_a_refused_connection_is_told_in_the_systems_words(self) -> None:
        with pytest.raises(ProfileError) as caught:
            open_catalog(Catalog(type="rest", uri="http://127.0.0.1:9/catalog"))
        assert condition(caught.value) == "catalog-unreachable"
        assert caught.value.problems[0].what.endswith("127.0.0.1:9: Connection refused")

    def test_an_unknown_catalog_type_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(ProfileError) as caught:
            open_catalog(Catalog(type="rests", uri="http://127.0.0.1:9"))
        assert condition(caught.value) == "unknown-catalog-type"
        assert "rest" in caught.value.problems[0].fix

    def test_checking_makes_nothing(self, profile: Catalog) -> None:
        file = profile.sqlite_file
        assert file is not None
        assert str(file) in check_catalog(profile)
        assert not file.parent.exists()

    def test_a_copied_catalog_is_refused_until_its_warehouse_is_the_originals(
        self, profile: Catalog, opened: OpenCatalog, tmp_path: Path
    ) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        copied = tmp_path / "copy" / "catalog.db"
        shutil.copytree(tmp_path / "state", copied.parent)
        there = replace(
            profile,
            uri=f"sqlite:///{copied}",
            warehouse=str(tmp_path / "copy" / "warehouse"),
        )
        with pytest.raises(ProfileError) as caught:
            check_catalog(there)
        assert condition(caught.value) == "warehouse-elsewhere"
        assert all(
            str(tmp_path / place) in str(caught.value)
            for place in ("warehouse", "copy")
        )
        check_catalog(replace(there, warehouse=profile.warehouse))

    def test_one_table_outside_its_warehouse_is_no_copy(
        self, profile: Catalog, opened: OpenCatalog, tmp_path: Path
    ) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        opened.iceberg.create_table(
            ("shop", "theirs"), SCHEMA, location=str(tmp_path / "elsewhere")
        )
        check_catalog(profile)

    def test_checking_counts_namespaces(
        self, profile: Catalog, opened: OpenCatalog
    ) -> None:
        opened.iceberg.create_namespace("other")
        assert "2 namespaces" in check_catalog(profile)


class TestState:
    def test_no_table_no_state(self, opened: OpenCatalog) -> None:
        assert load_table_state(opened, ORDERS) is None
        assert load_table_state(opened, TableName("lake", "nowhere", "orders")) is None

    def test_the_state_of_a_new_table_has_its_columns_partitions_order_and_properties(
        self, opened: OpenCatalog
    ) -> None:
        opened.iceberg.create_table(
            ("shop", "orders"),
            SCHEMA,
            partition_spec=PartitionSpec(
                IcebergPartition(4, 1000, DayTransform(), "created_at_day"),
                IcebergPartition(1, 1001, BucketTransform(16), "order_id_bucket"),
                IcebergPartition(2, 1002, TruncateTransform(4), "city_trunc"),
                IcebergPartition(2, 1003, IdentityTransform(), "city"),
            ),
            sort_order=SortOrder(
                IcebergSort(
                    1, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST
                ),
                IcebergSort(
                    4, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST
                ),
                IcebergSort(
                    2, BucketTransform(8), SortDirection.ASC, NullOrder.NULLS_LAST
                ),
            ),
            properties={"write.object-storage.enabled": "true", "format-version": "2"},
        )
        state = load_table_state(opened, ORDERS)
        assert state is not None
        assert state.name == ORDERS
        assert state.columns == (
            StateColumn("order_id", "bigint", required=True),
            StateColumn("city", "string"),
            StateColumn("amount", "decimal(12,2)"),
            StateColumn("created_at", "timestamp"),
        )
        assert state.partition_by == (
            PartitionField("days", "created_at"),
            PartitionField("bucket", "order_id", 16),
            PartitionField("truncate", "city", 4),
            PartitionField("identity", "city"),
        )
        assert state.order_by == (
            SortField("order_id"),
            SortField("created_at", descending=True, nulls_first=False),
            SortField("bucket(8, city)", nulls_first=False),
        )
        assert state.properties["write.object-storage.enabled"] == "true"
        assert state.properties["format-version"] == "2"
        assert state.ledger_models == frozenset()

    def test_models_that_wrote_are_found_behind_later_commits(
        self, opened: OpenCatalog
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        table.append(
            rows_of(1),
            snapshot_properties={"lakesql.model": "orders", "lakesql.batch": "0"},
        )
        table.append(rows_of(2))
        state = load_table_state(opened, ORDERS)
        assert state is not None
        assert state.ledger_models == {"orders"}

    def test_the_newest_batch_of_a_model_says_who_has_written_a_table(
        self, opened: OpenCatalog
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        assert newest_writer(opened, ORDERS) is None
        for model, checkpoint in (
            ("orders", "a"),
            ("purchases", "b"),
            ("purchases__replay", "c"),
        ):
            entry = {"lakesql.model": model, "lakesql.checkpoint": checkpoint}
            table.append(rows_of(1), snapshot_properties=entry)
        table.append(rows_of(2))
        assert newest_writer(opened, ORDERS) == ("purchases", "b")

    def test_a_partition_field_that_was_dropped_is_gone_in_format_version_1_too(
        self, opened: OpenCatalog
    ) -> None:
        by_city = PartitionSpec(IcebergPartition(2, 1000, IdentityTransform(), "city"))
        properties = {"format-version": "1"}
        table = opened.iceberg.create_table(
            ("shop", "orders"), SCHEMA, partition_spec=by_city, properties=properties
        )
        with table.update_spec() as update:
            update.remove_field("city")
        assert [str(field.transform) for field in table.spec().fields] == ["void"]
        state = load_table_state(opened, ORDERS)
        assert state is not None
        assert state.partition_by == ()

    def test_a_later_commit_is_seen(self, opened: OpenCatalog) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        before = load_table_state(opened, ORDERS)
        with table.update_schema() as update:
            update.add_column("note", types.StringType())
        after = load_table_state(opened, ORDERS)
        assert before is not None and after is not None
        assert [column.name for column in after.columns] == [
            *(column.name for column in before.columns),
            "note",
        ]

    def test_a_table_without_its_metadata_file_is_unreadable(
        self, opened: OpenCatalog
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        Path(table.metadata_location.removeprefix("file://")).unlink()
        with pytest.raises(RunError) as caught:
            load_table_state(opened, ORDERS)
        assert condition(caught.value) == "table-unreadable"
        assert "drop the table" in caught.value.problems[0].fix

    def test_metadata_that_pyiceberg_cannot_parse_is_unreadable(
        self, opened: OpenCatalog
    ) -> None:
        place = make_v3_table(opened, "variant")
        with pytest.raises(RunError) as caught:
            load_table_state(opened, ORDERS)
        assert condition(caught.value) == "table-unreadable"
        assert "'variant'" in caught.value.problems[0].why
        place.write_text("{")
        with pytest.raises(RunError) as caught:
            load_table_state(opened, ORDERS)
        assert condition(caught.value) == "table-unreadable"

    @pytest.mark.parametrize(
        ("suffix", "damage"),
        [
            ("", b"\xff\xfe\x00"),
            (".gz", b"PAR1"),
            (".gz", gzip.compress(b"{}" * 99, mtime=0)[:-9]),
            (".gz", gzip.compress(b"", mtime=0)[:4]),
        ],
    )
    def test_a_damaged_metadata_file_is_unreadable(
        self, opened: OpenCatalog, suffix: str, damage: bytes
    ) -> None:
        """Not the catalog's fault, which has answered."""
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        location = table.metadata_location.replace(
            ".metadata.json", f"{suffix}.metadata.json"
        )
        Path(location.removeprefix("file://")).write_bytes(damage)
        with (
            closing(
                sqlite3.connect(opened.profile.uri.removeprefix("sqlite:///"))
            ) as catalog,
            catalog,
        ):
            catalog.execute(
                "UPDATE iceberg_tables SET metadata_location = ?", (location,)
            )
        with pytest.raises(RunError) as caught:
            load_table_state(opened, ORDERS)
        assert condition(caught.value) == "table-unreadable"
        assert caught.value.problems[0].why

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({}, "table-unreadable"),
            ({"metadata": None}, "not-a-catalog"),
            (None, "not-a-catalog"),
        ],
    )
    def test_rest_answers_without_usable_metadata_have_their_condition(
        self,
        opened: OpenCatalog,
        monkeypatch: pytest.MonkeyPatch,
        change: dict[str, Any] | None,
        expected: str,
    ) -> None:
        answer = {"metadata": json.loads(make_v3_table(opened, "variant").read_text())}
        body = (
            "a page"
            if change is None
            else json.dumps(
                {key: value for key, value in answer.items() if key not in change}
            )
        )
        monkeypatch.setattr(
            opened.iceberg,
            "load_table",
            lambda name: TableResponse.model_validate_json(body),
        )
        with pytest.raises(LakesqlError) as caught:
            load_table_state(opened, ORDERS)
        assert condition(caught.value) == expected

    def test_a_column_of_nothing_is_read(self, opened: OpenCatalog) -> None:
        make_v3_table(opened, "unknown")
        state = load_table_state(opened, ORDERS)
        assert state is not None
        assert state.columns[-1] == StateColumn("more", "void")

    def test_tables_are_listed_by_name(self, opened: OpenCatalog) -> None:
        for name in ("orders", "clicks"):
            opened.iceberg.create_table(("shop", name), SCHEMA)
        assert list_tables(opened, "shop") == (
            TableName("lake", "shop", "clicks"),
            ORDERS,
        )
        assert list_tables(opened, "nowhere") == ()


class TestRows:
    columns = ("order_id", "city", "amount", "created_at")

    def test_rows_are_tuples_in_the_order_of_the_columns(
        self, opened: OpenCatalog
    ) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA).append(rows_of(1))
        assert read_rows(opened, ORDERS, 10) == (
            self.columns,
            [(1, "c1", Decimal("1.50"), datetime(2026, 1, 1, tzinfo=UTC))],
        )

    @pytest.mark.parametrize(
        ("limit", "count"), [(0, 0), (1, 1), (3, 3), (4, 4), (100, 6)]
    )
    def test_the_limit_holds_across_files(
        self, opened: OpenCatalog, limit: int, count: int
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        for first in (1, 3, 5):
            table.append(rows_of(first, first + 1))
        columns, rows = read_rows(opened, ORDERS, limit)
        assert columns == self.columns
        assert len(rows) == len({row[0] for row in rows}) == count

    def test_an_empty_table_has_columns_and_no_rows(self, opened: OpenCatalog) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        assert read_rows(opened, ORDERS, 10) == (self.columns, [])

    def test_only_the_files_that_are_needed_are_opened(
        self, opened: OpenCatalog
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        for number in (1, 2, 3):
            table.append(rows_of(number))
        _, *others = (
            task.file.file_path for task in table.refresh().scan().plan_files()
        )
        for path in others:
            Path(path.removeprefix("file://")).unlink()
        assert len(read_rows(opened, ORDERS, 1)[1]) == 1
        with pytest.raises(RunError) as caught:
            read_rows(opened, ORDERS, 2)
        assert condition(caught.value) == "table-unreadable"
        assert "drop the table" in caught.value.problems[0].fix

    def test_a_file_that_is_broken_is_no_reason_to_drop_the_table(
        self, opened: OpenCatalog
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        table.append(rows_of(1))
        (task,) = table.refresh().scan().plan_files()
        Path(task.file.file_path.removeprefix("file://")).write_text("not Parquet")
        with pytest.raises(RunError) as caught:
            read_rows(opened, ORDERS, 1)
        assert condition(caught.value) == "table-unreadable"
        assert "drop" not in caught.value.problems[0].fix

    def test_a_date_that_python_does_not_have_is_text(
        self, opened: OpenCatalog
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), dated(0).schema)
        table.append(dated(0))
        (task,) = table.refresh().scan().plan_files()
        file = task.file.file_path.removeprefix("file://")
        # pyiceberg cannot write it either
        pq.write_table(dated(253402300800000000).cast(pq.read_schema(file)), file)
        text = "10000-01-01 00:00:00.000000"
        assert read_rows(opened, ORDERS, 1)[1] == [
            (
                text,
                date(1970, 1, 1),
                {"far": text, "near": "1970-01-01"},
                [text],
                {"1970-01-01": text},
            )
        ]

    def test_a_missing_table_is_reported_with_those_that_exist(
        self, opened: OpenCatalog
    ) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        with pytest.raises(RunError) as caught:
            read_rows(opened, TableName("lake", "shop", "order"), 10)
        assert condition(caught.value) == "table-missing"
        assert "'orders'" in caught.value.problems[0].why

    def test_a_map_reads_as_a_mapping(self, opened: OpenCatalog) -> None:
        counts = types.MapType(
            2, types.StringType(), 3, types.LongType(), value_required=False
        )
        table = opened.iceberg.create_table(
            ("shop", "orders"), Schema(types.NestedField(1, "counts", counts))
        )
        table.append(
            pa.Table.from_pylist(
                [{"counts": [("a", 1)]}, {"counts": None}],
                schema=table.schema().as_arrow(),
            )
        )
        assert read_rows(opened, ORDERS, 10) == (("counts",), [({"a": 1},), (None,)])


def test_arrow_maps_and_years_beyond_pythons_become_python_values() -> None:
    """As `show` writes them, and a preview."""
    at = pa.array([None, 300_000_000_000_000_000], pa.timestamp("us", "UTC"))
    maps = pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64()))
    first, second = python_rows(pa.table({"at": at, "m": maps}))
    assert first == (None, {"k": 1})
    assert second[0].startswith("11476") and second[1] == {}


@pytest.mark.checks
def test_importing_the_module_loads_neither_pyiceberg_nor_pyarrow() -> None:
    program = "import sys, lakesql.catalog.tables; print(sorted({'pyiceberg', 'pyarrow', 'sqlalchemy'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@each_of(
    ("kind", "text"),
    [
        (types.BooleanType(), "boolean"),
        (types.IntegerType(), "int"),
        (types.LongType(), "bigint"),
        (types.FloatType(), "float"),
        (types.DoubleType(), "double"),
        (types.DecimalType(12, 2), "decimal(12,2)"),
        (types.DateType(), "date"),
        (types.TimestampType(), "timestamp_ntz"),
        (types.TimestamptzType(), "timestamp"),
        (types.StringType(), "string"),
        (types.UUIDType(), "string"),
        (types.BinaryType(), "binary"),
        (types.FixedType(16), "binary"),
        (types.ListType(1, types.LongType()), "array<bigint>"),
        (
            types.MapType(1, types.StringType(), 2, types.TimestamptzType()),
            "map<string,timestamp>",
        ),
        (
            types.StructType(
                types.NestedField(1, "A", types.IntegerType(), required=True),
                types.NestedField(2, "b c", types.ListType(3, types.DecimalType(9, 0))),
            ),
            "struct<A:int,`b c`:array<decimal(9,0)>>",
        ),
    ],
)
def test_types_have_the_spelling_that_plans_compare(
    kind: types.IcebergType, text: str
) -> None:
    found = json.loads(types.NestedField(9, "c", kind).model_dump_json(by_alias=True))[
        "type"
    ]
    assert spark_type(found) == text == stored_type(text)


def test_the_time_of_an_import_is_not_the_catalogs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slowly_imported.py").write_text("import time\ntime.sleep(0.4)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert _within(0.2, "slowly_imported", lambda: 7) == 7
    with pytest.raises(TimeoutError):
        _within(0.1, "slowly_imported", lambda: time.sleep(1))
