"""A web server for a folder of static files, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lakesql.errors import UsageError

HOST = "127.0.0.1"


def serve_folder(folder: Path, port: int, started: Callable[[str], None]) -> None:
    """Serve the folder to browsers of this machine until it is interrupted. `started`
    is called with the address.

    Raises `UsageError` (`usage`) if the port cannot be used.
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
    """Answers requests without logging them, and keeps browsers from showing outdated
    files."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name in the library
        """Does nothing: a single page is many requests."""

    def end_headers(self) -> None:
        """Send the headers, with one that makes the browser check for a newer file each
        time."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()
