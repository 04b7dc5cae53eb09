"""What tests of a registry share: a real one, and a project that reads a real broker with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.servers.apicurio import Apicurio
from tests.servers.broker import Broker
from tests.servers.process import running
from tests.spark.project import Project


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with running(Apicurio(tmp_path_factory.mktemp("registry"))) as found:
        yield found


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker, registry: Apicurio) -> Project:
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
