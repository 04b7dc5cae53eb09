"""A server that takes lineage by HTTP: it checks each event against the schemas, and
answers as it is told."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.lineage.validate import problems_of


class Receiver:
    """At a free port of the loopback address. It answers 201 to an event that is valid,
    and 400 to one that is not.

    With `status` it answers that, after `delay_s`.
    """

    def __init__(self, status: int = 0, delay_s: float = 0) -> None:
        self.status, self.delay_s = status, delay_s
        self.events: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.logins: list[str | None] = []
        self.problems: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.01},
            daemon=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, login: str | None, body: bytes) -> int:
        self.paths.append(path)
        self.logins.append(login)
        time.sleep(self.delay_s)
        if self.status:
            return self.status
        event = json.loads(body)
        found = problems_of(event)
        self.problems += found
        self.events.append(event)
        return 400 if found else 201


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(
                receiver.answer(self.path, self.headers.get("Authorization"), body)
            )
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    return Handler
