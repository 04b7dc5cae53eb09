"""Which tests a plain `pytest` runs; one Spark session for all tests that need one, and
projects that run on it."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import settings

import lakesql.unit.duckdb_behind  # noqa: F401  (before any test imports DuckDB)
from tests.share import a_few, choose_share, may_mark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.flights.source import Flight
    from tests.servers.broker import Broker
    from tests.spark.project import Lake, Project

VIEWS = 20
"""So many random SELECTs are one test."""

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""The first compiler alone: most of a test's code runs a few times only. With room for
all of it: alone it gets 48 MB, and when those are full Java continues without
compiling."""


TIERS = ("checks", "long", "services", "crash")
"""The markers of the tests that a plain `pytest` leaves out. A test has one of them, or
none."""

PLAIN = f"not ({' or '.join(TIERS)})"
"""What a plain `pytest` runs."""

MARKERS: dict[str, tuple[str, ...]] = {
    "advice": ("checks",),
    "cli": ("checks",),
    "docs": ("checks",),
    "lint": ("checks",),
    "lsp": ("checks",),
    "review": ("checks",),
    "test_architecture.py": ("checks",),
    "views": ("checks",),
    "spark": ("spark", "long"),
    "feeds": ("spark", "long"),
    "flights": ("long",),
    "nexmark": ("spark", "long"),
    "types": ("long",),
    "kafka": ("spark", "services"),
    "sources": ("spark", "services"),
    "catalogs": ("spark", "services"),
    "cluster": ("spark", "services"),
    "cdc": ("spark", "services"),
    "monitoring": ("spark", "services", "whole"),
    "crash": ("spark", "crash"),
}
"""The markers of all tests of a folder, or of a file beside them."""

PROMISING = ("checks", "long")
"""The tiers of folders of which a plain `pytest` runs what is marked `promise`."""


