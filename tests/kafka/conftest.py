"""What tests over a real broker share: a real registry, a project that reads with it,
and what is read of topics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakesql.engine.sources import topic_places
from tests.servers.apicurio import Apicurio
from tests.servers.broker import Broker
from tests.servers.process import running
from tests.spark.project import Project


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with running(Apicurio(tmp_path_factory.mktemp("registry"))) as found:
        yield found


@pytest.fixture
def project(
    new_project: Callable[[], Project], broker: Broker, registry: Apicurio
) -> Project:
    """An empty project whose connections are the broker and the registry."""
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers},
        "schemas": {"type": "registry", "url": registry.url},
    }
    return project


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return str(request.node.name)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each stretch of topics is read for models of groups."""
    found: Counter[str] = Counter()
    former = topic_places.read_between

    def read(
        session: Any, connection: Any, start: Any, end: Any, **options: Any
    ) -> Any:
        found[json.dumps([start, end], sort_keys=True)] += 1
        return former(session, connection, start, end, **options)

    monkeypatch.setattr(topic_places, "read_between", read)
    return found
