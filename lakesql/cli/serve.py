"""Serves a folder of static files on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lakesql.errors import UsageError

HOST = "127.0.0.1"


def serve_folder(folder: Path, port: int, started: Callable[[str], None]) -> None:
    """Serve the folder to browsers of this machine until it is interrupted. `started`
    is given the address.

    Raises `UsageError` (`usage`) where something else listens there.
    """
    try:
        server = ThreadingHTTPServer(
            (HOST, port), partial(_QuietHandler, directory=str(folder))
        )
    except OSError as error:
        what = f"Nothing can be served on port {port}: {error.strerror}."
        raise UsageError.of(
            "usage", what, fix="Name another one: --port 0 takes any that is free."
        ) from None
    with server:
        started(f"http://{HOST}:{server.server_port}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


class _QuietHandler(SimpleHTTPRequestHandler):
    """Answers without a line for each request, and never with what was there before."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name in the library
        """Nothing: a page is many requests."""

    def end_headers(self) -> None:
        """The headers, with one by which a browser asks again."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()
