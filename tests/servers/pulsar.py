"""Apache Pulsar, standalone: broker, bookie and metadata in one process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers.jars import fetch_folder
from tests.servers.process import LOOPBACK, free_ports, spawn, stop, wait_until

STARTS_WITHIN_S = 240


class PulsarServer:
    """Started and stopped; what it has stays in its folder."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._web, self._bookie = free_ports(3)
        self.url = f"pulsar://{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Return when its namespace `public/default` is there."""
        (home,) = fetch_folder("pulsar").glob("apache-pulsar-*")
        conf, data = self._directory / "standalone.conf", self._directory / "data"
        conf.write_text(
            self._configure((home / "conf" / "standalone.conf").read_text())
        )
        given = {
            "PULSAR_MEM": "-Xms64m -Xmx512m -XX:MaxDirectMemorySize=256m",
            "PULSAR_GC": "-XX:+UseSerialGC",
            "PULSAR_STANDALONE_CONF": str(conf),
            "PULSAR_LOG_DIR": str(self._directory),
            "PULSAR_EXTRA_OPTS": "-XX:TieredStopAtLevel=1",
        }
        command = [home / "bin" / "pulsar", "standalone", "-nfw", "-nss", "-c", conf]
        command += [
            "--bookkeeper-dir",
            data / "bk",
            "--metadata-dir",
            data / "metadata",
        ]
        output = self._directory / "pulsar.log"
        line = [
            "sh",
            "-c",
            'cd "$0" && exec "$@"',
            home,
            *command,
            "--bookkeeper-port",
            str(self._bookie),
        ]
        self._process = spawn(line, output, {**os.environ, **given})
        wait_until(self._answers, self._process, output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def ask(self, path: str, body: Any = None, method: str = "GET") -> Any:
        """What the service for administrators answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self._web}/admin/v2/{path}",
            data=data,
            method=method,
            headers=headers,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _configure(self, conf: str) -> str:
        given = {
            "bindAddress": LOOPBACK,
            "bindAddresses": "",
            "advertisedAddress": LOOPBACK,
            "brokerServicePort": str(self._port),
            "webServicePort": str(self._web),
            "numIOThreads": "2",
            "numHttpServerThreads": "8",
            "defaultNumberOfNamespaceBundles": "1",
            "managedLedgerCacheSizeMB": "32",
            "journalSyncData": "false",
            "httpServerEnabled": "false",
        }
        for key, value in given.items():
            conf, found = re.subn(rf"(?m)^{key}=.*$", f"{key}={value}", conf)
            conf += "" if found else f"\n{key}={value}\n"
        return conf

    def _answers(self) -> bool:
        try:
            return "public/default" in self.ask("namespaces/public")
        except (urllib.error.URLError, OSError, ValueError):
            return False
