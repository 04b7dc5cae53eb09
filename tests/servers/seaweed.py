"""S3, and an Iceberg REST catalog with OAuth in front of it: one `weed` process serves
both."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path

from tests.servers.process import LOOPBACK, free_ports, spawn, stop, wait_until

ACCESS_KEY, SECRET_KEY = "LakeTestsKey", "s3cret/K+y=of:tests"
"""Who may do everything, in S3 and, as `ACCESS_KEY:SECRET_KEY`, in the catalog."""
STARTS_WITHIN_S = 60


class Seaweed:
    """Started and stopped; it keeps its files in `directory`. It tells a topic of Kafka
    what becomes of them, if `tells` names a broker and one."""

    def __init__(
        self,
        directory: Path,
        access_key: str = ACCESS_KEY,
        secret_key: str = SECRET_KEY,
        tells: tuple[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._output = directory, directory / "weed.log"
        self._weed = Path(sysconfig.get_path("scripts"), "weed")
        self._process: subprocess.Popen[bytes] | None = None
        self.access_key, self.secret_key = access_key, secret_key
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self.s3_endpoint = f"http://{LOOPBACK}:{self._ports['s3.port']}"
        self.catalog_uri = f"http://{LOOPBACK}:{self._ports['s3.port.iceberg']}"
        login = {"accessKey": access_key, "secretKey": secret_key}
        user = {
            "name": "tests",
            "credentials": [login],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        if tells is not None:
            told = directory / ".seaweedfs" / "notification.toml"
            told.parent.mkdir()
            told.write_text(
                '[notification.kafka]\nenabled = true\nhosts = ["{}"]\ntopic = "{}"\n'.format(
                    *tells
                )
            )
        (directory / "s3.json").write_text(json.dumps({"identities": [user]}))

    def start(self) -> None:
        """Return when S3 and the catalog answer: in 3 s."""
        flags = [f"-{name}={port}" for name, port in self._ports.items()]
        flags += [
            f"-dir={self._directory}",
            f"-s3.config={self._directory}/s3.json",
            "-filer",
            "-s3",
        ]
        flags += [f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", "-s3.port.lance=0"]
        flags += ["-volume.max=1000", "-master.volumeSizeLimitMB=64"]
        environ = {**os.environ, "HOME": str(self._directory)}
        self._process = spawn([self._weed, "server", *flags], self._output, environ)
        wait_until(self._answers, self._process, self._output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process, within_s=1)  # it takes ten, to say goodbye to itself

    def make_bucket(self, name: str) -> str:
        """The URL of a new bucket."""
        self._shell(f"s3.bucket.create -name {name}")
        return f"s3://{name}"

    def make_warehouse(self, name: str) -> str:
        """What the REST catalog calls `warehouse`: a new bucket of tables."""
        self._shell(f"s3tables.bucket -create -name {name} -account admin")
        return f"s3://{name}"

    @property
    def s3_properties(self) -> dict[str, str]:
        """The `s3.` keys of a catalog block."""
        return {
            "s3.endpoint": self.s3_endpoint,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }

    def _shell(self, command: str) -> None:
        master = (
            f"{LOOPBACK}:{self._ports['master.port']}.{self._ports['master.port.grpc']}"
        )
        done = subprocess.run(
            [self._weed, "shell", "-master", master],
            input=f"{command}\n",
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0 and "error" not in said, said

    def _answers(self) -> bool:
        return all(
            _status(url) for url in (self.s3_endpoint, f"{self.catalog_uri}/v1/config")
        )


_PORTS = (
    *("master.port", "master.port.grpc", "volume.port", "volume.port.grpc"),
    *("filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc", "s3.port.iceberg"),
)


def _status(url: str) -> int:
    """The HTTP status of an answer, whatever it says; 0 where there is none."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