settings.register_profile("quick", max_examples=10, deadline=None)
settings.register_profile("night", max_examples=2_000, deadline=None)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--crash-rounds",
        type=int,
        default=1,
        help="How often tests/crash tries each case.",
    )
    parser.addoption(
        "--day-commits",
        type=int,
        default=60,
        help="How many batches the day of tests/crash has.",
    )
    # Of the environment, as each worker of pytest-xdist comes here too, a second later
    # perhaps.
    seed = int(os.environ.setdefault("LAKESQL_TESTS_SEED", str(int(time.time()))))
    parser.addoption(
        "--seed",
        type=int,
        default=seed,
        help="Chooses the share, and what is left to chance in tests/crash.",
    )
    parser.addoption(
        "--share",
        default="1/1",
        help="How many of the tests of each folder of a tier are taken.",
    )
    parser.addoption(
        "--feed-seeds",
        type=int,
        default=200,
        help="How many random feeds tests/feeds takes.",
    )
    parser.addoption(
        "--feed-seed", type=int, help="The one random feed that tests/feeds takes."
    )
    parser.addoption(
        "--changed-selects",
        type=int,
        default=200,
        help="How many changed SELECTs Spark is asked about.",
    )
    parser.addoption(
        "--mirror-seeds",
        type=int,
        default=1,
        help="How many random feeds a test of tests/spark takes.",
    )
    parser.addoption(
        "--table-seeds",
        type=int,
        default=3,
        help="How many random tables are compared as they change.",
    )
    parser.addoption(
        "--view-seeds",
        type=int,
        default=200,
        help="How many random SELECTs tests/views keeps.",
    )
    parser.addoption(
        "--log-seeds",
        type=int,
        default=6,
        help="How many random logs each test of tests/unit reads.",
    )
    parser.addoption(
        "--lake-seeds",
        type=int,
        default=4,
        help="How many random lakes have views that are refreshed.",
    )
    parser.addoption("--lake-seed", type=int, help="The one random lake of these.")
    parser.addoption(
        "--database-seed",
        type=int,
        default=3,
        help="Which random database tests/cdc mirrors.",
    )
    parser.addoption(
        "--database-tables",
        type=int,
        default=3,
        help="How many tables it has at first.",
    )
    parser.addoption(
        "--database-rounds",
        type=int,
        default=1,
        help="How often its rows and its shapes change.",
    )
    parser.addoption(
        "--database-kills",
        type=int,
        default=3,
        help="After how many of these something is killed.",
    )
    parser.addoption(
        "--all-flights",
        action="store_true",
        help="Send all flights through brokers, and not 30,000.",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write what is found into tests/golden/**/*.case.",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The seeds of random feeds: one by one, and by the groups that are read
    together."""
    if "feed_seed" in metafunc.fixturenames:
        metafunc.parametrize(
            "feed_seed", range(metafunc.config.getoption("--mirror-seeds"))
        )
    if "table_seed" in metafunc.fixturenames:
        metafunc.parametrize(
            "table_seed", range(metafunc.config.getoption("--table-seeds"))
        )
    if "log_seed" in metafunc.fixturenames:
        seeds = range(metafunc.config.getoption("--log-seeds"))
        metafunc.parametrize("log_seed", a_few(seeds, 1))
    if "lake_seed" in metafunc.fixturenames:
        only, count = (
            metafunc.config.getoption("--lake-seed"),
            metafunc.config.getoption("--lake-seeds"),
        )
        metafunc.parametrize("lake_seed", range(count) if only is None else [only])
    if "view_seeds" in metafunc.fixturenames:
        count = metafunc.config.getoption("--view-seeds")
        groups = [range(count)[at : at + VIEWS] for at in range(0, count, VIEWS)]
        metafunc.parametrize(
            "view_seeds", groups, ids=[f"{group[0]}-{group[-1]}" for group in groups]
        )
    if "feed_seeds" in metafunc.fixturenames:
        from tests.feeds.source import GROUP

        only, count = (
            metafunc.config.getoption("--feed-seed"),
            metafunc.config.getoption("--feed-seeds"),
        )
        seeds = range(count) if only is None else range(only, only + 1)
        groups = [seeds[at : at + GROUP] for at in range(0, len(seeds), GROUP)]
        metafunc.parametrize(
            "feed_seeds", groups, ids=[f"{group[0]}-{group[-1]}" for group in groups]
        )


def pytest_configure(config: pytest.Config) -> None:
    """Without a folder, a file or `-m`, leave out what has a tier of its own."""
    if (
        config.args_source is not pytest.Config.ArgsSource.ARGS
        and not config.option.markexpr
    ):
        config.option.markexpr = PLAIN
    gc.disable()  # hardly anything that is made while tests are collected is garbage


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file without a test of what is asked for is not even read: to import all takes
    longer than most tests."""
    if (
        config.args_source is pytest.Config.ArgsSource.ARGS
        or collection_path.suffix != ".py"
    ):
        return None
    asked = config.option.markexpr
    folder = collection_path.relative_to(Path(__file__).parent).parts[0]
    tier = next((tier for tier in TIERS if tier in MARKERS.get(folder, ())), None)
    if asked in TIERS:
        left_out, marker = tier != asked, asked
    else:
        left_out, marker = tier is not None and asked == PLAIN, "promise"
    if left_out and not may_mark(collection_path.read_text("utf-8"), marker):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    for item in items:
        markers = _markers_of_file(item.path)
        if not markers:
            continue
        if shows_promise(item) or any(
            item.get_closest_marker(tier) for tier in PROMISING
        ):
            markers = tuple(marker for marker in markers if marker not in PROMISING)
        for marker in markers:
            item.add_marker(marker)
    left_out = find_left_out(
        items, config.getoption("--share"), config.getoption("--seed")
    )
    config.hook.pytest_deselected(
        items=[item for item in items if item.nodeid in left_out]
    )
    items[:] = [item for item in items if item.nodeid not in left_out]


@cache
def _markers_of_file(path: Path) -> tuple[str, ...]:
    """The markers that a file's tests have by its folder."""
    return MARKERS.get(path.relative_to(Path(__file__).parent).parts[0], ())


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the search for garbage need not walk
    through it, not even once."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000)


def find_left_out(items: list[pytest.Item], share: str, seed: int) -> frozenset[str]:
    """The tests of tiers that are not of the share: of each folder so many are taken,
    and those that are `whole`."""
    if share == "1/1":
        return frozenset()
    folders: dict[tuple[str, Path], list[str]] = {}
    for item in items:
        tier = next((tier for tier in TIERS if item.get_closest_marker(tier)), None)
        if tier and not item.get_closest_marker("whole"):
            folders.setdefault((tier, item.path.parent), []).append(item.nodeid)
    return frozenset(
        node
        for (tier, folder), nodes in folders.items()
        for node in {*nodes} - {*choose_share(nodes, share, seed, tier, folder.name)}
    )


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say how the same tests are run again."""
    seed, share = config.getoption("--seed"), config.getoption("--share")
    return [f"the tests of --seed {seed} --share {share}"] if share != "1/1" else []


def shows_promise(item: pytest.Item) -> bool:
    """Whether a plain `pytest` runs a test whatever its folder is: one that is marked
    `promise`, or one of its ids."""
    marker = item.get_closest_marker("promise")
    if marker is None:
        return False
    return not marker.args or any(
        item.name.endswith(f"[{name}]") for name in marker.args
    )


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs one command line: its exit code, what it said on stdout and on stderr."""
    from lakesql.cli.main import run_command

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(scope="session")
def parsed_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop whose files have been read and compiled, to be copied: a command reads
    again what a test changes."""
    from lakesql.cli.init import write_project
    from lakesql.cli.options import Options
    from lakesql.cli.project import load_project
    from lakesql.compile.compiled import compiled_files

    folder = tmp_path_factory.mktemp("parsed") / "shop"
    write_project(folder, "shop")
    manifest = load_project(Options(project_dir=folder))
    compiled_files(manifest).compile(manifest.models)
    return folder


@pytest.fixture(scope="session")
def lake(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Lake]:
    """An open session on a warehouse and a catalog of its own."""
    from lakesql.catalog.connect import open_catalog
    from lakesql.engine.spark.jars import JARS, ensure_jars, user_cache
    from lakesql.engine.spark.java import find_java
    from lakesql.engine.spark.session import SessionSettings, open_session
    from lakesql.project.profiles import Catalog
    from tests.spark.project import Lake

    directory = tmp_path_factory.mktemp("lake")
    java, home = find_java(os.environ), user_cache(os.environ)
    catalog = Catalog(
        "lake", "sql", f"sqlite:///{directory}/catalog.db", f"{directory}/warehouse"
    )
    settings = SessionSettings(
        app_name="lakesql tests",
        master="local[2]",
        # CI has two at once
        conf={
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.driver.memory": "4g",
        },
        catalog=catalog,
        jars=ensure_jars(frozenset(JARS), home, print),
        log_file=directory / "logs" / "spark.log",
        home=home,
        java=java,
        record=False,
    )
    opened = open_catalog(catalog)
    session = open_session(settings)
    with pytest.MonkeyPatch.context() as patch:
        # The tables of tests are small: no view of them would be kept by what has
        # changed.
        patch.setattr("lakesql.engine.refresh.refresh_table.FEW_ROWS", 0)
        # Nor would any of their batches go the way of large ones: so all do, every
        # other time.
        if request.config.getoption("--seed") % 2:
            patch.setattr("lakesql.engine.batch.rows.FEW_RECORDS", -1)
            patch.setattr("lakesql.engine.together.shared_topics.FEW_RECORDS", -1)
            patch.setattr("lakesql.engine.batch.rows.FEW_BYTES", -1)
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
def plain_py4j(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exceptions of a small Java as they are: where Spark has run here, PySpark asks
    Spark's Java what they are."""
    from py4j.protocol import get_return_value

    monkeypatch.setattr("py4j.java_gateway.get_return_value", get_return_value)


@pytest.fixture(scope="session")
def flights(pytestconfig: pytest.Config) -> tuple[Flight, ...]:
    """Those that go through a broker."""
    from tests.flights import source

    return (
        source.flights()
        if pytestconfig.getoption("--all-flights")
        else source.flights()[source.SOME]
    )


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
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped has failed: what it needs is missing there, and
    nobody would notice."""
    return fail_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[
    None, pytest.CollectReport, pytest.CollectReport
]:
    return fail_if_skipped((yield))


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def fail_if_skipped(report: Report) -> Report:
    if (
        os.environ.get("CI") == "true"
        and report.skipped
        and not hasattr(report, "wasxfail")
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI takes for a failure: {report.longrepr}"
    return report
