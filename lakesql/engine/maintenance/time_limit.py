"""How the Spark jobs of a procedure are cancelled once its time is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from pyspark.sql import SparkSession

CANCELS_EVERY_S = 1.0
"""How often the jobs of a procedure are cancelled once its time is over, as it may
start others."""


class OvertimeError(Exception):
    """A procedure has taken longer than it may, and its jobs were cancelled."""


@contextmanager
def limit_time(session: SparkSession, most_ms: int | None) -> Iterator[None]:
    """Cancel the Spark jobs started inside after `most_ms`, and raise `OvertimeError`;
    with None, never.

    Jobs write files that no version of the table has yet. What is committed by then
    stays; a commit itself is not a job, and is never cancelled.
    """
    if most_ms is None:
        yield
        return
    context, tag = session.sparkContext, f"lakesql-maintenance-{uuid4().hex}"
    done, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        wait_s = most_ms / 1000
        while not done.wait(wait_s):
            is_over.set()
            context.cancelJobsWithTag(tag)
            wait_s = CANCELS_EVERY_S

    watcher = threading.Thread(target=watch, name="maintenance time", daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        yield
    except Exception as error:
        if is_over.is_set():
            raise OvertimeError from error
        raise
    finally:
        done.set()
        watcher.join()
        context.removeJobTag(tag)
