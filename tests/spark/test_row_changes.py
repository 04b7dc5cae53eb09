"""What changed in a table between two snapshots: of random tables, beside what Spark
reads of each snapshot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row

from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.internals import SETTING, choose_way
from lakesql.engine.spark.row_changes import (
    NoAncestorError,
    SnapshotExpiredError,
    changes_between,
)
from lakesql.model.table_name import TableName
from tests.spark.project import Project

Rows = list[dict[str, Any]]
"""Rows by the names of columns."""

COLUMNS = {
    "id": "bigint",
    "g": "int",
    "v": "double",
    "f": "float",
    "name": "string",
    "tags": "map<string,int>",
    "inner": "struct<a:int,b:array<double>,c:map<string,struct<x:int>>>",
    "d": "decimal(9,2)",
    "at": "timestamp",
}
VARIANTS = """array('1', '"1"', '{"a": [1, null]}')"""
STEPS = 12
PAIRS = 8


def plain(value: Any) -> Any:
    """A value that is equal where SQL says so, and can be a key."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case Row():
            return tuple((name, plain(each)) for name, each in value.asDict().items())
        case dict():
            return tuple(
                sorted((str(name), plain(each)) for name, each in value.items())
            )
        case list():
            return tuple(map(plain, value))
        case int() | str() | None:
            return value
    return str(value)


def counted(rows: Rows) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(
        tuple(sorted((name, plain(value)) for name, value in row.items()))
        for row in rows
    )


def collected(frame: DataFrame | None) -> Rows:
    return (
        []
        if frame is None
        else [{name: row[name] for name in frame.columns} for row in frame.collect()]
    )


