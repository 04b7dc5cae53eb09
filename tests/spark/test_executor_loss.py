"""What an executor holds of a batch, and no other place does, is gone with it: the
batch is tried again."""

from __future__ import annotations

from lakesql.compile.build_select import build_selects
from lakesql.engine.batch.sink import Step
from lakesql.events import BatchCommitted, Event, Retrying
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.models import run_selects
from lakesql.run.start.context import RunContext
from lakesql.run.streams.bind import bind_selects
from tests.spark.project import Project, Ran


def test_rows_that_are_gone_with_their_executor_are_made_again(
    project: Project,
) -> None:
    """The rows of an upserting model that reads a table are kept by executors alone."""
    project.stream("s", {"id": "int", "k": "int"}, max_per_batch=1)
    project.model(
        "names", "SELECT k, concat('n', k) AS name FROM {s}", mode="upsert", keys="k"
    )
    project.model(
        "named",
        "SELECT s.id, n.name FROM {s} s JOIN {names!r} n ON n.k = s.k",
        mode="upsert",
        keys="id",
    )
    for number in range(3):
        project.record("s", [{"id": number, "k": number % 2}])
    project.run("names").check()
    lost: list[int] = []

    def reached(model: str, step: Step) -> None:
        if step == "stage" and len(lost) < 1:
            lost.append(lose_all_blocks(project))

    manifest, events = project.manifest(), list[Event]()
    context = RunContext(
        manifest,
        project.lake.session,
        project.lake.catalog,
        events.append,
        reached=reached,
    )
    selects = bind_selects(manifest, build_selects(manifest, ["named"]))
    succeeded = run_selects(context, selects, RunOptions(), Interrupt())

    ran = Ran(succeeded, tuple(events)).check()
    assert lost[0] > 0
    assert [
        problem.condition for event in ran.of(Retrying) for problem in event.problems
    ] == ["executor-lost"]
    assert [event.batch for event in ran.of(BatchCommitted)] == [0, 1, 2]
    assert project.rows("named", "id") == [
        {"id": number, "name": f"n{number % 2}"} for number in range(3)
    ]


def lose_all_blocks(project: Project) -> int:
    """Leave Spark as the loss of all executors leaves it: of how many frames what they
    kept is gone."""
    context = project.lake.session.sparkContext._jsc
    master = context.sc().env().blockManager().master()
    kept = list(context.getPersistentRDDs().keySet())
    for number in kept:
        master.removeRdd(number, True)
    return len(kept)
