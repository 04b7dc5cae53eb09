"""`lakesql build`: run models and test them, in the order in which they read each
other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, engine_option, select_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakesql.cli.options import Options
    from lakesql.cli.selection import Work
    from lakesql.graph.manifest import Manifest
    from lakesql.model.unit_tests import UnitTest
    from lakesql.run.build import Build
    from lakesql.run.replacement.replacement_table import RebuildFrom
    from lakesql.run.test.run_data_tests import Engine
    from lakesql.unit.outcomes import Result


@click.command("build", cls=Command)
@select_options
@engine_option
@click.option(
    "--full-refresh",
    is_flag=True,
    help="Fill the tables again, as `lakesql rebuild` does, and test them.",
)
@click.option(
    "--fail-fast",
    is_flag=True,
    help="End the build at the first model that finally fails.",
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    engine: Engine,
    full_refresh: bool,
    fail_fast: bool,
) -> int:
    """Run models and their tests: unit tests before a model, data tests of its table
    after it.

    Before them, seeds whose files or contracts have changed are filled and tested.

    Unit tests that DuckDB cannot run are run on Spark. Each model processes the
    available records and ends, as in `lakesql run --once`. A model whose tests fail has
    failed, and the models that read it are skipped. Warnings stop nothing. Exit code 1:
    a model, or a test, fails.
    """
    from lakesql.cli import project, selection
    from lakesql.cli.run import run_selected
    from lakesql.cli.test import exit_code, report_tests, run_tests_of_data
    from lakesql.compile.compiled import compiled_files
    from lakesql.run.build import plan_build
    from lakesql.run.job import RunOptions

    rebuild_from: RebuildFrom | None = "start" if full_refresh else None
    work = selection.load_work(
        given.options,
        select,
        exclude,
        with_tests=True,
        with_tasks=not full_refresh,
        with_seeds=True,
        asks=True,
    )
    manifest, names = work.manifest, work.names
    project.check_tests(manifest, compiled_files(manifest))
    if work.seeds:
        from lakesql.run.seeds.check_seeds import check_seeds

        check_seeds(manifest, work.seeds)
    units = [test for test in manifest.unit_tests if test.model in names]
    answers = _answer_units(manifest, names, units, engine, given.options)
    build = plan_build(
        manifest, names, work.tests, answers, engine, work.seeds, full_refresh
    )
    how = RunOptions(fail_fast=fail_fast)
    if work.seeds and not (names or work.tasks):
        return _build_seeds(given.options, work, build, engine, is_forced=full_refresh)
    code = run_selected(
        given.options, work, how, rebuild_from=rebuild_from, build=build
    )
    results = build.all_results()
    if build.loose and not code:
        results += run_tests_of_data(
            manifest, build.loose, engine, False, given.options, shows=False
        )
    found = [result for name in names for result in build.unit_results.get(name, ())]
    report_tests(manifest, found, results, given.options)
    return code or exit_code(found, results, None)


def _build_seeds(
    options: Options, work: Work, build: Build, engine: Engine, *, is_forced: bool
) -> int:
    """Fill and test seeds without any model, which needs no Java. Returns the exit
    code."""
    import shlex
    import sys

    from lakesql.cli.render import open_emitter, told
    from lakesql.cli.test import exit_code, report_tests, run_tests_of_data
    from lakesql.run.seeds.seed import run_seeds

    manifest = work.manifest
    with (
        told(manifest, {}, continuous=False) as lineage,
        open_emitter(
            options, manifest.outputs, shlex.join(sys.argv[1:]), lineage
        ) as emit,
    ):
        succeeded = run_seeds(manifest, work.seeds, emit, is_forced=is_forced)
    if not succeeded:
        report_tests(manifest, [], build.all_results(), options)
        return 1
    tests = [*build.seeds.tests, *build.loose]
    results = (
        run_tests_of_data(manifest, tests, engine, False, options, shows=False)
        if tests
        else []
    )
    report_tests(manifest, [], results, options)
    return exit_code([], results, None)


def _answer_units(
    manifest: Manifest,
    names: Sequence[str],
    tests: Sequence[UnitTest],
    engine: Engine,
    options: Options,
) -> list[Result]:
    """The results of the unit tests. They run before the run opens its own Spark
    session in the same process."""
    if not tests:
        return []
    from lakesql.cli.test import answer_unit_tests
    from lakesql.compile.build_select import build_selects
    from lakesql.run.streams.bind import bind_selects

    bound = bind_selects(manifest, build_selects(manifest, names))
    bindings = [it for each in bound.values() for it in each.bindings]
    return answer_unit_tests(manifest, tests, engine, options, bindings)
