"""Which properties Spark and pyiceberg get for a target's catalog: the block `catalog`
of profiles.yml, translated for each.

Most keys are the same in both, and pass through. The differences stand here, side by
side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

from lakesql.errors import Problem, ProfileError
from lakesql.location import local_folder
from lakesql.project.profiles import Catalog, Target

CONNECT_TIMEOUT_S = 10
"""The timeout for a server to accept a connection."""

ANSWER_TIMEOUT_S = 60
"""The timeout for a server to answer a request."""

S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"

_S3_SCHEMES = ("s3://", "s3a://", "s3n://")
_S3_KEYS = ("s3.", "client.region", "client.credentials-provider")


@dataclass(frozen=True, slots=True)
class Postgres:
    """The database of a `sql` catalog on PostgreSQL. `query` is the part of its URI
    after the `?`."""

    server: str
    database: str
    user: str
    password: str
    query: str


def check_block(catalog: Catalog) -> None:
    """Raise `ProfileError` for what is wrong with the block whatever the server
    answers: keys that it lacks (`missing-option`), and two different regions
    (`catalog-options`)."""
    given = {"uri": catalog.uri, "warehouse": catalog.warehouse, **catalog.properties}
    needed = {key: _EXAMPLES[key] for key in _NEEDED.get(catalog.type, ())}
    for one, other in (_S3_LOGIN, _S3_LOGIN[::-1]):
        if given.get(one):
            needed[other] = (
                f"It and '{one}' are one login; without both, the machine's own is used."
            )
    problems = [
        Problem(
            "missing-option",
            f"catalog '{catalog.name}' lacks '{key}'.",
            "",
            example,
            catalog.place,
        )
        for key, example in needed.items()
        if not given.get(key)
    ]
    regions = [given[key] for key in ("client.region", "glue.region") if given.get(key)]
    if catalog.type == "glue" and len(set(regions)) > 1:
        what = f"catalog '{catalog.name}' is in two regions: Spark takes 'client.region', pyiceberg 'glue.region'."
        problems.append(
            Problem("catalog-options", what, "", "Give one of them.", catalog.place)
        )
    if problems:
        raise ProfileError(problems)


_S3_LOGIN = ("s3.access-key-id", "s3.secret-access-key")

_NEEDED = {"sql": ("uri", "warehouse"), "rest": ("uri",)}

_EXAMPLES = {
    "uri": 'Write `uri: "sqlite:///.lakesql/catalog.db"` for a file, or the address of the catalog\'s server.',
    "warehouse": "Write `warehouse: .lakesql/warehouse` for a folder, or a place such as `s3://bucket/warehouse`.",
}


def spark_properties(catalog: Catalog) -> dict[str, str]:
    """The properties below `spark.sql.catalog.<name>`. Raises `ProfileError`
    (`catalog-uri`)."""
    own = {"type": catalog.type, "uri": catalog.uri, "warehouse": catalog.warehouse}
    # Iceberg's cache would hide commits of others for 30 s.
    properties = {"cache-enabled": "false", **catalog.properties, **own}
    if catalog.type == "rest":
        properties = {**_REST_TIMEOUTS, **_oauth_properties(catalog), **properties}
    if catalog.type == "sql":
        properties = {
            **_jdbc_bounds(catalog),
            **properties,
            **_jdbc_properties(catalog),
        }
    if uses_local_files(catalog):
        properties = {**LOCAL_FILES, **properties}
    if uses_s3(catalog):
        properties.setdefault("io-impl", S3_FILE_IO)
        properties.setdefault("client.region", _region(catalog))
    return {key: value for key, value in properties.items() if value}


def python_properties(catalog: Catalog) -> dict[str, str]:
    """The properties of pyiceberg's catalog. Raises `ProfileError` (`catalog-uri`)."""
    own = {"type": catalog.type, "uri": catalog.uri, "warehouse": catalog.warehouse}
    properties = {
        **catalog.properties,
        **{key: value for key, value in own.items() if value},
    }
    if catalog.type == "rest":
        properties = {**_oauth_properties(catalog), **properties}
    if catalog.type == "sql" and catalog.sqlite_file is None:
        properties |= {"uri": _sqlalchemy_uri(catalog), "pool_pre_ping": "true"}
    if catalog.type == "glue" and (region := _region(catalog)):
        properties.setdefault("glue.region", region)
    return (
        {**properties, **python_s3_properties(catalog)}
        if uses_s3(catalog)
        else properties
    )


