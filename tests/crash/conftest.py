"""Runners that are started ahead of time, and the seed of each case."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.crash.harness import Runners
from tests.spark.project import Lake, Project


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case for each round; what is left to chance in it follows from its seed."""
    if "seed" in metafunc.fixturenames:
        first, rounds = (
            metafunc.config.getoption("--seed"),
            metafunc.config.getoption("--crash-rounds"),
        )
        metafunc.parametrize(
            "seed", range(first, first + rounds), ids=lambda seed: f"seed{seed}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure says how it is repeated."""
    report = yield
    if report.failed and hasattr(item, "callspec"):
        seed = item.callspec.params["seed"]
        report.sections.append(
            (f"seed {seed}, repeat with", f"pytest '{item.nodeid}' --seed {seed}")
        )
    return report


@pytest.fixture(scope="session")
def runners(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    found = Runners(Project(lake, tmp_path_factory.mktemp("runners"), "runners"))
    yield found
    found.close()
