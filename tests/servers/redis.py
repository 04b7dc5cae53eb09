"""Redis, of Debian: streams of entries, in memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers.process import LOOPBACK, accepts, free_ports, spawn, stop, wait_until

STARTS_WITHIN_S = 20


class Redis:
    """Started and stopped; it forgets what it had."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)
        self.url = f"redis://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Return when it listens."""
        output = self._directory / "redis.log"
        command = [
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            LOOPBACK,
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self._process = spawn([*command, "--dir", self._directory], output)
        wait_until(lambda: accepts(self.port), self._process, output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)
