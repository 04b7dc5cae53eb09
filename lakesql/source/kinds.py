"""All kinds of sources by their names; `lakesql/engine/sources/spark_sources.py` has
how each is read with Spark."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.decode import Node
from lakesql.source.files import Files
from lakesql.source.files_by_name import FilesByName
from lakesql.source.kafka import Kafka
from lakesql.source.kinesis import Kinesis
from lakesql.source.mqtt import Mqtt
from lakesql.source.notified_files import NotifiedFiles
from lakesql.source.project import FOLDER, ProjectSource
from lakesql.source.pulsar import Pulsar
from lakesql.source.rate import Rate
from lakesql.source.recorded import Recorded
from lakesql.source.source import Source
from lakesql.source.sqs import Sqs
from lakesql.source.table import TableSource
from lakesql.source.table_changes import ChangesSource

CONNECTIONS: Mapping[str, type[Source]] = {
    kind.kind: kind
    for kind in (Recorded, Files, Rate, Kafka, Kinesis, Pulsar, Mqtt, Sqs)
}
"""The kinds that a connection of a profile may have as its `type`."""

SOURCES: Mapping[str, type[Source]] = {
    **CONNECTIONS,
    ProjectSource.kind: ProjectSource,
    FilesByName.kind: FilesByName,
    NotifiedFiles.kind: NotifiedFiles,
    TableSource.kind: TableSource,
    ChangesSource.kind: ChangesSource,
}
"""All kinds of sources by their names."""


def project_source(type_: str, node: Node) -> Source | None:
    """The source of a connection whose type names a file in the project's `sources/`;
    None for any other type."""
    if not type_.startswith(FOLDER) or not type_.endswith(".py"):
        return None
    return ProjectSource(type_, node)


def project_files(directory: str) -> Source:
    """The source of a stream without a connection: files of the project."""
    return Files(directory)


def recorded_topics(folder: str) -> Source:
    """The source of streams in a test."""
    return Recorded(folder)


def model_table(name: str, is_changing: bool) -> Source:
    """The source of a stream that is another model's table: its new rows or, if its
    rows change, the changes."""
    return ChangesSource(name) if is_changing else TableSource(name)
