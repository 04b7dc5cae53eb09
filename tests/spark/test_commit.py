"""The one commit of a batch: nobody sees what is staged, and what is published is what
the ledger was read of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from lakesql.clock import now_ms
from lakesql.engine.ledger import commit
from lakesql.engine.ledger.commit import (
    HeadMovedError,
    Publication,
    Staged,
    begin_commit,
    discard,
    publish,
    stage,
)
from lakesql.engine.ledger.snapshots import JavaTable, load_table, read_entry
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError, TransientError
from lakesql.ledger.entry import Entry
from lakesql.model.table_name import TableName
from tests.spark.project import Project

ENTRY = Entry("m", "c-1", 7, "{}", "q", event_time="2026-03-01T10:00:00+00:00")
INSERT = "INSERT INTO {table} BY NAME SELECT 2 AS id, 'new' AS v"
MERGE = """\
MERGE INTO {table} AS target USING (SELECT 1 AS id, 'new' AS v) AS source ON target.id = source.id
WHEN MATCHED THEN UPDATE SET v = source.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (source.id, source.v)"""
PROPERTIES = {
    "1": "'format-version' = '1'",
    "2": "'format-version' = '2', 'write.merge.mode' = 'merge-on-read'",
    "3": "'format-version' = '3', 'write.merge.mode' = 'merge-on-read'",
}


class Table:
    """A table of ids and texts with one row, that somebody else has written."""

    def __init__(self, project: Project, properties: str) -> None:
        self.project, self.name = project, TableName("lake", project.namespace, "m")
        project.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{project.namespace}")
        project.sql(
            f"CREATE TABLE {self.name} (id int, v string) USING iceberg TBLPROPERTIES ({properties})"
        )
        self.insert(1, "old")

    def insert(self, key: int, text: str) -> None:
        self.project.sql(f"INSERT INTO {self.name} VALUES ({key}, '{text}')")

    def load(self) -> JavaTable:
        return load_table(self.project.lake.session, self.name)

    def stage(self, statement: str = INSERT) -> Staged:
        return stage(
            self.project.lake.session,
            begin_commit(self.load()),
            statement.format(table=self.name),
        )

    def rows(self) -> dict[int, str]:
        found = [(row["id"], row["v"]) for row in self.project.rows("m")]
        assert len(found) == len(dict(found))
        return dict(found)

    def files(self) -> set[str]:
        """Its files, without those of the metadata as such."""
        found = Path(str(self.load().location())).rglob("*")
        return {
            path.name
            for path in found
            if path.is_file() and not path.name.endswith((".metadata.json", ".crc"))
        }

    def named(self) -> set[str]:
        """The files that its snapshots name."""
        lists = self.project.sql(
            f"SELECT manifest_list AS path FROM {self.name}.snapshots"
        )
        others = self.project.sql(
            f"SELECT path FROM {self.name}.all_manifests UNION SELECT file_path FROM {self.name}.all_files"
        )
        return {str(row["path"]).rsplit("/", 1)[-1] for row in (*lists, *others)}


@pytest.fixture(params=PROPERTIES)
def table(project: Project, request: pytest.FixtureRequest) -> Table:
    return Table(project, PROPERTIES[request.param])


@pytest.mark.parametrize("statement", [INSERT, MERGE], ids=["insert", "merge"])
def test_what_is_staged_is_seen_when_it_is_published_and_gone_when_it_is_discarded(
    table: Table, statement: str
) -> None:
    before, files = table.rows(), table.files()
    discard(table.stage(statement))
    assert (table.rows(), table.files()) == (before, files)

    staged = table.stage(statement)
    assert table.rows() == before
    head = publish(Publication(staged, ENTRY, table.name))
    assert table.rows() == ({1: "old", 2: "new"} if statement is INSERT else {1: "new"})
    assert table.files() == table.named()
    there = table.load()
    assert read_entry(there, "m") == ENTRY
    assert (
        int(there.currentSnapshot().snapshotId())
        == head.id
        == int(there.refs().get("lakesql_ledger_m").snapshotId())
    )


def test_rows_that_were_appended_are_published_on_top_of_a_foreign_commit(
    table: Table,
) -> None:
    staged = table.stage()
    table.insert(3, "foreign")
    publish(Publication(staged, ENTRY, table.name, can_replay=True))
    assert table.rows() == {1: "old", 2: "new", 3: "foreign"}
    assert table.files() == table.named()
    assert read_entry(table.load(), "m") == ENTRY


@pytest.mark.parametrize("statement", [INSERT, MERGE], ids=["insert", "merge"])
def test_what_may_not_be_replayed_is_not_published_on_top_of_a_foreign_commit(
    table: Table, statement: str
) -> None:
    staged = table.stage(statement)
    table.insert(3, "foreign")
    with pytest.raises(HeadMovedError):
        publish(Publication(staged, ENTRY, table.name))
    assert table.rows() == {1: "old", 3: "foreign"}
    assert table.files() == table.named()


def test_a_commit_that_comes_after_the_ledger_was_read_is_looked_at(
    table: Table,
) -> None:
    """Whoever has committed between the look and the commit: the catalog refuses, and
    the ledger is read again."""
    staged, looks = table.stage(), list[int]()

    def is_written() -> bool:
        looks.append(len(looks))
        if len(looks) < 3:
            table.insert(10 + len(looks), "foreign")
        return False

    publish(Publication(staged, ENTRY, table.name, is_written, can_replay=True))
    assert looks == [0, 1, 2]
    assert table.rows() == {1: "old", 2: "new", 11: "foreign", 12: "foreign"}
    assert table.files() == table.named()


def test_of_two_runners_with_one_batch_one_publishes_it(table: Table) -> None:
    """The second one has looked before the first one committed, as one does that is
    paused there."""
    first, second = table.stage(), table.stage()
    looks = list[bool]()

    def is_written() -> bool:
        looks.append(read_entry(second.table, "m") is not None)
        if len(looks) == 1:
            publish(Publication(first, ENTRY, table.name, can_replay=True))
        return looks[-1]

    with pytest.raises(RunError) as raised:
        publish(Publication(second, ENTRY, table.name, is_written, can_replay=True))
    assert [problem.condition for problem in raised.value.problems] == [
        "batch-published"
    ]
    assert looks == [False, True]
    assert table.rows() == {1: "old", 2: "new"}


class Unsure:
    """A table of which the catalog calls each commit failed, also one that it has
    made."""

    def __init__(self, table: JavaTable, meanwhile: Callable[[], None]) -> None:
        self._table, self._meanwhile = table, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def operations(self) -> Any:
        return self

    def commit(self, base: Any, metadata: Any) -> None:
        self._table.operations().commit(base, metadata)
        self._meanwhile()
        kind = java_class("org.apache.iceberg.exceptions.CommitFailedException")
        raise Py4JJavaError(
            "commit",
            kind("Connection reset", java_class("java.util.ArrayList")().toArray()),
        )

    def current(self) -> Any:
        return self._table.operations().current()


@pytest.mark.parametrize("statement", [INSERT, MERGE], ids=["insert", "merge"])
def test_a_commit_that_the_catalog_made_and_called_failed_is_a_commit(
    table: Table, statement: str
) -> None:
    """As where its database has got the update, and the connection was lost before it
    said so. Somebody else commits before it is asked again."""
    staged = table.stage(statement)
    unsure = replace(
        staged, table=Unsure(staged.table, lambda: table.insert(3, "foreign"))
    )
    head = publish(
        Publication(unsure, ENTRY, table.name, can_replay=statement is INSERT)
    )
    assert head.id == staged.snapshot.id
    assert table.rows() == {
        3: "foreign",
        **({1: "old", 2: "new"} if statement is INSERT else {1: "new"}),
    }
    assert table.files() == table.named()


def test_what_was_staged_long_ago_is_tried_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a runner that was suspended: whoever removes orphans has not known its
    files."""
    staged = table.stage()
    monkeypatch.setattr(commit, "now_ms", lambda: now_ms() + commit.STAGED_FOR_MS + 1)
    with pytest.raises(TransientError):
        publish(Publication(staged, ENTRY, table.name, can_replay=True))
    assert table.rows() == {1: "old"}