def python_s3_properties(catalog: Catalog) -> dict[str, str]:
    """The properties of pyiceberg's access to S3."""
    properties = {
        "s3.connect-timeout": str(CONNECT_TIMEOUT_S),
        "s3.request-timeout": str(ANSWER_TIMEOUT_S),
    }
    properties |= {
        key: value
        for key, value in catalog.properties.items()
        if key.startswith(_S3_KEYS)
    }
    if region := _region(catalog):
        properties.setdefault("s3.region", region)
    if properties.get("s3.path-style-access") == "false":
        properties.setdefault("s3.force-virtual-addressing", "true")
    return properties


def hadoop_properties(catalog: Catalog) -> dict[str, str]:
    """Spark's settings for what it reads and writes in S3 without Iceberg: checkpoints,
    and files of a connection.

    They follow the catalog's `s3.` keys. If those have no access key, the machine's own
    credentials are used.
    """
    given = python_s3_properties(catalog)
    settings = {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    settings |= {
        theirs: given[ours] for ours, theirs in _S3A_KEYS.items() if given.get(ours)
    }
    if "s3.endpoint" in given:
        settings.setdefault("fs.s3a.path.style.access", "true")
        # Without a region S3A would ask AWS for it.
        settings.setdefault("fs.s3a.endpoint.region", "us-east-1")
    if "s3.session-token" in given:
        settings["fs.s3a.aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        )
    elif "s3.access-key-id" in given:
        settings["fs.s3a.aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        )
    else:
        settings["fs.s3a.aws.credentials.provider"] = ",".join(_S3A_LOGINS)
    return {
        f"spark.hadoop.{key}": value
        for key, value in {**_S3A_LIMITS, **settings}.items()
    }


def is_same_catalog(one: Catalog, other: Catalog) -> bool:
    """Whether two blocks name the same catalog by name, type and address; logins, and
    the warehouse unless it is a REST catalog's, may differ."""
    return _address(one) == _address(other)


def _address(catalog: Catalog) -> tuple[str, ...]:
    uri = _LOGIN.sub("//", catalog.uri.partition("?")[0])
    return (
        catalog.name,
        catalog.type,
        uri,
        catalog.warehouse if catalog.type == "rest" else "",
    )


_LOGIN = re.compile(r"//[^/@]*@")


def uses_s3(catalog: Catalog) -> bool:
    """Whether, by the block, the tables' files are in S3. If the warehouse is a local
    folder, `s3.` keys are only for what streams read."""
    properties = catalog.properties
    says_so = any(
        key.startswith(_S3_KEYS) for key in properties
    ) and not uses_local_files(catalog)
    return (
        says_so
        or properties.get("io-impl") == S3_FILE_IO
        or catalog.type == "glue"
        or is_s3(catalog.warehouse)
    )


def uses_local_files(catalog: Catalog) -> bool:
    """Whether, by the block, the tables' files are in a local folder."""
    return (
        catalog.type == "sql"
        and catalog.warehouse != ""
        and local_folder(catalog.warehouse) is not None
    )


def is_s3(place: str) -> bool:
    """Whether a URL has a scheme of S3."""
    return place.startswith(_S3_SCHEMES)


def jar_needs(target: Target) -> frozenset[str]:
    """The names of the groups of jars that a target needs for its catalog, its
    checkpoints and its connections' paths."""
    catalog, needs = target.catalog, {"core"}
    paths = [place for found in target.connections.values() for place in found.places]
    if uses_local_files(catalog):
        needs.add("local-files")
    if uses_s3(catalog):
        needs.add("s3")
    if any(is_s3(place) for place in [target.checkpoints, *paths]):
        needs |= {"s3", "s3a"}
    if catalog.type == "sql" and catalog.sqlite_file is None:
        needs.add("postgres")
    return frozenset(needs)


def postgres_of(catalog: Catalog) -> Postgres:
    """The PostgreSQL database that a `sql` catalog names. Raises `ProfileError`
    (`catalog-uri`) if it is neither that nor SQLite.

    User and password may be in the URI, percent-encoded, or in Spark's properties
    `jdbc.user` and `jdbc.password`, as they are.
    """
    found = _POSTGRES.match(catalog.uri)
    if found is None:
        raise ProfileError.of(
            "catalog-uri",
            f"The catalog '{catalog.name}' of type sql has a uri of another kind than SQLite's and PostgreSQL's.",
        )
    return Postgres(
        server=found["server"] or "localhost",
        database=unquote(found["database"]),
        user=catalog.properties.get("jdbc.user") or unquote(found["user"] or ""),
        password=catalog.properties.get("jdbc.password")
        or unquote(found["password"] or ""),
        query=found["query"] or "",
    )


# The password goes up to the last @, so that one with an @ in it is understood too.
_POSTGRES = re.compile(
    r"(?:jdbc:)?postgres(?:ql)?(?:\+\w+)?://"
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>.*))?@)?(?P<server>[^@/?]*)/(?P<database>[^?/]+)(?:\?(?P<query>.*))?\Z"
)

