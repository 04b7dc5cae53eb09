"""Whether an address accepts connections, checked within seconds, before a client would
try for a minute."""

from __future__ import annotations

import socket

CONNECT_TIMEOUT_S = 3.0
"""The timeout for each address."""


def first_reachable(addresses: str) -> str:
    """The first of the comma-separated `host:port` that accepts a connection. Raises
    `ConnectionError`, with the failure of each, if none does."""
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
        # OverflowError for a bad port, UnicodeError for a bad host name
        except (OSError, OverflowError, UnicodeError) as error:
            failures.append(f"{address}: {error}")
    raise ConnectionError("; ".join(failures))
