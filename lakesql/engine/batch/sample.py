"""A model's SELECT over the records that are there now, as a batch query that writes nothing."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakesql.catalog.tables import python_rows
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.engine.batch.counters import BatchCounters
from lakesql.engine.batch.cuts import Moves
from lakesql.engine.batch.feed import give_rows
from lakesql.engine.batch.file_headers import batch_bindings
from lakesql.engine.batch.new_schemas import preview_schemas
from lakesql.engine.batch.valid_text import with_valid_text
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.file_types import check_file_types
from lakesql.engine.sources.nanoseconds import with_nanoseconds
from lakesql.engine.sources.parsed import Parsing, read_records
from lakesql.names import REJECTED, is_reserved

RECORDS = 1000
"""How many records of each stream are looked at."""


def preview_rows(
    session: SparkSession, select: Select, bindings: tuple[StreamBinding, ...], limit: int, brokers: Brokers
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int, tuple[tuple[str, int], ...]]:
    """The columns and at most `limit` rows of the SELECT; how many records were read, and the bad ones by reason."""
    records, rejected = 0, dict[str, int]()
    for binding in bindings:
        arrived = read_records(session, (binding,), brokers)
        check_file_types(session, arrived, (binding,))
        arrived = with_nanoseconds(session, arrived, (binding,))
        of_files = batch_bindings(session, arrived, (binding,), lambda _: None)
        first = arrived.limit(RECORDS).persist()
        of_files = preview_schemas(first, of_files)
        (parsed,) = Parsing(select, of_files).parse(first)
        for reason, count in parsed.groupBy(F.col(f"{REJECTED}.reason").alias("reason")).count().collect():
            records += count
            if reason is not None:
                rejected[reason] = rejected.get(reason, 0) + count
        give_rows(session, select, binding, parsed, BatchCounters(), Moves(), with_deleted=False)
    rows = with_valid_text(session.sql(select.text), select, bindings, BatchCounters())
    landed = [name for name in rows.columns if not is_reserved(name)]
    # Through Arrow: times keep their zone, where rows would bring them in that of this process.
    found = rows.select(*(identifier(name) for name in landed)).limit(limit).toArrow()
    return tuple(landed), list(python_rows(found)), records, tuple(sorted(rejected.items()))
