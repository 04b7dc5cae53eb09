"""A Prometheus with its own files, which loads rules and scrapes addresses of this
machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.servers.process import LOOPBACK, free_ports, spawn, stop, wait_until

STARTS_WITHIN_S = 60
PROGRAM, TOOL = "prometheus", "promtool"


def has_prometheus() -> bool:
    """Whether this machine has one: Debian's package `prometheus`."""
    return shutil.which(PROGRAM) is not None and shutil.which(TOOL) is not None


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What its tool says."""
    return subprocess.run(
        [TOOL, *arguments], capture_output=True, text=True, check=False
    )


class Prometheus:
    """Scrapes each of `jobs`, addresses by name, and evaluates the rules of a file:
    both twice a second."""

    def __init__(self, directory: Path, rules: Path, jobs: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._output = directory, directory / "prometheus.log"
        self._process: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        scrapes = [
            {"job_name": name, "static_configs": [{"targets": [address]}]}
            for name, address in jobs.items()
        ]
        every = {
            "scrape_interval": "500ms",
            "scrape_timeout": "500ms",
            "evaluation_interval": "500ms",
        }
        config = {
            "global": every,
            "rule_files": [str(rules)],
            "scrape_configs": scrapes,
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))

    def start(self) -> None:
        """Return when it answers: in a second."""
        options = {
            "config.file": self._directory / "prometheus.yml",
            "storage.tsdb.path": self._directory / "data",
            "web.listen-address": f"{LOOPBACK}:{self._port}",
        }
        command = [PROGRAM, *(f"--{name}={value}" for name, value in options.items())]
        self._process = spawn(command, self._output)
        wait_until(self._answers, self._process, self._output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The series that an expression has now, by their labels."""
        found = self.ask("query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def ask(self, path: str, **parameters: str) -> Any:
        """What its HTTP API says."""
        asked = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(
            f"http://{LOOPBACK}:{self._port}/api/v1/{path}?{asked}", timeout=10
        ) as answer:
            said = json.load(answer)
        assert said["status"] == "success", said
        return said["data"]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://{LOOPBACK}:{self._port}/-/ready", timeout=2
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, TimeoutError):
            return False
