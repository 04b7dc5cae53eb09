"""`lakesql run`: run models, and show their progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import (
    Command,
    Given,
    MetricsAt,
    Options,
    defer_options,
    read_interval,
    select_options,
)
from lakesql.errors import UsageError

if TYPE_CHECKING:
    from lakesql.cli.run_review import RunReview
    from lakesql.cli.selection import Work
    from lakesql.compile.select import Select
    from lakesql.engine.spark.session import Opening
    from lakesql.events import Emit
    from lakesql.graph.manifest import Manifest
    from lakesql.project.duration import Duration
    from lakesql.run.build import Build
    from lakesql.run.job import RunOptions
    from lakesql.run.model_jobs import JobsBy
    from lakesql.run.replacement.replacement_table import RebuildFrom


@click.command("run", cls=Command)
@select_options
@defer_options
@click.option(
    "--once/--continuous",
    default=None,
    help="Process the available records and end, or continue until Ctrl-C. The target's `run:` if left out.",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Continue although unread records are gone from their topic. The table's ledger lists them.",
)
@click.option(
    "--full-refresh",
    is_flag=True,
    help="Fill the tables again, as `lakesql rebuild` with the same selection.",
)
@click.option(
    "--plan-first",
    is_flag=True,
    help=(
        "Show what has changed since the last command, as `lakesql plan --live` does, and ask for confirmation. "
        "Needs a terminal."
    ),
)
@click.option(
    "--fail-fast",
    is_flag=True,
    help="End the run at the first model that finally fails.",
)
@click.option(
    "--fail-if-empty",
    is_flag=True,
    help="Fail a model that has read nothing because no file, topic or record exists. Otherwise that is a warning.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Port on which /metrics for Prometheus and /healthz are served during the run; 0 chooses a free one.",
)
@click.option(
    "--metrics-address",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address on which the port is opened. Anyone who can reach it can read the metrics.",
)
@click.option(
    "--healthy-within",
    metavar="INTERVAL",
    default="15 minutes",
    show_default=True,
    callback=read_interval,
    help=(
        "Maximum time of a batch of a model with records to read, after which /healthz reports a failure. The wait "
        "for its trigger does not count."
    ),
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    once: bool | None,
    accept_data_loss: bool,
    full_refresh: bool,
    plan_first: bool,
    fail_fast: bool,
    fail_if_empty: bool,
    metrics_port: int | None,
    metrics_address: str,
    healthy_within: Duration,
) -> int:
    """Run models: read new records of their streams, and write them to their tables.

    A table that does not exist is created first. Ctrl-C ends the run between two
    batches.
    """
    rebuild_from: RebuildFrom | None = None
    if full_refresh:
        if once is False:
            fix = "Rebuild first, and then run: lakesql run --full-refresh, lakesql run --continuous"
            raise UsageError.of(
                "usage", "--full-refresh ends when the tables are filled.", fix=fix
            )
        once, rebuild_from = True, "start"
    if plan_first and not sys.stdin.isatty():
        what = "`lakesql run --plan-first` asks before it changes anything, and this is no terminal."
        raise UsageError.of(
            "usage",
            what,
            fix="Leave it out, and see what the run would do with: lakesql plan --live",
        )
    from lakesql.cli import selection
    from lakesql.run.job import RunOptions

    work = selection.load_work(
        given.options, select, exclude, with_tasks=rebuild_from is None, asks=True
    )
    how = RunOptions(
        continuous=work.manifest.target.run == "continuous"
        if once is None
        else not once,
        accept_data_loss=accept_data_loss,
        fail_fast=fail_fast,
        fail_if_empty=fail_if_empty,
    )
    metrics = (
        None
        if metrics_port is None
        else MetricsAt(metrics_address, metrics_port, healthy_within)
    )
    return run_selected(
        given.options,
        work,
        how,
        rebuild_from=rebuild_from,
        plan_first=plan_first,
        metrics=metrics,
    )


def run_selected(
    options: Options,
    work: Work,
    how: RunOptions,
    *,
    rebuild_from: RebuildFrom | None = None,
    plan_first: bool = False,
    metrics: MetricsAt | None = None,
    build: Build | None = None,
) -> int:
    """Compile and run the models of `work`, each after those that it reads, and show
    the progress. Returns the exit code.

    Of the models in `work.tasks`, only the maintenance tasks that are due are run. With
    `rebuild_from` the models' tables are filled again, reading from there. With
    `plan_first` the user is asked before anything is written; the exit code is 1 if the
    answer is no. With `build` the tests of each model run too, and a model whose tests
    fail has failed.
    """
    how = replace(how, is_brief=_is_brief(work, how))
    asked = RunRequest(options, work, how, rebuild_from, plan_first, metrics, build)
    with _ahead(asked) as ahead:
        return _run(asked, ahead)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The arguments of `run_selected`."""

    options: Options
    work: Work
    how: RunOptions
    rebuild_from: RebuildFrom | None
    plan_first: bool
    metrics: MetricsAt | None
    build: Build | None

    @property
    def names(self) -> tuple[str, ...]:
        """The models that are run, then those of which only maintenance tasks are
        run."""
        return (*self.work.names, *self.work.tasks)

    @property
    def may_end_early(self) -> bool:
        """Whether the run has nothing to do if its models have nothing new to read."""
        does_more = (
            bool(self.work.tasks)
            or self.rebuild_from is not None
            or self.build is not None
        )
        return not (
            does_more
            or self.plan_first
            or self.how.continuous
            or self.how.accept_data_loss
        )


