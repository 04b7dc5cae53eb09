"""Which models run, which are retried, and when: with queries that live in a time of
their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest

from lakesql.engine.batch.streaming_query import Backlog
from lakesql.errors import FilesSetAside, LakesqlError, RunError, TransientError
from lakesql.events import (
    BatchCommitted,
    BatchSkipped,
    Emit,
    Event,
    HealthJudged,
    ModelFinished,
    Noted,
    QueryPaused,
    QueryStarted,
    Retrying,
    StreamEmpty,
)
from lakesql.model.properties import Freshness
from lakesql.plan.run_health import TableLimits
from lakesql.project.duration import Duration
from lakesql.project.profiles import Retries
from lakesql.run.build import Build
from lakesql.run.build_jobs import jobs_with_tests
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import Job, RunOptions
from lakesql.run.models import Order
from lakesql.run.seeds_first import SeedsFirst
from lakesql.run.supervise import (
    ENDED,
    ENDING,
    GIVES_UP_AFTER_S,
    REMINDS_EVERY_MS,
    SET_ASIDE_MS,
    UNFINISHED,
    Clock,
    ModelRun,
    Supervisor,
)

AWAY = TransientError.of("connection-unreachable", "No broker answers.")
BUSY = TransientError.of("commit-conflict", "Somebody else writes.")
BROKEN = RunError.of("batch-failed", "It does not work.")
HOUR = 3_600_000
REBUILDS_FOR_MS = 20_000


@dataclass(slots=True)
class FakeJob:
    """A job that does one thing of its life every 100 ms: commits a batch, fails, or
    goes on; then it is over.

    It has read its sources once it has done one of them well. In a run that ends it is
    busy until then.
    """

    life: Iterator[object]
    emit: Emit
    world: World
    name: str
    since: int
    over: bool = False
    failure: Exception | None = None
    stopping: bool = False
    has_read: bool = False
    is_cut: bool = False

    def step(self) -> None:
        while not self.over and self.since + 100 <= self.world.now:
            self.since += 100
            self._live()

    def is_active(self) -> bool:
        return not self.over

    def _live(self) -> None:
        step = next(self.life, None)
        if (
            self.stopping
            and not isinstance(step, Exception)
            and self.name not in self.world.hangs
        ):
            step, self.is_cut = None, step is not None
        self.has_read = self.has_read or isinstance(step, int | str)
        match step:
            case int():
                self.emit(
                    BatchCommitted(
                        self.name, step, 1, 1, 0, 1, 1, "", at_ms=self.world.now
                    )
                )
            case StreamEmpty():
                self.emit(step)
            case "skip":
                self.emit(BatchSkipped(self.name, 0, at_ms=self.world.now))
            case "wait":
                pass
            case Exception():
                self.failure = step
                self.over = not self.world.lingers
            case _:
                self.over = True

    def error(self) -> Exception | None:
        return None if self.stopping and self.world.lingers else self.failure

    def request_stop(self) -> None:
        self.stopping = True

    def was_stopped(self) -> bool:
        return self.is_cut

    def progress(self) -> tuple[float, Backlog]:
        return 1.0, Backlog(0, "records", is_busy=self.world.ends or not self.has_read)


@dataclass(slots=True)
class World:
    """The jobs of a run and their time: the first start of a model's has the first of
    its lives.

    Nothing is real but the supervisor.
    """

    lives: Mapping[str, list[list[object]]]
    lingers: bool = False
    hangs: Set[str] = frozenset()
    lost: Exception | None = None
    ends: bool = False
    now: int = 0
    events: list[Event] = field(default_factory=list)
    interrupt: Interrupt = field(default_factory=Interrupt)
    at: dict[int, Callable[[], None]] = field(default_factory=dict)
    held: dict[str, Emit] = field(default_factory=dict)
    killed_at: list[int] = field(default_factory=list)
    blocks: Set[str] = frozenset()
    wanted: set[str] = field(default_factory=set)
    gave_way_at: list[int] = field(default_factory=list)
    with_tests: Build | None = None
    context: None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    comes: dict[int, list[str]] = field(default_factory=dict)
    later: Set[str] = frozenset()

    def start(self, model: str, emit: Emit) -> Job | None:
        if self.with_tests is None:
            return self.start_model(model, emit)
        around = jobs_with_tests(self.with_tests, None)
        return around(self)(model, emit)  # type: ignore[arg-type]  # what it asks of the jobs is here

    def start_model(self, model: str, emit: Emit) -> FakeJob | None:
        if self.gave_way_at and self.now < self.gave_way_at[-1] + REBUILDS_FOR_MS:
            return None
        self.held[model] = emit
        if model in self.blocks:
            self._block()
        first, *others = self.lives[model].pop(0) or [None]
        if isinstance(first, Exception) and others == ["at start"]:
            raise first
        return FakeJob(iter([first, *others]), emit, self, model, self.now)

    def _block(self) -> None:
        """Somebody asks the run to end, and nothing else happens until Java is
        killed."""
        self.interrupt.set()
        while not self.killed_at:
            self.now += 500
            time.sleep(0.001)
        raise BROKEN

    def explain(self, model: str, error: Exception) -> LakesqlError:
        return (
            error
            if isinstance(error, LakesqlError)
            else RunError.of("batch-failed", str(error))
        )

    def must_stop(self, model: str) -> Exception | None:
        return self.lost if self.now >= 1_000 else None

    def is_wanted(self, model: str) -> bool:
        return model in self.held and model in self.wanted

    def give_way(self, model: str) -> None:
        self.wanted.remove(model)
        self.release(model)
        self.gave_way_at.append(self.now)

    def release(self, model: str) -> None:
        self.held.pop(model, None)

    def rest(self, model: str) -> None:
        self.release(model)

    def kill(self) -> None:
        self.killed_at.append(self.now)

    def rests(self, model: str) -> bool:
        return not self.ends and model in self.groups

    def runs_together(self, model: str) -> bool:
        return False

    def woken(self) -> Sequence[str]:
        due = [moment for moment in self.comes if moment <= self.now]
        return [name for moment in due for name in self.comes.pop(moment)]

    def pause(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
        assert self.now < 10 * HOUR, "the run does not end"
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()

    def run(
        self,
        waits_for: Mapping[str, set[str]] | None = None,
        continuous: bool = False,
        limit: int = 9,
        fail_fast: bool = False,
        fail_if_empty: bool = False,
        limits: Mapping[str, Freshness] | None = None,
        resting: Set[str] = frozenset(),
        **retries: int,
    ) -> Mapping[str, ModelRun]:
        self.ends = not continuous
        supervisor = Supervisor(
            jobs=self,
            emit=self.events.append,
            retries=Retries(
                retries.get("attempts", 10),
                Duration("", retries.get("max_wait_ms", 300_000)),
            ),
            limit=limit,
            interrupt=self.interrupt,
            options=RunOptions(
                continuous=continuous, fail_fast=fail_fast, fail_if_empty=fail_if_empty
            ),
            limits={name: TableLimits(each) for name, each in (limits or {}).items()},
            clock=Clock(lambda: self.now, lambda: self.now, self.pause),
            group_of=lambda name: self.groups.get(name, "") if self.rests(name) else "",
            group_limit=2,
        )
        waiting = waits_for or {}
        there = {
            name: frozenset(waiting.get(name, ()))
            for name in self.lives
            if name not in self.later
        }
        runs = supervisor.run(there, resting=frozenset(resting))
        assert not self.held, "a model that is done has not been released"
        return runs

    def waits(self, name: str = "a") -> list[tuple[int, int]]:
        return [
            (event.attempt, event.wait_ms)
            for event in self.of(Retrying)
            if event.model == name
        ]

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def test_a_table_that_is_not_well_is_told_when_that_changes_and_each_minute() -> None:
    """And of one that is well nothing is said."""
    limits = {
        "a": Freshness(
            warn_after=Duration("", 60_000), error_after=Duration("", 600_000)
        )
    }
    # a commit, 20 minutes without one, another one
    life = [0, *["wait"] * 12_000, 1, *["wait"] * 100]
    world = World(
        {"a": [life], "b": [["wait"] * 12_200]},
        at={1_220_000: lambda: world.interrupt.set()},
    )
    world.run(continuous=True, limits=limits)
    told = [event for event in world.events if isinstance(event, HealthJudged)]
    assert {event.model for event in told} == {"a"}
    assert [
        (event.was, event.health) for event in told if event.was != event.health
    ] == [
        *(("well", "watch"), ("watch", "ill"), ("ill", "well")),
    ]
    assert [round(event.at_ms / 60_000) for event in told] == list(range(1, 21))
    assert {
        (reason.figure, reason.limit) for event in told for reason in event.findings
    } == {
        *(("freshness", 60_000), ("freshness", 600_000)),
    }
    assert told[-1].findings == ()


def test_a_run_that_ends_by_itself_does_not_know_how_old_a_table_is_before_it_commits() -> (
    None
):
    limits = {"a": Freshness(error_after=Duration("", 60_000))}
    for is_continuous, health in ((False, []), (True, ["ill"])):
        world = World({"a": [["wait"] * 900]})
        world.run(continuous=is_continuous, limits=limits)
        assert [
            event.health for event in world.events if isinstance(event, HealthJudged)
        ] == health


def test_a_query_that_lost_its_lease_is_stopped_while_idle() -> None:
    lost = RunError.of("lease-lost", "Another runner has it.")
    world = World({"a": [[0, *["wait"] * 1000]]}, lost=lost)
    runs = world.run()
    assert runs["a"].status == "error" and world.now < HOUR
    (ended,) = world.of(ModelFinished)
    assert isinstance(ended, ModelFinished) and ended.problems == lost.problems


def test_a_model_without_anything_to_read_fails_only_if_that_is_asked_for() -> None:
    empty = StreamEmpty("a", "s", "no file matches x", False, at_ms=0)
    half = StreamEmpty("b", "t", "no file matches y", True, at_ms=0)
    late = StreamEmpty("c", "u", "there is no record in z", False, at_ms=0)
    lives: dict[str, list[list[object]]] = {
        "a": [[empty]],
        "b": [[half]],
        "c": [[late, 0]],
        "d": [[0]],
    }
    ends = {
        asked: {
            name: run.status
            for name, run in World(deepcopy(lives))
            .run({"d": {"a"}}, fail_if_empty=asked)
            .items()
        }
        for asked in (False, True)
    }
    assert ends[False] == dict.fromkeys("abcd", "success")
    assert ends[True] == {"a": "error", "b": "success", "c": "success", "d": "skipped"}


def test_a_transient_failure_is_retried() -> None:
    world = World({"a": [[0, AWAY], [1, 2]]})
    runs = world.run()
    assert (runs["a"].status, runs["a"].tally.batches) == ("success", 3)
    assert world.waits() == [(1, 1000)]
    (retrying,) = world.of(Retrying)
    assert retrying.problems == AWAY.problems and retrying.attempts == 10
    first, second = (event.at_ms for event in world.of(QueryStarted))
    assert second - first >= 1000 + 200
    (finished,) = world.of(ModelFinished)
    assert (finished.status, finished.problems, finished.batches) == ("success", (), 3)


def test_a_query_that_sets_files_aside_starts_anew_at_once_and_spends_no_retry() -> (
    None
):
    world = World({"a": [*([[FilesSetAside()]] * 5), [0]]})
    assert world.run(attempts=0)["a"].status == "success"
    assert (
        world.waits() == [] and len(world.of(QueryStarted)) == 6 and world.now < 2_000
    )


def test_a_query_that_sets_files_aside_as_the_run_ends_does_not_start_anew() -> None:
    world = World(
        {"a": [["wait", "wait", FilesSetAside()], [0]]},
        at={150: lambda: world.interrupt.set()},
    )
    assert world.run()["a"].status == "skipped"
    assert len(world.of(QueryStarted)) == 1


def test_waits_double_up_to_max_wait_and_retries_are_limited() -> None:
    world = World({"a": [[0, BUSY], *([[BUSY]] * 20)]})
    runs = world.run(attempts=6, max_wait_ms=5_000)
    assert world.waits() == [
        (1, 1000),
        (2, 2000),
        (3, 4000),
        (4, 5000),
        (5, 5000),
        (6, 5000),
    ]
    (finished,) = world.of(ModelFinished)
    assert (finished.status, finished.problems) == ("error", BUSY.problems)
    assert len(world.of(QueryStarted)) == 7
    assert runs["a"].tally.batches == 1


@pytest.mark.parametrize("progress", [1, "skip"])
def test_a_batch_resets_the_count_of_retries(progress: object) -> None:
    world = World({"a": [[BUSY], [BUSY], [progress, BUSY], [BUSY], []]})
    assert world.run(attempts=2)["a"].status == "success"
    assert world.waits() == [(1, 1000), (2, 2000), (1, 1000), (2, 2000)]


def test_failures_of_a_silent_model_do_not_add_up_where_it_reads_in_between() -> None:
    """But in a run that ends, where a query that has read all is over: there they are
    failures in a row."""
    idle: list[object] = [*["wait"] * 20, AWAY]
    for continuous, status, attempts in (
        (True, "success", [1, 1, 1, 1]),
        (False, "error", [1, 2]),
    ):
        world = World({"a": [[0, AWAY], idle, idle, idle, []]})
        assert world.run(continuous=continuous, attempts=2)["a"].status == status
        assert [attempt for attempt, _ in world.waits()] == attempts


def test_a_model_that_is_asked_for_pauses_between_two_batches_and_no_retry_is_counted() -> (
    None
):
    world = World({"a": [[0, *["wait"] * 100], [1]], "b": [["wait"] * 300]})
    world.at[500] = lambda: world.wanted.add("a")
    runs = world.run(continuous=True, attempts=0)
    assert {name: (run.status, run.tally.batches) for name, run in runs.items()} == {
        "a": ("success", 2),
        "b": ("success", 0),
    }
    assert world.gave_way_at == [pytest.approx(600, abs=100)]
    assert [event.at_ms for event in world.of(QueryPaused)] == [
        pytest.approx(600, abs=100)
    ]
    assert [event.at_ms for event in world.of(QueryStarted) if event.model == "a"] == [
        0,
        pytest.approx(600 + REBUILDS_FOR_MS, abs=100),
    ]
    assert world.waits() == []


def test_a_model_that_waits_for_its_retry_gives_way_at_once() -> None:
    world = World({"a": [[0, AWAY], [AWAY], [AWAY], [AWAY], [1]]})
    world.at[8_500] = lambda: world.wanted.add("a")
    assert world.run(continuous=True)["a"].status == "success"
    assert world.waits() == [(1, 1000), (2, 2000), (3, 4000), (4, 8000)]
    assert world.gave_way_at == [pytest.approx(8_500, abs=100)]


def test_a_restart_that_fails_counts_as_a_retry() -> None:
    world = World({"a": [[0, AWAY], [AWAY, "at start"], [AWAY, "at start"], [1]]})
    assert world.run()["a"].status == "success"
    assert world.waits() == [(1, 1000), (2, 2000), (3, 4000)]


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (AWAY, "error"),
        (TransientError.of("catalog-unreachable", "?"), "error"),
        (BUSY, "success"),
    ],
)
def test_an_unreachable_broker_or_catalog_is_no_transient_failure_at_the_first_start(
    first: Exception, status: str
) -> None:
    assert World({"a": [[first, "at start"], [0]]}).run()["a"].status == status


@pytest.mark.parametrize("life", [[BROKEN], [BROKEN, "at start"], [ValueError("?")]])
def test_a_permanent_failure_ends_its_model_alone(life: list[object]) -> None:
    world = World({"a": [life], "b": [["wait", "wait", 0, 1]], "c": [[]]})
    runs = world.run({"c": {"a"}})
    assert {name: run.status for name, run in runs.items()} == {
        "a": "error",
        "b": "success",
        "c": "skipped",
    }
    assert world.waits() == []
    failed = [event for event in world.of(ModelFinished) if event.model == "a"]
    assert [len(event.problems) for event in failed] == [1]


def test_batches_of_several_threads_are_all_counted() -> None:
    """As of a stateful model's two queries, while the supervisor counts too."""

    def flood() -> None:
        def commit() -> None:
            for number in range(500):
                world.held["a"](BatchCommitted("a", number, 1, 1, 0, 1, 1, "", at_ms=0))

        threads = [Thread(target=commit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    world = World({"a": [["wait"] * 10]})
    world.at[500] = flood
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert world.run()["a"].tally.batches == 2_000
    finally:
        sys.setswitchinterval(before)


def test_zero_attempts_mean_no_retry() -> None:
    world = World({"a": [[0, BUSY]]})
    assert world.run(attempts=0)["a"].status == "error"


def test_other_models_run_while_one_waits_for_its_retry() -> None:
    world = World({"a": [[0, BUSY]] + [[BUSY]] * 3 + [[1]], "b": [list(range(50))]})
    world.run()
    batches = [event.at_ms for event in world.of(BatchCommitted) if event.model == "b"]
    assert max(after - before for before, after in pairwise(batches)) <= 200


def test_a_model_that_waits_for_its_retry_keeps_its_thread() -> None:
    world = World({"a": [[BUSY], [0]], "b": [[0]]})
    world.run(limit=1)
    assert [event.model for event in world.of(BatchCommitted)] == ["a", "b"]


def test_a_model_waits_for_a_retry_of_the_one_that_it_reads_unless_continuous() -> None:
    once = World({"a": [[0, BUSY], [1]], "b": [[0]]})
    assert once.run({"b": {"a"}})["b"].status == "success"
    assert [event.model for event in once.of(BatchCommitted)] == ["a", "a", "b"]
    lasting = World({"a": [["wait", BUSY], [0]], "b": [[0]]})
    lasting.run({"b": {"a"}}, continuous=True)
    assert [event.model for event in lasting.of(BatchCommitted)] == ["b", "a"]


def test_a_model_is_skipped_where_the_one_that_it_reads_fails_unless_continuous() -> (
    None
):
    wrong = RunError.of("type-change", "what")
    once = World({"a": [[wrong, "at start"]], "b": [[0]]})
    runs = once.run({"b": {"a"}})
    assert (runs["a"].status, runs["b"].status) == ("error", "skipped")
    # its table may be there from before
    lasting = World({"a": [[wrong, "at start"]], "b": [[0]]})
    runs = lasting.run({"b": {"a"}}, continuous=True)
    assert (runs["a"].status, runs["b"].status) == ("error", "success")


def test_both_queries_of_a_stateful_model_restart_where_one_fails() -> None:
    """Of a stateful model's two queries one fails: the other ends after its batch, and
    both begin anew."""
    world = World({"a": [[0, BUSY, *["wait"] * 1000], [1]]}, lingers=True)
    assert world.run(continuous=True)["a"].status == "success"
    assert world.waits() == [(1, 1000)]
    assert world.now < 5_000


def test_an_interrupt_ends_a_model_that_waits_for_its_retry() -> None:
    world = World({"a": [[0, AWAY], [1]], "b": [["wait"] * 100_000]})
    world.at[500] = world.interrupt.set
    runs = world.run(continuous=True)
    assert {name: run.status for name, run in runs.items()} == {
        "a": "skipped",
        "b": "success",
    }
    assert world.now < 1_000
    assert [
        event.batches for event in world.of(ModelFinished) if event.model == "a"
    ] == [1]


def test_an_interrupt_skips_what_was_to_read_on_and_no_model_that_is_done() -> None:
    """Of `a` the next run reads the rest, and `b` ends by itself while the run does."""
    world = World(
        {"a": [[*range(100_000)]], "b": [["wait"] * 4], "c": [[0]], "d": [[0]]}
    )
    world.at[450] = world.interrupt.set
    runs = world.run({"c": {"a"}, "d": {"b"}})
    assert {name: run.status for name, run in runs.items()} == {
        "b": "success",
        **dict.fromkeys("acd", "skipped"),
    }
    ended = {
        event.model: event
        for event in world.of(ModelFinished)
        if isinstance(event, ModelFinished)
    }
    assert {name: event.because for name, event in ended.items()} == {
        "b": "",
        **dict.fromkeys("acd", ENDED),
    }
    assert ended["a"].batches == runs["a"].tally.batches > 0


@pytest.mark.parametrize("is_ended", [False, True])
def test_an_interrupt_skips_a_model_whose_tests_have_not_begun(is_ended: bool) -> None:
    build = Build(
        None, "duckdb", {}, {"a": ()}, Order(), (), SeedsFirst(None, (), (), "duckdb")
    )
    world = World({"a": [[0, "wait", "wait", "wait"]]}, with_tests=build)
    if is_ended:
        world.at[450] = world.interrupt.set
    assert world.run()["a"].status == ("skipped" if is_ended else "success")
    assert build.ran == (set() if is_ended else {"a"})


def test_an_interrupt_is_noted_at_once() -> None:
    world = World({"a": [["wait"] * 100_000]})
    world.at[500] = world.interrupt.set
    world.run(continuous=True)
    assert [(event.text, event.at_ms) for event in world.of(Noted)] == [(ENDING, 500)]
    world = World({"a": [[0]]})
    world.run()
    assert world.of(Noted) == []


@pytest.mark.parametrize("continuous", [True, False])
def test_fail_fast_ends_the_run_with_the_first_failure(continuous: bool) -> None:
    lives = {
        "a": [["wait", BROKEN]],
        "b": [[*range(100_000)]],
        "c": [[0]],
        "d": [[BUSY, "at start"], [0]],
    }
    world = World(lives)
    runs = world.run({"c": {"b"}} if not continuous else {}, continuous, fail_fast=True)
    assert runs["a"].status == "error"
    assert (
        runs["b"].status == ("success" if continuous else "skipped")
        and runs["b"].tally.batches > 0
    )
    assert runs["d"].status == "skipped"
    assert runs["c"].status == ("success" if continuous else "skipped")
    assert {event.because for event in world.of(ModelFinished)} - {""} == {
        "the run ended with the failure of a"
    }
    assert world.now < 1_000


def test_fail_fast_ends_nothing_where_a_failure_is_transient() -> None:
    world = World({"a": [[0, BUSY], [1]], "b": [["wait"] * 50]})
    assert {run.status for run in world.run(fail_fast=True).values()} == {"success"}


def test_a_continuous_run_says_again_and_again_which_models_it_is_without() -> None:
    world = World({"a": [["wait", BROKEN]], "b": [["wait"] * 100_000]})
    world.at[2 * REMINDS_EVERY_MS + 1_000] = world.interrupt.set
    world.run(continuous=True)
    reminders = [event for event in world.of(Noted) if event.model == "a"]
    assert [event.at_ms for event in reminders] == pytest.approx(
        [REMINDS_EVERY_MS, 2 * REMINDS_EVERY_MS], abs=100
    )
    assert all("batch-failed" in event.text for event in reminders)


def test_queries_are_killed_where_a_batch_takes_too_long_to_end() -> None:
    """Of the other model the batch is done in time; a third one waits to be tried
    again."""
    world = World(
        {"a": [["wait"] * 100_000], "b": [["wait", 0]], "c": [[0, AWAY], [1]]},
        hangs={"a"},
    )
    world.at[150] = world.interrupt.set
    runs = world.run(continuous=True)
    assert {name: run.status for name, run in runs.items()} == {
        "a": "skipped",
        "b": "success",
        "c": "skipped",
    }
    assert [
        event.because for event in world.of(ModelFinished) if event.model == "a"
    ] == [UNFINISHED]
    assert world.killed_at == [pytest.approx(150 + GIVES_UP_AFTER_S * 1000, abs=100)]


def test_queries_are_killed_while_a_start_keeps_the_thread_that_watches_them() -> None:
    world = World({"a": [[0]], "b": [[0]], "c": [["wait"] * 100_000]}, blocks={"b"})
    runs = world.run(continuous=True)
    assert {name: run.status for name, run in runs.items()} == dict.fromkeys(
        "abc", "skipped"
    )
    assert {event.because for event in world.of(ModelFinished)} == {UNFINISHED}
    assert [event.text for event in world.of(Noted)] == [ENDING]
    (killed_at,) = world.killed_at
    assert killed_at >= GIVES_UP_AFTER_S * 1000


@pytest.mark.parametrize(("failure", "status"), [(AWAY, "skipped"), (BROKEN, "error")])
def test_a_transient_failure_after_an_interrupt_is_no_error(
    failure: Exception, status: str
) -> None:
    world = World({"a": [["wait", failure]]})
    world.at[150] = world.interrupt.set
    assert world.run(continuous=True)["a"].status == status
    assert world.waits() == []


def group(
    lives: Mapping[str, list[list[object]]],
    comes: dict[int, list[str]],
    until: int,
    **world: Any,
) -> World:
    """A world whose models are of one group, and rest until something comes for
    them."""
    made = World(lives, groups=dict.fromkeys(lives, "g"), comes=comes, **world)
    made.at = {until: lambda: made.interrupt.set()}
    return made


def commits(world: World, name: str) -> list[int]:
    return [
        event.batch
        for event in world.of(BatchCommitted)
        if isinstance(event, BatchCommitted) and event.model == name
    ]


def test_a_model_of_a_group_rests_until_something_comes_for_it() -> None:
    world = group(
        {"a": [[0], [1], [2]], "b": [[0]]}, {5_000: ["a"], 9_000: ["a", "b"]}, 20_000
    )
    runs = world.run(continuous=True, resting={"b"})
    assert commits(world, "a") == [0, 1, 2] and commits(world, "b") == [0]
    assert {name: run.status for name, run in runs.items()} == {
        "a": "success",
        "b": "success",
    }
    assert len(world.of(QueryStarted)) == 2


def test_what_comes_while_a_model_is_at_work_is_taken_right_after() -> None:
    world = group({"a": [["wait"] * 20 + [0], [1]]}, {1_000: ["a"]}, 20_000)
    world.run(continuous=True)
    assert commits(world, "a") == [0, 1]


def test_as_many_models_of_a_group_are_at_work_as_it_may_have() -> None:
    most = 0

    class Counted(World):
        def pause(self, seconds: float) -> None:
            nonlocal most
            most = max(most, sum(job.over is False for job in jobs))
            World.pause(self, seconds)

        def start_model(self, model: str, emit: Emit) -> FakeJob | None:
            job = World.start_model(self, model, emit)
            jobs.extend([job] if job is not None else [])
            return job

    jobs: list[FakeJob] = []
    names = [f"m{number}" for number in range(8)]
    world = Counted(
        {name: [["wait", "wait", 0]] for name in names},
        groups=dict.fromkeys(names, "g"),
    )
    world.at = {20_000: lambda: world.interrupt.set()}
    world.run(continuous=True)
    assert most == 2 and all(commits(world, name) == [0] for name in names)


def test_a_model_of_a_group_that_fails_is_tried_again_and_the_others_go_on() -> None:
    lives: dict[str, list[list[object]]] = {
        "a": [[BROKEN], [BROKEN], [7]],
        "b": [[0], [1]],
        "c": [[BROKEN], [BROKEN]],
    }
    world = group(lives, {30_000: ["b"]}, 3 * SET_ASIDE_MS)
    lives["c"] += [[BROKEN]] * 9
    runs = world.run(continuous=True)
    assert commits(world, "a") == [7] and commits(world, "b") == [0, 1]
    assert {name: run.status for name, run in runs.items()} == {
        "a": "success",
        "b": "success",
        "c": "error",
    }
    (told,) = [
        event
        for event in world.of(Noted)
        if isinstance(event, Noted) and event.model == "c"
    ]
    assert "set aside" in told.text


def test_a_model_that_is_new_in_a_run_is_added_to_it() -> None:
    world = group(
        {"a": [[0]], "new": [[0], [1]]},
        {1_000: ["new"], 9_000: ["new"]},
        20_000,
        later={"new"},
    )
    runs = world.run(continuous=True)
    assert commits(world, "new") == [0, 1] and runs["new"].status == "success"


def test_a_model_does_not_wait_for_one_that_rests() -> None:
    world = group({"a": [[0]], "b": [[0]]}, {}, 20_000)
    world.groups = {"a": "g"}
    runs = world.run({"b": {"a"}}, continuous=True, resting={"a"})
    assert commits(world, "b") == [0] and runs["a"].tally.batches == 0
