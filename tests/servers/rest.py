"""Iceberg's own REST catalog for tests: no login, tables in a local folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lakesql.engine.spark.java import find_java
from tests.servers.jars import class_path, hadoop_jars
from tests.servers.process import (
    JAVA_FLAGS,
    LOOPBACK,
    accepts,
    free_ports,
    spawn,
    stop,
    wait_until,
)

STARTS_WITHIN_S = 60


class RestCatalogServer:
    """Started, stopped and started again on the same port and the same files."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._output = directory, directory / "rest.log"
        self._process: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        self.uri = f"http://{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Return when it answers: in 2 s."""
        classes = class_path("rest", *hadoop_jars())
        settings = {
            "CATALOG_REST_PORT": str(self._port),
            "CATALOG_CATALOG_NAME": "lake",
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": f"jdbc:sqlite:{self._directory}/catalog.db",
            "CATALOG_JDBC_USER": "u",
            "CATALOG_JDBC_PASSWORD": "p",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_WAREHOUSE": str(self._directory / "warehouse"),
        }
        java, program = (
            find_java(os.environ).binary,
            "org.apache.iceberg.rest.RESTCatalogServer",
        )
        command = [java, "-Xmx256m", *JAVA_FLAGS, "-cp", classes, program]
        self._process = spawn(command, self._output, {**os.environ, **settings})
        wait_until(
            lambda: accepts(self._port), self._process, self._output, STARTS_WITHIN_S
        )

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process, within_s=1)  # it waits for clients that are gone
