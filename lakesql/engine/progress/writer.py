"""How files of this project's runs are recognised: by the writer's number, and how
Spark gets it into file names.

Iceberg names a data file `<partition>-<task>-<write's UUID>-<count>`, where `<task>` is
the id that Spark's scheduler gave to the task, counted from 0. Here it is counted from
the writer's number times 2**32. So each file identifies its writer from its first byte
on, in batches and maintenance calls alike, and nothing has to be recorded per batch.
"""

from __future__ import annotations

import secrets
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.spark.gateway import java_class

WRITER_FILE = ".writer"
"""The file among a target's checkpoints that has the writer's number."""

TASK_BITS = 32
_LEAST, _MOST = 2**29, 2**30
"""The range of writer's numbers: above any of Spark's own task ids, and small enough
for Java's long integers."""


def read_writer(session: SparkSession, checkpoints: str) -> int | None:
    """The writer's number of the runs with these checkpoints; None if no run has
    written anything yet."""
    text = CheckpointFiles(session, checkpoints).read(WRITER_FILE)
    number = int(text) if text is not None and text.strip().isdecimal() else 0
    return number if _LEAST <= number < _MOST else None


def name_files(session: SparkSession, checkpoints: str) -> None:
    """Put the writer's number into the names of all files that this session writes from
    now on."""
    writer = read_writer(session, checkpoints)
    if writer is None:
        CheckpointFiles(session, checkpoints).create(
            WRITER_FILE, str(_LEAST + secrets.randbelow(_MOST - _LEAST))
        )
        # of two runners that start at the same time, one has created it
        writer = read_writer(session, checkpoints)
    if writer is None:
        # the file is damaged: this session's files have no writer, and stay
        return
    scheduler = session.sparkContext._jsc.sc().taskScheduler()
    # py4j converts the counter to a number, so it cannot be set through it
    task = int(scheduler.nextTaskId())
    if writer_of(task) != writer:
        _set_next_task(scheduler, (writer << TASK_BITS) + task % 2**TASK_BITS)


def _set_next_task(scheduler: Any, task: int) -> None:
    """Set the scheduler's counter from within Java:
    `scheduler.nextTaskId().set(task)`."""
    handles = java_class("java.lang.invoke.MethodHandles")
    method_type = java_class("java.lang.invoke.MethodType").methodType
    counter = java_class("java.util.concurrent.atomic.AtomicLong")._java_lang_class
    nothing, number = (
        java_class("java.lang.Void").TYPE,
        java_class("java.lang.Long").TYPE,
    )
    lookup = handles.publicLookup()
    read = lookup.findVirtual(scheduler.getClass(), "nextTaskId", method_type(counter))
    change = lookup.findVirtual(counter, "set", method_type(nothing, number))
    assert SparkContext._gateway is not None
    filters = SparkContext._gateway.new_array(
        java_class("java.lang.invoke.MethodHandle"), 1
    )
    filters[0] = read
    handles.filterArguments(change, 0, filters).bindTo(scheduler).invokeWithArguments(
        [task]
    )


def writer_of(task: int) -> int:
    """The writer's number in the id of a task."""
    return task >> TASK_BITS