class RandomTable:
    """A table that changes by chance, and what each of its snapshots holds, with the
    columns of the table as it is."""

    def __init__(self, project: Project, seed: int) -> None:
        self.project, self.random = project, Random(seed)
        self.name = TableName("lake", project.namespace, f"t{seed}")
        self.version = self.random.choice((2, 3))
        self.columns = dict(COLUMNS)
        if self.version == 3:
            self.columns["some"] = "variant"
        self.snapshots: dict[int, Rows] = {}
        self.done: list[str] = []
        self.added = 0
        partitions = self.random.choice(
            (
                "",
                "PARTITIONED BY (g)",
                "PARTITIONED BY (bucket(3, id), truncate(2, name))",
            )
        )
        format_ = (
            "parquet"
            if self.version == 3
            else self.random.choice(("parquet", "parquet", "avro", "orc"))
        )
        properties = {
            "format-version": str(self.version),
            "write.format.default": format_,
        }
        if self.random.random() < 0.5:
            properties["write.delete.granularity"] = "partition"
        said = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        self.sql(
            f"CREATE TABLE {self.name} ({columns}) USING iceberg {partitions} TBLPROPERTIES ({said})"
        )

    def sql(self, statement: str) -> Rows:
        self.done.append(statement)
        return collected(self.project.lake.session.sql(statement))

    def steps(self) -> Sequence[Callable[[], None]]:
        rewrites = (self.compact, self.rewrite_deletes, self.rewrite_manifests)
        evolutions = (
            self.add,
            self.add_inside,
            self.rename,
            self.drop,
            self.widen,
            self.partition,
            self.upgrade,
        )
        changes = (
            self.insert,
            self.insert,
            self.delete,
            self.delete,
            self.update,
            self.merge,
            self.merge,
        )
        rare = (self.overwrite, self.truncate, self.copy, self.delete_by_value)
        return (*changes, *changes, *rewrites, *evolutions, *rare)

    def change(self) -> None:
        """One random change."""
        mode = self.random.choice(("merge-on-read", "copy-on-write"))
        if self.random.random() < 0.3:
            modes = ", ".join(
                f"'write.{each}.mode' = '{mode}'"
                for each in ("delete", "update", "merge")
            )
            self.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({modes})")
        self.random.choice(self.steps())()
        self.note()

    def note(self) -> None:
        head = load_table(self.project.lake.session, self.name).currentSnapshot()
        if head is not None and int(head.snapshotId()) not in self.snapshots:
            self.snapshots[int(head.snapshotId())] = self.rows()

    def rows(self) -> Rows:
        return collected(self.project.lake.session.table(str(self.name)))

    # Changes of rows

    def source(self, ids: str) -> str:
        """A SELECT of new rows, of values that come up again and again."""
        seed = self.random.randrange(1000)
        values = {
            "g": f"CAST(pmod(hash(id, {seed}), 4) AS {self.columns.get('g', 'int')})",
            "v": f"element_at(array(0.5D, double('NaN'), -0.0D, 0.0D, NULL, 7D), 1 + pmod(hash(id, {seed}, 1), 6))",
            "f": "CAST(id / 3 AS float)",
            "name": f"element_at(array('é', NULL, 'abc', 'xyz'), 1 + pmod(hash(id, {seed}, 2), 4))",
            "tags": f"if(id % 5 = 0, NULL, map('a', nullif(pmod(hash(id, {seed}), 3), 2), 'b', 1))",
            "d": "CAST(id AS decimal(9,2))",
            "at": "timestamp_micros(id * 1000000)",
            "some": f"parse_json(element_at({VARIANTS}, 1 + pmod(hash(id, {seed}), 3)))",
        }
        chosen = [
            f"{values[each]} AS {each}" for each in self.columns if each in values
        ]
        return f"SELECT id, {', '.join(chosen)} FROM {ids}"

    def ids(self) -> str:
        first = self.random.randrange(60)
        return f"(SELECT {first} + id * {self.random.randrange(1, 3)} AS id FROM range({self.random.randrange(1, 25)}))"

    def condition(self) -> str:
        conditions = [
            f"id % 5 = {self.random.randrange(5)}",
            f"id < {self.random.randrange(30)}",
        ]
        conditions += ["g = 1"] * ("g" in self.columns) + ["isnan(v)"] * (
            "v" in self.columns
        )
        return self.random.choice(conditions)

    def insert(self) -> None:
        self.sql(f"INSERT INTO {self.name} BY NAME {self.source(self.ids())}")

    def copy(self) -> None:
        """Rows that are there already, once more: tables have rows that are equal."""
        self.sql(
            f"INSERT INTO {self.name} SELECT * FROM {self.name} WHERE {self.condition()}"
        )

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.name} WHERE {self.condition()}")

    def truncate(self) -> None:
        self.sql(f"TRUNCATE TABLE {self.name}")

    def update(self) -> None:
        value = "v = 3D" if "v" in self.columns else "id = id + 1"
        self.sql(f"UPDATE {self.name} SET {value} WHERE {self.condition()}")

    def merge(self) -> None:
        written = [
            each
            for each in ("g", "v", "name", "tags", "d", "at", "some")
            if each in self.columns
        ]
        source = self.source(f"(SELECT DISTINCT id FROM {self.ids()})")
        names = ", ".join(["id", *written])
        self.sql(
            f"MERGE INTO {self.name} t USING ({source}) s ON t.id = s.id "
            "WHEN MATCHED AND s.id % 7 = 0 THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{each} = s.{each}' for each in ['id', *written])} "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({', '.join(f's.{each}' for each in ['id', *written])})"
        )

    def overwrite(self) -> None:
        if [*self.columns] == [*COLUMNS]:
            self.sql(
                f"INSERT OVERWRITE {self.name} SELECT * FROM {self.name} WHERE {self.condition()}"
            )

    def delete_by_value(self) -> None:
        """An equality delete, as Flink writes it."""
        table = load_table(self.project.lake.session, self.name)
        if (
            table.currentSnapshot() is None
            or table.spec().isPartitioned()
            or self.columns["id"] != "bigint"
        ):
            return
        field_id = str(table.schema().findField("id").fieldId())
        path = Path(
            str(table.location()).removeprefix("file:"),
            "data",
            f"{uuid4()}-deletes.parquet",
        )
        schema = pa.schema(
            [pa.field("id", pa.int64(), False, {"PARQUET:field_id": field_id})]
        )
        pq.write_table(
            pa.table({"id": [self.random.randrange(60) for _ in range(3)]}, schema),
            path,
        )
        gateway = SparkContext._gateway
        assert gateway is not None
        fields = gateway.new_array(gateway.jvm.int, 1)
        fields[0] = int(field_id)
        file = java_class("org.apache.iceberg.FileMetadata").deleteFileBuilder(
            table.spec()
        )
        file = file.ofEqualityDeletes(fields).withPath(str(path)).withFormat("PARQUET")
        file = file.withFileSizeInBytes(path.stat().st_size).withRecordCount(3)
        self.done.append("equality delete")
        table.newRowDelta().addDeletes(file.build()).commit()

    # Changes of files

    def call(self, procedure: str, more: str = "") -> None:
        self.sql(
            f"CALL lake.system.{procedure}(table => '{self.project.namespace}.{self.name.name}'{more})"
        )

    def compact(self) -> None:
        self.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")

    def rewrite_deletes(self) -> None:
        self.call(
            "rewrite_position_delete_files", ", options => map('rewrite-all', 'true')"
        )

    def rewrite_manifests(self) -> None:
        self.call("rewrite_manifests")

    # Changes of columns: what was noted has them too

    def add(self) -> None:
        self.added += 1
        name = f"n{self.added}"
        if self.version == 3:
            literal = java_class("org.apache.iceberg.expressions.Literal").of("né")
            string = java_class("org.apache.iceberg.types.Types$StringType").get()
            table = load_table(self.project.lake.session, self.name)
            table.updateSchema().addColumn(name, string, None, literal).commit()
            self.done.append(f"add {name}")
        else:
            self.sql(f"ALTER TABLE {self.name} ADD COLUMN {name} string")
        self.columns[name] = "string"
        for rows in self.snapshots.values():
            for row in rows:
                row[name] = "né" if self.version == 3 else None

    def add_inside(self) -> None:
        if "inner" not in self.columns or "added" in self.columns["inner"]:
            return
        self.columns["inner"] = f"{self.columns['inner']} added"
        self.sql(f"ALTER TABLE {self.name} ADD COLUMN inner.added string")
        self.sql(f"ALTER TABLE {self.name} RENAME COLUMN inner.a TO z")
        self.sql(f"ALTER TABLE {self.name} ADD COLUMN inner.c.value.y int FIRST")
        self.insert_inner()
        for rows in self.snapshots.values():
            for row in rows:
                if (inner := row["inner"]) is not None:
                    deep = {
                        key: {"y": None, "x": each["x"]}
                        for key, each in inner["c"].items()
                    }
                    row["inner"] = Row(
                        z=inner["a"],
                        b=inner["b"],
                        c={k: Row(**v) for k, v in deep.items()},
                        added=None,
                    )

    def insert_inner(self) -> None:
        value = "named_struct('z', 1, 'b', array(1D), 'c', map('k', named_struct('y', 1, 'x', 2)), 'added', 'w')"
        self.sql(f"INSERT INTO {self.name} BY NAME SELECT 5L AS id, {value} AS inner")

    def insert_plain_inner(self) -> None:
        value = "named_struct('a', 1, 'b', array(1D, double('NaN')), 'c', map('k', named_struct('x', 2)))"
        self.sql(
            f"INSERT INTO {self.name} BY NAME SELECT id, {value} AS inner FROM range(4)"
        )

    def rename(self) -> None:
        name = next(
            (each for each in self.columns if each.startswith(("n1", "d"))), None
        )
        if name is None:
            return
        new = f"{name}_ü b"
        self.sql(f"ALTER TABLE {self.name} RENAME COLUMN {f'`{name}`'} TO `{new}`")
        self.columns = {
            new if each == name else each: kind for each, kind in self.columns.items()
        }
        for rows in self.snapshots.values():
            for row in rows:
                row[new] = row.pop(name)

    def drop(self) -> None:
        table = load_table(self.project.lake.session, self.name)
        droppable = [each for each in ("f", "tags", "at") if each in self.columns]
        if not droppable or not table.schema():
            return
        name = self.random.choice(droppable)
        self.sql(f"ALTER TABLE {self.name} DROP COLUMN {name}")
        del self.columns[name]
        for rows in self.snapshots.values():
            for row in rows:
                del row[name]

    def widen(self) -> None:
        """To types whose values are the same in Python."""
        for name, before, after in (
            ("g", "int", "bigint"),
            ("f", "float", "double"),
            ("d", "decimal(9,2)", ""),
        ):
            if self.columns.get(name) == before and after:
                self.sql(f"ALTER TABLE {self.name} ALTER COLUMN {name} TYPE {after}")
                self.columns[name] = after

    def partition(self) -> None:
        fields = [
            str(each.name())
            for each in load_table(self.project.lake.session, self.name).spec().fields()
        ]
        if fields and self.random.random() < 0.5:
            self.sql(f"ALTER TABLE {self.name} DROP PARTITION FIELD {fields[0]}")
        elif not any(each.startswith("id_bucket_5") for each in fields):
            self.sql(
                f"ALTER TABLE {self.name} ADD PARTITION FIELD bucket(5, id) AS id_bucket_5_{self.random.random():.9f}"
            )

    def upgrade(self) -> None:
        if self.version == 2:
            self.version = 3
            self.sql(
                f"ALTER TABLE {self.name} SET TBLPROPERTIES ('format-version' = '3')"
            )


