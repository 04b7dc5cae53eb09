"""Whether somebody takes connections at an address: asked in seconds, before a client
tries for a minute."""

from __future__ import annotations

import socket

CONNECT_TIMEOUT_S = 3.0
"""How long an address may take."""


def first_reachable(addresses: str) -> str:
    """The first of the comma-separated `host:port` that takes a connection. Raises
    ConnectionError, if none does."""
    failures = []
    for address in (part.strip() for part in addresses.split(",")):
        host, _, port = address.rpartition(":")
        if not port.isdecimal():
            failures.append(f"{address}: no port")
            continue
        try:
            socket.create_connection(
                (host.strip("[]"), int(port)), CONNECT_TIMEOUT_S
            ).close()
            return address
        # of a port, and of a name
        except (OSError, OverflowError, UnicodeError) as error:
            failures.append(f"{address}: {error}")
    raise ConnectionError("; ".join(failures))
