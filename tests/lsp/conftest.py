"""Ends the servers that the sessions share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lsp.editor import stop_servers


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[None]:
    yield
    stop_servers()
