"""One Spark session for all tests that need one, and projects that run on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.broker import Broker
    from tests.spark.project import Lake, Project

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""The first compiler alone: most of a test's code runs a few times only. With room for all of it: alone it gets 48 MB,
and when those are full Java goes on without compiling."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--crash-rounds", type=int, default=1, help="How often tests/crash tries each case.")
    seed = int(time.time())
    parser.addoption("--crash-seed", type=int, default=seed, help="The seed of the first round of tests/crash.")
    parser.addoption("--update-golden", action="store_true", help="Write what is found into tests/golden/**/*.case.")


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """An open session on a warehouse and a catalog of its own."""
    from lakesql.catalog.connect import open_catalog
    from lakesql.engine.spark.jars import JARS, ensure_jars, user_cache
    from lakesql.engine.spark.java import find_java
    from lakesql.engine.spark.session import SessionSettings, open_session
    from lakesql.project.profiles import Catalog
    from tests.spark.project import Lake

    directory = tmp_path_factory.mktemp("lake")
    java, home = find_java(os.environ), user_cache(os.environ)
    catalog = Catalog("lake", "sql", f"sqlite:///{directory}/catalog.db", f"{directory}/warehouse")
    settings = SessionSettings(
        app_name="lakesql tests",
        master="local[2]",
        conf={"spark.driver.extraJavaOptions": JAVA_OPTIONS},
        catalog=catalog,
        jars=ensure_jars(frozenset(JARS), java, home, print),
        log_file=directory / "logs" / "spark.log",
        home=home,
        java=java,
        record=False,
    )
    opened = open_catalog(catalog)
    session = open_session(settings)
    yield Lake(session, opened)
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker for all tests that do not end it: each uses topics of its own."""
    from tests.servers.broker import Broker
    from tests.servers.process import running

    with running(Broker(tmp_path_factory.mktemp("broker"))) as broker:
        yield broker


@pytest.fixture
def spark(lake: Lake) -> SparkSession:
    return lake.session


_NAMESPACES = count(1)


@pytest.fixture
def new_project(lake: Lake, tmp_path: Path) -> Callable[[], Project]:
    """Makes an empty project with a folder, a namespace and checkpoints of its own."""
    from tests.spark.project import Project

    def make() -> Project:
        number = next(_NAMESPACES)
        directory = tmp_path / f"project{number}"
        directory.mkdir()
        return Project(lake, directory, f"t{number}")

    return make


@pytest.fixture
def project(new_project: Callable[[], Project]) -> Project:
    return new_project()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped has failed: what it needs is missing there, and nobody would notice."""
    return fail_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return fail_if_skipped((yield))


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def fail_if_skipped(report: Report) -> Report:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI takes for a failure: {report.longrepr}"
    return report
