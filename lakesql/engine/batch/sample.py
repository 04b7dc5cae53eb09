"""Which rows a model's SELECT makes of the records that exist now: a batch query that
writes nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import SparkSession

from lakesql.catalog.tables import python_rows
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.engine.batch.batch_files import open_files
from lakesql.engine.batch.feed import give_sample
from lakesql.engine.batch.new_schemas import preview_schemas
from lakesql.engine.batch.valid_text import with_valid_text
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.parsed import parse_streams, read_records
from lakesql.engine.spark.few_rows import changed_settings, keep_rows, settings_of_few
from lakesql.names import REJECTED, is_reserved

RECORDS = 1000
"""How many records of each stream are read."""


def preview_rows(
    session: SparkSession,
    select: Select,
    bindings: tuple[StreamBinding, ...],
    limit: int,
    brokers: Brokers,
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int, tuple[tuple[str, int], ...]]:
    """The columns and at most `limit` rows of the SELECT; how many records were read,
    and the numbers of bad ones by reason."""
    with changed_settings(session, settings_of_few(session)):
        seen = _open_sample(session, select, bindings, brokers)
        rows = with_valid_text(session.sql(select.text), select, bindings)
        landed = [name for name in rows.columns if not is_reserved(name)]
        # By Arrow, times keep their time zone; rows would have them in that of this
        # process.
        found = (
            rows.select(*(identifier(name) for name in landed)).limit(limit).toArrow()
        )
    rejected = ((reason, count) for reason, count in seen.items() if reason is not None)
    return (
        tuple(landed),
        list(python_rows(found)),
        seen.total(),
        tuple(sorted(rejected)),
    )


def _open_sample(
    session: SparkSession,
    select: Select,
    bindings: tuple[StreamBinding, ...],
    brokers: Brokers,
) -> Counter[str | None]:
    """Make the view of each stream, of its first records. Returns their numbers by the
    reason why they are bad; None for good ones."""
    seen = Counter[str | None]()
    for binding in bindings:
        arrived = read_records(session, (binding,), brokers)
        arrived, of_files = open_files(session, arrived, (binding,), None)
        first = keep_rows(arrived.limit(RECORDS), RECORDS).rows
        (parsed,) = parse_streams(first, select, preview_schemas(first, of_files))
        records = keep_rows(parsed, RECORDS).rows
        seen.update(
            reason for (reason,) in records.select(f"{REJECTED}.reason").collect()
        )
        give_sample(session, select, binding, records)
    return seen
