"""The tables of `tests/views/keeper` as Iceberg tables that many writers change: models
of lakesql, as its modes keep rows, and other engines, by statements, rewrites, expiries
and rollbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from lakesql.views.view_tree import ViewInput
from tests.spark.project import Project
from tests.spark.test_maintenance import ALL_TIME, in_ten_days, keep, tasks
from tests.views.keeper import INPUTS, some_rows, some_value
from tests.views.keeper import Row as Values

Writer = Literal["append", "upsert", "cdc", "foreign"]
WRITERS: tuple[Writer, ...] = ("append", "upsert", "cdc", "foreign")
"""Who writes a table: a model in this mode, or other engines alone."""

KEEPS_LITTLE: Mapping[str, Any] = {
    **ALL_TIME,
    "rewrite_data_files": False,
    "rewrite_manifests": False,
    "remove_orphan_files": False,
    "expire_snapshots": {"retain_last": 1},
}
"""Maintenance that does nothing by itself, and in ten days expires whatever nobody
needs."""

REWRITES = ("rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests")


@dataclass
class RandomInput:
    """A table, who writes it, and what stands in the source of a mirror. Its first
    column is its key."""

    project: Project
    dice: Random
    one: ViewInput
    writer: Writer
    source: dict[Any, Values] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.one.table[-1]

    @property
    def table(self) -> str:
        return self.project.table(self.name)

    @property
    def columns(self) -> tuple[str, ...]:
        assert self.one.columns is not None
        return self.one.columns

    @property
    def types(self) -> dict[str, str]:
        return dict(zip(self.columns, self.one.types, strict=True))

    @property
    def is_own(self) -> bool:
        """Whether a model writes it."""
        return self.writer != "foreign"

    @property
    def reference(self) -> str:
        """What a model's SELECT has in the place of its name, for `Project.model`."""
        return f"{{{self.name}!r}}" if self.is_own else self.table

    # Making

    def make(self) -> None:
        """Make its model, or the table itself, and write to it for the first time."""
        if not self.is_own:
            self._create()
            self.insert()
            return
        stream, key = f"{self.name}_changes", self.columns[0]
        feed = {"envelope": "debezium", "key": [key]} if self.writer == "cdc" else {}
        gone = {"gone": "boolean"} if self.writer == "upsert" else {}
        self.project.stream(stream, {**self.types, **gone}, max_per_batch=1, **feed)
        config: dict[str, Any] = {
            "properties": self._properties(),
            "maintenance": dict(KEEPS_LITTLE),
        }
        if partitions := self._partitions():
            config["partition_by"] = [partitions]
        if self.writer != "append":
            config["keys"] = key
        if gone:
            config["delete_when"] = "gone"
        listed = ", ".join([*self.columns, *gone])
        self.project.model(
            self.name, f"SELECT {listed} FROM {{{stream}}}", mode=self.writer, **config
        )
        self.write()

    def _create(self) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.types.items())
        by = (
            f"PARTITIONED BY ({partitions})"
            if (partitions := self._partitions())
            else ""
        )
        said = ", ".join(
            f"'{name}' = '{value}'" for name, value in self._properties().items()
        )
        self.sql(
            f"CREATE TABLE {self.table} ({columns}) USING iceberg {by} TBLPROPERTIES ({said})"
        )

    def _properties(self) -> dict[str, str]:
        return {"format-version": self.dice.choice("23"), **self._write_modes()}

    def _write_modes(self) -> dict[str, str]:
        mode = self.dice.choice(("merge-on-read", "copy-on-write"))
        return {
            f"write.{change}.mode": mode for change in ("delete", "update", "merge")
        }

    def _partitions(self) -> str:
        return self.dice.choice(
            ("", "", f"bucket(2, {self.columns[0]})", self.columns[1])
        )

    # Changes of rows

    def change(self) -> None:
        """One random change: by its model, if it has one, or by somebody else."""
        others = (self.insert, self.delete, self.update, self.merge, self.merge)
        if self.is_own and self.dice.random() < 0.6:
            self.write()
            return
        if self.dice.random() < 0.3:
            said = ", ".join(
                f"'{name}' = '{value}'" for name, value in self._write_modes().items()
            )
            self.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES ({said})")
        if self.dice.random() < 0.05:
            self.sql(f"TRUNCATE TABLE {self.table}")
            return
        self.dice.choice(others)()

    def write(self) -> None:
        """Records for its model, and a run of it: a commit for each file."""
        for _ in range(self.dice.choice((1, 1, 2))):
            self.record()
        self.project.run(self.name).check()

    def record(self) -> None:
        """One file of records for its model."""
        changes = [self._change() for _ in range(self.dice.randrange(1, 7))]
        self.project.record(f"{self.name}_changes", changes)

    def _change(self) -> dict[str, Any]:
        row = self._row()
        if self.writer == "append":
            return self._spelled(row)
        key = row[0]
        is_gone = key in self.source and self.dice.random() < 0.35
        before = self.source.pop(key, None)
        if not is_gone:
            self.source[key] = row
        if self.writer == "upsert":
            return {**self._spelled(row), "gone": is_gone}
        told = None if before is None else self._spelled(before)
        if is_gone:
            return {"op": "d", "before": told, "after": None}
        return {
            "op": "c" if told is None else "u",
            "before": told,
            "after": self._spelled(row),
        }

    def _row(self) -> Values:
        """A row; of a table with keys, one that has a key."""
        row = tuple(some_value(kind, self.dice) for kind in self.one.types)
        return row if self.writer == "append" else (self.dice.randrange(5), *row[1:])

    def _spelled(self, row: Values) -> dict[str, Any]:
        values = dict(zip(self.columns, row, strict=True))
        return {
            name: str(value) if isinstance(value, float) else value
            for name, value in values.items()
        }

    def sql(self, statement: str) -> None:
        self.project.lake.session.sql(statement)

    def insert(self) -> None:
        """Rows of somebody else's: a key may be NULL, or there already."""
        rows = some_rows(self.one, self.dice) or [
            tuple(some_value(kind, self.dice) for kind in self.one.types)
        ]
        self.sql(
            f"INSERT INTO {self.table} ({', '.join(self.columns)}) {self._values(rows)}"
        )

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.table} WHERE {self._condition()}")

    def update(self) -> None:
        name, kind = self.dice.choice([*self.types.items()])
        self.sql(
            f"UPDATE {self.table} SET {name} = {self._literal(kind)} WHERE {self._condition()}"
        )

    def merge(self) -> None:
        keys = self.dice.sample(range(5), self.dice.randint(1, 4))
        rows = [
            (key, *(some_value(kind, self.dice) for kind in self.one.types[1:]))
            for key in keys
        ]
        key, *others = self.columns
        listed = ", ".join(self.columns)
        self.sql(
            f"MERGE INTO {self.table} t USING ({self._values(rows)}) s ON t.{key} = s.{key} "
            f"WHEN MATCHED AND s.{key} = {self.dice.choice(keys)} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{each} = s.{each}' for each in others)} "
            f"WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({', '.join(f's.{each}' for each in self.columns)})"
        )

    def _condition(self) -> str:
        name, kind = self.dice.choice([*self.types.items()])
        return f"{name} <=> {self._literal(kind)}"

    def _literal(self, kind: str) -> str:
        return f"CAST({some_value(kind, self.dice)!r} AS {kind})".replace(
            "None", "NULL"
        )

    def _values(self, rows: Sequence[Values]) -> str:
        kinds = ", ".join(
            f"CAST({name} AS {kind}) AS {name}" for name, kind in self.types.items()
        )
        listed = ", ".join(
            f"({', '.join('NULL' if it is None else repr(it) for it in row)})"
            for row in rows
        )
        return f"SELECT {kinds} FROM VALUES {listed} AS v({', '.join(self.columns)})"

    # Changes of files and of the table

    def call(self, procedure: str, more: str = "") -> None:
        call(self.project, self.name, procedure, more)

    def earlier(self) -> int | None:
        """A former snapshot that the newest comes from; None where there is none
        left."""
        metadata = self.project.iceberg(self.name).metadata
        by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        found = []
        at = metadata.current_snapshot_id
        while at in by_id:
            found.append(at)
            at = by_id[at].parent_snapshot_id
        return self.dice.choice(found[1:]) if found[1:] else None

    def newest(self) -> int | None:
        found = self.project.iceberg(self.name).metadata.current_snapshot_id
        return None if found is None else int(found)

    def roll_back(self, snapshot: int) -> None:
        self.call("rollback_to_snapshot", f", snapshot_id => {snapshot}")

    def set_current(self, snapshot: int) -> None:
        self.call("set_current_snapshot", f", snapshot_id => {snapshot}")

    def drop(self) -> None:
        self.sql(f"DROP TABLE {self.table}")

    def create_again(self) -> None:
        """Another table of its name, with other rows."""
        self._create()
        self.insert()


