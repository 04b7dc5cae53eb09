"""The readers of all kinds of sources with Spark, by the names of the kinds."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.engine.sources.files import SparkFiles
from lakesql.engine.sources.files_by_name import SparkFilesByName
from lakesql.engine.sources.kafka import SparkKafka
from lakesql.engine.sources.log import SparkLog
from lakesql.engine.sources.notified_files import SparkNotifiedFiles
from lakesql.engine.sources.rate import SparkRate
from lakesql.engine.sources.recorded import SparkRecorded
from lakesql.engine.sources.spark_source import SparkSource
from lakesql.engine.sources.table import SparkTable
from lakesql.engine.sources.table_changes import SparkChanges
from lakesql.source.source import Source

SPARK_SOURCES: Mapping[str, SparkSource] = {
    each.kind: each
    for each in (
        *(
            SparkKafka(),
            SparkRecorded(),
            SparkFiles(),
            SparkFilesByName(),
            SparkNotifiedFiles(),
        ),
        *(SparkRate(), SparkTable(), SparkChanges(), SparkLog()),
    )
}
"""All readers: of the kinds in `lakesql/source/kinds.py`, and the common ones that
several kinds use."""


def spark_source(source: Source) -> SparkSource:
    """The reader of a source."""
    return SPARK_SOURCES[source.reader or source.kind]
