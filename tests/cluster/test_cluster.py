"""The shop on a real cluster, whose executors and worker are killed in the middle:
every row stands once.

The master and the worker are Spark's own, and `lakesql run --continuous` is a process
as a user has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation

from lakesql.progress.holder import Process
from tests.cluster.project import TOPICS, Shop
from tests.servers.cluster import CORES, Cluster
from tests.servers.process import running
from tests.servers.runner import Event, Runner, of
from tests.shop import oracle
from tests.spark.project import sorted_rows
from tests.spark.test_shop import REASONS

pytestmark = [pytest.mark.spark, pytest.mark.services]

STALLS_AFTER_S = 120
ENDS_WITHIN_S = 40
AWAY_S = 3.0
"""How long a run without a worker is looked at."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run and what happened to it.

    `struck` are the batches in the middle of which the executors `killed` ended;
    `others` were there when the worker was killed. `counts` are the batches that each
    model had committed when something happened.
    """

    shop: Shop
    events: list[Event]
    killed: list[Process]
    struck: dict[str, int]
    others: list[Process]
    counts: dict[str, dict[str, int]]
    ended: int

    def table(self, name: str) -> Any:
        catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{self.shop.directory}/.lakesql/catalog.db"
        )
        return catalog.load_table(("shop", name))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    directory = tmp_path_factory.mktemp("cluster")
    with running(Cluster(directory / "cluster")) as cluster:
        shop, runner = (
            Shop(directory / "shop", cluster),
            Runner(directory / "shop", *TOPICS),
        )
        try:
            yield run(cluster, shop, runner)
        finally:
            runner.stop()


def run(cluster: Cluster, shop: Shop, runner: Runner) -> Ran:
    """Run half of the records on executors that are killed, and the other half on a
    worker that comes back."""
    counts = {}

    def wait(seen: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        runner.wait(lambda events: seen(count(events)), STALLS_AFTER_S)
        return count(runner.runs[-1])

    runner.start()
    wait(lambda now: any(now.values()) and bool(shop.batches_in_progress()))
    running = shop.batches_in_progress()
    killed = cluster.kill_executors()
    struck = dict(running.items() & shop.batches_in_progress().items())

    wait(lambda now: all(now.values()) and bool(cluster.executors()))
    others = cluster.executors()
    cluster.kill_worker()
    counts["worker killed"] = wait(lambda _: True)
    shop.arrive()
    time.sleep(AWAY_S)
    counts["worker away"] = wait(lambda _: True)

    cluster.start_worker()
    wait(lambda _: all(map(shop.has_read_all, TOPICS)))
    ended = runner.terminate(ENDS_WITHIN_S)
    return Ran(shop, runner.runs[-1], killed, struck, others, counts, ended)


def count(events: list[Event]) -> dict[str, int]:
    return {model: len(of(events, "batch_committed", model)) for model in TOPICS}


def test_executors_are_killed_in_the_middle_of_a_batch(ran: Ran) -> None:
    assert ran.struck
    assert ran.killed and ran.others and not set(ran.killed) & set(ran.others)


def test_the_run_goes_on_and_ends_well(ran: Ran) -> None:
    assert ran.ended == 0
    assert {
        event["model"]: event["status"] for event in of(ran.events, "model_finished")
    } == dict.fromkeys(TOPICS, "success")
    tried_again = {
        problem["condition"]
        for event in of(ran.events, "retrying")
        for problem in event["problems"]
    }
    assert tried_again <= {"executor-lost"}


def test_a_run_without_a_worker_waits(ran: Ran) -> None:
    """Of a batch that executors are done with, the driver makes a snapshot; of the next
    one it cannot."""
    killed, away, end = (
        ran.counts["worker killed"],
        ran.counts["worker away"],
        count(ran.events),
    )
    for model in TOPICS:
        assert killed[model] <= away[model] <= killed[model] + 1
        assert away[model] < end[model]


@pytest.mark.parametrize("model", TOPICS)
def test_every_row_stands_once(ran: Ran, model: str) -> None:
    rows = ran.table(model).scan().to_arrow().to_pylist()
    assert rows
    assert sorted_rows(rows) == sorted_rows(ran.shop.expected(model))


@pytest.mark.parametrize("model", TOPICS)
def test_every_record_that_cannot_be_used_is_a_dead_letter_once(
    ran: Ran, model: str
) -> None:
    read_as = "orders" if model == "orders_of_customers" else model
    expected = oracle.expected_dead_letters(ran.shop.recorded)[read_as]
    found = ran.table(f"{model}__dead_letter").scan().to_arrow().to_pylist()
    assert sorted(
        (row["topic"], row["partition"], row["offset"], row["reason"]) for row in found
    ) == sorted(
        (
            letter.record.topic,
            letter.record.partition,
            letter.record.offset,
            REASONS[letter.reason],
        )
        for letter in expected
    )


@pytest.mark.parametrize("model", TOPICS)
def test_each_batch_is_in_the_ledger_once(ran: Ran, model: str) -> None:
    """Batches without a row make no snapshot; there is no other hole."""
    metadata = ran.table(model).metadata
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    batches, at = [], metadata.current_snapshot_id
    while at in by_id:
        # of maintenance, which writes no batch
        if by_id[at].summary.operation != Operation.REPLACE:
            batches.append(
                int(by_id[at].summary.additional_properties["lakesql.batch"])
            )
        at = by_id[at].parent_snapshot_id
    committed = [event["batch"] for event in of(ran.events, "batch_committed", model)]
    empty = [event["batch"] for event in of(ran.events, "batch_empty", model)]
    assert batches[::-1] == committed
    assert sorted(committed + empty) == list(range(len(committed + empty)))


def test_state_is_divided_by_the_cores_of_the_cluster(ran: Ran) -> None:
    state = (
        ran.shop.directory
        / ".lakesql"
        / "checkpoints"
        / "visits_per_day"
        / "state"
        / "0"
    )
    assert {folder.name for folder in state.iterdir() if folder.name.isdigit()} == set(
        map(str, range(CORES))
    )
