"""A catalog that answers with an error of its own after it has made the commit, or is
away for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesql.events import BatchCommitted, BatchSkipped, Event, Retrying
from lakesql.project.profiles import Catalog
from tests.catalogs.places import Place, add_catalog
from tests.catalogs.unreliable import Unreliable, be_honest, commits, data_files
from tests.servers.process import running
from tests.servers.rest import RestCatalogServer
from tests.servers.seaweed import Seaweed
from tests.spark.project import Lake, Project

BATCHES = 5
MODELS = {"added": "append", "newest": "upsert"}


@pytest.fixture(scope="module")
def proxy(rest_server: RestCatalogServer) -> Iterator[Unreliable]:
    with running(Unreliable(rest_server.uri, commits)) as server:
        yield server


# Spark itself is told of it once for all, and reads checkpoints through it
@pytest.fixture(scope="session")
def storage(seaweed: Seaweed) -> Iterator[Unreliable]:
    with running(Unreliable(seaweed.s3_endpoint, data_files)) as server:
        yield server


@pytest.fixture(scope="module")
def unreliable(lake: Lake, proxy: Unreliable) -> Lake:
    return add_catalog(lake, Catalog("shaky", "rest", proxy.uri))


def build(lake: Lake, directory: Path, namespace: str) -> Project:
    project = Project(lake, directory, namespace)
    project.stream("s", {"id": "int", "word": "string"}, max_per_batch=1)
    for name, mode in MODELS.items():
        keys = {"keys": "id"} if mode == "upsert" else {}
        project.model(name, "SELECT id, word FROM {s}", mode=mode, **keys)
    for batch in range(BATCHES):
        project.record(
            "s", [{"id": number, "word": f"{batch}"} for number in (batch, batch + 1)]
        )
    return project


def check(project: Project) -> None:
    arrived = [
        {"id": number, "word": f"{batch}"}
        for batch in range(BATCHES)
        for number in (batch, batch + 1)
    ]
    newest = {row["id"]: row for row in arrived}
    for name, mode in MODELS.items():
        expected = arrived if mode == "append" else [*newest.values()]
        found = [(row["id"], row["word"]) for row in project.rows(name)]
        assert sorted(found) == sorted((row["id"], row["word"]) for row in expected), (
            name
        )


@pytest.mark.parametrize("status", [500, 503])
def test_a_commit_that_succeeded_but_was_answered_with_an_error_is_not_repeated(
    unreliable: Lake, proxy: Unreliable, tmp_path: Path, status: int
) -> None:
    """Every third commit of a table, which is one of a batch."""
    project = build(unreliable, tmp_path, f"answered_{status}")
    proxy.judge = lambda table, before: status if before % 3 == 2 else 0
    ran = project.run().check()
    proxy.judge = be_honest
    check(project)
    tries = ran.of(Retrying)
    assert tries and {
        problem.condition for event in tries for problem in event.problems
    } == {"commit-unknown"}
    assert {event.attempt for event in tries} == {1}
    assert ran.of(BatchSkipped)


def test_a_transient_storage_failure_is_retried_until_it_succeeds(
    lake: Lake, storage: Unreliable, seaweed: Seaweed, tmp_path: Path
) -> None:
    """For longer than Iceberg's client has patience with it."""
    patience = {
        "s3.retry.num-retries": "1",
        "s3.retry.min-wait-ms": "50",
        "s3.retry.max-wait-ms": "100",
    }
    properties = {**seaweed.s3_properties, "s3.endpoint": storage.uri, **patience}
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", seaweed.make_bucket("shaky")
    project = build(
        add_catalog(lake, Catalog("leaky", "sql", uri, warehouse, properties)),
        tmp_path,
        "stored",
    )
    storage.judge = lambda kind, before: 503 if before % 20 > 11 else 0
    ran = project.run().check()
    storage.judge = be_honest
    check(project)
    tries = ran.of(Retrying)
    assert tries and {
        problem.condition for event in tries for problem in event.problems
    } == {"storage-unreachable"}


def test_a_transient_catalog_outage_is_retried_until_it_answers(
    rest_without_login: Place, rest_server: RestCatalogServer, tmp_path: Path
) -> None:
    """It ends after a commit, and is back some seconds later; what is under way then is
    tried until it answers."""
    project = build(rest_without_login.lake, tmp_path, "away")
    back: list[threading.Timer] = []

    def meet(event: Event) -> None:
        if isinstance(event, BatchCommitted) and event.batch == 1 and not back:
            rest_server.stop()
            back.append(threading.Timer(3, rest_server.start))
            back[0].start()

    ran = project.run(meet=meet).check()
    back[0].join()
    check(project)
    tries = ran.of(Retrying)
    assert tries
    assert {problem.condition for event in tries for problem in event.problems} <= {
        "catalog-unreachable",
        "commit-unknown",
    }
