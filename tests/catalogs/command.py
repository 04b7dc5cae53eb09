"""A small project of one model, and the command `lakesql` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HANGS_AFTER_S = 180
MODEL = "{{ config(mode='append') }}\nSELECT id, state FROM {{ stream('orders') }}\n"
STREAM = "streams: [{name: orders, connection: broker, topic: orders, columns: {id: bigint, state: string}}]"


@dataclass(frozen=True, slots=True)
class Command:
    """The project's folder and the variables that its commands see beside this
    process's."""

    directory: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def write(self, target: Mapping[str, Any], records: int = 3) -> None:
        """The project, on `target`."""
        files = {
            "pyproject.toml": '[tool.lakesql]\nname = "p"\nprofile = "p"\n',
            "models/orders.sql": MODEL,
            "streams/orders.yml": STREAM,
            "recorded/orders/1.jsonl": "".join(map(_record, range(records))),
        }
        given = {
            "connections": {"broker": {"type": "recorded", "path": "recorded"}},
            "namespace": "p",
            **target,
        }
        files["profiles.yml"] = json.dumps({"p": {"outputs": {"dev": given}}})
        for name, text in files.items():
            (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / name).write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lakesql", *arguments]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), **self.environ}
        return subprocess.Popen(
            command,
            cwd=self.directory,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def run(self, *arguments: str) -> Done:
        """The exit code and what was printed."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=HANGS_AFTER_S)
        return Done(process.returncode, out, err)

    def written(self) -> set[str]:
        """What is in the folder beside the project's own files, less logs and what
        compiling leaves."""
        own = {
            "pyproject.toml",
            "models",
            "streams",
            "recorded",
            "profiles.yml",
            "logs",
            "target",
        }
        return {path.name for path in self.directory.iterdir()} - own


@dataclass(frozen=True, slots=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    def conditions(self) -> list[str]:
        """The conditions of the problems that were printed as JSON."""
        lines = (
            json.loads(line)
            for line in (self.out + self.err).splitlines()
            if line.startswith("{")
        )
        problems = [
            problem for line in lines for problem in line.get("problems", [line])
        ]
        return [problem["condition"] for problem in problems if "condition" in problem]


def _record(number: int) -> str:
    value = {"id": number, "state": f"s{number}"}
    return (
        json.dumps(
            {
                "partition": 0,
                "offset": number,
                "timestamp": number,
                "key": None,
                "value": value,
            }
        )
        + "\n"
    )
