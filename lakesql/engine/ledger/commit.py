"""How a table gets rows and their ledger entry in one commit: staged, then published or
discarded.

Staged rows are files and a snapshot that the catalog does not know. Publishing replaces
the table's metadata, which the catalog does only if the metadata are still those in
which the ledger was looked up. So a batch that is in the ledger is never written again,
by any runner, including one that was suspended and continues after another has taken
over.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.clock import now_ms
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    carrying_properties,
    head_of,
    read_facts,
    read_snapshot,
    set_tag,
)
from lakesql.engine.spark.few_rows import changed_settings
from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.internals import write_to
from lakesql.errors import TransientError
from lakesql.ledger.carried import carry
from lakesql.ledger.entry import (
    Entry,
    Snapshot,
    ledger_tag,
    overtaken,
    snapshot_of,
    summary_of,
)
from lakesql.model.table_name import TableName

T = TypeVar("T")

_API = "org.apache.iceberg."

_RETRY = (
    ("commit.retry.num-retries", "4"),
    ("commit.retry.min-wait-ms", "100"),
    ("commit.retry.max-wait-ms", "60000"),
)
"""The table properties that control the retries of a commit that lost against another,
with Iceberg's defaults."""


STAGED_FOR_MS = 6 * 3_600_000
"""For how long a staged commit may be published. No table has its files, and orphans
may be removed when they are a day old."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A table as the catalog has it, and the `target`: the table as it was when a
    commit was begun, to be written to."""

    table: JavaTable
    target: JavaTable


@dataclass(frozen=True, slots=True)
class Staged:
    """A commit that is complete but for its publication: `made` is Iceberg's snapshot,
    and `facts` its JSON."""

    table: JavaTable
    made: Any
    facts: Mapping[str, Any]

    @property
    def snapshot(self) -> Snapshot:
        """The staged snapshot."""
        return snapshot_of(self.facts)


class HeadMovedError(Exception):
    """A staged commit cannot be published: the table has changed since, and the batch
    must be staged again."""


PUBLISH_TRIES = 5
"""How often a commit is attempted again because a foreign one moved the head, before it
fails."""


def until_published(attempt: Callable[[], T], table: TableName) -> T:
    """The result of `attempt`, which is called again while it raises `HeadMovedError`.
    Raises the error of `conflict` if it does so each time."""
    for _ in range(PUBLISH_TRIES):
        try:
            return attempt()
        except HeadMovedError:
            continue
    raise conflict(table)


def conflict(table: TableName) -> TransientError:
    """The error for a commit that lost against other writers each time."""
    return TransientError.of(
        "commit-conflict",
        f"Other writers committed to {table} each time that this batch was ready.",
    )


def begin_commit(table: JavaTable) -> Begun:
    """The table, refreshed now, prepared for one commit that the catalog does not learn
    of."""
    # Unlike the table object of Iceberg's transactions, this one can be read, which a
    # MERGE does.
    operations = table.newTransaction().table().operations()
    return Begun(
        table,
        java_class(f"{_API}BaseTable")(operations, table.name(), table.reporter()),
    )


