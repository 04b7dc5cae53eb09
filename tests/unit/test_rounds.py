"""Rounds of batches whose commits are one: models that fail, come back, are moved, or
are asked to stop."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakesql.engine.ledger.commit import HeadMovedError
from lakesql.engine.ledger.commit_together import OneFailedError, Published
from lakesql.engine.sources.spark_source import BatchPutOffError
from lakesql.engine.together.rounds import Rounds, Standing
from lakesql.errors import RunError
from lakesql.ledger.entry import Snapshot, snapshot_of
from tests.cases import each_of

LAST = 5
"""The position behind all that there is."""


def snapshot(number: int) -> Snapshot:
    return snapshot_of(
        {
            "snapshot-id": number,
            "timestamp-ms": number,
            "summary": {"operation": "append"},
        }
    )


@dataclass
class Tables:
    """The tables of models: a round takes each one position further. What they show is
    noted whenever it changes."""

    names: tuple[str, ...]
    heads: dict[str, int] = field(default_factory=dict)
    shown: list[dict[str, int]] = field(default_factory=list)
    moved: set[tuple[str, int]] = field(default_factory=set)
    failing: set[tuple[str, int]] = field(default_factory=set)
    finished: int = 0

    def __post_init__(self) -> None:
        self.heads = dict.fromkeys(self.names, 0)

    def plan(self, standing: Mapping[str, Standing]) -> Mapping[str, Any]:
        planned = {
            name: each.planned
            for name, each in standing.items()
            if each.planned is not None
        }
        if planned:
            return planned
        low = min(each.position for each in standing.values())
        return (
            {name: low + 1 for name, each in standing.items() if each.position == low}
            if low < LAST
            else {}
        )

    def finish(self) -> None:
        assert len(set(self.heads.values())) == 1, "all stand at one place"
        self.finished += 1

    def publish(self, publications: Mapping[str, Any]) -> Published:
        wanted = {(name, each) for name, each in publications.items()}
        if found := wanted & self.failing:
            self.failing -= found
            raise OneFailedError(
                next(iter(found))[0], RunError.of("batch-published", "It fails.")
            )
        if found := wanted & self.moved:
            self.moved -= found
            names = frozenset(name for name, _ in found)
            return Published(
                {},
                names,
                {name: publications[name] for name in publications.keys() - names},
            )
        self.heads |= publications
        self.shown.append(dict(self.heads))
        return Published({name: snapshot(each) for name, each in publications.items()})


class Model(threading.Thread):
    """The thread of a model, which is started again where it fails. `fails` are the
    positions at which it does once."""

    def __init__(
        self, name: str, rounds: Rounds, tables: Tables, fails: set[int] | None = None
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.rounds, self.tables, self.fails = rounds, tables, fails or set()
        self.restaged = self.put_off = self.position = 0
        self.planned: int | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        while True:
            self.rounds.join(self.name)
            try:
                self.read()
                return
            except RunError as error:
                self.error = error
            finally:
                self.rounds.leave(self.name)

    def read(self) -> None:
        while True:
            end = self.rounds.find_end(self.name, Standing(self.position, self.planned))
            if end is None:
                return
            self.planned = end
            try:
                with self.rounds.slot():
                    self.write(end)
            except BatchPutOffError:
                self.put_off += 1
                continue
            self.position, self.planned = end, None
            self.rounds.finish(self.name)

    def write(self, end: int) -> None:
        if self.tables.heads[self.name] >= end:
            return  # the ledger has it
        while True:
            if end in self.fails:
                self.fails.remove(end)
                raise RunError.of("batch-published", "It fails.")
            try:
                self.rounds.publish(self.name, end)  # type: ignore[arg-type]
                return
            except HeadMovedError:
                self.restaged += 1


def leave_lying(publication: Any) -> None:
    """What is staged here is a number, of which there are no files."""


def run(
    tables: Tables, slots: int = 2, fails: Mapping[str, set[int]] | None = None
) -> dict[str, Model]:
    rounds = Rounds(
        tables.names,
        tables.plan,
        tables.publish,
        leave_lying,
        tables.finish,
        None,
        slots,
    )
    models = {
        name: Model(name, rounds, tables, (fails or {}).get(name, set()))
        for name in tables.names
    }
    for model in models.values():
        model.start()
    for model in models.values():
        model.join(20)
        assert not model.is_alive(), "it hangs"
    return models


def in_step(tables: Tables) -> bool:
    return all(len(set(shown.values())) == 1 for shown in tables.shown)


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_all_tables_are_shown_in_step(slots: int) -> None:
    tables = Tables(tuple("abcde"))
    run(tables, slots)
    assert in_step(tables) and [shown["a"] for shown in tables.shown] == [
        *range(1, LAST + 1)
    ]


def test_a_model_that_fails_holds_the_others_back_until_it_is_back() -> None:
    tables = Tables(tuple("abc"))
    models = run(tables, fails={"b": {2, 4}})
    assert in_step(tables) and len(tables.shown) == LAST
    assert models["b"].error is not None


def test_one_that_is_moved_is_staged_again_and_the_others_wait() -> None:
    tables = Tables(tuple("abc"), moved={("b", 3)})
    models = run(tables)
    assert in_step(tables) and [models[name].restaged for name in "abc"] == [0, 1, 0]


def test_a_commit_that_fails_of_one_puts_the_others_off() -> None:
    tables = Tables(tuple("abc"), failing={("c", 2)})
    models = run(tables)
    assert in_step(tables) and [models[name].put_off for name in "abc"] == [1, 1, 0]


@each_of("seed", range(20))
def test_whatever_fails_tables_stay_in_step(seed: int) -> None:
    chance = random.Random(seed)
    names = tuple("abcdef"[: chance.randrange(1, 7)])
    some = [(name, at) for name in names for at in range(1, LAST + 1)]
    tables = Tables(
        names, moved=set(chance.sample(some, 2)), failing=set(chance.sample(some, 2))
    )
    fails = {
        name: {at for at in range(1, LAST + 1) if chance.random() < 0.2}
        for name in names
    }
    run(tables, chance.randrange(1, 4), fails)
    assert in_step(tables) and tables.shown[-1] == dict.fromkeys(names, LAST)
    assert tables.finished


def test_a_model_that_is_asked_to_stop_waits_no_longer() -> None:
    tables = Tables(("a", "b"))
    rounds = Rounds(
        tables.names, tables.plan, tables.publish, leave_lying, tables.finish, None, 2
    )
    model = Model("a", rounds, tables)
    model.start()
    deadline = time.monotonic() + 10
    while not rounds.waits("a"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    rounds.interrupt("a")
    model.join(10)
    assert not model.is_alive() and tables.shown == []
    rounds.close()


def test_models_hear_why_no_round_can_be_planned() -> None:
    def fail(standing: Mapping[str, Standing]) -> Mapping[str, Any]:
        raise RunError.of("group-transactions", "The feed does not tell.")

    tables = Tables(("a", "b"))
    rounds = Rounds(
        tables.names, fail, tables.publish, leave_lying, tables.finish, None, 2
    )
    heard: list[str] = []

    def ask(name: str) -> None:
        rounds.join(name)
        try:
            rounds.find_end(name, Standing(0))
        except RunError as error:
            heard.append(error.problems[0].condition)

    threads = [
        threading.Thread(target=ask, args=(name,), daemon=True) for name in tables.names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    rounds.close()
    assert heard == ["group-transactions"] * 2
