"""The seeds of a build: filled before its models run, and tested before a model reads
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lakesql.engine.spark.session import new_session
from lakesql.events import Emit, Noted
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.model.data_tests import DataTest
from lakesql.plan.data_test_results import TestResult, is_bad
from lakesql.run.seeds.seed import fill_seeds
from lakesql.run.start.context import RunContext
from lakesql.run.test.run_data_tests import Engine, TestRun, run_data_tests

NOT_FILLED = "its seed was not filled"


@dataclass(slots=True)
class SeedsFirst:
    """The seeds of a build and their tests; `tests` are those over tables of seeds
    alone.

    `results` are those of tests that have run, by name. `failed` are the seeds that
    could not be filled or whose tests fail, each with the reason.
    """

    manifest: Manifest
    names: tuple[str, ...]
    tests: tuple[DataTest, ...]
    engine: Engine
    is_forced: bool = False
    results: dict[str, TestResult] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def fill(self, emit: Emit) -> None:
        """Fill the seeds that have changed."""
        failed = fill_seeds(self.manifest, self.names, emit, is_forced=self.is_forced)
        self.failed.update(
            {name: f"seed {name} was not filled" for name in sorted(failed)}
        )

    def test(
        self, context: RunContext, models: Sequence[str], emit: Emit
    ) -> Mapping[str, str]:
        """Test the seeds that were filled. Returns those of `models` that are to be
        skipped because they read a failed seed, directly or through another model, each
        with the reason."""
        tests = [
            test
            for test in self.tests
            if self.failed.keys().isdisjoint(test.depends_on)
        ]
        if tests:
            session = partial(new_session, context.session)
            run = TestRun(self.manifest, context.catalog, session, self.engine)
            for result in run_data_tests(run, tests, partial(self._tell, emit)):
                if is_bad([result]):
                    fails = f"data test {result.test.name} fails"
                    self.failed.update(dict.fromkeys(result.test.depends_on, fails))
        skipped: dict[str, str] = {}
        for name, why in self.failed.items():
            below = self.manifest.graph.downstream([node_id("seed", name)])
            skipped |= {
                model: why
                for model in models
                if node_id("model", model) in below and model not in skipped
            }
        return skipped

    def all_results(self) -> list[TestResult]:
        """The results of all tests; those that were not reached are skipped."""
        return [
            self.results.get(test.name)
            or TestResult(test, "skipped", message=NOT_FILLED)
            for test in self.tests
        ]

    def _tell(self, emit: Emit, result: TestResult) -> None:
        self.results[result.test.name] = result
        emit(
            Noted(
                f"test {result.test.name}: {result.status}", result.test.depends_on[0]
            )
        )