@pytest.fixture
def ways(project: Project) -> Iterator[Callable[[str], None]]:
    """Chooses how lakesql reads what changed."""
    session = project.lake.session.newSession()

    def choose(way: str) -> None:
        session.conf.set(SETTING, way)
        choose_way(session, pytest.fail)

    yield choose
    choose("auto")


def check(
    table: RandomTable,
    start: int | None,
    end: int,
    columns: Sequence[str] | None,
    by_file: Mapping[str, str],
) -> None:
    """That what is found to have changed is what the snapshots differ in."""

    def narrowed(rows: Rows) -> Rows:
        return [{name: row[name] for name in columns or row} for row in rows]

    session = table.project.lake.session
    before = (
        counted(narrowed(table.snapshots[start])) if start is not None else Counter()
    )
    after = counted(narrowed(table.snapshots[end]))
    java_table = load_table(session, table.name)
    with changes_between(
        session, table.name, java_table, start, end, columns
    ) as changes:
        gone, come = counted(collected(changes.gone)), counted(collected(changes.come))
    said = "\n".join(table.done)
    assert (gone, come) == (before - after, after - before), (
        f"{start} to {end} of {columns}, {by_file}\n{said}"
    )
    assert changes.rows_read >= max(gone.total(), come.total())
    assert (
        java_class("org.apache.iceberg.spark.ScanTaskSetManager")
        .get()
        .fetchSetIds(java_table)
        .isEmpty()
    )


