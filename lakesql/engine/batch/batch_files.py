"""How the files of a batch are read, before its records are parsed: whether they have
the types of their streams, with which columns, and in which order."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.csv_headers import (
    FileHeaders,
    with_headers,
    with_letters_headers,
)
from lakesql.engine.sources.file_order import with_file_order
from lakesql.engine.sources.file_types import check_file_types
from lakesql.engine.sources.nanoseconds import refuse_nanoseconds, with_nanoseconds
from lakesql.engine.sources.parsed import unpack
from lakesql.events import Emit, Noted

SHOWN = 3
"""How many headers of a batch are reported."""


def open_files(
    session: SparkSession,
    arrived: DataFrame,
    bindings: tuple[StreamBinding, ...],
    emit: Emit | None,
) -> tuple[DataFrame, tuple[StreamBinding, ...]]:
    """The raw records of a batch, with timestamps in nanoseconds replaced by those that
    fit, and the bindings of `batch_bindings`.

    What is not read as it is, is reported to `emit`, unless that is None. Raises
    `RunError` for files whose types are not those of the contract.
    """
    check_file_types(session, arrived, bindings)
    arrived = with_nanoseconds(session, arrived, bindings, emit)
    return arrived, batch_bindings(session, arrived, bindings, emit)


def check_files(
    session: SparkSession, arrived: DataFrame, bindings: tuple[StreamBinding, ...]
) -> None:
    """Raise `RunError` for files of a stateful query's batch that cannot be read as
    they are: their types are not those of the contract, or their timestamps are too
    precise."""
    check_file_types(session, arrived, bindings)
    refuse_nanoseconds(session, arrived, bindings)


def batch_bindings(
    session: SparkSession,
    arrived: DataFrame,
    bindings: tuple[StreamBinding, ...],
    emit: Emit | None,
) -> tuple[StreamBinding, ...]:
    """The bindings for a batch of raw records, or of dead letters that are read again,
    with the headers of its files, and, for a change feed in files, with their order.

    Reports which of the contract's columns a header lacks, and which others it has.
    """
    bindings = with_file_order(arrived, bindings)
    if not any(binding.is_csv_in_files for binding in bindings):
        return bindings
    if any(binding.is_replayed for binding in bindings):
        return tuple(
            with_letters_headers(unpack(arrived, index, len(bindings)), binding)
            for index, binding in enumerate(bindings)
        )
    found = with_headers(session, arrived, bindings)
    for binding in found:
        if emit is not None and binding.headers is not None:
            for text in _remarks(binding.headers, binding):
                emit(Noted(text))
    return found


def _remarks(headers: FileHeaders, binding: StreamBinding) -> list[str]:
    remarks = []
    for header, paths in headers.files:
        missing = [
            it.field for it in binding.stream.columns if it.field not in header.columns
        ]
        others = header.columns.count(None)
        both = [name for name in header.folders if header.columns.count(name) > 1]
        if not header.problem and not missing and not others and not both:
            continue
        of = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        said = [header.problem] if header.problem else []
        if missing and not header.problem:
            said.append(f"the header lacks {', '.join(missing)}")
        if others and not header.problem:
            said.append(f"{others} of its columns are not in the contract")
        if both:
            said.append(
                f"the values of {', '.join(both)} are its own, and those of its folder where it has none"
            )
        remarks.append(f"stream {binding.stream.name}: {of}: {'; '.join(said)}")
    left = len(remarks) - SHOWN
    return (
        remarks
        if left <= 0
        else [
            *remarks[:SHOWN],
            f"stream {binding.stream.name}: {left} more such headers",
        ]
    )