def _run(asked: RunRequest, ahead: Opening | None) -> int:
    """Compile the models, review what has changed in them, and run them unless they
    have nothing new to read. Returns the exit code."""
    from lakesql.cli import project
    from lakesql.compile.compiled import compiled_files
    from lakesql.run.streams.found_columns import ask_topics

    work, names = asked.work, asked.names
    manifest = ask_topics(
        project.defer(work.manifest, work.names, asked.options), work.names
    )
    compiled = compiled_files(manifest)
    compiled.compile(names)
    if asked.plan_first and not _is_agreed_to(asked, manifest):
        return 1
    review = _review_change(asked, manifest)
    project.write_manifest(manifest, compiled)
    if not names:
        return _exit_code(manifest, names)
    selects = compiled.selects(names)
    if review is None and _finds_nothing_new(asked, manifest, selects):
        return _exit_code(manifest, names)
    return _exit_code(
        manifest, names, succeeded=_run_jobs(asked, manifest, selects, review, ahead)
    )


def _is_brief(work: Work, how: RunOptions) -> bool:
    """Whether the run is expected to be so short that Java's optimizing compiler would
    not pay off."""
    from lakesql.run.start.brief import is_brief

    return not how.continuous and not work.tasks and is_brief(work.manifest, work.names)


def _ahead(asked: RunRequest) -> AbstractContextManager[Opening | None]:
    """A context in which the run's Spark session is opened while the models are
    compiled; it yields None if the run may not need a session."""
    manifest, names, how = asked.work.manifest, asked.names, asked.how
    if not names or asked.plan_first:
        return nullcontext()
    from lakesql.run.start.open_ahead import may_have_nothing_new, open_ahead

    if asked.may_end_early and may_have_nothing_new(manifest, names):
        return nullcontext()
    return open_ahead(manifest, names, how.is_brief, is_shared=not how.continuous)


def _is_agreed_to(asked: RunRequest, manifest: Manifest) -> bool:
    """Whether the user, having been shown what the change does, agrees to run it. True
    without a question if there are no models."""
    if not asked.names:
        return True
    from lakesql.cli.run_review import ask_first

    return ask_first(asked.options, manifest, asked.names)


def _review_change(asked: RunRequest, manifest: Manifest) -> RunReview | None:
    """A review of the models if a file has changed since the last command; it is
    computed in the background. None if no file has changed, if `plan_first` has shown
    it already, or if the tables are filled again."""
    if not asked.names or asked.plan_first or asked.rebuild_from is not None:
        return None
    from lakesql.cli import project
    from lakesql.run.manifest.former import holds_files

    texts = {**manifest.texts, **project.read_schemas(manifest, manifest.directory)}
    if holds_files(manifest.outputs.target, texts):
        return None
    # only here: an unchanged project does not need it
    from lakesql.cli.run_review import start_review

    return start_review(asked.options, manifest, asked.names)


def _finds_nothing_new(
    asked: RunRequest, manifest: Manifest, selects: Mapping[str, Select]
) -> bool:
    """Whether the models certainly have nothing new to read. If so, this is reported,
    and the run is over."""
    if not asked.may_end_early:
        return False
    from lakesql.run.start.nothing_new import report_nothing_new

    open_events = partial(_open_events, asked, manifest, selects)
    return report_nothing_new(manifest, selects, open_events, asked.how.fail_if_empty)


def _run_jobs(
    asked: RunRequest,
    manifest: Manifest,
    selects: Mapping[str, Select],
    review: RunReview | None,
    ahead: Opening | None,
) -> bool:
    """Run the models, or the rebuilds and maintenance tasks in their place, and show
    the events. Returns whether none failed."""
    from lakesql.cli import project
    from lakesql.run.models import run_models

    build, jobs_by = asked.build, _choose_jobs(asked, manifest)
    with _open_events(asked, manifest, selects) as emit:
        return run_models(
            manifest,
            selects,
            asked.how,
            emit,
            jobs_by=jobs_by,
            first=partial(review.say, emit=emit) if review is not None else None,
            order=build.order if build is not None else None,
            ahead=ahead,
            seeds=build.seeds if build is not None else None,
            reload=partial(project.load_project, asked.options, asks=True),
        )


@contextmanager
def _open_events(
    asked: RunRequest, manifest: Manifest, selects: Mapping[str, Select]
) -> Iterator[Emit]:
    """The function that emits the run's events to the screen, the logs, the metrics and
    the lineage."""
    from lakesql.cli.render import open_emitter, served, told

    options = asked.options
    with (
        served(manifest, tuple(selects), asked.metrics, options) as others,
        told(manifest, selects, continuous=asked.how.continuous) as lineage,
        open_emitter(
            options, manifest.outputs, shlex.join(sys.argv[1:]), (*others, *lineage)
        ) as emit,
    ):
        yield emit


def _exit_code(
    manifest: Manifest, names: Sequence[str], *, succeeded: bool = True
) -> int:
    """0 if everything was done, 1 if a model failed, or if new tables in the groups'
    feeds were left out."""
    return 0 if succeeded and not manifest.lacks_tables(names) else 1


def _choose_jobs(asked: RunRequest, manifest: Manifest) -> JobsBy | None:
    """What replaces the models' streaming jobs by others: maintenance, rebuilds, or
    jobs with tests. None if nothing does."""
    from lakesql.run.maintain import maintenance_jobs
    from lakesql.run.rebuild import rebuild_jobs

    tasks = asked.work.tasks
    jobs_by: JobsBy | None = maintenance_jobs(tasks, at_once=False) if tasks else None
    if asked.rebuild_from is not None:
        jobs_by = rebuild_jobs(
            manifest, asked.names, asked.rebuild_from, asked.how.accept_data_loss
        )
    if asked.build is not None:
        from lakesql.run.build_jobs import jobs_with_tests

        jobs_by = jobs_with_tests(asked.build, jobs_by)
    return jobs_by
