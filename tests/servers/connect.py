"""Kafka Connect, one process for one connector, with the connector's jars as a plugin
of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lakesql.engine.spark.java import find_java
from tests.servers.jars import class_path
from tests.servers.process import (
    LOOPBACK,
    accepts,
    free_ports,
    kill,
    spawn,
    stop,
    wait_until,
)

STARTS_WITHIN_S = 180
KAFKAS_OWN = ("connect-", "kafka-clients-")
"""How jars begin that the worker has: an older one beside a plugin would be taken for
it."""


class Connect:
    """A standalone worker. `connector` is what its connector is told; `plugin` are the
    connector's jars.

    Started again after it was killed, it goes on from the offsets that it has stored.
    """

    def __init__(
        self,
        directory: Path,
        servers: str,
        plugin: Iterable[Path],
        connector: Mapping[str, str],
        memory: str = "2g",
        flags: Sequence[str] = (),
        **settings: str,
    ) -> None:
        jars = directory / "plugins" / "connector"
        jars.mkdir(parents=True)
        for jar in plugin:
            if not jar.name.startswith(KAFKAS_OWN):
                (jars / jar.name).symlink_to(jar)
        (self._port,) = free_ports(1)
        worker = {
            "bootstrap.servers": servers,
            "listeners": f"http://{LOOPBACK}:{self._port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(directory / "offsets"),
            # a sink without new records is not asked for more until then
            "offset.flush.interval.ms": "1000",
            "plugin.path": str(directory / "plugins"),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self._files = [
            directory / "worker.properties",
            directory / "connector.properties",
        ]
        for file, properties in zip(self._files, (worker, connector), strict=True):
            file.write_text(
                "".join(f"{key}={value}\n" for key, value in properties.items())
            )
        self.output = directory / "connect.log"
        self._class_path = class_path("connect")
        self._flags = (f"-Xmx{memory}", *flags)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it answers. Java has no options but for a heap that is large
        enough, and `flags`."""
        program = "org.apache.kafka.connect.cli.ConnectStandalone"
        java = find_java(os.environ).binary
        self._process = spawn(
            [java, *self._flags, "-cp", self._class_path, program, *self._files],
            self.output,
        )
        wait_until(
            lambda: accepts(self._port), self._process, self.output, STARTS_WITHIN_S
        )

    @property
    def process(self) -> int:
        """Its number, while it runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it at once, as a machine that is gone would."""
        assert self._process is not None
        kill(self._process)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)
