"""Transfers between the accounts of two tables, while runners are killed: no reader
ever sees another total."""

from __future__ import annotations

import signal
import time
from typing import get_args

import pytest

from lakesql.engine.batch.sink import Step
from tests.crash.harness import SPARK, Runners
from tests.crash.runner import Order
from tests.kafka.bank import TABLES, Bank, Reader, balances, mirror
from tests.servers.broker import Broker
from tests.share import choose
from tests.spark.project import Project

KILLS = 10
"""How many runners of a round are killed."""

STEPS = get_args(Step)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"bank-{time.time_ns()}"


@pytest.fixture
def bank(broker: Broker, prefix: str) -> Bank:
    bank = Bank(broker, prefix)
    bank.open_accounts()
    return bank


@pytest.fixture
def mirrored(project: Project, broker: Broker, prefix: str, bank: Bank) -> Project:
    """The mirrors of the bank, which have its accounts."""
    project._target["spark"] = SPARK
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    mirror(project, prefix)
    project.run(asks=True).check()
    return project


def test_no_reader_sees_another_total_however_runners_are_killed(
    mirrored: Project, bank: Bank, seed: int
) -> None:
    chance, runners, reader = (
        choose(seed, "transfers"),
        Runners(mirrored),
        Reader(mirrored, bank.total),
    )
    begun = None
    try:
        with reader.reading():
            for _ in range(KILLS):
                if begun is not None:  # what has come of it stays in the feed until now
                    bank.finish_rest(begun)
                bank.transfer(count=chance.randrange(1, 5))
                begun = bank.begin()
                bank.send(*begun[1][0])
                model, step = (
                    f"bank.public_{chance.choice(TABLES)}",
                    chance.choice(STEPS),
                )
                after_s = chance.choice([0, chance.random()])
                runner = runners.run(
                    Order(str(mirrored.directory), model, step, after_s=after_s)
                )
                assert runner.wait() in (-signal.SIGKILL, 0)
                runner.end()
    finally:
        runners.close()
    assert reader.wrong == [] and reader.states
    assert begun is not None
    bank.finish_rest(begun)
    mirrored.run(asks=True).check()
    assert balances(mirrored) == bank.balances


def test_without_it_a_reader_sees_another_total(
    mirrored: Project, bank: Bank, prefix: str, seed: int
) -> None:
    """Else the test above shows nothing."""
    mirror(mirrored, prefix, consistent=False)
    reader = Reader(mirrored, bank.total)
    with reader.reading():
        for _ in range(5):
            bank.transfer(count=3)
            mirrored.run(asks=True).check()
            if reader.wrong:
                break
    assert reader.wrong
