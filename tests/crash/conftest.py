"""Runners that are started ahead of time, and the seed of each case."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.crash.harness import Runners, choose_share
from tests.spark.project import Lake


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the steps at which a runner dies or sleeps, keep the share that the seed chooses."""
    crashes = [item for item in items if isinstance(item, pytest.Function) and item.get_closest_marker("crash")]
    cases = [item for item in crashes if "step" in item.fixturenames]
    chosen = choose_share(cases, config.getoption("--crash-share"), config.getoption("--crash-seed"))
    left_out = {*cases} - {*chosen}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Say how the same cases are run again."""
    seed, share = config.getoption("--crash-seed"), config.getoption("--crash-share")
    chosen = any(item.get_closest_marker("crash") for item in items)
    return [f"the cases of --crash-seed {seed} --crash-share {share}"] if chosen else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case for each round; what is left to chance in it follows from its seed."""
    if "seed" in metafunc.fixturenames:
        first, rounds = metafunc.config.getoption("--crash-seed"), metafunc.config.getoption("--crash-rounds")
        metafunc.parametrize("seed", range(first, first + rounds), ids=lambda seed: f"seed{seed}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure says how it is repeated."""
    report = yield
    if report.failed and hasattr(item, "callspec"):
        seed = item.callspec.params["seed"]
        report.sections.append((f"seed {seed}, repeat with", f"pytest '{item.nodeid}' --crash-seed {seed}"))
    return report


@pytest.fixture(scope="session")
def runners(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    found = Runners(lake, tmp_path_factory.mktemp("runners"))
    yield found
    found.close()
