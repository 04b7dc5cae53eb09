"""What all tests of modules have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine


@pytest.fixture(scope="session", autouse=True)
def catalogs_are_not_synced() -> Iterator[None]:
    """The catalogs of tests are files of SQLite, which wait for the disk at each
    commit: what a machine that loses its power leaves of them nobody looks at."""

    def connected(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", connected)
    yield
    event.remove(Engine, "connect", connected)
