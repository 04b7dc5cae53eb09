"""`lakesql show --preview`: shows what a model would make of the first records of its
streams. Nothing is written."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesql.compile.build_select import build_select
from lakesql.engine.batch.sample import preview_rows
from lakesql.engine.progress.inspect import read_sources
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.spark.failure import explained
from lakesql.run.start.spark import open_spark, open_spark_alone, session_settings
from lakesql.run.start.tables_read import check_tables, tables_read
from lakesql.run.streams.bind import BoundSelect, bind_select

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakesql.graph.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows of a SELECT and the names of their columns, how many records they were
    made of, and how many records were bad, by reason."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    records: int
    rejected: tuple[tuple[str, int], ...]


def preview_model(
    manifest: Manifest,
    name: str,
    limit: int,
    say: Callable[[str], None] = lambda _: None,
) -> Preview:
    """At most `limit` rows that the model's SELECT makes of the first records that its
    streams hold now.

    Raises what compiling raises, `ProfileError` if Spark or the catalog is not
    available, `RunError` if the SELECT fails.
    """
    bound = bind_select(manifest, build_select(manifest, name))
    select, bindings = bound.select, bound.bindings
    settings = session_settings(manifest, bindings, say, is_shared=True)
    if not tables_read(manifest, select):
        with open_spark_alone(settings, say) as session, explained(select):
            return _preview(session, bound, limit)
    with open_spark(settings, say) as (session, catalog), explained(select):
        check_tables(manifest, catalog, select)
        return _preview(session, bound, limit)


def _preview(session: SparkSession, bound: BoundSelect, limit: int) -> Preview:
    # asked first: Spark reports a missing broker or topic only after minutes
    with closing(Brokers()) as brokers:
        read_sources(session, brokers, bound.bindings)
        return Preview(
            *preview_rows(session, bound.select, bound.bindings, limit, brokers)
        )