_REST_TIMEOUTS = {
    "rest.client.connection-timeout-ms": str(CONNECT_TIMEOUT_S * 1000),
    "rest.client.socket-timeout-ms": str(ANSWER_TIMEOUT_S * 1000),
}

LOCAL_FILES = {
    "hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "hadoop.fs.file.impl.disable.cache": "true",
}
"""The settings by which Iceberg writes to local files without Hadoop's own file system,
which starts `chmod` twice for each file. The replacement never stops listing a link to
a folder, so it is kept out of Hadoop's cache, from which all readers of files would get
it."""

_S3A_KEYS = {
    "s3.endpoint": "fs.s3a.endpoint",
    "s3.region": "fs.s3a.endpoint.region",
    "s3.access-key-id": "fs.s3a.access.key",
    "s3.secret-access-key": "fs.s3a.secret.key",
    "s3.session-token": "fs.s3a.session.token",
    "s3.path-style-access": "fs.s3a.path.style.access",
}

# Hadoop's default providers find no login in ~/.aws, nor a pod's, as pyarrow and
# Iceberg do. The first two providers here use keys from spark.conf.
_S3A_LOGINS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)

# With Hadoop's defaults a request is retried for a quarter of an hour.
_S3A_LIMITS = {
    "fs.s3a.connection.establish.timeout": "15s",
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.retry.limit": "3",
}


def _oauth_properties(catalog: Catalog) -> dict[str, str]:
    """The properties that name the REST catalog's own token service; empty if the block
    has neither `credential` nor `token`. Neither library has it as its default."""
    if not {"credential", "token"} & catalog.properties.keys():
        return {}
    return {
        "rest.auth.type": "oauth2",
        "oauth2-server-uri": f"{catalog.uri.rstrip('/')}/v1/oauth/tokens",
    }


def _jdbc_properties(catalog: Catalog) -> dict[str, str]:
    # pyiceberg makes the tables, and both must read the same columns.
    shared = {
        "type": "jdbc",
        "jdbc.schema-version": "V1",
        "jdbc.init-catalog-tables": "false",
    }
    if (file := catalog.sqlite_file) is not None:
        return {**shared, "uri": f"jdbc:sqlite:{file}"}
    database = postgres_of(catalog)
    query = f"?{database.query}" if database.query else ""
    return {
        **shared,
        "uri": f"jdbc:postgresql://{database.server}/{quote(database.database)}{query}",
        "jdbc.user": database.user,
        "jdbc.password": database.password,
    }


