"""A schema registry in this process: what Confluent's client asks of one, in memory."""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import fastavro

Schema = Mapping[str, Any]


@dataclass
class MemoryRegistry:
    """Schemas by their ids, and the ids of subjects' versions. `status` is what it
    answers to whatever it is asked, if not 200, and `login` the header `Authorization`
    that it wants, if any.

    It gives tokens of OAuth too, at `/token`, to the client whose id and secret
    `clients` has, each good for `token_s` seconds; with `wants_token` it takes no other
    login. `revoke` ends those that it has given.
    """

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    status: int = 200
    login: str = ""
    first_id: int = 1
    clients: dict[str, str] = field(default_factory=dict)
    wants_token: bool = False
    token_s: float = 3600
    tokens: dict[str, float] = field(default_factory=dict)
    given: int = 0

    def register(
        self,
        subject: str,
        schema: Schema,
        references: Sequence[tuple[str, str, int]] = (),
    ) -> int:
        """Add a version of a subject: its id. References are names, with the subject
        and version of each."""
        number = self.first_id + len(self.schemas)
        named = [
            {"name": name, "subject": of, "version": version}
            for name, of, version in references
        ]
        self.schemas[number] = {"schema": json.dumps(schema), "references": named}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def give_token(self, authorization: str) -> tuple[int, Any]:
        """A token for a client that proves itself by HTTP's basic login (RFC 6749,
        section 2.3.1)."""
        client, _, secret = (
            b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        )
        if not client or self.clients.get(client) != secret:
            return 401, {
                "error": "invalid_client",
                "error_description": "Invalid client credentials",
            }
        self.given += 1
        token = f"token-{self.given}"
        self.tokens[token] = time.time() + self.token_s
        return 200, {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": self.token_s,
        }

    def revoke(self) -> None:
        """End the tokens that were given."""
        self.tokens.clear()

    def is_welcome(self, authorization: str) -> bool:
        """Whether the login is the one that is wanted."""
        if self.wants_token:
            return (
                self.tokens.get(authorization.removeprefix("Bearer "), 0) > time.time()
            )
        return not self.login or authorization == self.login

    def answer(self, path: str) -> tuple[int, Any]:
        if self.status != 200:
            return self.status, {"error_code": self.status, "message": "as told"}
        if path == "/subjects":
            return 200, [*self.subjects]
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            schema = self.schemas.get(int(found[1]))
            return (
                (200, schema)
                if schema
                else (404, {"error_code": 40403, "message": "Schema not found"})
            )
        if found := re.fullmatch(
            r"/subjects/([^/]+)/versions(?:/(\d+|latest|-1))?", path
        ):
            subject, version = unquote(found[1]), found[2]
            ids = self.subjects.get(subject)
            if ids is None:
                return 404, {"error_code": 40401, "message": "Subject not found"}
            if version is None:
                return 200, [*range(1, len(ids) + 1)]
            at = len(ids) if version in ("latest", "-1") else int(version)
            if at > len(ids):
                return 404, {"error_code": 40402, "message": "Version not found"}
            number = ids[at - 1]
            return 200, {
                "subject": subject,
                "version": at,
                "id": number,
                **self.schemas[number],
            }
        return 404, {"error_code": 404, "message": path}


@contextmanager
def open_memory_registry(tls: ssl.SSLContext | None = None) -> Iterator[MemoryRegistry]:
    """A registry that answers until this ends; with `tls` by HTTPS."""
    registry = MemoryRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            status, body = registry.answer(path)
            if not registry.is_welcome(self.headers.get("Authorization", "")):
                status, body = 401, {"error_code": 401, "message": "Unauthorized"}
            self.say(status, body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_known = self.path == "/token"
            self.say(
                *(
                    registry.give_token(self.headers.get("Authorization", ""))
                    if is_known
                    else (404, {})
                )
            )

        def say(self, status: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    server.tls = tls
    registry.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    """Each connection in a thread of its own, its handshake too: a client that fails it
    hears why, before this ends."""

    tls: ssl.SSLContext | None = None

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        if self.tls is None:
            super().process_request_thread(request, client_address)
            return
        try:
            wrapped = self.tls.wrap_socket(request, server_side=True)
        except (ssl.SSLError, OSError):
            self.shutdown_request(request)
            return
        super().process_request_thread(wrapped, client_address)


def wire(
    number: int,
    schema: Schema,
    row: Mapping[str, Any],
    id_bytes: int = 4,
    named: Any = None,
) -> bytes:
    """A record as Confluent's serializer writes it; with 8 bytes of id as
    Apicurio's."""
    out = BytesIO()
    parsed = fastavro.parse_schema(
        dict(schema), named_schemas=named if named is not None else {}
    )
    fastavro.schemaless_writer(out, parsed, dict(row))
    return b"\0" + number.to_bytes(id_bytes, "big") + out.getvalue()
