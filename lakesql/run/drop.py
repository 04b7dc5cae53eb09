"""`lakesql drop` and `lakesql ls --orphans`: what there is of a model beside its file, and its removal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import list_tables, load_table_state
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.holder import FOLDER_SUFFIX
from lakesql.engine.progress.lease import LOOK_EVERY_S, Leases
from lakesql.graph.manifest import Manifest
from lakesql.model.table_name import TableName
from lakesql.names import DEAD_LETTER_SUFFIX, REBUILD_SUFFIX
from lakesql.project.profiles import checkpoint_of
from lakesql.run.rebuilt import drop_table
from lakesql.run.spark import open_spark, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER = re.compile(
    rf"(?P<model>.+?)(?:{REBUILD_SUFFIX})?(?:{DEAD_LETTER_SUFFIX})?(?:\.\d{{8}}T\d{{6}}\.\d{{6}}Z|{re.escape(FOLDER_SUFFIX)})?"
)
"""A checkpoint, one that a rewind has kept, or a lease: of a model or of its query of dead letters."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What there is of a model: tables, and folders of checkpoints and leases."""

    tables: tuple[TableName, ...] = ()
    folders: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.folders)


@dataclass(frozen=True, slots=True)
class Dropper:
    """Finds and removes what there is of models, of those too whose files are gone from the project."""

    manifest: Manifest
    session: SparkSession
    catalog: OpenCatalog

    def find(self) -> Mapping[str, Remains]:
        """What there is of each model that has anything, by its name.

        Looks in the namespaces of the target and of its models, and in the target's checkpoints. A table that no model
        of the project has belongs to the model whose batches are in its history, and one without any to the model of
        the table that it stands beside.
        """
        owners = {table: name for name, model in self.manifest.models.items() for table in model.table.family}
        namespaces = {self.manifest.target.namespace, *(table.namespace for table in owners)}
        there = [table for namespace in sorted(namespaces) for table in list_tables(self.catalog, namespace)]
        writers = {table: self._writer(table) for table in there if table not in owners}
        owners |= {table: writer for table, writer in writers.items() if writer}
        owners |= {
            beside: writer
            for table, writer in writers.items()
            for beside in (table.family if writer else ())
            if writers.get(beside) == ""
        }
        tables: dict[str, list[TableName]] = {}
        for table in there:
            if table in owners:
                tables.setdefault(owners[table], []).append(table)
        folders: dict[str, list[str]] = {}
        for name in sorted(CheckpointFiles(self.session, self.manifest.target.checkpoints).names()):
            if match := _FOLDER.fullmatch(name):
                folders.setdefault(match["model"], []).append(checkpoint_of(self.manifest.target, name))
        return {
            model: Remains(tuple(tables.get(model, ())), tuple(folders.get(model, ())))
            for model in sorted({*tables, *folders})
        }

    def find_orphans(self) -> Mapping[str, Remains]:
        """What there is of models that the project does not have."""
        return {model: remains for model, remains in self.find().items() if model not in self.manifest.models}

    def drop(self, model: str, remains: Remains, say: Callable[[str], None]) -> None:
        """Remove it under the model's lease; done again, it removes what an attempt that broke off has left.

        Raises `RunError` (`lease-held`) where the model is being run.
        """
        with closing(Leases(self.session)) as leases:
            while not leases.claim(model, checkpoint_of(self.manifest.target, model), say):
                time.sleep(LOOK_EVERY_S)
            for table in reversed(remains.tables):  # what stands beside a table may be known by that alone
                drop_table(self.session, table)
            own = checkpoint_of(self.manifest.target, model) + FOLDER_SUFFIX
            for folder in remains.folders:
                if folder != own:
                    CheckpointFiles(self.session, folder).remove_all()
        CheckpointFiles(self.session, own).remove_all()

    def _writer(self, table: TableName) -> str:
        """The model whose batches are in the history of a table that no model has; '' if nobody's are."""
        state = load_table_state(self.catalog, table)
        return min(state.ledger_models, default="").removesuffix(DEAD_LETTER_SUFFIX) if state else ""


@contextmanager
def open_dropper(manifest: Manifest, say: Callable[[str], None]) -> Iterator[Dropper]:
    """A `Dropper` on the project's target; Spark ends with the block. Raises what opening Spark raises."""
    with open_spark(session_settings(manifest, (), say), say) as (session, catalog):
        yield Dropper(manifest, session, catalog)
