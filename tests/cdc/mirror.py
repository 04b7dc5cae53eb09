"""A project whose group mirrors a database, run by commands in processes of their own,
and what its tables hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.project.profiles import Catalog
from tests.cdc.shapes import plain
from tests.servers.broker import Broker
from tests.servers.runner import Event, Runner, of

ROOT = Path(__file__).parents[2]
ENDS_WITHIN_S = 1_800
GROUP = "mirror"


@dataclass(frozen=True, slots=True)
class Mirror:
    """A project whose group mirrors a database, its catalog, and what its runs have
    come to."""

    directory: Path
    catalog: OpenCatalog

    def run(self) -> tuple[int, list[Event]]:
        """Take what is there: the exit code, and what was said."""
        done = subprocess.run(
            [sys.executable, "-m", "lakesql", "--log-format", "json", "run"],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=ENDS_WITHIN_S,
            check=False,
        )
        said = [
            line
            for line in (done.stdout + done.stderr).splitlines()
            if line.startswith("{")
        ]
        (self.directory / "last.jsonl").write_text(done.stdout + done.stderr)
        return done.returncode, [json.loads(line) for line in said]

    def rows(self, member: str, columns: list[str]) -> list[list[Any]] | None:
        """What the table of a member holds of these columns; None where it has not all
        of them."""
        name = ("t", member)
        if not self.catalog.iceberg.table_exists(name):
            return None
        found = self.catalog.iceberg.load_table(name).scan().to_arrow()
        if not set(columns) <= set(found.column_names):
            return None
        rows = [[plain(row[name]) for name in columns] for row in found.to_pylist()]
        return sorted(rows, key=repr)

    def dead_letters(self) -> dict[str, list[str]]:
        """The reasons of dead letters, by the tables that lack them."""
        if not self.catalog.iceberg.namespace_exists("t"):
            return {}
        names = [
            name
            for *_, name in self.catalog.iceberg.list_tables("t")
            if name.endswith("__dead_letter")
        ]
        found = {
            name: self.catalog.iceberg.load_table(("t", name))
            .scan()
            .to_arrow()
            .to_pylist()
            for name in names
        }
        return {
            name: [row["reason"] for row in rows]
            for name, rows in found.items()
            if rows
        }


def make_mirror(directory: Path, broker: Broker, prefix: str, **tables: Any) -> Mirror:
    """The project of a group over the topics that begin with `prefix`."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"{directory}/warehouse",
    }
    target = {
        "threads": 2,
        "namespace": "t",
        "catalog": {"name": "lake", **catalog},
        "connections": {
            "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
        },
    }
    stream = {
        "name": "db",
        "envelope": "debezium",
        "connection": "broker",
        "pattern": rf"{prefix}\..*\..*",
    }
    config = f"mode='cdc', trigger='1 second', tables={tables!r}"
    files = {
        "pyproject.toml": '[tool.lakesql]\nname = "p"\nprofile = "p"\n',
        "profiles.yml": json.dumps({"p": {"outputs": {"dev": target}}}),
        "streams/db.yml": json.dumps({"streams": [stream]}),
        f"models/{GROUP}.sql": f"{{{{ config({config}) }}}}\nSELECT * FROM {{{{ stream('db') }}}}\n",
    }
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return Mirror(directory, open_catalog(Catalog("lake", **catalog)))


def wait_for_batches(runner: Runner, count: int) -> int:
    """Wait until the runner has committed so many batches since it was started, or
    three minutes are over."""
    deadline = time.monotonic() + 180
    found: list[Event] = []

    def seen(events: list[Event]) -> bool:
        found[:] = of(events, "batch_committed")
        return (
            len(found) >= count
            or time.monotonic() > deadline
            or runner.process.poll() is not None
        )

    runner.wait(seen, ENDS_WITHIN_S)
    return len(found)


def problems(events: list[Event]) -> list[str]:
    """What was said to be wrong."""
    own = [event for event in events if "condition" in event]
    found = [
        (event, problem)
        for event in events
        for key in ("problems", "warnings")
        for problem in event.get(key) or ()
    ]
    return [
        f"{event.get('model') or ''} {problem['condition']}: {problem['what']} {problem['fix']}"
        for event, problem in [*found, *((event, event) for event in own)]
    ]
