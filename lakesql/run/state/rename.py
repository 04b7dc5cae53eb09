"""`lakesql rename`: gives a model's table, ledger and checkpoint the model's new name.

Each step is idempotent, so the same command continues a rename that was interrupted.
Until it is done, a marker file in the lease folders of both names records it, and
whoever claims one of these leases is refused with a message that names this command
(`Leases.claim`).

| Step | What a crash after it leaves |
| --- | --- |
| The marker file is written, in both folders. | Nothing but the marker. |
| The table and those beside it are renamed in the catalog, unless the model's `table`
keeps the name. | Tables of both names. |
| The newest ledger entries are written again under the new name. | A ledger that the
checkpoint does not know. |
| Checkpoints are assigned to the new model, and moved. | A checkpoint of the old name
that belongs to the new one. |
| The positions of data tests are moved to the new name. | Nothing: they are read under
the old name again. |
| The lease of the old name is removed, then the marker. | A model under its new name. |
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakesql.catalog.connect import OpenCatalog, check_checkpoints
from lakesql.compile.build_select import build_select
from lakesql.compile.quote import identifier
from lakesql.compile.select import Select
from lakesql.engine.ledger.rename import rename_entries, rename_table
from lakesql.engine.ledger.snapshots import (
    JavaTable,
    load_table,
    read_newest_entry,
    table_exists,
    table_id,
)
from lakesql.engine.progress.checkpoint import CheckpointFiles, save_origin
from lakesql.engine.progress.lease import LOOK_EVERY_S, Leases, rename_under_way
from lakesql.engine.spark.failure import explained
from lakesql.errors import RunError, UsageError, did_you_mean
from lakesql.graph.manifest import Manifest
from lakesql.model.table_name import TableName
from lakesql.names import (
    DEAD_LETTER_SUFFIX,
    LEASE_SUFFIX,
    REBUILD_SUFFIX,
    REPLAY_SUFFIX,
)
from lakesql.progress.holder import RENAMING, Renaming, read_renaming
from lakesql.progress.state import Checkpoint
from lakesql.progress.stored import read_checkpoint
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.state.drop import Dropper, model_of
from lakesql.run.test.run_data_tests import rename_positions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RenameStep = Literal["mark", "tables", "ledgers", "checkpoints", "positions", "leases"]
"""The steps of a rename. Each is reported to `reached` before it is taken, and again
for each file and table in it."""


@dataclass(frozen=True, slots=True)
class Renamer:
    """Renames models of a project on its target. `reached` is called at each step, for
    tests."""

    manifest: Manifest
    session: SparkSession
    catalog: OpenCatalog
    say: Callable[[str], None]
    reached: Callable[[RenameStep], None] = lambda step: None

    def find(self, old: str, new: str) -> Renaming:
        """The rename that was interrupted, or the one to begin.

        Raises `RunError`: `rename-under-way` if another rename of either model is
        unfinished, and `rename-impossible`.
        """
        for name in (old, new):
            found = read_renaming(self._lease(name))
            if found is not None and (found.old, found.new) == (old, new):
                return found
            if found is not None:
                raise rename_under_way(name, found)
        if old in self.manifest.models:
            raise _impossible(
                f"The project has a model '{old}' still.",
                f"Give its file the new name first: git mv …/{old}.sql …/{new}.sql",
            )
        self._check_rebuilds(old)
        checkpoint = read_checkpoint(self._checkpoint(old))
        table = self._find_table(old, new, checkpoint)
        if table is None:
            gone = f"its checkpoint is there, at {self.manifest.target.checkpoint_of(old)}, and its table is not"
            what = (
                f"There is nothing of a model '{old}'"
                if checkpoint is None
                else f"Of model '{old}' {gone}"
            )
            raise _impossible(
                f"{what}, on target '{self.manifest.target.name}'.",
                f"Look at what is there: lakesql ls --orphans. To begin anew: lakesql run --select {new}",
            )
        self._check_new(new, table)
        return Renaming(old, new, str(table))

    def shown(self, renaming: Renaming) -> Iterator[str]:
        """What the rename changes, one line each."""
        for before, after in self._tables(renaming):
            for name in (before, after) if before != after else (before,):
                if table_exists(self.session, name):
                    yield f"table {before}" + (
                        f" becomes {after}"
                        if before != after
                        else " stays, with its ledger"
                    )
        for folder in self._folders(renaming.old):
            yield f"{folder} becomes {self._moved(renaming, folder)}"

    def rename(self, old: str, new: str) -> Renaming:
        """Rename everything of the model, or what an interrupted attempt has left,
        under the leases of both names.

        Raises what `find` raises, and `RunError` (`lease-held`) if one of the models is
        running.
        """
        self.find(old, new)  # before a lease is taken, whose folder would stay
        with closing(Leases(self.session)) as leases:
            for name in (old, new):
                checkpoint = self.manifest.target.checkpoint_of(name)
                while not leases.claim(name, checkpoint, self.say, renames=True):
                    time.sleep(LOOK_EVERY_S)
            renaming = self.find(old, new)
            self._mark(renaming)
            self._rename_tables(renaming)
            self._rename_ledgers(renaming)
            self._move_checkpoints(renaming)
            self.reached("positions")
            rename_positions(self.manifest, old, new)
        self.reached("leases")
        self._lease(old).remove_all()
        self.reached("leases")
        self._lease(new).remove(RENAMING)
        return renaming

    # Finding tables and checkpoints

    def _lease(self, model: str) -> CheckpointFiles:
        return CheckpointFiles(
            self.session, self.manifest.target.checkpoint_of(model) + LEASE_SUFFIX
        )

    def _checkpoint(self, name: str) -> CheckpointFiles:
        return CheckpointFiles(self.session, self.manifest.target.checkpoint_of(name))

    def _check_rebuilds(self, old: str) -> None:
        if self._checkpoint(old + REBUILD_SUFFIX).names():
            raise _impossible(
                f"A rebuild of model '{old}' is not done.",
                f"Give the file its name {old}.sql back, and finish it: lakesql rebuild {old}. Or: "
                f"lakesql rebuild {old} --abandon",
            )

    def _find_table(
        self, old: str, new: str, checkpoint: Checkpoint | None
    ) -> TableName | None:
        """The table that the model has under its old name: the one that its checkpoint
        names, or whose newest batch the model has written. None if there is none."""
        target, wanted = self.manifest.target, self.manifest.models[new].table
        likely = (
            wanted,
            replace(wanted, name=old),
            TableName(wanted.catalog, target.namespace, old),
        )
        for name in dict.fromkeys(likely):
            if self._is_of(name, old, checkpoint):
                return name
        remains = Dropper(self.manifest, self.session, self.catalog).find().get(old)
        tables = remains.tables if remains is not None else ()
        return next(
            (name for name in tables if self._is_of(name, old, checkpoint)), None
        )

    def _is_of(self, name: TableName, old: str, checkpoint: Checkpoint | None) -> bool:
        if not table_exists(self.session, name):
            return False
        table = load_table(self.session, name)
        origin = checkpoint.origin if checkpoint is not None else None
        if origin is not None and origin.table_id:
            return table_id(table) == origin.table_id
        return _writer(table) == old

    def _check_new(self, new: str, table: TableName) -> None:
        """Raise `RunError` if a table or a checkpoint of the new name already exists,
        which the rename would mix with the old one's."""
        target, wanted = self.manifest.target, self.manifest.models[new].table
        folders = (
            target.checkpoint_of(new + suffix)
            for suffix in ("", DEAD_LETTER_SUFFIX, REBUILD_SUFFIX)
        )
        there = [
            folder
            for folder in folders
            if CheckpointFiles(self.session, folder).names()
        ]
        if there and table == wanted:
            raise _impossible(
                f"Model '{new}' has a checkpoint of its own, {there[0]}, and table {wanted} is the former model's.",
                "If it has written nothing yet, remove that folder, and give the command again. If it has, go on with "
                f"it: lakesql run --select {new}",
            )
        names = wanted.family if table != wanted else (wanted.rebuild,)
        there += [f"table {name}" for name in names if table_exists(self.session, name)]
        if there:
            raise _impossible(
                f"There is something of a model '{new}' already: {', '.join(there)}.",
                f"If it can go: lakesql drop {new}, then give the command again.",
            )

    def _tables(self, renaming: Renaming) -> Iterator[tuple[TableName, TableName]]:
        """The table and those beside it, each as its name before and after."""
        before, after = (
            TableName(*renaming.table.split(".")),
            self.manifest.models[renaming.new].table,
        )
        return zip((before, *before.beside), (after, *after.beside), strict=True)

    def _folders(self, old: str) -> Iterator[str]:
        """The checkpoint folders of the old name, including those that rewinds have
        kept; the model's current one comes last."""
        names = CheckpointFiles(self.session, self.manifest.target.checkpoints).names()
        own = [
            name
            for name in names
            if model_of(name) == old and not name.endswith(LEASE_SUFFIX)
        ]
        for name in sorted(own, key=lambda name: (name == old, name)):
            yield self.manifest.target.checkpoint_of(name)

    def _moved(self, renaming: Renaming, folder: str) -> str:
        before = self.manifest.target.checkpoint_of(renaming.old)
        return self.manifest.target.checkpoint_of(renaming.new) + folder.removeprefix(
            before
        )

    # The steps

    def _mark(self, renaming: Renaming) -> None:
        """Write the marker file into both lease folders."""
        for name in (renaming.new, renaming.old):
            self.reached("mark")
            self._lease(name).write(RENAMING, json.dumps(asdict(renaming)))

    def _unmark(self, renaming: Renaming) -> None:
        for name in (renaming.old, renaming.new):
            self._lease(name).remove(RENAMING)

    def _rename_tables(self, renaming: Renaming) -> None:
        moves = [move for move in self._tables(renaming) if move[0] != move[1]]
        for number, (before, after) in enumerate(moves):
            self.reached("tables")
            if before.namespace != after.namespace:
                namespace = f"{identifier(after.catalog)}.{identifier(after.namespace)}"
                self.session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
            is_first = number == 0 and table_exists(self.session, before)
            try:
                rename_table(self.session, before, after)
            except RunError:
                if is_first:  # nothing was changed
                    self._unmark(renaming)
                raise

    def _rename_ledgers(self, renaming: Renaming) -> None:
        old, new = renaming.old, renaming.new
        # The model's own entry comes last, so that it stays the newest of all.
        owners = {
            old + suffix: new + suffix
            for suffix in (REPLAY_SUFFIX, DEAD_LETTER_SUFFIX, "")
        }
        _, table = next(self._tables(renaming))
        for name in (table, table.dead_letter):
            self.reached("ledgers")
            rename_entries(self.session, name, owners, old, new)

    def _move_checkpoints(self, renaming: Renaming) -> None:
        for folder in self._folders(renaming.old):
            self.reached("checkpoints")
            files = CheckpointFiles(self.session, folder)
            found = read_checkpoint(files)
            # an earlier move on an object store was interrupted between copy and
            # removal
            if found is None or not found.id:
                moved = CheckpointFiles(self.session, self._moved(renaming, folder))
                if "metadata" in moved.names():
                    files.remove_all()
                    continue
            if found is not None and found.origin is not None:
                owner = renaming.new + found.origin.model.removeprefix(renaming.old)
                if found.origin.model in (
                    renaming.old,
                    renaming.old + DEAD_LETTER_SUFFIX,
                ):
                    save_origin(files, replace(found.origin, model=owner))
                    self.reached("checkpoints")
            files.move_to(self._moved(renaming, folder))


