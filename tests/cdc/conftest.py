"""What several tests of change feeds start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.broker import Broker
from tests.servers.process import running


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """One that may be killed."""
    with running(Broker(tmp_path / "broker")) as broker:
        yield broker
