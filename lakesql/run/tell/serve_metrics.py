"""Serves a run's metrics and health over HTTP, while it runs."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lakesql.clock import now_ms
from lakesql.errors import ProfileError
from lakesql.model.model import Model
from lakesql.observe.metrics import CONTENT_TYPE, RunMetrics, labels_of


def keep_metrics(models: Iterable[Model]) -> RunMetrics:
    """The metrics of a run of these models, to be updated by its events; each model is
    included from the start."""
    own = tuple(models)
    return RunMetrics(
        {model.name: labels_of(model.table, model.name) for model in own},
        {model.name: model.trigger for model in own},
    )


ENDS_WITHIN_S = 0.05
"""A run that is over waits so long for this at most: half a second would be usual."""


@contextmanager
def serve_metrics(
    metrics: RunMetrics, address: str, port: int, patience_ms: int
) -> Iterator[int]:
    """Serve `/metrics` and `/healthz` at `address` for the duration of the block;
    yields the port, which is chosen if it is 0.

    `/healthz` is 200 while the run is healthy, and else 503 with a line for each reason
    (`RunMetrics.faults`). Raises `ProfileError` (`metrics-port`) if the port cannot be
    opened.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(200, CONTENT_TYPE, metrics.render(now_ms()))
                case "/healthz":
                    faults = metrics.faults(now_ms(), patience_ms)
                    self._answer(
                        503 if faults else 200,
                        "text/plain; charset=utf-8",
                        "\n".join(faults or ("ok",)) + "\n",
                    )
                case _:
                    self._answer(
                        404,
                        "text/plain; charset=utf-8",
                        "There are /metrics and /healthz.\n",
                    )

        def _answer(self, code: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
            """Log nothing: a scrape is not worth a message."""

    try:
        server = ThreadingHTTPServer((address, port), Handler)
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = (
            "Another program listens there."
            if taken
            else f"{getattr(error, 'strerror', None) or error}."
        )
        raise ProfileError.of(
            "metrics-port", f"No metrics can be served at {address}:{port}.", why=why
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever,
        kwargs={"poll_interval": ENDS_WITHIN_S},
        name="lakesql-metrics",
        daemon=True,
    )
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