def test_what_was_staged_before_the_format_was_raised_is_staged_again(
    project: Project,
) -> None:
    table = Table(project, PROPERTIES["2"])
    appended, merged = table.stage(), table.stage(MERGE)
    project.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('format-version' = '3')")
    with pytest.raises(HeadMovedError):
        publish(Publication(merged, ENTRY, table.name))
    publish(Publication(appended, ENTRY, table.name, can_replay=True))
    assert table.rows() == {1: "old", 2: "new"}


def test_a_commit_of_other_metadata_leaves_what_is_staged_as_it_is(
    table: Table,
) -> None:
    staged = table.stage(MERGE)
    table.project.sql(
        f"ALTER TABLE {table.name} SET TBLPROPERTIES ('somebody' = 'was here')"
    )
    table.project.sql(f"ALTER TABLE {table.name} ADD COLUMN n int")
    head = publish(Publication(staged, ENTRY, table.name))
    assert head.id == staged.snapshot.id
    assert table.rows() == {1: "new"}
    assert table.load().properties()["somebody"] == "was here"


def test_others_that_are_faster_each_time_are_a_conflict_that_may_pass(
    table: Table,
) -> None:
    retry = "'commit.retry.num-retries' = '2', 'commit.retry.min-wait-ms' = '1'"
    table.project.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({retry})")
    staged, looks = table.stage(), list[int]()

    def is_written() -> bool:
        looks.append(len(looks))
        table.insert(10 + len(looks), "foreign")
        return False

    with pytest.raises(TransientError) as raised:
        publish(Publication(staged, ENTRY, table.name, is_written, can_replay=True))
    assert [problem.condition for problem in raised.value.problems] == [
        "commit-conflict"
    ]
    assert len(looks) == 3
    assert table.rows() == {1: "old", 11: "foreign", 12: "foreign", 13: "foreign"}
