from __future__ import annotations

from dataclasses import replace

import pytest

from lakesql.compile.table import (
    DEFAULT_PROPERTIES,
    TableColumn,
    TableSpec,
    build_table_spec,
    create_table,
    dead_letter_spec,
    partition_text,
    sort_text,
)
from lakesql.model.config import PartitionField, SortField
from lakesql.model.table_name import TableName
from lakesql.modes.append import Append
from lakesql.modes.cdc import Cdc
from lakesql.modes.scd2 import Scd2
from lakesql.modes.upsert import Upsert

NAME = TableName("lake", "shop", "orders")
COLUMNS = (
    TableColumn("id", "bigint", 'it\'s "the"\nnumber \\'),
    TableColumn("order day", None),
)


def test_a_table_says_everything_in_one_statement_and_its_order_in_another() -> None:
    spec = TableSpec(
        name=NAME,
        columns=COLUMNS,
        partition_by=(
            PartitionField("days", "order day"),
            PartitionField("bucket", "id", 16),
        ),
        order_by=(
            SortField("id"),
            SortField("order day", descending=True, nulls_first=False),
        ),
        properties={"a": "1", "it's": "x'y"},
        comment="what 'it' is",
    )
    assert create_table(spec) == (
        r"""CREATE TABLE lake.shop.orders (
  id bigint COMMENT 'it\'s "the"\nnumber \\',
  `order day` /* its type in the SELECT */
)
USING iceberg
PARTITIONED BY (days(`order day`), bucket(16, id))
COMMENT 'what \'it\' is'
TBLPROPERTIES (
  'a' = '1',
  'it\'s' = 'x\'y'
)""",
        "ALTER TABLE lake.shop.orders WRITE LOCALLY ORDERED BY id, `order day` DESC",
    )


def test_a_table_whose_columns_only_spark_knows_says_so() -> None:
    (statement,) = create_table(TableSpec(NAME, (), properties={"a": "1"}))
    assert statement.split("\n")[1] == "  /* the columns of the SELECT */"


def test_a_model_gets_what_streaming_tables_need_and_its_own_over_it() -> None:
    spec = build_table_spec(
        NAME, COLUMNS, Append(properties={"format-version": "3", "x": "y"}), "about"
    )
    assert dict(spec.properties) == {
        **DEFAULT_PROPERTIES,
        "format-version": "3",
        "x": "y",
    }
    assert (spec.columns, spec.order_by, spec.comment) == (COLUMNS, (), "about")


def test_a_level_of_compression_goes_with_its_codec() -> None:
    codec, level = "write.parquet.compression-codec", "write.parquet.compression-level"

    def compressed(**own: str) -> tuple[str | None, str | None]:
        given = {
            f"write.parquet.compression-{key}": value for key, value in own.items()
        }
        properties = build_table_spec(
            NAME, COLUMNS, Append(properties=given), ""
        ).properties
        return properties.get(codec), properties.get(level)

    assert compressed() == ("zstd", "1")
    assert compressed(level="9") == ("zstd", "9")
    assert compressed(codec="gzip") == ("gzip", None)
    assert compressed(codec="gzip", level="BEST_SPEED") == ("gzip", "BEST_SPEED")


def test_a_keyed_table_is_ordered_by_its_keys_unless_order_by_is_given() -> None:
    config = Upsert(keys=("id", "order day"))
    assert build_table_spec(NAME, COLUMNS, config, "").order_by == (
        SortField("id"),
        SortField("order day"),
    )
    told = (SortField("x", descending=True),)
    assert (
        build_table_spec(NAME, COLUMNS, replace(config, order_by=told), "").order_by
        == told
    )


def test_an_order_has_the_capitals_of_the_columns() -> None:
    columns = (TableColumn("K", "int"), TableColumn("v", "string"))
    keyed = build_table_spec(NAME, columns, Upsert(keys=("k",)), "")
    told = build_table_spec(
        NAME, columns, Append(order_by=(SortField("V", descending=True),)), ""
    )
    assert keyed.order_by == (SortField("K"),)
    assert told.order_by == (SortField("v", descending=True),)


@pytest.mark.parametrize(
    "config",
    [
        Upsert(keys=("id",)),
        Cdc(keys=("id",)),
        Scd2(keys=("id",), sequence_by=("order day",)),
    ],
)
def test_a_table_whose_files_are_written_anew_has_no_order_but_that_of_order_by(
    config: Upsert | Cdc | Scd2,
) -> None:
    assert build_table_spec(NAME, COLUMNS, config, "").order_by
    anew = replace(config, properties={"write.merge.mode": "copy-on-write"})
    assert build_table_spec(NAME, COLUMNS, anew, "").order_by == ()
    told = (SortField("id"),)
    assert (
        build_table_spec(NAME, COLUMNS, replace(anew, order_by=told), "").order_by
        == told
    )


def test_the_default_direction_and_null_order_are_omitted() -> None:
    fields = [
        SortField("a", descending, nulls_first)
        for descending in (False, True)
        for nulls_first in (True, False)
    ]
    assert [sort_text(field) for field in fields] == [
        "a",
        "a NULLS LAST",
        "a DESC NULLS FIRST",
        "a DESC",
    ]


def test_partitions_are_written_as_iceberg_reads_them() -> None:
    fields = [
        PartitionField("identity", "a b"),
        PartitionField("hours", "a"),
        PartitionField("truncate", "a", 4),
    ]
    assert [partition_text(field) for field in fields] == [
        "`a b`",
        "hours(a)",
        "truncate(4, a)",
    ]


def test_the_dead_letter_table_stands_beside_the_table() -> None:
    spec = dead_letter_spec(NAME)
    assert spec.name == TableName("lake", "shop", "orders__dead_letter")
    assert " ".join(column.name for column in spec.columns) == (
        "stream topic partition offset timestamp key value reason detail model batch rejected_at replay replayed_at"
    )
    assert spec.partition_by == (PartitionField("days", "rejected_at"),)
    assert spec.properties == DEFAULT_PROPERTIES


@pytest.mark.parametrize(
    ("config", "merged", "inserted"),
    [
        (Upsert(keys=("id",)), "none", "none"),
        (
            Upsert(keys=("id",), partition_by=(PartitionField("days", "order day"),)),
            "hash",
            "none",
        ),
        (Append(partition_by=(PartitionField("days", "order day"),)), "none", "hash"),
    ],
)
def test_a_batch_makes_one_file_for_each_partition(
    config: Append | Upsert, merged: str, inserted: str
) -> None:
    properties = build_table_spec(NAME, COLUMNS, config, "").properties
    assert properties["write.merge.distribution-mode"] == merged
    assert properties["write.distribution-mode"] == inserted
