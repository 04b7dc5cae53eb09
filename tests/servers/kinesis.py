"""kinesis-mock: Kinesis as a program of Node's registry; shards split and merge in it
as in AWS's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.servers.npm import fetch_npm
from tests.servers.process import LOOPBACK, accepts, free_ports, spawn, stop, wait_until

PACKAGE = "kinesis-local@0.6.2"
STARTS_WITHIN_S = 60


class KinesisServer:
    """Started and stopped; it forgets what it had."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._output = directory / "kinesis.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._tls_port = free_ports(2)
        self.url = f"http://{LOOPBACK}:{self._port}"

    @property
    def connection(self) -> dict[str, str]:
        """How a profile connects to it."""
        keys = {"access_key_id": "k", "secret_access_key": "s"}
        return {"type": "kinesis", "endpoint": self.url, "region": "us-east-1", **keys}

    def start(self) -> None:
        """Return when it listens."""
        folder = fetch_npm(PACKAGE)
        given = {
            "KINESIS_MOCK_PLAIN_PORT": str(self._port),
            "KINESIS_MOCK_TLS_PORT": str(self._tls_port),
            "SHARD_LIMIT": "50",
            "LOG_LEVEL": "ERROR",
            "AWS_ACCOUNT_ID": "123456789012",
            "AWS_REGION": "us-east-1",
        }
        # it looks for its certificate in its own folder
        start = 'cd "$0" && exec node main.js'
        self._process = spawn(
            ["sh", "-c", start, folder], self._output, {**os.environ, **given}
        )
        wait_until(
            lambda: accepts(self._port), self._process, self._output, STARTS_WITHIN_S
        )

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def client(self) -> Any:
        """boto3's client of it."""
        import boto3

        keys = {
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "region_name": "us-east-1",
        }
        return boto3.client("kinesis", endpoint_url=self.url, **keys)
