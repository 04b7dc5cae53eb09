"""Reads the tables of models as their catalog has them, and their checkpoints, several at a time; and asks brokers for
the topics that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from lakesql.catalog.checkpoint_files import open_stored
from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.catalog.live_tables import LiveTable, read_live_table
from lakesql.engine.progress.position import Source
from lakesql.engine.progress.state import Checkpoint
from lakesql.engine.progress.stored import read_checkpoint
from lakesql.errors import LakesqlError, explain_missing, first_line
from lakesql.model.table_name import TableName
from lakesql.plan.table_status import Unknown
from lakesql.project.librdkafka_options import librdkafka_options
from lakesql.project.profiles import Connection, Kafka, Target, checkpoint_of, sqlite_file
from lakesql.review.tables_now import Found, FoundTopics, Unread
from lakesql.run.status import READERS
from lakesql.stream.stream import Stream

LOOKS = 3
"""So often a table and its checkpoint are read that a run is writing."""


def read_live(target: Target, tables: Mapping[str, TableName]) -> Mapping[str, Found]:
    """What is there of each model, by its table's name. Raises what opening the catalog raises; a table that cannot be
    read, or a checkpoint, is found as that."""
    file = sqlite_file(target.catalog)
    opened = open_catalog(target.catalog) if file is None or file.exists() else None  # opening it would make it
    with ThreadPoolExecutor(READERS, thread_name_prefix="lakesql-plan") as pool:
        found = pool.map(lambda name: _find(target, opened, tables[name], name), tables)
        return dict(zip(tables, found, strict=True))


def read_topics(
    connections: Mapping[str, Connection], streams: Sequence[Stream]
) -> tuple[Mapping[str, FoundTopics], tuple[str, ...]]:
    """What is there of the topics of those streams that come from Kafka, by the streams' names; and sentences that say
    of which nothing is known, and why.

    Raises what asking a broker raises that is not there, or that takes neither login nor certificate.
    """
    clusters = {name: it for name, it in connections.items() if isinstance(it, Kafka)}
    read = {name: [it for it in streams if it.connection == name] for name in clusters}
    read = {name: of for name, of in read.items() if of}
    if not read:
        return {}, ()
    try:
        from lakesql.engine.sources.offsets import read_offsets  # only here: its client is an extra
    except ModuleNotFoundError as error:
        absent = explain_missing(error)
        if absent is None:
            raise
        return {}, (f"Topics are not looked at: {absent.problems[0].what} {absent.problems[0].fix}",)
    found: dict[str, FoundTopics] = {}
    unread: list[str] = []
    for name, of in read.items():
        if unknown := librdkafka_options(clusters[name]).unknown:
            why = ", ".join(f"{option} (taken: {takes})" if takes else option for option, takes in unknown.items())
            what = "has no counterpart" if len(unknown) == 1 else "have no counterparts"
            unread.append(f"Topics of connection '{name}' are not looked at: without Java {why} {what}.")
            continue
        for stream, held in read_offsets(clusters[name], of).items():
            source = Source(stream, "kafka", held.ids, held.beginnings, held.ends)
            missing = Source(stream, "kafka", is_asked=False)
            found[stream] = FoundTopics(missing if held.problems else source, held.problems)
    return found, tuple(unread)


def _find(target: Target, opened: OpenCatalog | None, name: TableName, model: str) -> Found:
    """The table between two looks at the checkpoint that have found the same: nobody has written it meanwhile."""
    folder = checkpoint_of(target, model)
    before = _read_checkpoint(target, folder)
    table: LiveTable | Unknown | None = None
    for _ in range(LOOKS):
        table = _read_table(opened, name, model)
        checkpoint = _read_checkpoint(target, folder)
        if checkpoint == before:
            return Found(table, checkpoint, folder)
        before = checkpoint
    return Found(table, Unread(""), folder)


def _read_table(opened: OpenCatalog | None, name: TableName, model: str) -> LiveTable | Unknown | None:
    try:
        return read_live_table(opened, name, model) if opened is not None else None
    except LakesqlError as error:
        return Unknown(error.problems)


def _read_checkpoint(target: Target, folder: str) -> Checkpoint | Unread | None:
    try:
        files = open_stored(target.catalog, folder)
        return read_checkpoint(files) if files is not None else Unread("Spark alone reaches this file system")
    except (OSError, ValueError) as error:  # such are pyarrow's own, too
        return Unread(first_line(error))
