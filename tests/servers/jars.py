"""The jars of the test servers, fetched once per user by the Ivy that pyspark ships."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from lakesql.engine.spark.jars import spark_jars, user_cache
from lakesql.engine.spark.java import find_java


@dataclass(frozen=True, slots=True)
class Dependency:
    """A module of Maven's, with all that it needs unless `alone`. `classifiers` are the
    files of it: '' is its jar.

    One whose `extension` is `tar.gz` is unpacked.
    """

    organisation: str
    name: str
    revision: str
    classifiers: tuple[str, ...] = ("",)
    alone: bool = False
    extension: str = "jar"


SERVERS: dict[str, tuple[Dependency, ...]] = {
    "kafka": (
        Dependency("org.apache.kafka", "kafka_2.13", "4.3.1"),
        # without it there are no logs at all
        Dependency("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
    "connect": (
        Dependency("org.apache.kafka", "connect-runtime", "4.3.1"),
        Dependency("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
    "iceberg-sink": (
        Dependency("org.apache.iceberg", "iceberg-kafka-connect", "1.12.0"),
        Dependency("org.apache.iceberg", "iceberg-parquet", "1.12.0"),
        Dependency("org.xerial", "sqlite-jdbc", "3.53.2.0"),
    ),
    "debezium-postgres": (
        Dependency("io.debezium", "debezium-connector-postgres", "3.7.0.Final"),
    ),
    "debezium-postgres-avro": (
        Dependency("io.debezium", "debezium-connector-postgres", "3.7.0.Final"),
        Dependency("io.apicurio", "apicurio-registry-utils-converter", "2.6.13.Final"),
    ),
    "debezium-mariadb": (
        Dependency("io.debezium", "debezium-connector-mariadb", "3.5.0.Final"),
    ),
    "apicurio": (
        Dependency(
            "io.apicurio",
            "apicurio-registry-app",
            "3.0.9",
            ("all",),
            alone=True,
            extension="tar.gz",
        ),
    ),
    "pulsar": (
        Dependency(
            "org.apache.pulsar",
            "pulsar-server-distribution",
            "4.0.6",
            ("bin",),
            alone=True,
            extension="tar.gz",
        ),
    ),
    "nessie": (
        Dependency(
            "org.projectnessie.nessie",
            "nessie-quarkus",
            "0.99.0",
            ("runner",),
            alone=True,
        ),
    ),
    "rest": (
        Dependency("org.xerial", "sqlite-jdbc", "3.53.2.0"),
        Dependency("org.slf4j", "slf4j-simple", "2.0.17"),
        Dependency("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.1.12"),
        Dependency(
            "org.eclipse.jetty.compression", "jetty-compression-server", "12.1.12"
        ),
        Dependency(
            "org.eclipse.jetty.compression", "jetty-compression-gzip", "12.1.12"
        ),
        Dependency("org.apache.iceberg", "iceberg-core", "1.11.0", ("", "tests")),
        Dependency(
            "org.apache.iceberg",
            "iceberg-open-api",
            "1.11.0",
            ("test-fixtures",),
            alone=True,
        ),
    ),
}
"""What each server, or a plugin of one, is made of. These versions work together; newer
ones lack modules (Kafka 4.4.0, open-api 1.12.0, Apicurio 3.3.3 for Java 17)."""


def fetch_server(name: str) -> list[Path]:
    """All jars of a server of `SERVERS`; fetched when they are not in the user's
    cache."""
    return sorted(fetch_folder(name).glob("*.jar"))


def fetch_folder(name: str) -> Path:
    """The folder with the jars of a server, or with what its archive holds; fetched as
    these are."""
    module = render_module(SERVERS[name])
    folder = (
        user_cache(os.environ)
        / "test-servers"
        / f"{name}-{hashlib.sha256(module.encode()).hexdigest()[:12]}"
    )
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as work:
            _run_ivy(module, Path(work))
            _unpack(Path(work, "jars"))
            try:
                Path(work, "jars").rename(folder)  # whole, or not at all
            except OSError:
                if not folder.exists():  # else another process was faster
                    raise
    return folder


def class_path(name: str, *more: Path) -> str:
    """Java's class path of a server, with `more` jars behind its own."""
    return os.pathsep.join(map(str, [*fetch_server(name), *more]))


def hadoop_jars() -> list[Path]:
    """Hadoop's client, as pyspark brings it."""
    return [
        next(spark_jars().glob(f"hadoop-client-{part}-*.jar"))
        for part in ("api", "runtime")
    ]


def render_module(dependencies: tuple[Dependency, ...]) -> str:
    """The Ivy module that depends on `dependencies`."""
    return "\n".join(
        [
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
            '  <info organisation="lakesql" module="server"/>',
            '  <configurations><conf name="server"/></configurations>',
            "  <dependencies>",
            *map(_render, dependencies),
            "  </dependencies>",
            "</ivy-module>",
        ]
    )


def render_settings(repository: str | None, reads_poms: bool = True) -> str:
    """Ivy's settings: one Maven repository, Maven Central if it is None.

    What needs nothing else can be had without its POM, whose parents may not be there.
    """
    root = f" root={quoteattr(repository.rstrip('/') + '/')}" if repository else ""
    poms = "" if reads_poms else ' usepoms="false"'
    return "\n".join(
        [
            "<ivysettings>",
            '  <settings defaultResolver="maven"/>',
            # or it waits for ever, whatever Java's own defaults are
            "  <timeout-constraints>",
            '    <timeout-constraint name="bounded" connectionTimeout="20000" readTimeout="60000"/>',
            "  </timeout-constraints>",
            "  <resolvers>",
            f'    <ibiblio name="maven" m2compatible="true" timeoutConstraint="bounded"{root}{poms}/>',
            "  </resolvers>",
            "</ivysettings>",
        ]
    )


def _render(found: Dependency) -> str:
    attributes = f'org="{found.organisation}" name="{found.name}" rev="{found.revision}" conf="server->default"'
    attributes += ' transitive="false"' if found.alone else ""
    if found.classifiers == ("",):
        return f"    <dependency {attributes}/>"
    kind = f'type="{found.extension}" ext="{found.extension}"'
    artifacts = "".join(
        f'<artifact name="{found.name}" {kind}'
        + (f' m:classifier="{one}"/>' if one else "/>")
        for one in found.classifiers
    )
    return f"    <dependency {attributes}>{artifacts}</dependency>"


def _unpack(folder: Path) -> None:
    """Put what the archives of a folder hold in their place."""
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()


def _run_ivy(module: str, work: Path) -> None:
    """Retrieve a module's jars into `work`/jars."""
    (work / "ivy.xml").write_text(module)
    settings = render_settings(
        os.environ.get("LAKESQL_MAVEN_URL"), reads_poms="tar.gz" not in module
    )
    (work / "settings.xml").write_text(settings)
    command: list[str | Path] = [
        find_java(os.environ).binary,
        *("-jar", next(spark_jars().glob("ivy-*.jar"))),
        *("-settings", work / "settings.xml"),
        *("-ivy", work / "ivy.xml"),
        *("-cache", work / "cache"),
        *("-types", "jar", "bundle", "tar.gz"),
        *("-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False
    )
    assert done.returncode == 0, (
        f"The jars could not be fetched:\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    )
