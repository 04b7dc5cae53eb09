"""One block of profiles.yml in the words of Spark and of pyiceberg."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from sqlalchemy import make_url

from lakesql.errors import ProfileError
from lakesql.location import local_folder
from lakesql.project.catalog import (
    S3_FILE_IO,
    check_block,
    hadoop_properties,
    jar_needs,
    postgres_of,
    python_properties,
    shown,
    spark_properties,
)
from lakesql.project.profiles import Catalog, Target
from lakesql.source.files import Files
from tests.cases import each_of

PASSWORD = "p@ss:w/rd?%41é"


FOLDER_BESIDE_S3 = Catalog(
    "lake", "sql", "sqlite:///c.db", "/wh", {"s3.endpoint": "http://s3"}
)
"""Tables in a folder, and a login of S3 for files that streams read."""


def rest(**properties: str) -> Catalog:
    given = {
        key.replace("__", ".").replace("_", "-"): value
        for key, value in properties.items()
    }
    return Catalog("lake", "rest", "http://catalog/", "wh", given)


def postgres(uri: str, **properties: str) -> Catalog:
    return Catalog(
        "lake",
        "sql",
        uri,
        "/wh",
        {key.replace("_", "."): value for key, value in properties.items()},
    )


def test_keys_that_are_not_lakesqls_reach_both_as_they_are() -> None:
    catalog = rest(header__X_Tenant="7", s3__access_key_id="a", prefix="p")
    for properties in (spark_properties(catalog), python_properties(catalog)):
        assert properties.items() >= catalog.properties.items()
        assert (properties["type"], properties["uri"], properties["warehouse"]) == (
            "rest",
            "http://catalog/",
            "wh",
        )


def test_the_region_reaches_spark_and_pyiceberg_under_either_key() -> None:
    for catalog in (rest(s3__region="eu-1"), rest(client__region="eu-1")):
        assert spark_properties(catalog)["client.region"] == "eu-1"
        assert python_properties(catalog)["s3.region"] == "eu-1"


@pytest.mark.parametrize("key", ["client.region", "glue.region", "s3.region"])
def test_glue_is_in_the_region_that_is_given_for_both(key: str) -> None:
    glue = Catalog("lake", "glue", "", "s3://b/w", {key: "eu-1"})
    assert spark_properties(glue)["client.region"] == "eu-1"
    assert {python_properties(glue)[each] for each in ("glue.region", "s3.region")} == {
        "eu-1"
    }


def test_a_bucket_may_be_in_another_region_than_glue() -> None:
    glue = Catalog(
        "lake", "glue", "", "s3://b/w", {"glue.region": "eu-1", "s3.region": "us-1"}
    )
    assert spark_properties(glue)["client.region"] == "eu-1"
    assert (
        python_properties(glue)["glue.region"],
        python_properties(glue)["s3.region"],
    ) == ("eu-1", "us-1")


def test_two_regions_of_glue_are_refused() -> None:
    glue = Catalog(
        "lake", "glue", "", "s3://b/w", {"client.region": "eu-1", "glue.region": "us-1"}
    )
    with pytest.raises(ProfileError) as caught:
        check_block(glue)
    assert [problem.condition for problem in caught.value.problems] == [
        "catalog-options"
    ]


def test_s3_has_icebergs_own_file_io_unless_another_is_named() -> None:
    assert spark_properties(rest(s3__endpoint="http://s3"))["io-impl"] == S3_FILE_IO
    assert (
        spark_properties(rest(s3__endpoint="http://s3", io_impl="Mine"))["io-impl"]
        == "Mine"
    )
    assert "io-impl" not in spark_properties(rest())


def test_tables_in_a_folder_stay_there_whatever_is_read_from_s3() -> None:
    assert "io-impl" not in spark_properties(FOLDER_BESIDE_S3)
    assert (
        hadoop_properties(FOLDER_BESIDE_S3)["spark.hadoop.fs.s3a.endpoint"]
        == "http://s3"
    )


def test_a_login_is_for_the_catalogs_own_token_service_unless_another_is_named() -> (
    None
):
    for tell in (spark_properties, python_properties):
        assert (
            tell(rest(credential="a:b"))["oauth2-server-uri"]
            == "http://catalog/v1/oauth/tokens"
        )
        other = tell(rest(credential="a:b", oauth2_server_uri="https://idp/token"))
        assert other["oauth2-server-uri"] == "https://idp/token"
        assert (
            tell(rest(token="t"))["oauth2-server-uri"]
            == "http://catalog/v1/oauth/tokens"
        )
        assert "oauth2-server-uri" not in tell(rest())


def test_no_answer_is_waited_for_without_end() -> None:
    told = spark_properties(rest())
    assert {key for key in told if "timeout" in key} == {
        "rest.client.connection-timeout-ms",
        "rest.client.socket-timeout-ms",
    }
    assert {"jdbc.connectTimeout", "jdbc.socketTimeout"} <= spark_properties(
        postgres("postgresql://h/db")
    ).keys()


@each_of(
    "catalog",
    [
        postgres("postgresql://me:p%40ss:w%2Frd%3F%2541%C3%A9@h:5433/lake"),
        postgres("postgresql+psycopg2://me:p@ss:w/rd?%2541é@h:5433/lake"),
        postgres(
            "jdbc:postgresql://h:5433/lake", jdbc_user="me", jdbc_password=PASSWORD
        ),
        postgres("postgres://me@h:5433/lake", jdbc_password=PASSWORD),
    ],
)
def test_a_postgres_login_reaches_both(catalog: Catalog) -> None:
    spark = spark_properties(catalog)
    assert (spark["type"], spark["uri"]) == ("jdbc", "jdbc:postgresql://h:5433/lake")
    assert (spark["jdbc.user"], spark["jdbc.password"]) == ("me", PASSWORD)
    url = make_url(python_properties(catalog)["uri"])
    assert (url.drivername, url.username, url.password) == (
        "postgresql+psycopg",
        "me",
        PASSWORD,
    )
    assert (url.host, url.port, url.database) == ("h", 5433, "lake")
    assert PASSWORD not in str(shown(catalog)) and "p%40ss" not in str(shown(catalog))


@each_of(
    ("uri", "address"),
    [
        ("postgresql://h/db?user=me&password=hush", "postgresql://h/db"),
        ("jdbc:postgresql://me:x@h/db?password=hush", "jdbc:postgresql://h/db"),
        ("postgresql://h/db?user=me@h&password=hush", "postgresql://…"),
        ("postgresql://me:hu?sh@h/db", "postgresql://…"),
        ("postgresql://me@h:5433/db", "postgresql://h:5433/db"),
    ],
)
def test_an_address_is_shown_without_a_login(uri: str, address: str) -> None:
    assert shown(postgres(uri))["uri"] == address


def test_what_stands_behind_a_postgres_uri_reaches_both() -> None:
    catalog = postgres("postgresql:///lake?sslmode=require")
    assert (
        spark_properties(catalog)["uri"]
        == "jdbc:postgresql://localhost/lake?sslmode=require"
    )
    query = make_url(python_properties(catalog)["uri"]).query
    assert query["sslmode"] == "require"
    assert query["tcp_user_timeout"] == "60000", (
        "a database that is silent is waited for without end"
    )


@pytest.mark.parametrize("beside", [True, False], ids=["keys", "query"])
def test_a_certificate_and_a_schema_of_postgres_reach_both(beside: bool) -> None:
    said = {
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
        "sslcert": "/c.pem",
        "sslkey": "/k.pk8",
    }
    said["currentSchema"] = "iceberg,public"
    keys = {f"jdbc.{key}": value for key, value in said.items()} if beside else {}
    catalog = Catalog(
        "lake",
        "sql",
        f"postgresql://h/db{'' if beside else f'?{urlencode(said)}'}",
        "/wh",
        keys,
    )
    url = make_url(python_properties(catalog)["uri"])
    assert {key: url.query[key] for key in said if key.startswith("ssl")} == {
        key: value for key, value in said.items() if key.startswith("ssl")
    }
    assert url.query["options"] == "-csearch_path=iceberg,public"
    assert "currentSchema" not in url.query
    spark = spark_properties(catalog)
    told = {
        **plain(spark),
        **dict(parse_qsl(urlsplit(spark["uri"].removeprefix("jdbc:")).query)),
    }
    assert told.items() >= said.items()


def test_the_users_own_bounds_of_postgres_win_in_both() -> None:
    for catalog in (
        Catalog(
            "lake",
            "sql",
            "postgresql://h/db",
            "/wh",
            {"jdbc.connectTimeout": "3", "jdbc.socketTimeout": "7"},
        ),
        postgres("postgresql://h/db?connectTimeout=3&socketTimeout=7"),
    ):
        spark, query = (
            spark_properties(catalog),
            make_url(python_properties(catalog)["uri"]).query,
        )
        told = {
            **dict(parse_qsl(urlsplit(spark["uri"].removeprefix("jdbc:")).query)),
            **plain(spark),
        }
        assert (
            told["connectTimeout"],
            told["socketTimeout"],
            told["tcpKeepAlive"],
        ) == ("3", "7", "true")
        assert (query["connect_timeout"], query["tcp_user_timeout"]) == ("3", "7000")
    libpq = postgres("postgresql://h/db?connect_timeout=3&application_name=x")
    assert plain(spark_properties(libpq))["connectTimeout"] == "3"
    assert make_url(python_properties(libpq)["uri"]).query["application_name"] == "x"


def plain(properties: dict[str, str]) -> dict[str, str]:
    return {
        key.removeprefix("jdbc."): value
        for key, value in properties.items()
        if key.startswith("jdbc.")
    }


@each_of(
    ("uri", "keys"),
    [
        ("postgresql://h/db", {"jdbc.sslfactory": "x"}),
        ("postgresql://h/db", {"jdbc.ssl": "true"}),
        ("postgresql://h/db", {"jdbc.sslpassword": "x"}),
        ("postgresql://h/db?ssl=true", {}),
        ("postgresql://h/db?sslmode=require", {"jdbc.sslmode": "disable"}),
        ("postgresql://h/db", {"jdbc.connectTimeout": "ten"}),
    ],
)
def test_what_one_of_spark_and_pyiceberg_would_not_hear_of_postgres_is_refused(
    uri: str, keys: dict[str, str]
) -> None:
    for tell in (spark_properties, python_properties):
        with pytest.raises(ProfileError) as caught:
            tell(Catalog("lake", "sql", uri, "/wh", keys))
        (problem,) = caught.value.problems
        assert problem.condition == "catalog-options"


@each_of("uri", ["", "mysql://h/db", "postgresql://h", "postgresql://h/"])
def test_other_databases_are_refused(uri: str) -> None:
    with pytest.raises(ProfileError) as caught:
        postgres_of(postgres(uri))
    assert caught.value.problems[0].condition == "catalog-uri"


def test_spark_itself_reads_s3_with_the_catalogs_keys() -> None:
    catalog = rest(
        s3__endpoint="http://s3",
        s3__access_key_id="a",
        s3__secret_access_key="b",
        client__region="eu-1",
    )
    told = {
        key.removeprefix("spark.hadoop.fs.s3a."): value
        for key, value in hadoop_properties(catalog).items()
    }
    assert (told["endpoint"], told["endpoint.region"], told["path.style.access"]) == (
        "http://s3",
        "eu-1",
        "true",
    )
    assert (told["access.key"], told["secret.key"]) == ("a", "b")
    assert told["aws.credentials.provider"].endswith(".SimpleAWSCredentialsProvider")
    of_the_machine = hadoop_properties(rest())[
        "spark.hadoop.fs.s3a.aws.credentials.provider"
    ].split(",")
    assert (
        of_the_machine[-1]
        == "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    )
    assert of_the_machine[0].endswith(".TemporaryAWSCredentialsProvider"), (
        "keys of spark.conf come before"
    )
    of_an_hour = hadoop_properties(
        rest(s3__access_key_id="a", s3__secret_access_key="b", s3__session_token="t")
    )
    assert of_an_hour["spark.hadoop.fs.s3a.session.token"] == "t"
    assert of_an_hour["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(
        ".TemporaryAWSCredentialsProvider"
    )


@each_of(
    ("catalog", "places", "needs"),
    [
        (Catalog("lake", "sql", "sqlite:///c.db", "/wh"), {}, {"core", "local-files"}),
        (
            Catalog("lake", "sql", "sqlite:///c.db", "file:///wh"),
            {},
            {"core", "local-files"},
        ),
        (Catalog("lake", "sql", "sqlite:///c.db", "hdfs://wh"), {}, {"core"}),
        (Catalog("lake", "sql", "sqlite:///c.db", "s3://wh"), {}, {"core", "s3"}),
        (postgres("postgresql://h/db"), {}, {"core", "local-files", "postgres"}),
        (rest(), {}, {"core"}),
        (rest(s3__region="eu-1"), {}, {"core", "s3"}),
        (FOLDER_BESIDE_S3, {}, {"core", "local-files"}),
        (
            FOLDER_BESIDE_S3,
            {"connections": {"f": Files("s3://b/in")}},
            {"core", "local-files", "s3", "s3a"},
        ),
        (rest(), {"checkpoints": "s3://b/checkpoints"}, {"core", "s3", "s3a"}),
        (
            rest(),
            {"connections": {"files": Files("s3://b/landing")}},
            {"core", "s3", "s3a"},
        ),
        (Catalog("lake", "glue"), {}, {"core", "s3"}),
    ],
)
def test_jars_are_fetched_by_need(
    catalog: Catalog, places: dict[str, Any], needs: set[str]
) -> None:
    assert jar_needs(Target("t", catalog=catalog, **places)) == needs


def test_a_folder_of_this_machine_is_given_by_its_path_or_by_a_url() -> None:
    found = {
        place: local_folder(place)
        for place in ("data/in", "/data", "file:///data", "file:/data")
    }
    assert [str(folder) for folder in found.values()] == [
        "data/in",
        "/data",
        "/data",
        "/data",
    ]
    assert {
        local_folder(place)
        for place in ("s3://b/data", "hdfs://n/x", "hdfs:/x", "dbfs:/x")
    } == {None}
