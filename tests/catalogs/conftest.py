"""The servers, once for all tests, and the catalogs on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesql.project.profiles import Catalog
from tests.catalogs.places import Place, add_catalog, by_catalog, by_metadata, s3_secret
from tests.servers.hive import HiveMetastore
from tests.servers.nessie import Nessie
from tests.servers.postgres import Postgres
from tests.servers.process import running
from tests.servers.rest import RestCatalogServer
from tests.servers.seaweed import Seaweed
from tests.spark.project import Lake


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with running(Seaweed(tmp_path_factory.mktemp("seaweed"))) as server:
        yield server


@pytest.fixture(scope="session")
def rest_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RestCatalogServer]:
    with running(RestCatalogServer(tmp_path_factory.mktemp("rest"))) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running(Postgres()) as server:
        yield server


@pytest.fixture(scope="session")
def rest_on_s3(lake: Lake, seaweed: Seaweed) -> Place:
    """A REST catalog with OAuth, tables and checkpoints in S3."""
    login = f"{seaweed.access_key}:{seaweed.secret_key}"
    warehouse = seaweed.make_warehouse("tables")
    catalog = Catalog(
        "served",
        "rest",
        seaweed.catalog_uri,
        warehouse,
        {"credential": login, **seaweed.s3_properties},
    )
    attach = (
        f"{s3_secret(seaweed)} CREATE SECRET oauth (TYPE iceberg, CLIENT_ID '{seaweed.access_key}', "
        f"CLIENT_SECRET '{seaweed.secret_key}', OAUTH2_SERVER_URI '{seaweed.catalog_uri}/v1/oauth/tokens'); "
        f"ATTACH '{warehouse}' AS served (TYPE iceberg, ENDPOINT '{seaweed.catalog_uri}', SECRET oauth)"
    )
    return Place(
        add_catalog(lake, catalog),
        f"{seaweed.make_bucket('checkpoints')}/rest",
        attach,
        by_catalog,
    )


@pytest.fixture(scope="session")
def rest_without_login(lake: Lake, rest_server: RestCatalogServer) -> Place:
    """A REST catalog that lets everybody in, tables in a folder."""
    attach = f"ATTACH '' AS served (TYPE iceberg, ENDPOINT '{rest_server.uri}', AUTHORIZATION_TYPE 'none')"
    return Place(
        add_catalog(lake, Catalog("open", "rest", rest_server.uri)),
        "checkpoints",
        attach,
        by_catalog,
    )


@pytest.fixture(scope="session")
def sql_on_postgres(lake: Lake, postgres: Postgres, seaweed: Seaweed) -> Place:
    """A catalog in PostgreSQL, tables in S3."""
    login = {"jdbc.user": postgres.user, "jdbc.password": postgres.password}
    uri, warehouse = postgres.make_database("catalog"), seaweed.make_bucket("warehouse")
    catalog = Catalog(
        "pg", "sql", uri, f"{warehouse}/pg", {**login, **seaweed.s3_properties}
    )
    return Place(
        add_catalog(lake, catalog), "checkpoints", s3_secret(seaweed), by_metadata
    )


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    with running(HiveMetastore(tmp_path_factory.mktemp("hive"))) as server:
        yield server


@pytest.fixture(scope="session")
def nessie(
    tmp_path_factory: pytest.TempPathFactory, seaweed: Seaweed
) -> Iterator[Nessie]:
    with running(Nessie(tmp_path_factory.mktemp("nessie"), seaweed)) as server:
        yield server


@pytest.fixture(scope="session")
def hive_in_folder(lake: Lake, hive_metastore: HiveMetastore) -> Place:
    """A Hive metastore, tables in a folder."""
    catalog = Catalog("hive", "hive", hive_metastore.uri, hive_metastore.warehouse)
    return Place(add_catalog(lake, catalog), "checkpoints", "SELECT 1", by_metadata)


@pytest.fixture(scope="session")
def nessie_on_s3(lake: Lake, nessie: Nessie, seaweed: Seaweed) -> Place:
    """Nessie by its REST service, tables in S3."""
    catalog = Catalog("nessie", "rest", nessie.uri, "", seaweed.s3_properties)
    return Place(
        add_catalog(lake, catalog), "checkpoints", s3_secret(seaweed), by_metadata
    )


@pytest.fixture(
    params=[
        "rest_on_s3",
        "rest_without_login",
        "sql_on_postgres",
        "hive_in_folder",
        "nessie_on_s3",
    ]
)
def place(request: pytest.FixtureRequest) -> Place:
    """Each of the catalogs in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found