def make_inputs(
    project: Project, dice: Random, writers: Sequence[Writer] = ()
) -> dict[str, RandomInput]:
    """The tables of `INPUTS`, each with rows, by their names; of any writers, if none
    are given."""
    project.lake.catalog.iceberg.create_namespace_if_not_exists(project.namespace)
    chosen = writers or [dice.choice(WRITERS) for _ in INPUTS]
    made = [
        RandomInput(project, dice, one, writer)
        for one, writer in zip(INPUTS, chosen, strict=True)
    ]
    for each in made:
        each.make()
    return {each.name: each for each in made}


# What is done to tables, those of views too


def call(project: Project, name: str, procedure: str, more: str = "") -> None:
    """A procedure of Iceberg's on a table."""
    project.sql(
        f"CALL lake.system.{procedure}(table => '{project.namespace}.{name}'{more})"
    )


def rewrite(project: Project, name: str, dice: Random) -> None:
    """The rows, their deletes or the lists of the files stand in other files."""
    procedure = dice.choice(REWRITES)
    call(project, name, procedure, "" if procedure == "rewrite_manifests" else OF_ALL)


OF_ALL = ", options => map('rewrite-all', 'true')"
"""What a rewrite is told that leaves no file out."""


def rewrite_all(project: Project, name: str) -> None:
    """All rows stand in other data files."""
    call(project, name, "rewrite_data_files", OF_ALL)


def expire_by_lakesql(project: Project, name: str) -> bool:
    """lakesql's own expiry of a model's table, ten days later; whether it has expired
    anything."""
    return f"{name}.expire_snapshots" in tasks(keep(project, name, in_ten_days))


def expire_by_hand(project: Project, name: str) -> None:
    """All snapshots go but the newest and those of tags, whoever needs them."""
    call(
        project,
        name,
        "expire_snapshots",
        ", older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1",
    )
