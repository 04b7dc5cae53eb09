"""A service that has done what was asked and says that it failed: a proxy."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Concern = Callable[[str, str], str]
"""By method and path what a request is about, '' for one that is answered as it is."""

Judge = Callable[[str, int], int]
"""The status that is answered, by what the request is about and how many were about it
before; 0 for the truth."""

_TABLE = re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/([^/?]+)$")
_ERROR = (
    b'{"error": {"message": "This is a bad day.", "type": "InternalError", "code": %d}}'
)
_OF_A_CONNECTION = {"connection", "transfer-encoding", "keep-alive"}


def commits(method: str, path: str) -> str:
    """The table to which a request to a REST catalog commits."""
    found = _TABLE.search(path)
    return found[1] if found and method == "POST" else ""


def data_files(method: str, path: str) -> str:
    """The kind of file that a request to S3 writes, if it holds rows."""
    return "parquet" if method == "PUT" and ".parquet" in path else ""


def be_honest(subject: str, before: int) -> int:
    return 0


class Unreliable:
    """The proxy in front of the service at `uri`; `judge` may be changed at any time.

    Unless it `passes_on` what it answers with a status of its own, the service never
    hears of it.
    """

    def __init__(self, uri: str, concern: Concern, passes_on: bool = True) -> None:
        self.judge: Judge = be_honest
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        behind = urlsplit(uri).netloc
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                subject = concern(self.command, self.path)
                status = outer.decide(subject) if subject else 0
                if status and not passes_on:
                    self.answer(
                        status, [("Content-Type", "application/json")], _ERROR % status
                    )
                    return
                connection = http.client.HTTPConnection(behind, timeout=60)
                # As they are: a signature speaks of the host too. But what is answered
                # here is not compressed.
                connection.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for key, value in self.headers.items():
                    if key.lower() not in {"accept-encoding", "expect"}:
                        connection.putheader(key, value)
                connection.endheaders(body or None)
                response = connection.getresponse()
                said = response.read()
                if status:
                    self.answer(
                        status, [("Content-Type", "application/json")], _ERROR % status
                    )
                else:
                    self.answer(response.status, response.getheaders(), said)
                connection.close()

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_any  # noqa: N815

            def answer(
                self, status: int, headers: list[tuple[str, str]], said: bytes
            ) -> None:
                self.send_response_only(status)
                has_body = self.command != "HEAD"
                for key, value in headers:
                    if key.lower() not in _OF_A_CONNECTION and not (
                        has_body and key.lower() == "content-length"
                    ):
                        self.send_header(key, value)
                if has_body:
                    self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                if has_body:
                    self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        """Return once it answers."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def decide(self, subject: str) -> int:
        """The status that is answered to the next request about this."""
        with self._lock:
            before = self._seen.get(subject, 0)
            self._seen[subject] = before + 1
        return self.judge(subject, before)
