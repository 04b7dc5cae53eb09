"""A Spark that one command leaves to the next: who finds it, what it keeps, and how it
ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.init import write_project
from lakesql.engine.spark.warm import IN_USE, reach_keeper, read_keeper
from tests.servers.process import hear_interrupts

REPOSITORY = Path(__file__).parents[2]
ENDS_WITHIN_S = 300.0
PREVIEW = ("show", "orders", "--preview", "--limit", "2", "--output", "json")


@dataclass(slots=True)
class Shop:
    """A shop whose target leaves its Spark warm, and commands on it."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def sockets(self) -> Path:
        return self.folder / "target" / "warm"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("LAKESQL_")
        }
        return subprocess.Popen(
            [sys.executable, "-m", "lakesql", *arguments],
            cwd=self.folder,
            env={**kept, "PYTHONPATH": str(REPOSITORY), **self.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,
        )

    def do(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Do a command, which succeeds."""
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=600)
        assert process.returncode == 0, stderr
        return subprocess.CompletedProcess(arguments, 0, stdout, stderr)

    def preview(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.do(*PREVIEW).stdout.splitlines()]

    def keeper(self, name: str = "dev") -> dict[str, Any]:
        return read_keeper(self.sockets, name)

    def java(self, name: str = "dev") -> int:
        """Java's process, which is there and unused."""
        said = self.keeper(name)
        assert said and not said["in_use"], said
        return int(said["java"])

    def write_profile(self, *, idle: str = "10 minutes", conf: str = "{}") -> None:
        (self.folder / "profiles.yml").write_text(
            "shop:\n  target: dev\n  outputs:\n    dev:\n      run: once\n"
            f"      spark: {{master: 'local[2]', warm: {idle}, conf: {conf}}}\n"
            "      catalog: {name: lake, type: sql, uri: 'sqlite:///.lakesql/catalog.db',"
            " warehouse: .lakesql/warehouse}\n"
            "      namespace: shop\n      checkpoints: .lakesql/checkpoints\n"
            "      connections:\n        shop: {type: recorded, path: streams/recorded}\n"
        )


def wait_for(what: Callable[[], object]) -> None:
    ends_at = time.monotonic() + ENDS_WITHIN_S
    while not what():
        assert time.monotonic() < ends_at, "it has not come about"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        return (
            Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            != "Z"
        )
    except FileNotFoundError:
        return False


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    write_project(tmp_path / "shop", "shop")
    made = Shop(tmp_path / "shop")
    made.write_profile()
    yield made
    wait_for(lambda: not made.keeper().get("in_use"))
    made.do("clean")
    assert not made.sockets.exists()


def test_commands_share_one_of_their_user_alone_and_see_files_as_they_are(
    shop: Shop,
) -> None:
    first = shop.preview()
    java = shop.java()
    assert len(first) == 2
    assert stat.S_IMODE((shop.sockets / "dev.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(shop.sockets.stat().st_mode) == 0o700

    model = shop.folder / "models" / "orders.sql"
    model.write_text(
        model.read_text().replace(
            "SELECT order_id,", "SELECT order_id, order_id * 2 AS doubled,"
        )
    )
    assert all(row["doubled"] == row["order_id"] * 2 for row in shop.preview())

    assert shop.java() == java and shop.keeper()["commands"] == 2

    shop.do("run", "--select", "customers")
    # Java has called the run's Python, and ends with it
    wait_for(lambda: not is_running(java))
    rows = shop.do(
        "show", "customers", "--limit", "100000", "--output", "json"
    ).stdout.splitlines()
    assert len(rows) > 100

    shop.preview()
    java = shop.java()
    assert shop.keeper()["commands"] == 1
    assert "Ended the warm Spark of dev" in shop.do("clean").stderr
    wait_for(lambda: not is_running(java))


def test_other_settings_and_other_secrets_are_another_one(shop: Shop) -> None:
    shop.preview()
    former = shop.java()
    shop.write_profile(conf="{spark.sql.shuffle.partitions: '3'}")
    shop.preview()
    assert shop.java() != former
    wait_for(lambda: not is_running(former))

    former = shop.java()
    shop.environ["LAKESQL_SECRET_LOGIN"] = "the-new-secret"
    shop.preview()
    assert shop.java() != former
    wait_for(lambda: not is_running(former))
    written = [
        path
        for path in shop.folder.rglob("*")
        if path.is_file() and b"the-new-secret" in path.read_bytes()
    ]
    assert written == []


def test_one_that_nobody_uses_ends(shop: Shop) -> None:
    shop.write_profile(idle="2 seconds")
    shop.preview()
    said = shop.keeper()
    wait_for(
        lambda: (
            not (said and is_running(said["java"]))
            and reach_keeper(shop.sockets, "dev") is None
        )
    )
    assert not (shop.sockets / "dev.sock").exists()


def test_of_two_commands_at_a_time_one_has_its_own_and_says_so(shop: Shop) -> None:
    shop.preview()
    java = shop.java()
    both = [shop.start(*PREVIEW) for _ in range(2)]
    said = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted(IN_USE in stderr for _, stderr in said) == [False, True]
    assert said[0][0] == said[1][0] and shop.java() == java


def test_a_run_whose_java_is_killed_fails_and_the_next_one_loses_nothing(
    shop: Shop,
) -> None:
    shop.preview()
    for victim in ("keeper", "java"):
        said = shop.keeper() if shop.keeper() else (shop.preview(), shop.keeper())[1]
        running = shop.start("run", "--select", "orders")
        metadata = (
            shop.folder / ".lakesql" / "warehouse" / "shop" / "orders" / "metadata"
        )
        before = len([*metadata.glob("*.json")])

        def has_committed_or_ended() -> bool:
            files = [*metadata.glob("*.json")]  # noqa: B023
            return len(files) > before or running.poll() is not None  # noqa: B023

        wait_for(has_committed_or_ended)
        os.kill(said[victim], signal.SIGKILL)
        _, stderr = running.communicate(timeout=600)
        assert running.returncode == 1 and "java-ended" in stderr, stderr
        wait_for(lambda: not is_running(said["keeper"]))  # noqa: B023
        wait_for(lambda: not is_running(said["java"]))  # noqa: B023
    shop.do("run", "--select", "orders")
    shop.preview()
    rows = [json.loads(row)["order_id"] for row in show_all(shop, "orders")]
    shop.do("rebuild", "orders")
    again = [json.loads(row)["order_id"] for row in show_all(shop, "orders")]
    assert len(rows) == len({*rows}) and sorted(rows) == sorted(again) and rows


def show_all(shop: Shop, model: str) -> list[str]:
    return shop.do(
        "show", model, "--limit", "100000", "--output", "json"
    ).stdout.splitlines()


SLOW = """{{ config(mode='append') }}
SELECT order_id, size(filter(sequence(1, 5000000), number -> number % 7 = order_id % 7)) AS counted
FROM {{ stream('orders') }}
"""


def cpu_seconds_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_is_ended_at_its_query_leaves_none(
    shop: Shop, number: signal.Signals
) -> None:
    (shop.folder / "models" / "slow.sql").write_text(SLOW)
    shop.preview()
    java = shop.java()
    before = cpu_seconds_of(java)
    process = shop.start("show", "slow", "--preview", "--limit", "100")
    # many times what comes before the query
    wait_for(lambda: cpu_seconds_of(java) > before + 15)
    process.send_signal(number)
    process.communicate(timeout=600)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    wait_for(lambda: not is_running(java))
    wait_for(lambda: reach_keeper(shop.sockets, "dev") is None)
    assert len(shop.preview()) == 2 and shop.java() != java


def test_a_command_that_is_interrupted_before_its_query_leaves_none_or_a_whole_one(
    shop: Shop,
) -> None:
    first = shop.preview()
    process = shop.start(*PREVIEW)
    wait_for(lambda: shop.keeper().get("in_use"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    assert process.returncode == 130
    wait_for(lambda: not shop.keeper().get("in_use"))
    assert shop.preview() == first


def test_what_a_killed_keeper_leaves_is_no_obstacle(shop: Shop) -> None:
    shop.preview()
    said = shop.keeper()
    os.kill(said["keeper"], signal.SIGKILL)
    wait_for(lambda: not is_running(said["java"]))
    assert (shop.sockets / "dev.sock").exists()
    shop.preview()
    assert shop.java() != said["java"]


def test_a_folder_that_others_can_enter_is_not_used(shop: Shop) -> None:
    shop.sockets.mkdir(parents=True)
    shop.sockets.chmod(0o755)
    assert "open to other users" in shop.do(*PREVIEW).stderr
    assert not [*shop.sockets.iterdir()]
    shop.sockets.chmod(0o700)


SESSION = """
import sys
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.engine.spark.session import new_session
from lakesql.run.start.spark import open_spark, session_settings

manifest = load_project(Options())
settings = session_settings(manifest, (), print, is_shared=True)
with open_spark(settings, print) as (session, catalog):
    if sys.argv[1] == "leave":
        session.range(5).createOrReplaceTempView("left_view")
        session.range(5).cache().count()
        session.conf.set("spark.sql.shuffle.partitions", "77")
        session.conf.set("spark.left", "here")
        session.udf.register("left_function", lambda value: f"<{value}>")
        called = session.sql("SELECT left_function(id) FROM left_view").collect()
        assert sorted(row[0] for row in called) == ["<0>", "<1>", "<2>", "<3>", "<4>"]
    else:
        for found in (session, new_session(session)):
            assert not found.catalog.tableExists("left_view")
            assert not found.catalog.functionExists("left_function")
            assert found.conf.get("spark.sql.shuffle.partitions") == "2"
            assert found.conf.get("spark.left", None) is None
            assert found.conf.get("spark.sql.catalog.lake").endswith("SparkCatalog")
        assert session._jsparkSession.sharedState().cacheManager().isEmpty()
        assert session.sparkContext._jsc.sc().getPersistentRDDs().isEmpty()
        assert [row[0] for row in session.sql("SELECT 1").collect()] == [1]
    print("done")
"""


def test_nothing_of_a_session_is_met_by_the_next_command(shop: Shop) -> None:
    for what in ("leave", "look", "look"):
        done = subprocess.run(
            [sys.executable, "-c", SESSION, what],
            cwd=shop.folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr
    assert shop.keeper()["commands"] == 3
