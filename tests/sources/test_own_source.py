"""The source that docs/own-sources.md builds, as it stands there, over a real Redis."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from lakesql.events import Noted
from tests.servers.process import running
from tests.servers.redis import Redis
from tests.sources.runs import (
    REPOSITORY,
    check_samples,
    kill_at,
    lose_checkpoint,
    numbers,
)
from tests.spark.project import Project

PAGE = REPOSITORY / "docs" / "own-sources.md"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    with running(Redis(tmp_path / "redis")) as server:
        yield server


@pytest.fixture
def bus(project: Project, server: Redis) -> Iterator[redis.Redis]:
    """A project with the source of the page, a stream and a model over it."""
    (code,) = re.findall(
        r"```python\n# sources/redis_streams\.py\n(.+?)```",
        PAGE.read_text("utf-8"),
        re.DOTALL,
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= 60, (
        "the page says so"
    )
    project.write("sources/redis_streams.py", code)
    project.connections["bus"] = {"type": "sources/redis_streams.py", "url": server.url}
    project.stream("s", {"id": "int"}, connection="bus", topic="orders")
    project.model("m", "SELECT id, _record.topic AS topic FROM {s}", mode="append")
    client = redis.Redis.from_url(server.url)
    yield client
    client.close()


def send(bus: redis.Redis, *numbers: int) -> None:
    for number in numbers:
        bus.xadd("orders", {"value": json.dumps({"id": number}), "key": str(number)})


def test_a_source_of_the_page_is_run_killed_rewound_and_rebuilt(
    project: Project, bus: redis.Redis
) -> None:
    send(bus, *range(10))
    bus.xadd("orders", {"value": "no JSON"})
    project.run().check()
    assert numbers(project) == [*range(10)]
    project.run().check()
    assert numbers(project) == [*range(10)]

    send(bus, 10)
    kill_at(project, "publish")
    send(bus, 11)
    project.run().check()
    assert numbers(project) == [*range(12)]
    send(bus, 12)
    kill_at(project, "finish")
    project.run().check()
    assert numbers(project) == [*range(13)]

    # Without a checkpoint it goes on by the table's ledger.
    lose_checkpoint(project)
    send(bus, 13)
    project.run().check()
    assert numbers(project) == [*range(14)]

    project.rebuild("m").check()
    assert numbers(project) == [*range(14)]


def test_what_was_trimmed_before_it_was_read_is_said(
    project: Project, bus: redis.Redis
) -> None:
    send(bus, 1, 2)
    project.run().check()
    send(bus, *range(3, 9))
    bus.xtrim("orders", maxlen=2, approximate=False)
    assert project.run().conditions("m") == ["data-lost"]
    assert numbers(project) == [1, 2]
    project.run(accept_data_loss=True).check()
    assert numbers(project) == [1, 2, 7, 8]
    assert project.run(accept_data_loss=True).conditions("m") == ["nothing-lost"]


def test_a_limit_is_kept_and_a_run_ends_with_what_was_there(
    project: Project, bus: redis.Redis
) -> None:
    project.stream(
        "s", {"id": "int"}, connection="bus", topic="orders", max_per_batch=4
    )
    send(bus, *range(10))
    project.run().check()
    assert numbers(project) == [*range(10)]
    assert len(project.snapshot_ids("m")) == 3


def test_latest_begins_with_what_comes_after_the_first_run(
    project: Project, bus: redis.Redis
) -> None:
    project.stream("s", {"id": "int"}, connection="bus", topic="orders", start="latest")
    send(bus, 1)
    project.run().check()
    assert project.rows("m", "id") == []
    send(bus, 2)
    project.run().check()
    assert numbers(project) == [2]


def test_a_server_that_is_away_loses_nothing(
    project: Project, bus: redis.Redis, server: Redis
) -> None:
    send(bus, 1)
    project.run().check()
    server.stop()
    project._target["retries"] = {"attempts": 0}
    assert project.run().conditions("m") == ["connection-unreachable"]


def test_no_command_but_a_run_runs_its_code(project: Project, bus: redis.Redis) -> None:
    project.write("sources/redis_streams.py", "raise SystemExit('this ran')\n")
    project.manifest()
    directory = ("--project-dir", str(project.directory))
    said = {}
    for words in (
        ("parse",),
        ("compile",),
        ("ls",),
        ("plan", "--state", "target"),
        ("debug",),
        ("run",),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lakesql", *words, *directory],
            capture_output=True,
            text=True,
            timeout=240,
        )
        said[words[0]] = done.stdout + done.stderr
    assert [name for name, text in said.items() if "this ran" in text] == ["run"], said
    assert "p.m" in said["ls"].split()


def test_a_select_that_keeps_state_counts_each_record_once(
    project: Project, bus: redis.Redis
) -> None:
    columns = {"id": "int", "at": "timestamp"}
    project.stream(
        "s",
        columns,
        connection="bus",
        topic="orders",
        max_per_batch=7,
        watermark={"column": "at", "delay": "10 minutes"},
    )
    windows = "SELECT window.start AS begin, count(*) AS n FROM {s} GROUP BY window(at, '1 hour')"
    project.model("m", windows, mode="upsert", keys=["begin"])
    for number in range(40):
        fields = {
            "id": number,
            "at": f"2026-03-01T{number // 10:02}:{number % 10:02}:00Z",
        }
        bus.xadd("orders", {"value": json.dumps(fields)})
    project.run().check()
    bus.xadd("orders", {"value": json.dumps({"id": 40, "at": "2026-03-01T03:30:00Z"})})
    project.run().check()
    assert [row["n"] for row in project.rows("m", "begin")] == [10, 10, 10, 11]


def test_two_streams_of_one_model(project: Project, bus: redis.Redis) -> None:
    project.stream("t", {"id": "int"}, connection="bus", topic="returns")
    project.model("m", "SELECT id FROM {s} UNION ALL SELECT id FROM {t}", mode="append")
    send(bus, 1, 2)
    bus.xadd("returns", {"value": json.dumps({"id": 3})})
    project.run().check()
    send(bus, 4)
    bus.xadd("returns", {"value": json.dumps({"id": 5})})
    project.run().check()
    assert numbers(project) == [1, 2, 3, 4, 5]


def test_another_topic_is_refused_until_what_was_left_of_the_first_is_given_up(
    project: Project, bus: redis.Redis
) -> None:
    send(bus, 1)
    project.run().check()
    directory = ("--project-dir", str(project.directory))
    subprocess.run(
        [sys.executable, "-m", "lakesql", "parse", *directory], check=True, timeout=120
    )
    (project.directory / "target").rename(project.directory / "before")
    project.stream("s", {"id": "int"}, connection="bus", topic="returns")
    words = ["plan", "--state", str(project.directory / "before"), *directory]
    planned = subprocess.run(
        [sys.executable, "-m", "lakesql", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "data-lost" in planned.stdout, planned.stdout + planned.stderr
    bus.xadd("returns", {"value": json.dumps({"id": 2})})
    assert project.run().conditions("m") == ["data-lost"]
    project.run(accept_data_loss=True).check()
    assert numbers(project) == [1, 2]
    project.run().check()


def test_a_select_that_keeps_state_begins_at_the_end_once(
    project: Project, bus: redis.Redis
) -> None:
    """What comes between two runs that read nothing is behind the first one's
    beginning."""
    watermark = {"column": "at", "delay": "10 minutes"}
    columns = {"id": "int", "at": "timestamp"}
    project.stream(
        "s",
        columns,
        connection="bus",
        topic="orders",
        start="latest",
        watermark=watermark,
    )
    windows = "SELECT window.start AS begin, count(*) AS n FROM {s} GROUP BY window(at, '1 hour')"
    project.model("m", windows, mode="upsert", keys=["begin"])
    value = json.dumps({"id": 1, "at": "2026-03-01T03:30:00Z"})
    bus.xadd("orders", {"value": value})
    project.run().check()
    bus.xadd("orders", {"value": value})
    project.run().check()
    assert [row["n"] for row in project.rows("m", "begin")] == [1]


def test_beside_a_stream_of_sparks_own_a_run_takes_one_batch_and_says_so(
    project: Project, bus: redis.Redis
) -> None:
    project.stream(
        "s", {"id": "int"}, connection="bus", topic="orders", max_per_batch=3
    )
    project.stream("t", {"id": "int"})
    project.model("m", "SELECT id FROM {s} UNION ALL SELECT id FROM {t}", mode="append")
    send(bus, *range(5))
    project.record("t", [{"id": 10}])
    for expected in ([0, 1, 2, 10], [0, 1, 2, 3, 4, 10]):
        ran = project.run().check()
        assert any("one batch of s" in event.text for event in ran.of(Noted, "m"))
        assert numbers(project) == expected


def test_a_sample_is_recorded_by_its_code(
    project: Project, bus: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(bus, *range(40))
    check_samples(project, "orders", [*range(40)], monkeypatch)
