"""What happens to files of a batch that cannot be read: the batch is refused with their
names, or they become dead letters (`ignore_corrupt`).

Spark reports at most one such file, and ends the query. Then each file of the batch is
read by itself, those that cannot be read are recorded in the checkpoint, and the query
is started again without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from lakesql.counts import count
from lakesql.engine.batch.dead_letter import DeadLetters
from lakesql.engine.batch.sink import Sink
from lakesql.engine.batch.watermark import last_execution
from lakesql.engine.progress.taken_files import (
    UnreadableFile,
    note_unreadable,
    read_unreadable,
)
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.file_types import find_misfit
from lakesql.engine.sources.nanoseconds import with_nanoseconds
from lakesql.engine.sources.raw import read_raw
from lakesql.engine.sources.scans import ListedFile, listed_files, uri_of
from lakesql.engine.spark.failure import find_transient, is_of_storage, unreadable_file
from lakesql.engine.spark.session import new_session
from lakesql.errors import FilesSetAside, LakesqlError, RunError
from lakesql.events import Noted
from lakesql.names import FILE_UNREADABLE
from lakesql.source.pattern import listing_of, without_scheme

READERS = 8
"""How many files are read in parallel to find which are unreadable."""

SHOWN = 3
"""How many of them are named."""

EMPTY = "it is empty, and a file of its format never is: it may be one that is still being written"


def check_empty(sink: Sink, session: SparkSession, batch: int, rows: DataFrame) -> None:
    """Handle empty Parquet, ORC and Avro files, which Spark skips although they are
    incomplete.

    Raises `RunError` (`file-unreadable`), or `FilesSetAside` if the stream sets
    unreadable files aside.
    """
    for binding, file in _files_of(sink, session, rows):
        if (
            not binding.stream.record_format.has_typed_rows
            or file.length
            or binding.is_set_aside(file.path)
        ):
            continue
        empty = _unreadable(binding, file, EMPTY)
        if not binding.sets_aside:
            what = f"{unquote(empty.uri)} cannot be read: {empty.why}"
            raise RunError.of(
                "file-unreadable", what, why="Nothing of the batch was written."
            )
        _set_aside(sink, session, batch, [empty])
        raise FilesSetAside


def set_aside(
    sink: Sink, session: SparkSession, batch: int, rows: DataFrame, error: Exception
) -> bool:
    """Record which files of a failed batch cannot be read. Returns whether there are
    any that may be set aside."""
    if not any(
        binding.sets_aside for binding in sink.bindings
    ) or _is_of_something_else(error):
        return False
    asked = [
        (binding, file)
        for binding, file in _files_of(sink, session, rows)
        if binding.sets_aside and not binding.is_set_aside(file.path)
    ]
    with ThreadPoolExecutor(READERS) as pool:
        causes = (
            list(pool.map(partial(_why_unreadable, session), *zip(*asked, strict=True)))
            if asked
            else []
        )
    found = [
        _unreadable(*each, why) for each, why in zip(asked, causes, strict=True) if why
    ]
    if found:
        _set_aside(sink, session, batch, found)
    return bool(found)


def unreadable_letters(sink: Sink, session: SparkSession, batch: int) -> DeadLetters:
    """The dead letters for the files of a batch that are set aside."""
    if not any(binding.sets_aside for binding in sink.bindings):
        return []
    rows = [
        (
            each.stream,
            each.uri,
            datetime.fromtimestamp(each.modified_ms / 1000, UTC),
            FILE_UNREADABLE,
            f"{unquote(each.uri)} cannot be read: {each.why}",
        )
        for each in read_unreadable(session, sink.progress.identity.folder, batch)
    ]
    if not rows:
        return []
    found = session.createDataFrame(
        rows,
        "stream string, topic string, timestamp timestamp, reason string, detail string",
    )
    nothing = (
        "CAST(NULL AS bigint) AS offset",
        "CAST(NULL AS binary) AS key",
        "CAST(NULL AS binary) AS value",
    )
    return [found.selectExpr("*", "0 AS partition", *nothing)]


def _is_of_something_else(error: Exception) -> bool:
    """Whether a batch has failed for another reason than its files, as the error
    tells."""
    if isinstance(error, LakesqlError):
        return any(problem.condition != "file-unreadable" for problem in error.problems)
    return next(find_transient(error), None) is not None


def _files_of(
    sink: Sink, session: SparkSession, rows: DataFrame
) -> Iterator[tuple[StreamBinding, ListedFile]]:
    """The files of the query's current batch, each with the stream that reads it."""
    asked = [
        (binding, listing_of(binding.glob))
        for binding in sink.bindings
        if binding.glob is not None
        and binding.is_in_files
        and (binding.sets_aside or binding.stream.record_format.has_typed_rows)
    ]
    if not asked:
        return
    is_planned = any(binding.source.is_planned for binding in sink.bindings)
    owner = sink.progress.identity.owner
    files = listed_files(
        rows._jdf.queryExecution() if is_planned else last_execution(session, owner)
    )
    for binding, listing in asked:
        yield from (
            (binding, file)
            for file in files
            if listing.means(without_scheme(file.path))
        )


def _why_unreadable(
    session: SparkSession, binding: StreamBinding, file: ListedFile
) -> str:
    """Why a file cannot be read; '' if it can, or the file itself is not at fault."""
    alone, own = replace(binding, files=(file.path,)), new_session(session)
    if misfit := find_misfit(own, binding, uri_of(file.path)):
        return misfit
    try:
        rows = with_nanoseconds(own, read_raw(own, alone, streaming=False), (alone,))
        rows.write.format("noop").mode("append").save()
    except Exception as error:
        said = unreadable_file(error)
        is_faulty = (
            said is not None
            and next(find_transient(error), None) is None
            and not is_of_storage(error)
        )
        return said[1] if said is not None and is_faulty else ""
    return ""


def _unreadable(binding: StreamBinding, file: ListedFile, why: str) -> UnreadableFile:
    path = without_scheme(file.path)
    return UnreadableFile(
        binding.stream.name, path, uri_of(file.path), file.modified_ms, why
    )


def _set_aside(
    sink: Sink, session: SparkSession, batch: int, found: Sequence[UnreadableFile]
) -> None:
    note_unreadable(session, sink.progress.identity.folder, batch, found)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    named = ", ".join(each.path for each in found[:SHOWN])
    text = f"set aside as dead letters, as nobody can read them: {count(len(found), 'file')}: {named}{more}"
    sink.emit(Noted(text, sink.model.name))
