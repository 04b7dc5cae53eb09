"""`lakesql test`: data tests of tables, and unit tests of models."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import (
    Command,
    Filled,
    Given,
    Options,
    engine_option,
    select_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakesql.engine.sources.binding import StreamBinding
    from lakesql.graph.manifest import Manifest
    from lakesql.model.data_tests import DataTest
    from lakesql.model.unit_tests import UnitTest
    from lakesql.plan.data_test_results import TestResult
    from lakesql.run.test.run_data_tests import Engine
    from lakesql.unit.outcomes import Result


@click.command("test", cls=Command)
@select_options
@click.option("--unit", is_flag=True, help="Run only unit tests, which read no table.")
@click.option("--data", is_flag=True, help="Run only data tests.")
@engine_option
@click.option(
    "--record",
    metavar="NAME",
    type=Filled(str),
    help=(
        "Write a unit test of the selected model instead: the first recorded records of its streams, and the rows "
        "that the model makes of them."
    ),
)
@click.option(
    "--records",
    metavar="N",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of records of each stream.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Read all rows of tables, also those that a test has passed before.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["failures", "needs-spark"]),
    help=(
        "`failures`: a unit test that needs Spark is not a failure. `needs-spark`: exit with 3 if one needs Spark "
        "and none fails. If left out, a unit test without an answer is a failure, with exit code 1."
    ),
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    unit: bool,
    data: bool,
    engine: Engine,
    record: str | None,
    records: int,
    full: bool,
    output: str,
    fail_on: str | None,
) -> int:
    """Run unit tests of models, and data tests of their tables.

    Both run on DuckDB. A test is not run there if it might have another result than on
    Spark: a unit test reports this, and for data tests Spark is started. Data tests
    read the tables as they are, and write only the failing rows of a test that stores
    them. Exit code 1: a test fails, cannot be run, or needs Spark but does not run on
    it; warnings do not change the exit code.
    """
    from lakesql.cli import project, selection
    from lakesql.cli.report import say
    from lakesql.compile.compiled import compiled_files

    _check_options(unit, data, record)
    manifest = project.load_project(given.options)
    names, data_tests = selection.select_tests(manifest, select, exclude, given.options)
    if record:
        return _record(manifest, names, record, records)
    data_tests = () if unit else data_tests
    unit_tests = (
        () if data else [test for test in manifest.unit_tests if test.model in names]
    )
    if data_tests:
        project.check_tests(manifest, compiled_files(manifest))
    if not unit_tests and not data_tests:
        say(
            f"No selected model has a {_kind_of_tests(unit, data)}: nothing to do.",
            given.options,
        )
    shows = output == "text"
    units: list[Result] = []
    if unit_tests or unit:
        reads_later = () if data_tests else None
        units = run_unit_tests(manifest, unit_tests, engine, given.options, reads_later)
        _show_units(units, shows)
    results: list[TestResult] = []
    if data_tests:
        results = run_tests_of_data(
            manifest, data_tests, engine, full, given.options, shows=shows
        )
    if not shows:
        click.echo(render_document(units, results))
    return exit_code(units, results, fail_on)


def _check_options(unit: bool, data: bool, record: str | None) -> None:
    """Raise `UsageError` (`usage`) if two options contradict each other."""
    from lakesql.errors import UsageError

    if unit and data:
        raise UsageError.of(
            "usage", "--unit and --data are all tests there are.", fix="Leave both out."
        )
    if data and record:
        raise UsageError.of(
            "usage",
            "--record writes a unit test, and --data means data tests.",
            fix="Leave one out.",
        )


def _kind_of_tests(unit: bool, data: bool) -> str:
    """The kind of test that the options select, as a word for messages."""
    if unit:
        return "unit test"
    if data:
        return "data test"
    return "test"


def _show_units(units: Sequence[Result], shows: bool) -> None:
    """Print the results of unit tests as text; nothing if `shows` is false."""
    if not shows:
        return
    from lakesql.unit.outcomes import render_text

    click.echo(render_text(units), nl=False)


def run_unit_tests(
    manifest: Manifest,
    tests: Sequence[UnitTest],
    engine: Engine,
    options: Options,
    reads_later: Iterable[StreamBinding] | None = None,
) -> list[Result]:
    """The results of unit tests, run on DuckDB, or all in one session of Spark.
    `reads_later` is as in `run_tests_on_spark`."""
    if engine == "spark" and tests:
        from lakesql.cli.report import say
        from lakesql.run.test.unit_tests_on_spark import run_tests_on_spark

        return run_tests_on_spark(
            manifest, tests, lambda text: say(text, options), reads_later
        )
    from lakesql.unit.run import run_tests

    return run_tests(manifest, tests)


def answer_unit_tests(
    manifest: Manifest,
    tests: Sequence[UnitTest],
    engine: Engine,
    options: Options,
    reads_later: Iterable[StreamBinding],
) -> list[Result]:
    """The results of unit tests; those that DuckDB cannot answer are run on Spark, so
    that each passes or fails."""
    if engine == "spark":
        return run_unit_tests(manifest, tests, "spark", options, reads_later)
    from lakesql.unit.outcomes import unanswered

    results = run_unit_tests(manifest, tests, "duckdb", options)
    left = unanswered(results)
    answers = iter(
        run_unit_tests(
            manifest, [result.test for result in left], "spark", options, reads_later
        )
    )
    return [next(answers) if result in left else result for result in results]


def _record(manifest: Manifest, names: Sequence[str], name: str, records: int) -> int:
    from lakesql.errors import UsageError
    from lakesql.run.test.record_test import record_test

    if len(names) != 1:
        what = f"--record writes a test of one model, and {len(names)} are selected."
        raise UsageError.of("usage", what, fix="Name it: --select MODEL.")
    made = record_test(manifest, names[0], name, records)
    click.echo(
        f"{made.path}: {made.records} records make {made.rows} rows and {made.dead_letters} dead letters."
    )
    click.echo(
        "They are what the model makes now: check them before you commit the file."
    )
    for why in dict.fromkeys(made.left_out):
        number = made.left_out.count(why)
        some = "1 record is" if number == 1 else f"{number} records are"
        click.echo(f"{some} left out, as Spark alone knows what becomes of {why}.")
    return 0


def run_tests_of_data(
    manifest: Manifest,
    tests: Sequence[DataTest],
    engine: Engine,
    full: bool,
    options: Options,
    *,
    shows: bool,
) -> list[TestResult]:
    """The results of data tests. Each is shown as it ends if `shows` is true; all are
    written to `target/test_results.json`."""
    from lakesql.catalog.connect import open_catalog
    from lakesql.cli.data_test_report import result_lines, summary_line
    from lakesql.run.test.run_data_tests import TestRun, run_data_tests

    def show(result: TestResult) -> None:
        click.echo("".join(f"{line}\n" for line in result_lines(result)), nl=False)

    with _session_on_demand(manifest, options) as open_session:
        run = TestRun(
            manifest, open_catalog(manifest.target.catalog), open_session, engine, full
        )
        results = run_data_tests(run, tests, show if shows else lambda _: None)
    write_results(manifest, results)
    if shows:
        click.echo(summary_line(results))
    return results


def report_tests(
    manifest: Manifest,
    units: Sequence[Result],
    results: Sequence[TestResult],
    options: Options,
) -> None:
    """Show the results of a build's tests, passed ones only as a count, and write the
    data tests' results."""
    from lakesql.cli.data_test_report import result_lines, summary_line
    from lakesql.unit.outcomes import Passed, render_text

    write_results(manifest, results)
    if options.log_format == "json":
        return
    if any(not isinstance(result.outcome, Passed) for result in units):
        click.echo(render_text(units), nl=False)
    for result in results:
        if result.status != "pass":
            click.echo("".join(f"{line}\n" for line in result_lines(result)), nl=False)
    if results:
        click.echo(summary_line(results))


