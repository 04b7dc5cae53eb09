"""A schema registry in this process: what Confluent's client asks of one, in memory."""

from __future__ import annotations

import json
import re
import threading
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
    """Schemas by their ids, and the ids of subjects' versions. `status` is what it answers to whatever it is asked, if
    not 200, and `login` the header `Authorization` that it wants, if any."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    status: int = 200
    login: str = ""
    first_id: int = 1

    def register(self, subject: str, schema: Schema, references: Sequence[tuple[str, str, int]] = ()) -> int:
        """Add a version of a subject: its id. References are names, with the subject and version of each."""
        number = self.first_id + len(self.schemas)
        named = [{"name": name, "subject": of, "version": version} for name, of, version in references]
        self.schemas[number] = {"schema": json.dumps(schema), "references": named}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> tuple[int, Any]:
        if self.status != 200:
            return self.status, {"error_code": self.status, "message": "as told"}
        if path == "/subjects":
            return 200, [*self.subjects]
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            schema = self.schemas.get(int(found[1]))
            return (200, schema) if schema else (404, {"error_code": 40403, "message": "Schema not found"})
        if found := re.fullmatch(r"/subjects/([^/]+)/versions(?:/(\d+|latest|-1))?", path):
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
            return 200, {"subject": subject, "version": at, "id": number, **self.schemas[number]}
        return 404, {"error_code": 404, "message": path}


@contextmanager
def open_memory_registry() -> Iterator[MemoryRegistry]:
    """A registry that answers until this ends."""
    registry = MemoryRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            status, body = registry.answer(path)
            if registry.login and self.headers.get("Authorization") != registry.login:
                status, body = 401, {"error_code": 401, "message": "Unauthorized"}
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


def wire(number: int, schema: Schema, row: Mapping[str, Any], id_bytes: int = 4, named: Any = None) -> bytes:
    """A record as Confluent's serializer writes it; with 8 bytes of id as Apicurio's."""
    out = BytesIO()
    parsed = fastavro.parse_schema(dict(schema), named_schemas=named if named is not None else {})
    fastavro.schemaless_writer(out, parsed, dict(row))
    return b"\0" + number.to_bytes(id_bytes, "big") + out.getvalue()
