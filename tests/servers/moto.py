"""moto: SQS and S3 as a Python program, which keeps all in memory; messages come again
once their time is over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.servers.process import LOOPBACK, accepts, free_ports, spawn, stop, wait_until

STARTS_WITHIN_S = 60


class Moto:
    """Started and stopped; it forgets what it had. One that `admits` nobody refuses
    each login."""

    def __init__(self, directory: Path, admits: bool = True) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._output = directory / "moto.log"
        self._admits = admits
        self._process: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{self._port}"

    @property
    def connection(self) -> dict[str, str]:
        """How a profile connects to its queues."""
        keys = {"access_key_id": "k", "secret_access_key": "s"}
        return {"type": "sqs", "endpoint": self.url, "region": "us-east-1", **keys}

    def start(self) -> None:
        """Return when it listens."""
        program = Path(sys.executable).with_name("moto_server")
        given = {} if self._admits else {"INITIAL_NO_AUTH_ACTION_COUNT": "0"}
        command = [program, "-H", LOOPBACK, "-p", str(self._port)]
        self._process = spawn(command, self._output, {**os.environ, **given})
        wait_until(
            lambda: accepts(self._port), self._process, self._output, STARTS_WITHIN_S
        )

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def client(self, service: str) -> Any:
        """boto3's client of a service."""
        import boto3

        keys = {
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "region_name": "us-east-1",
        }
        return boto3.client(service, endpoint_url=self.url, **keys)

    def make_queue(self, name: str) -> str:
        """The URL of a new queue."""
        return str(self.client("sqs").create_queue(QueueName=name)["QueueUrl"])
