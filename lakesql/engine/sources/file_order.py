"""The order of the changes of a feed that is in files: by the time of each file, its
name, and the line; by name and line if the stream is `ordered_by: name`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.scans import scanned_times

_TASK_BITS, _LINE_BITS = 15, 28
"""The numbers of bits of a place for the number of the task that reads the line, and
for the number of the line in that task; the bits above are for the file. In the 134
million bytes that a task reads there cannot be more lines."""


def with_file_order(
    arrived: DataFrame, bindings: tuple[StreamBinding, ...]
) -> tuple[StreamBinding, ...]:
    """The bindings of a batch of raw records, in which each change feed in files has
    the batch's files in their order."""
    if not any(binding.is_feed_in_files for binding in bindings):
        return bindings
    times = dict(scanned_times(arrived._jdf.queryExecution().toRdd()))
    is_by_name = any(binding.source.is_in_name_order for binding in bindings)
    files = tuple(sorted(times) if is_by_name else in_order(times.items()))
    return tuple(
        replace(each, file_order=files) if each.is_feed_in_files else each
        for each in bindings
    )


def in_order(files: Iterable[tuple[str, int]]) -> list[str]:
    """Files, each with the time of its last change, in the order in which Spark reads
    them: the oldest first, and those with the same time by name."""
    return [path for path, _ in sorted(files, key=lambda file: (file[1], file[0]))]


def place_in_files(path: Column, files: tuple[str, ...]) -> Column:
    """The place of a line among all lines of a batch. A task reads a file, or a part of
    one, from its start; of two parts of a file, the first is read by an earlier task.

    A batch with more files, tasks or lines than fit into the number fails.
    """
    number = F.monotonically_increasing_id()
    task, line = F.shiftright(number, 33), number.bitwiseAND(F.lit(2**33 - 1))
    file = F.array_position(F.array(*map(F.lit, files)).cast("array<string>"), path)
    fits = (
        (file < 2 ** (63 - _TASK_BITS - _LINE_BITS))
        & (task < 2**_TASK_BITS)
        & (line < 2**_LINE_BITS)
    )
    place = F.shiftleft(F.shiftleft(file, _TASK_BITS) + task, _LINE_BITS) + line
    said = "a batch of a change feed has more lines in files than can be numbered: set a lower max_per_batch"
    return F.when(fits, place).otherwise(F.raise_error(F.lit(said)).cast("bigint"))
