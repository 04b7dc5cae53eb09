"""Apicurio: a schema registry that answers as Confluent's does. What it knows is in its
memory."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from lakesql.engine.spark.java import find_java
from tests.servers.jars import fetch_server
from tests.servers.process import (
    JAVA_FLAGS,
    LOOPBACK,
    free_ports,
    spawn,
    stop,
    wait_until,
)

STARTS_WITHIN_S = 120


class Apicurio:
    """Started and stopped, paused and continued: a paused one answers nobody, and
    forgets nothing."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._output = directory / "apicurio.log"
        self._process: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        self.own_url = f"http://{LOOPBACK}:{self._port}/apis/registry"
        self.url = f"http://{LOOPBACK}:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Return when it answers: in 3 s."""
        runner = next(
            jar for jar in fetch_server("apicurio") if jar.name.endswith("-runner.jar")
        )
        environ = {
            **os.environ,
            "QUARKUS_HTTP_HOST": LOOPBACK,
            "QUARKUS_HTTP_PORT": str(self._port),
        }
        flags = ("-Xmx384m", *JAVA_FLAGS, f"-Duser.dir={runner.parent}")
        self._process = spawn(
            [find_java(os.environ).binary, *flags, "-jar", runner],
            self._output,
            environ,
        )
        wait_until(self._answers, self._process, self._output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def signal(self, number: int) -> None:
        """Send a signal: SIGSTOP and SIGCONT pause it and let it continue."""
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
