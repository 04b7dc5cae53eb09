"""The shop on a REST catalog with S3, against an oracle in plain Python, read by Spark,
pyiceberg and DuckDB."""

from __future__ import annotations

from pathlib import Path

from lakesql.events import BatchCommitted
from tests.catalogs.places import Place, plain
from tests.shop import oracle
from tests.spark.project import sorted_rows
from tests.spark.test_shop import TABLES, Shop


def test_every_shop_table_equals_the_oracle_for_spark_pyiceberg_and_duckdb(
    rest_on_s3: Place, tmp_path: Path
) -> None:
    shop = Shop(rest_on_s3.lake, tmp_path / "shop")
    shop.checkpoints = rest_on_s3.checkpoints

    first = shop.run().check()

    for name in TABLES:
        expected = sorted_rows(oracle.expected_tables(shop.recorded)[name])
        assert expected
        assert shop.rows(name) == expected
        assert shop.rows_without_spark(name) == expected
        assert plain(rest_on_s3.rows_by_duckdb("shop", name)) == plain(expected)
        commits = first.of(BatchCommitted, name)
        assert [int(summary["lakesql.batch"]) for summary in shop.summaries(name)] == [
            each.batch for each in commits
        ]

    again = shop.run().check()
    assert not again.of(BatchCommitted)
