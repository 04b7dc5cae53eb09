"""A feed that declares no columns: what to do with a batch whose records have others than the model knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakesql.errors import RunError, TransientError
from lakesql.model.config import SchemaChange
from lakesql.names import NEW_FIELDS
from lakesql.stream.feed_schema import merge_fields, parse_field
from lakesql.stream.stream import Stream

Follow = Callable[[str, tuple[str, ...]], None]
"""Takes the schema fields of a stream, by its name, that it has from now on."""


def check_schemas(
    model: str, policy: SchemaChange, streams: Iterable[tuple[Stream, DataFrame]], follow: Follow
) -> None:
    """Raise where parsed records of an open stream have columns, or types, that the model's batch cannot have written.

    `feed-changed`, transient once `follow` knows them: the model is compiled again, its table altered, and the batch
    written again, with all that is in it. Not so where the model says `fail`, or where no column can hold what came
    before and what comes now. With `ignore` other columns do not land, and what does not fit is a dead letter.
    """
    if policy == "ignore":
        return
    for stream, records in streams:
        if stream.schema_fields:
            _check_stream(model, policy, stream, records, follow)


def _check_stream(model: str, policy: SchemaChange, stream: Stream, records: DataFrame, follow: Follow) -> None:
    changes = records.where(F.col(NEW_FIELDS).isNotNull()).select(f"{NEW_FIELDS}.*").distinct().collect()
    texts = sorted({text for change in changes for text in change["fields"]})
    merged = merge_fields([parse_field(text) for text in stream.schema_fields], map(parse_field, texts))
    if merged.columns == stream.columns and not merged.clashing:
        return  # written in another way, and every value has its column
    gone = sorted({name for change in changes for name in change["gone"]})
    what = f"The schema of stream '{stream.name}' has changed: {'; '.join(merged.differences)}."
    renamed = f"{', '.join(gone)} is not in it: a column that was renamed is another one here." if gone else ""
    if merged.clashing:
        raise RunError.of(
            "feed-changed",
            what,
            why=" ".join(("No column holds both. Nothing of this batch was written.", renamed)).rstrip(),
            fix="Declare the stream's `columns` with the type that you want and `lakesql rebuild` the model; or take "
            f"on_schema_change='ignore': then '{merged.clashing[0][0]}' stays {merged.clashing[0][1]}, other columns "
            "do not land, and records that do not fit are dead letters.",
            place=stream.place,
        )
    if policy == "fail":
        why = "The model says on_schema_change='fail'. Nothing of this batch was written."
        fix = "Run it once with on_schema_change='append_new_columns', or declare the stream's `columns`."
        raise RunError.of("feed-changed", what, why=" ".join((why, renamed)).rstrip(), fix=fix, place=stream.place)
    follow(stream.name, tuple(field.text for field in merged.fields))
    fix = f"Nothing is to be done: model '{model}' is compiled again, and the batch written with these columns."
    raise TransientError.of("feed-changed", what, why=renamed, fix=fix, place=stream.place)