def test_what_changed_is_what_two_snapshots_differ_in(
    project: Project,
    table_seed: int,
    ways: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project.sql(f"CREATE NAMESPACE lake.{project.namespace}")
    table = RandomTable(project, table_seed)
    table.insert()
    table.insert_plain_inner()
    table.note()
    for _ in range(STEPS):
        table.change()
    ids = [*table.snapshots]
    for number in range(PAIRS):
        start, end = sorted(table.random.choices(range(len(ids)), k=2))
        columns = None
        if number % 3 == 2:
            columns = sorted(table.random.sample([*table.columns], 2))
        for way, files_per_row in (("always", 0), ("always", 1_000_000), ("never", 0)):
            ways(way)
            monkeypatch.setattr(
                "lakesql.engine.spark.row_changes.FILES_PER_ROW", files_per_row
            )
            check(
                table,
                ids[start],
                ids[end],
                columns,
                {"way": f"{way}, {files_per_row} files per row"},
            )
            if number == 0:
                check(table, None, ids[end], columns, {"way": way})


def make_table(project: Project, *statements: str) -> TableName:
    name = TableName("lake", project.namespace, "t")
    project.sql(f"CREATE NAMESPACE lake.{project.namespace}")
    project.sql(
        f"CREATE TABLE {name} (id bigint) USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    for statement in statements:
        project.sql(statement.format(t=name))
    return name


def snapshots_of(project: Project, name: TableName) -> list[int]:
    rows = project.sql(
        f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at"
    )
    return [row["snapshot_id"] for row in rows]


def rows_read(project: Project, name: TableName, start: int | None, end: int) -> int:
    session = project.lake.session
    with changes_between(
        session, name, load_table(session, name), start, end
    ) as changes:
        return changes.rows_read


def test_files_that_a_rewrite_has_moved_are_not_read(project: Project) -> None:
    name = make_table(
        project,
        "INSERT INTO {t} SELECT id FROM range(1000)",
        "INSERT INTO {t} SELECT id FROM range(1000, 2000)",
        "DELETE FROM {t} WHERE id = 7",
        f"CALL lake.system.rewrite_data_files('{project.namespace}.t', options => map('rewrite-all', 'true'))",
        "INSERT INTO {t} VALUES (5000)",
    )
    ids = snapshots_of(project, name)
    assert rows_read(project, name, ids[2], ids[3]) == 0
    assert rows_read(project, name, ids[2], ids[4]) == 1
    assert rows_read(project, name, ids[1], ids[4]) < 1002
    assert rows_read(project, name, ids[4], ids[4]) == 0
    assert rows_read(project, name, None, ids[4]) == 2000


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
def test_null_in_a_map_is_no_other_value(project: Project, format_: str) -> None:
    table = project.table("t")
    project.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{project.namespace}")
    project.sql(
        f"CREATE TABLE {table} (id int, m map<string, int>, d map<string, double>)"
        f" USING iceberg TBLPROPERTIES ('write.format.default' = '{format_}')"
    )
    null = "map('k', CAST(NULL AS {kind}), 'j', 2)"
    both = f"{null.format(kind='int')}, {null.format(kind='double')}"
    project.sql(f"INSERT INTO {table} VALUES (1, {both}), (2, {both}), (3, NULL, NULL)")
    project.sql(f"UPDATE {table} SET m = map('j', 2, 'k', 0) WHERE id = 1")
    project.sql(
        f"UPDATE {table} SET m = map('j', 2, 'k', CAST(NULL AS int)) WHERE id = 2"
    )
    name = TableName("lake", project.namespace, "t")
    first, *_, last = snapshots_of(project, name)
    had, has = {"k": None, "j": 2}, {"k": 0, "j": 2}
    with changes_between(
        project.lake.session, name, load_table(project.lake.session, name), first, last
    ) as changes:
        assert collected(changes.gone) == [
            {"id": 1, "m": had, "d": {"k": None, "j": 2.0}}
        ]
        assert collected(changes.come) == [
            {"id": 1, "m": has, "d": {"k": None, "j": 2.0}}
        ]


def test_a_snapshot_that_expired_is_named(project: Project) -> None:
    name = make_table(
        project,
        "INSERT INTO {t} VALUES (1)",
        "INSERT INTO {t} VALUES (2)",
        "INSERT INTO {t} VALUES (3)",
    )
    first, second, third = snapshots_of(project, name)
    project.sql(
        f"CALL lake.system.expire_snapshots(table => '{project.namespace}.t', snapshot_ids => array({second}))"
    )
    with pytest.raises(SnapshotExpiredError) as raised:
        rows_read(project, name, second, third)
    assert raised.value.snapshot == second
    assert rows_read(project, name, first, third) == 2, (
        "those on the way are not needed"
    )


def test_a_table_that_was_rolled_back_is_seen(project: Project) -> None:
    name = make_table(
        project, "INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)"
    )
    first, second = snapshots_of(project, name)
    project.sql(
        f"CALL lake.system.rollback_to_snapshot('{project.namespace}.t', {first})"
    )
    project.sql(f"INSERT INTO {name} VALUES (3)")
    third = snapshots_of(project, name)[-1]
    with pytest.raises(NoAncestorError):
        rows_read(project, name, second, third)
    assert rows_read(project, name, first, third) == 1
