"""The catalogs that the tests run on, as profiles and as readers other than Spark see
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg

from lakesql.catalog.connect import open_catalog
from lakesql.events import BatchCommitted
from lakesql.project.profiles import Catalog
from tests.servers.seaweed import Seaweed
from tests.spark.project import Lake, Project, Ran, Row, sorted_rows


@dataclass(frozen=True, slots=True)
class Place:
    """A catalog with its storage: the shared session with it in it, where checkpoints
    go, and how DuckDB gets there.

    `attach` gives what DuckDB runs before it reads, and `duckdb_table` how it names a
    table by `namespace.table`.
    """

    lake: Lake
    checkpoints: str
    attach: str
    duckdb_table: Callable[[Any, str], str]

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """DuckDB with the catalog and the storage in reach."""
        with duckdb.connect() as connection:
            for package in (
                duckdb_extension_avro,
                duckdb_extension_httpfs,
                duckdb_extension_iceberg,
            ):
                (file,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
                connection.execute(f"LOAD '{file}'")
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(self.attach)
            yield connection

    def duckdb_name(self, namespace: str, table: str) -> str:
        """A table in DuckDB's FROM."""
        loaded = self.lake.catalog.iceberg.load_table((namespace, table))
        return self.duckdb_table(loaded, f"{namespace}.{table}")

    def rows_by_duckdb(self, namespace: str, table: str) -> list[Row]:
        """A table's rows as DuckDB reads them."""
        with self.connect() as connection:
            found = connection.execute(
                f"SELECT * FROM {self.duckdb_name(namespace, table)}"
            )
            return sorted_rows(found.to_arrow_table().to_pylist())


def add_catalog(lake: Lake, catalog: Catalog) -> Lake:
    """The shared session with one more catalog, for itself and for all sessions that
    come from it."""
    from lakesql.engine.spark.session import catalog_conf

    shared = lake.session._jsparkSession.sharedState()
    hadoop = lake.session.sparkContext._jsc.hadoopConfiguration()
    for key, value in catalog_conf(catalog).items():
        if key.startswith("spark.hadoop."):
            hadoop.set(key.removeprefix("spark.hadoop."), value)
        else:
            shared.conf().set(key, value)
            lake.session.conf.set(key, value)
    return Lake(lake.session, open_catalog(catalog))


def s3_secret(seaweed: Seaweed) -> str:
    """What lets DuckDB read the bucket."""
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{seaweed.access_key}', SECRET '{seaweed.secret_key}', REGION 'us-east-1', "
        f"ENDPOINT '{urlsplit(seaweed.s3_endpoint).netloc}', URL_STYLE 'path', USE_SSL false);"
    )


def by_metadata(loaded: Any, name: str) -> str:
    """A table by its newest metadata file."""
    return f"iceberg_scan('{loaded.metadata_location}')"


def by_catalog(loaded: Any, name: str) -> str:
    """A table by its name in the attached REST catalog."""
    return f"served.{name}"


def plain(rows: list[Row]) -> list[Row]:
    """Rows with times as Python's `datetime` in UTC has them, whatever names the
    zone."""

    def value(found: Any) -> Any:
        return found.isoformat() if isinstance(found, datetime | date) else found

    return sorted_rows(
        [{key: value(found) for key, found in row.items()} for row in rows]
    )


def forget(project: Project, ran: Ran, models: Iterable[str]) -> None:
    """Leave each checkpoint as a crash right after the last commit of a run leaves it:
    see `Project.forget`."""
    forget_batches(
        project, {model: ran.of(BatchCommitted, model)[-1].batch for model in models}
    )


def forget_batches(project: Project, newest: Mapping[str, int]) -> None:
    """The same after these batches, by model."""
    session = project.lake.session
    jvm, hadoop = session._jvm, session.sparkContext._jsc.hadoopConfiguration()
    base = (
        project.checkpoints
        if "://" in project.checkpoints
        else str(project.directory / project.checkpoints)
    )
    for model, batch in newest.items():
        for folder, first in (("commits", batch), ("offsets", batch + 1)):
            path = jvm.org.apache.hadoop.fs.Path(f"{base}/{model}/{folder}")
            storage = path.getFileSystem(hadoop)
            files = [
                status.getPath()
                for status in storage.listStatus(path)
                if status.getPath().getName().isdigit()
            ]
            assert all(
                storage.delete(file, False)
                for file in files
                if int(file.getName()) >= first
            )
