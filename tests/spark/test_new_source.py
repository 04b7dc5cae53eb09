"""A new source is two files: one that is added here is read through everything that may
befall a run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from unittest import mock

import pytest

from lakesql.engine.sources.spark_sources import SPARK_SOURCES
from lakesql.source.kinds import CONNECTIONS, SOURCES
from tests.new_source import kept, spark_kept
from tests.spark.project import Project

REPOSITORY = Path(__file__).parents[2]


class Keeper:
    """The process that keeps the records: this one. A topic that is made again has
    another id."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, Any]] = {}
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(
                    keeper.answer(self.path.strip("/").split("/"))
                ).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def answer(self, path: list[str]) -> Any:
        if path == ["topics"]:
            return {
                name: {
                    "id": topic["id"],
                    "first": topic["first"],
                    "end": len(topic["values"]),
                }
                for name, topic in self.topics.items()
            }
        _, name, first, end = path
        return self.topics[name]["values"][int(first) : int(end)]

    def make(self, name: str, id_: str) -> None:
        self.topics[name] = {"id": id_, "first": 0, "values": []}

    def keep(self, name: str, *numbers: int) -> None:
        self.topics[name]["values"] += [
            json.dumps({"id": number}) for number in numbers
        ]


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """A keeper of records, and the source that reads them among the kinds."""
    kinds: Any = (CONNECTIONS, SOURCES, SPARK_SOURCES)
    with (
        mock.patch.dict(kinds[0]),
        mock.patch.dict(kinds[1]),
        mock.patch.dict(kinds[2]),
    ):
        kept.register()
        spark_kept.register()
        keeper = Keeper()
        yield keeper
        keeper.server.shutdown()


def command(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tests.new_source.command", *words]
    return subprocess.run(
        line, cwd=REPOSITORY, input=given, capture_output=True, text=True, timeout=300
    )


def kill_at(project: Project, step: str) -> None:
    """Run the model until it reaches a step of its next batch, and kill Python and Java
    there."""
    order = {
        "project": str(project.directory),
        "model": "m",
        "step": step,
        "fate": "kill-both",
    }
    ended = command("crash", str(project.directory), given=f"{json.dumps(order)}\n")
    assert ended.returncode == -signal.SIGKILL, f"{ended.stdout}{ended.stderr}"


def numbers(project: Project) -> list[int]:
    return [row["id"] for row in project.rows("m", "id")]


def test_a_source_of_its_own_is_run_killed_rewound_rebuilt_and_planned(
    project: Project, keeper: Keeper
) -> None:
    keeper.make("orders", "first")
    project.connections["mine"] = {"type": "kept", "address": keeper.address}
    project.stream("s", {"id": "int"}, connection="mine", topic="orders")
    project.model("m", "SELECT id FROM {s}", mode="append")
    keeper.keep("orders", 1, 2)
    assert project.run_without_java() == [], "there is no table yet"
    project.run().check()
    assert numbers(project) == [1, 2]

    # Nothing new is seen without Java, and so is that there is something.
    assert [each.model for each in project.run_without_java()] == ["m"]
    keeper.keep("orders", 3)
    assert project.run_without_java() == []

    # A crash before a batch is published, and one behind it: each record is there once.
    kill_at(project, "publish")
    assert numbers(project) == [1, 2]
    project.run().check()
    keeper.keep("orders", 4)
    kill_at(project, "finish")
    assert numbers(project) == [1, 2, 3, 4]
    keeper.keep("orders", 5)
    project.run().check()
    assert numbers(project) == [1, 2, 3, 4, 5]

    # A plan asks what is there: nothing that was read is gone, and one record is
    # waiting.
    directory = ("--project-dir", str(project.directory))
    assert command("parse", *directory).returncode == 0
    (project.directory / "target").rename(project.directory / "before")
    keeper.keep("orders", 6)
    planned = command(
        "plan", "--state", str(project.directory / "before"), "--live", *directory
    )
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "1 offset behind stream 's'" in planned.stdout

    # A table that was rolled back is filled again from where it stands.
    first = project.snapshot_ids("m")[0]
    project.sql(
        f"CALL lake.system.rollback_to_snapshot('{project.namespace}.m', {first})"
    )
    assert project.run().conditions("m") == ["table-behind"]
    done = command("rewind", "m", *directory)
    assert done.returncode == 0, done.stderr
    project.run().check()
    assert numbers(project) == [1, 2, 3, 4, 5, 6]

    # A rebuild reads all again; what is gone by then it does not leave out unasked.
    project.rebuild("m").check()
    assert numbers(project) == [1, 2, 3, 4, 5, 6]
    keeper.topics["orders"]["first"] = 2
    assert project.rebuild("m").conditions("m") == ["data-lost"]
    project.rebuild("m", accept_data_loss=True).check()
    assert numbers(project) == [3, 4, 5, 6]

    # A topic that was made again is another one.
    keeper.make("orders", "second")
    keeper.keep("orders", *range(10, 20))
    assert project.run().conditions("m") == ["topic-recreated"]