def _jdbc_bounds(catalog: Catalog) -> dict[str, str]:
    """The timeouts of Spark's connection to the database, with the block's own over
    them: by default JDBC waits without end."""
    if catalog.sqlite_file is not None:
        return {"jdbc.busy_timeout": "30000", "jdbc.journal_mode": "WAL"}
    bounds = {
        "connectTimeout": str(CONNECT_TIMEOUT_S),
        "socketTimeout": str(ANSWER_TIMEOUT_S),
        "tcpKeepAlive": "true",
    }
    said = _postgres_settings(catalog)
    # JDBC reads the query of the URI itself, except for libpq's names, which it
    # ignores.
    return {
        f"jdbc.{key}": value
        for key, value in {**bounds, **said}.items()
        if key in bounds or key in _LIBPQ
    }


def _sqlalchemy_uri(catalog: Catalog) -> str:
    database, said = postgres_of(catalog), _postgres_settings(catalog)
    # Otherwise a command waits without end if the database vanishes without closing
    # the connection.
    query = {
        "connect_timeout": str(CONNECT_TIMEOUT_S),
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": f"{said.get('socketTimeout', ANSWER_TIMEOUT_S)}000",
    }
    query |= {
        key: value
        for key, value in parse_qsl(database.query)
        if key not in ("currentSchema", "socketTimeout")
    }
    for key, theirs in _LIBPQ.items():
        query.pop(key, None)
        query |= {theirs: said[key]} if key in said else {}
    if schemas := said.get("currentSchema"):
        path = re.sub(r"([\\\s])", r"\\\1", schemas)
        query["options"] = f"{query.get('options', '')} -csearch_path={path}".strip()
    login = quote(database.user, safe="") + (
        f":{quote(database.password, safe='')}" if database.password else ""
    )
    place = f"{login}@{database.server}" if login else database.server
    return f"postgresql+psycopg://{place}/{quote(database.database, safe='')}?{urlencode(query)}"


_LIBPQ = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
}
"""The names of connection settings in libpq, by which pyiceberg connects, by their
names in JDBC, by which Spark does."""


def _postgres_settings(catalog: Catalog) -> dict[str, str]:
    """The settings of a connection by JDBC's names, from the query of the URI, under
    either library's names, and from the keys `jdbc.…`.

    Raises `ProfileError` (`catalog-options`) for a setting that Spark and pyiceberg
    would understand differently.
    """
    names = {theirs: ours for ours, theirs in _LIBPQ.items()}
    given = [
        (names.get(key, key), value)
        for key, value in parse_qsl(postgres_of(catalog).query)
    ]
    given += [
        (key[5:], value)
        for key, value in catalog.properties.items()
        if key.startswith("jdbc.")
    ]
    said: dict[str, str] = {}
    problems = []
    for key, value in given:
        what = ""
        if key.startswith("ssl") and key not in _LIBPQ:
            what = f"'{key}' says of the connection what pyiceberg cannot be told."
        elif key.endswith("Timeout") and not value.isdigit():
            what = f"'{key}' is not a number of seconds."
        elif said.setdefault(key, value) != value and key not in ("user", "password"):
            what = f"'{key}' is said twice, in the uri and beside it, and not the same."
        if what:
            fix = f"Correct it; of TLS, {', '.join(name for name in _LIBPQ if name.startswith('ssl'))} are known."
            problems.append(Problem("catalog-options", what, "", fix, catalog.place))
    if problems:
        raise ProfileError(problems)
    return said


def _region(catalog: Catalog) -> str:
    """The region of the catalog's clients, from whichever key has it; '' if none has.
    The region of the bucket may be another."""
    keys = (
        "client.region",
        *(("glue.region",) if catalog.type == "glue" else ()),
        "s3.region",
    )
    return next((region for key in keys if (region := catalog.properties.get(key))), "")


def shown(catalog: Catalog) -> Mapping[str, str]:
    """The type, address and warehouse of a catalog for messages, without login and
    query, which may hold secrets."""
    address, _, query = catalog.uri.partition("?")
    # A password may contain both `?` and `@`, so its end cannot be found: all is
    # hidden.
    if "@" in query:
        address = f"{address.partition('//')[0]}//…"
    said = {
        "type": catalog.type,
        "uri": re.sub(r"//.*@", "//", address),
        "warehouse": catalog.warehouse,
    }
    return {key: value for key, value in said.items() if value}
