"""A REST catalog that has done what was asked and says that it failed: a proxy."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/([^/?]+)$")
ERROR = b'{"error": {"message": "This is a bad day.", "type": "InternalError", "code": %d}}'

Judge = Callable[[str, int], int]
"""What is answered to a commit that has been made, by the table and how many commits it had before; 0 for the truth."""


def be_honest(table: str, before: int) -> int:
    return 0


class Unreliable:
    """The proxy in front of the catalog at `uri`; `judge` may be changed at any time."""

    def __init__(self, uri: str) -> None:
        self.judge: Judge = be_honest
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        behind = urlsplit(uri).netloc
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found = COMMIT.search(self.path)
                status = outer.decide(found[1]) if found and self.command == "POST" else 0
                connection = http.client.HTTPConnection(behind, timeout=60)
                headers = {key: value for key, value in self.headers.items() if key.lower() != "accept-encoding"}
                connection.request(self.command, self.path, body, headers)
                response = connection.getresponse()
                said = response.read()
                self.answer(*((status, ERROR % status) if status else (response.status, said)))
                connection.close()

            do_GET = do_POST = do_HEAD = do_DELETE = do_any  # noqa: N815

            def answer(self, status: int, said: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def decide(self, table: str) -> int:
        with self._lock:
            before = self._seen.get(table, 0)
            self._seen[table] = before + 1
        return self.judge(table, before)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
