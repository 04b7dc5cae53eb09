"""Runs unit tests of models on Spark: each batch by the code of a run, into tables of
the tests' own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.engine.sources.binding import StreamBinding
from lakesql.errors import Problem, ProjectError
from lakesql.graph.manifest import Manifest, with_stored_rows
from lakesql.model.unit_tests import UnitTest
from lakesql.run.start.context import RunContext
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.streams.bind import bind_select
from lakesql.run.test.build_tested import build_tested
from lakesql.run.test.unit_target import embedded, on_recordings
from lakesql.run.test.unit_test_run import SparkTest
from lakesql.unit.outcomes import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_tests_on_spark(
    manifest: Manifest,
    tests: Sequence[UnitTest],
    say: Callable[[str], None],
    reads_later: Iterable[StreamBinding] | None = None,
) -> list[Result]:
    """The results of the tests, in their order. All run in one session, on a temporary
    catalog.

    The temporary catalog has the name of the target's, and nothing of the target is
    accessed. `reads_later` are the streams that a later session of this process reads,
    None if there is none: Java gets their jars too, as jars cannot be added later.
    Raises `ProjectError` with all problems of SELECTs, before Java is started, and of
    fixtures; and what opening Spark raises.
    """
    with TemporaryDirectory(prefix="lakesql-unit-") as folder:
        own = with_stored_rows(embedded(manifest, Path(folder)))
        build_all(own, tests)
        settings = session_settings(own, (), say, is_shared=True)
        if settings.warm is not None:
            reads_later = reads_later or ()
            settings = replace(settings, warm=settings.warm.beside("unit"))
        if reads_later is not None:
            others = session_settings(manifest, reads_later, say, is_shared=True)
            settings = replace(
                settings, jars=tuple(dict.fromkeys([*settings.jars, *others.jars]))
            )
        with open_spark(settings, say) as (session, catalog):
            return run_in_session(own, session, catalog, tests)


def build_all(manifest: Manifest, tests: Iterable[UnitTest]) -> None:
    """Build the SELECTs of the tests' models. Raises `ProjectError` with all of their
    problems, and those of tests that fix a clock which cannot be fixed."""
    with _all_problems() as attempt:
        for test in tests:
            attempt(partial(build_tested, manifest, test))


def run_in_session(
    manifest: Manifest,
    session: SparkSession,
    catalog: OpenCatalog,
    tests: Iterable[UnitTest],
) -> list[Result]:
    """The results of the tests; their tables are dropped afterwards. The manifest's
    target is that of `embedded`.

    Raises `ProjectError` with all problems of SELECTs and fixtures.
    """
    results: list[Result] = []

    def run(test: UnitTest, number: int) -> None:
        results.append(_run(manifest, session, catalog, test, number))

    with _all_problems() as attempt:
        for number, test in enumerate(tests):
            attempt(partial(run, test, number))
    return results


def _run(
    manifest: Manifest,
    session: SparkSession,
    catalog: OpenCatalog,
    test: UnitTest,
    number: int,
) -> Result:
    folder = Path(manifest.target.checkpoints).parent / f"test-{number}"
    own, select, built = build_tested(on_recordings(manifest, folder), test)
    context = RunContext(own, session, catalog, lambda event: None)
    with closing(context.brokers):
        return Result(
            test,
            SparkTest(context, bind_select(own, select), test, built, folder).outcome(),
        )


@contextmanager
def _all_problems() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yields a function that runs a callable and collects the problems of its
    `ProjectError`; all of them are raised together at the end."""
    problems = dict[Problem, None]()

    def attempt(what: Callable[[], object]) -> None:
        try:
            what()
        except ProjectError as error:
            problems.update(dict.fromkeys(error.problems))

    yield attempt
    if problems:
        raise ProjectError(problems)