def stage(
    session: SparkSession,
    begun: Begun,
    statement: str,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Staged:
    """Run an INSERT or a MERGE into the table as it was when the commit was begun, with
    these Spark settings, and return the staged commit."""
    before = head_of(begun.target)
    with changed_settings(session, settings):
        write_to(session, statement, begun.target)
    assert head_of(begun.target) != before, (
        "the statement has committed nothing, or to another branch"
    )
    return _staged(begun)


def stage_nothing(begun: Begun) -> Staged:
    """A staged commit without rows, for a ledger entry that only records what has been
    read."""
    begun.target.newAppend().commit()
    return _staged(begun)


@dataclass(frozen=True, slots=True)
class Publication:
    """A staged commit that is to become the head of the table `name`, with its entry.

    `is_written` tells whether the refreshed table holds the batch. `can_replay`: the
    rows may be added on top of foreign commits. That holds for appended rows, but not
    for a MERGE, even if it has only inserted: a foreign commit may have brought the
    same key.
    """

    staged: Staged
    entry: Entry
    name: TableName
    is_written: Callable[[], bool] = lambda: False
    can_replay: bool = False


@dataclass(frozen=True, slots=True)
class Replacement:
    """The metadata `updated` that are to replace the metadata `base` of a table, with
    the commit of `publication` as the head.

    `head` is the snapshot that becomes the head.
    """

    publication: Publication
    base: Any
    updated: Any
    head: Snapshot

    @property
    def table(self) -> JavaTable:
        """The table."""
        return self.publication.staged.table


def publish(publication: Publication) -> Snapshot:
    """Make a staged snapshot current, with its entry, atomically; returns the new head.

    The same commit moves the tag of the model's ledger to it, so no maintenance,
    whoever runs it, can expire the newest entry.

    Raises `HeadMovedError` if a foreign commit came in between and the staged one
    cannot be replayed on top of it; it is then discarded. Raises `RunError`
    (`batch-published`) if another runner has published the same batch.
    """
    tries = 0
    while True:
        found = replacement_of(publication, is_again=tries > 0)
        if isinstance(found, Snapshot):
            return found
        publication = found.publication
        try:
            found.table.operations().commit(found.base, found.updated)
        except Py4JJavaError as error:
            if not is_commit_failure(error):
                raise
            wait_s = wait_before_try(found.table, tries)
            if wait_s is None:
                raise conflict(publication.name) from None
            time.sleep(wait_s)
            tries += 1
        else:
            return found.head


def replacement_of(publication: Publication, is_again: bool) -> Replacement | Snapshot:
    """What is to be committed on the table as it is now; the snapshot if the table has
    it already.

    Raises what `publish` raises. `is_again`: a commit of it has been tried before.
    """
    staged, name = publication.staged, publication.name
    table = staged.table
    begun = begin_commit(table)  # what is asked from here on is what is replaced
    if is_again and (found := table.snapshot(staged.snapshot.id)) is not None:
        # the catalog made the commit that it reported as failed
        return read_snapshot(found)
    if publication.is_written():
        raise overtaken(f"Another runner has written this batch of {name}.")
    if now_ms() - staged.facts["timestamp-ms"] > STAGED_FOR_MS:
        what = f"A batch of {name} was staged hours ago: somebody may have removed its files as orphans."
        raise TransientError.of(
            "commit-conflict", what, fix="The next try writes them again."
        )
    base = table.operations().current()
    if not _follows(staged, base):
        if not publication.can_replay:
            discard(staged)
            raise HeadMovedError
        staged = _replay(staged, begun)
    entry = publication.entry
    summary = staged.facts["summary"] | summary_of(entry)
    # the snapshot's time is when it becomes the head
    facts = {**staged.facts, "timestamp-ms": now_ms(), "summary": summary}
    updated = _with_head(base, facts, ledger_tag(entry.model))
    return Replacement(
        replace(publication, staged=staged), base, updated, snapshot_of(facts)
    )


def is_commit_failure(error: Py4JJavaError) -> bool:
    """Whether a catalog has rejected a commit because another one was faster."""
    return (
        str(error.java_exception.getClass().getName())
        == f"{_API}exceptions.CommitFailedException"
    )


def tag_head(table: JavaTable, model: str) -> None:
    """Tag the head of a table that was created with an entry as the model's newest
    entry, as `publish` does."""
    tag, head = ledger_tag(model), table.currentSnapshot().snapshotId()
    set_tag(
        table.manageSnapshots(), tag, head, is_there=table.refs().containsKey(tag)
    ).commit()


def discard(staged: Staged) -> None:
    """Delete the files of a staged snapshot, which no reader has seen."""
    io = staged.table.io()
    files = (*staged.made.addedDataFiles(io), *staged.made.addedDeleteFiles(io))
    _delete(staged, [str(file.location()) for file in files])
    _delete_metadata(staged)


def _staged(begun: Begun) -> Staged:
    made = begun.target.currentSnapshot()
    return Staged(begun.table, made, read_facts(made))


def _follows(staged: Staged, base: Any) -> bool:
    """Whether the staged snapshot directly follows these metadata: by its parent, its
    sequence number and, in format version 3, its row ids."""
    head, facts = base.currentSnapshot(), staged.facts
    is_next = (head.snapshotId() if head is not None else None) == facts.get(
        "parent-snapshot-id"
    )
    is_next = is_next and base.nextSequenceNumber() == facts.get("sequence-number", 0)
    return is_next and (base.formatVersion() > 2) == ("first-row-id" in facts)


def wait_before_try(table: JavaTable, tries: int) -> float | None:
    """How many seconds to wait before the next try; None if there is none."""
    retries, first_ms, longest_ms = (
        int(table.properties().getOrDefault(*each)) for each in _RETRY
    )
    return (
        min(first_ms * 2**tries, longest_ms) / 1000 * random.uniform(1, 1.1)
        if tries < retries
        else None
    )


def _replay(staged: Staged, begun: Begun) -> Staged:
    """The appended rows, staged again on top of the table as it is now, with the same
    data files."""
    append = begun.target.newAppend()
    for file in staged.made.addedDataFiles(staged.table.io()):
        append = append.appendFile(file)
    append.commit()
    _delete_metadata(staged)
    return _staged(begun)


def _with_head(base: Any, facts: Mapping[str, Any], tag: str) -> Any:
    made = java_class(f"{_API}SnapshotParser").fromJson(json.dumps(facts))
    tagged = java_class(f"{_API}SnapshotRef").tagBuilder(facts["snapshot-id"]).build()
    metadata = (
        java_class(f"{_API}TableMetadata")
        .buildFrom(base)
        .setBranchSnapshot(made, "main")
        .setRef(tag, tagged)
    )
    if carried := carry(carrying_properties(base), facts):
        metadata = metadata.setProperties(carried)
    return metadata.build()


def _delete_metadata(staged: Staged) -> None:
    """Delete the manifests and the manifest list that only the staged snapshot has."""
    manifests = staged.made.allManifests(staged.table.io())
    own = [
        str(manifest.path())
        for manifest in manifests
        if manifest.snapshotId() == staged.snapshot.id
    ]
    _delete(staged, [*own, str(staged.made.manifestListLocation())])


def _delete(staged: Staged, files: list[str]) -> None:
    java_class(f"{_API}CatalogUtil").deleteFiles(staged.table.io(), files, "staged")
