"""A version of pyiceberg's catalog of a Hive metastore that several threads may use.

pyiceberg's own has one client with one socket: if two threads ask at once, each may
read the other's answer, or wait for ever for one that was read.
"""

from __future__ import annotations

from pyiceberg.catalog.hive import HiveCatalog, _HiveClient


class ThreadedHiveCatalog(HiveCatalog):
    """A Hive catalog that creates a client for each use, with a timeout. pyiceberg's
    methods open and close a client's connection themselves."""

    def __init__(self, name: str, answers_within_s: float, **properties: str) -> None:
        self._options, self._answers_within_s = properties, answers_within_s
        super().__init__(name, **properties)

    @property
    def _client(self) -> _HiveClient:
        client = self._create_hive_client(self._options)
        socket = getattr(client._transport, "_TBufferedTransport__trans", None)
        if socket is not None:
            socket.setTimeout(self._answers_within_s * 1000)
        return client

    @_client.setter
    def _client(self, client: _HiveClient) -> None:
        """Ignore the client that pyiceberg's constructor sets."""