def rename(
    manifest: Manifest, old: str, new: str, *, dry_run: bool, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Open Spark, and rename everything of model `old` to `new`. Returns what was
    renamed, or with `dry_run` would be, one line each.

    Raises what opening Spark and `Renamer` raise, and `UsageError`: `unknown-model` if
    no model has the new name, `usage` if it is in mode 'maintenance'.
    """
    if new not in manifest.models:
        raise UsageError.of(
            "unknown-model",
            f"There is no model '{new}'.",
            why="A rename takes along what the model of a file had under its old name.",
            fix=did_you_mean(new, manifest.models),
        )
    select = build_select(manifest, new)
    if not isinstance(select, Select):
        raise UsageError.of(
            "usage",
            f"Model '{new}' has no table to take along: it is in mode 'maintenance'.",
        )
    check_checkpoints(manifest.target.checkpoints, manifest.target.catalog)
    with (
        open_spark(session_settings(manifest, (), say), say) as (session, catalog),
        explained(select),
    ):
        renamer = Renamer(manifest, session, catalog, say)
        lines = tuple(renamer.shown(renamer.find(old, new)))
        if not dry_run:
            renamer.rename(old, new)
        return lines


def _writer(table: JavaTable) -> str:
    """The model that has written the newest batch of a table; '' if its ledger is
    empty."""
    entry = read_newest_entry(table)
    return (
        entry.model.removesuffix(REPLAY_SUFFIX).removesuffix(DEAD_LETTER_SUFFIX)
        if entry is not None
        else ""
    )


def _impossible(what: str, fix: str) -> RunError:
    return RunError.of("rename-impossible", what, fix=fix)
