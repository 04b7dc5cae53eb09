"""What happens to a batch of a change feed whose changes have other columns than their
stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakesql.errors import RunError, TransientError
from lakesql.events import ColumnsAbsent, Emit
from lakesql.model.model import Model
from lakesql.names import NEW_FIELDS
from lakesql.stream.feed_schema import merge_fields, parse_field
from lakesql.stream.stream import Stream

Follow = Callable[[str, tuple[str, ...]], None]
"""Called with a stream's name and the schema fields that it has from now on."""


def check_schemas(
    model: Model,
    batch: int,
    streams: Iterable[tuple[Stream, DataFrame]],
    follow: Follow,
    emit: Emit,
) -> None:
    """Raise if parsed records of feeds have columns, or types, that the batch cannot
    have been written with.

    The condition is `feed-changed`. It is transient once `follow` knows the columns of
    an open stream: the model is compiled again, its table altered, and the batch
    written again with all of its values. It is not transient with
    on_schema_change='fail', or if no column can hold both the former values and the new
    ones. With 'ignore' other columns are not written, and values that do not fit become
    dead letters. Changes that lack columns of their stream are reported by an event.
    """
    for stream, records in streams:
        changes = _differing(records)
        if not changes:
            continue
        if not stream.is_open:
            _check_declared(model, batch, stream, changes, emit)
        elif model.config.on_schema_change != "ignore":
            _check_open(model, batch, stream, changes, follow, emit)


@dataclass(frozen=True, slots=True)
class _Differing:
    """How many changes differ from their stream in one way, which fields they have and
    which are gone, as in `NEW_FIELDS`."""

    fields: tuple[str, ...]
    gone: tuple[str, ...]
    count: int


def _differing(records: DataFrame) -> list[_Differing]:
    if NEW_FIELDS not in records.columns:
        return []
    found = (
        records.where(F.col(NEW_FIELDS).isNotNull())
        .groupBy(NEW_FIELDS)
        .count()
        .collect()
    )
    return [
        _Differing(tuple(row[0]["fields"]), tuple(row[0]["gone"]), row[1])
        for row in found
    ]


def _check_declared(
    model: Model, batch: int, stream: Stream, changes: list[_Differing], emit: Emit
) -> None:
    absent, beside = (
        _names(each.gone for each in changes),
        _names(each.fields for each in changes),
    )
    # names with two underscores are the connector's own
    undeclared = tuple(name for name in beside if not name.startswith("__"))
    count = sum(each.count for each in changes)
    told = ColumnsAbsent(model.name, stream.name, batch, count, absent, undeclared)
    if model.config.on_schema_change == "fail":
        raise RunError.of(
            "feed-changed",
            f"{count} changes of stream '{stream.name}' lack {', '.join(absent)}, which it declares.",
            why=f"The model says on_schema_change='fail'. {_renamed(absent, undeclared)}",
            fix=f"Declare the columns that the source has now, and `lakesql rebuild {model.name}`; or take another "
            "on_schema_change: then NULL stands there.",
            place=stream.place,
        )
    emit(told)


def _renamed(absent: Iterable[str], undeclared: Iterable[str]) -> str:
    if not undeclared:
        return "Nothing of this batch was written."
    return f"Nothing of this batch was written. Instead of {', '.join(absent)} they have {', '.join(undeclared)}."


def _check_open(
    model: Model,
    batch: int,
    stream: Stream,
    changes: list[_Differing],
    follow: Follow,
    emit: Emit,
) -> None:
    merged = merge_fields(
        [parse_field(text) for text in stream.schema_fields],
        map(parse_field, _names(each.fields for each in changes)),
    )
    gone = _names(each.gone for each in changes)
    # the same columns: only their notation differs, or changes lack some of them
    if merged.columns == stream.columns and not merged.clashing:
        count = sum(each.count for each in changes if each.gone)
        if gone:
            emit(ColumnsAbsent(model.name, stream.name, batch, count, gone, ()))
        return
    what = f"The schema of stream '{stream.name}' has changed: {'; '.join(merged.differences)}."
    renamed = (
        f"{', '.join(gone)} is not in it: a column that was renamed is another one here."
        if gone
        else ""
    )
    if merged.clashing:
        raise RunError.of(
            "feed-changed",
            what,
            why=" ".join(
                ("No column holds both. Nothing of this batch was written.", renamed)
            ).rstrip(),
            fix="Declare the stream's `columns` with the type that you want and `lakesql rebuild` the model; or take "
            f"on_schema_change='ignore': then '{merged.clashing[0][0]}' stays {merged.clashing[0][1]}, other columns "
            "do not land, and records that do not fit are dead letters.",
            place=stream.place,
        )
    if model.config.on_schema_change == "fail":
        why = (
            "The model says on_schema_change='fail'. Nothing of this batch was written."
        )
        fix = "Run it once with on_schema_change='append_new_columns', or declare the stream's `columns`."
        raise RunError.of(
            "feed-changed",
            what,
            why=" ".join((why, renamed)).rstrip(),
            fix=fix,
            place=stream.place,
        )
    follow(stream.name, tuple(field.text for field in merged.fields))
    fix = f"Nothing is to be done: model '{model.name}' is compiled again, and the batch written with these columns."
    raise TransientError.of(
        "feed-changed", what, why=renamed, fix=fix, place=stream.place
    )


def _names(each: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted({name for names in each for name in names}))