def write_results(manifest: Manifest, results: Sequence[TestResult]) -> None:
    """Write `target/test_results.json`."""
    from lakesql.cli.data_test_report import render_results
    from lakesql.clock import now_ms
    from lakesql.project.files import write_atomically
    from lakesql.secrets import find_secrets

    secrets = find_secrets(os.environ)
    command_line = secrets.redact(shlex.join(sys.argv[1:]))
    text = render_results(
        results, command=command_line, target=manifest.target.name, at_ms=now_ms()
    )
    write_atomically(
        manifest.outputs.target / "test_results.json", secrets.redact(text)
    )


def render_document(units: Sequence[Result], results: Sequence[TestResult]) -> str:
    """All results as one JSON document: the unit tests as `tests`, the data tests as
    `data_tests`."""
    import json

    from lakesql.cli.data_test_report import count_statuses, plain_results
    from lakesql.unit.outcomes import render_json

    said = json.loads(render_json(units))
    said["data_summary"] = count_statuses(results)
    said["data_tests"] = plain_results(results)
    return json.dumps(said, indent=2, ensure_ascii=False)


def exit_code(
    units: Sequence[Result], results: Sequence[TestResult], fail_on: str | None
) -> int:
    """1 if a test fails or cannot be run. If a unit test needs Spark: 0 with `fail_on`
    `failures`, 3 with `needs-spark`, 1 without it. Otherwise 0."""
    from lakesql.plan.data_test_results import is_bad
    from lakesql.unit.outcomes import is_failed, unanswered

    if is_bad(results) or any(is_failed(result) for result in units):
        return 1
    if fail_on == "failures" or not unanswered(units):
        return 0
    return 3 if fail_on == "needs-spark" else 1


@contextmanager
def _session_on_demand(
    manifest: Manifest, options: Options
) -> Iterator[Callable[[], SparkSession]]:
    """A function that opens a Spark session when it is called. The session is closed at
    the end of the block."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def open_session() -> SparkSession:
            from lakesql.cli.report import say
            from lakesql.run.start.spark import open_spark, session_settings

            say("Tests need Spark, which is started.", options)
            settings = session_settings(
                manifest, (), lambda text: say(text, options), is_shared=True
            )
            session, _ = stack.enter_context(
                open_spark(settings, lambda text: say(text, options))
            )
            return session

        yield open_session
