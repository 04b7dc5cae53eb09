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

from lakesql.cli.options import Command, Given, Options, defer_options, read_interval, select_options
from lakesql.errors import UsageError

if TYPE_CHECKING:
    from lakesql.cli.run_review import RunReview
    from lakesql.cli.selection import Work
    from lakesql.compile.select import Select
    from lakesql.engine.spark.session import Opening
    from lakesql.events import Emit
    from lakesql.graph.manifest import Manifest
    from lakesql.observe.emitter import Renderer
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
    help="Process the available records and stop, or continue until Ctrl-C. The target's `run:` if left out.",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Continue although unread records are gone from their topic. The table's ledger keeps which.",
)
@click.option(
    "--full-refresh", is_flag=True, help="Fill the tables again: the same as `lakesql rebuild` of the selection."
)
@click.option(
    "--plan-first",
    is_flag=True,
    help="Show what a change since the last command does, as `lakesql plan --live` does, and ask. Needs a terminal.",
)
@click.option("--fail-fast", is_flag=True, help="End the run with the first model that fails for good.")
@click.option(
    "--fail-if-empty",
    is_flag=True,
    help="Fail a model that has read nothing because no file, topic or record is there. Otherwise that is a warning.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve /metrics for Prometheus and /healthz at this port while the run goes on; 0 chooses one.",
)
@click.option(
    "--metrics-address",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address that the port is opened at. Whoever reaches it can read the metrics.",
)
@click.option(
    "--healthy-within",
    metavar="INTERVAL",
    default="15 minutes",
    show_default=True,
    callback=read_interval,
    help="How long a model with something left to read may take for a batch, before /healthz says so. The wait for its "
    "trigger does not count.",
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
    """Run models: read what arrived in their streams, and write it to their tables.

    A table that does not exist is created first. Ctrl-C ends the run between two batches.
    """
    rebuild_from: RebuildFrom | None = None
    if full_refresh:
        if once is False:
            fix = "Rebuild first, and then run: lakesql run --full-refresh, lakesql run --continuous"
            raise UsageError.of("usage", "--full-refresh ends when the tables are filled.", fix=fix)
        once, rebuild_from = True, "start"
    if plan_first and not sys.stdin.isatty():
        what = "`lakesql run --plan-first` asks before it changes anything, and this is no terminal."
        raise UsageError.of("usage", what, fix="Leave it out, and see what the run would do with: lakesql plan --live")
    from lakesql.cli import selection
    from lakesql.run.job import RunOptions

    work = selection.load_work(given.options, select, exclude, with_tasks=rebuild_from is None, asks=True)
    how = RunOptions(
        continuous=work.manifest.target.run == "continuous" if once is None else not once,
        accept_data_loss=accept_data_loss,
        fail_fast=fail_fast,
        fail_if_empty=fail_if_empty,
    )
    metrics = None if metrics_port is None else MetricsAt(metrics_address, metrics_port, healthy_within)
    return run_selected(given.options, work, how, rebuild_from=rebuild_from, plan_first=plan_first, metrics=metrics)


@dataclass(frozen=True, slots=True)
class MetricsAt:
    """Where a run's metrics are served, and how long a model may take for a batch."""

    address: str
    port: int
    healthy_within: Duration


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
    """Compile and run the models of `work`, each after those that it reads, and show the progress. The exit code.

    Of models whose maintenance alone is in it, the tasks that are due are run. With `rebuild_from` the models'
    tables are filled again from there. With `plan_first` it is asked before anything is written, and the exit code is 1
    where the answer is no. With `build` the tests of each model run too, and one whose tests fail has failed.
    """
    from lakesql.run.start import brief

    names = (*work.names, *work.tasks)
    is_brief = not how.continuous and not work.tasks and brief.is_brief(work.manifest, names)
    how = replace(how, is_brief=is_brief)
    does_more = bool(work.tasks) or rebuild_from is not None or build is not None
    may_end_early = not (does_more or plan_first or how.continuous or how.accept_data_loss)
    with _ahead(work.manifest, names, how) if _begins_java(work, plan_first, may_end_early) else nullcontext() as ahead:
        from lakesql.cli import project
        from lakesql.compile.compiled import compiled_files
        from lakesql.run.streams.found_columns import ask_topics

        manifest = ask_topics(project.defer(work.manifest, work.names, options), work.names)
        compiled = compiled_files(manifest)
        compiled.compile(names)
        review: RunReview | None = None
        if names and plan_first:
            from lakesql.cli.run_review import ask_first

            if not ask_first(options, manifest, names):
                return 1
        elif names and rebuild_from is None:
            review = _review_change(options, manifest, names)
        project.write_manifest(manifest, compiled)
        if not names:
            return _exit_code(manifest, names)

        selects = compiled.selects(names)
        open_events = partial(_open_events, manifest, selects, how, metrics, options)
        if may_end_early and review is None:
            from lakesql.run.start.nothing_new import report_nothing_new

            if report_nothing_new(manifest, selects, open_events, how.fail_if_empty):
                return _exit_code(manifest, names)
        from lakesql.run.models import run_models

        jobs_by = _choose_jobs(manifest, work, how, rebuild_from, build)
        with open_events() as emit:
            succeeded = run_models(
                manifest,
                selects,
                how,
                emit,
                jobs_by=jobs_by,
                first=partial(review.say, emit=emit) if review is not None else None,
                order=build.order if build is not None else None,
                ahead=ahead,
                seeds=build.seeds if build is not None else None,
                reload=partial(project.load_project, options, asks=True),
            )
            return _exit_code(manifest, names, succeeded=succeeded)


def _begins_java(work: Work, plan_first: bool, may_end_early: bool) -> bool:
    """Whether the session is begun with at once: the run surely needs it."""
    names = (*work.names, *work.tasks)
    if not names or plan_first:
        return False
    if not may_end_early:
        return True
    from lakesql.run.start.open_ahead import may_have_nothing_new

    return not may_have_nothing_new(work.manifest, names)


@contextmanager
def _open_events(
    manifest: Manifest,
    selects: Mapping[str, Select],
    how: RunOptions,
    metrics: MetricsAt | None,
    options: Options,
) -> Iterator[Emit]:
    """Where the events of the run go: the screen, the logs, its metrics and the lineage."""
    from lakesql.cli.render import open_emitter, told

    with (
        served(manifest, tuple(selects), metrics, options) as others,
        told(manifest, selects, continuous=how.continuous) as lineage,
        open_emitter(options, manifest.outputs, shlex.join(sys.argv[1:]), (*others, *lineage)) as emit,
    ):
        yield emit


def _ahead(manifest: Manifest, names: Sequence[str], how: RunOptions) -> AbstractContextManager[Opening | None]:
    """The session of the run, which is begun with before it is needed."""
    from lakesql.run.start.open_ahead import open_ahead

    return open_ahead(manifest, names, how.is_brief, is_shared=not how.continuous)


def _exit_code(manifest: Manifest, names: Sequence[str], *, succeeded: bool = True) -> int:
    """0 where all that was to be done is done, the tables that have come into the feeds of groups among it."""
    return 0 if succeeded and not manifest.lacks_tables(names) else 1


def _review_change(options: Options, manifest: Manifest, names: Sequence[str]) -> RunReview | None:
    """A review of the models, if a file differs from what it was at the last command. It is worked out meanwhile."""
    from lakesql.cli import project
    from lakesql.run.manifest.former import holds_files

    texts = {**manifest.texts, **project.read_schemas(manifest, manifest.directory)}
    if holds_files(manifest.outputs.target, texts):
        return None
    from lakesql.cli.run_review import start_review  # only here: a project as it was needs none of it

    return start_review(options, manifest, names)


def _choose_jobs(
    manifest: Manifest, work: Work, how: RunOptions, rebuild_from: RebuildFrom | None, build: Build | None
) -> JobsBy | None:
    """What puts other jobs in the place of the models' streams; None where nothing does."""
    from lakesql.run.maintain import maintenance_jobs
    from lakesql.run.rebuild import rebuild_jobs

    jobs_by: JobsBy | None = maintenance_jobs(work.tasks, at_once=False) if work.tasks else None
    if rebuild_from is not None:
        jobs_by = rebuild_jobs(manifest, (*work.names, *work.tasks), rebuild_from, how.accept_data_loss)
    if build is not None:
        from lakesql.run.build import jobs_with_tests

        jobs_by = jobs_with_tests(build, jobs_by)
    return jobs_by


@contextmanager
def served(
    manifest: Manifest, names: tuple[str, ...], metrics: MetricsAt | None, options: Options
) -> Iterator[Sequence[Renderer]]:
    """The renderer that keeps the metrics, which are served while this is open; none where nobody asked for them."""
    if metrics is None:
        yield ()
        return
    from lakesql.cli.report import say
    from lakesql.observe.metrics import RunMetrics, labels_of
    from lakesql.run.tell.serve_metrics import serve_metrics

    models = {name: manifest.models[name] for name in names}
    kept = RunMetrics(
        {name: labels_of(model.table, name) for name, model in models.items()},
        {name: model.trigger for name, model in models.items()},
    )
    with serve_metrics(kept, metrics.address, metrics.port, metrics.healthy_within.length_ms) as port:
        say(f"Metrics are at http://{metrics.address}:{port}/metrics", options)
        yield (kept,)
