"""`lakesql drop` and `lakesql ls --orphans`: finds and removes the tables, views and
folders of models."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import list_tables, newest_writer
from lakesql.compile.quote import table_name
from lakesql.engine.ledger.swap import drop_table
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.lease import LOOK_EVERY_S, Leases
from lakesql.engine.spark.catalog_views import list_views
from lakesql.graph.manifest import Manifest
from lakesql.model.table_name import TableName
from lakesql.names import DEAD_LETTER_SUFFIX, LEASE_SUFFIX, REBUILD_SUFFIX
from lakesql.progress.stored import read_checkpoint
from lakesql.run.start.spark import open_spark, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER = re.compile(
    rf"(?P<model>[A-Za-z_][A-Za-z0-9_]*?(?:\.[A-Za-z_][A-Za-z0-9_]*?)??)(?:{REBUILD_SUFFIX})?(?:{DEAD_LETTER_SUFFIX})?(?:\.\d{{8}}T\d{{6}}\.\d{{6}}Z|{re.escape(LEASE_SUFFIX)})?"
)
"""The name of a checkpoint folder, current or kept by a rewind, or of a lease folder:
of a model, of its companion query or of a group."""


def model_of(folder: str) -> str | None:
    """The model whose checkpoint or lease is in the folder of this name; None if the
    name is no such folder's."""
    match = _FOLDER.fullmatch(folder)
    return match["model"] if match else None


@dataclass(frozen=True, slots=True)
class Remains:
    """What exists of a model besides its file: tables, a view, and folders of
    checkpoints and leases.

    `foreign` are tables written by a model of this name from unknown checkpoints, such
    as those of another project or target.
    """

    tables: tuple[TableName, ...] = ()
    folders: tuple[str, ...] = ()
    foreign: tuple[TableName, ...] = ()
    views: tuple[TableName, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.folders or self.views)

    @property
    def shown(self) -> tuple[str, ...]:
        """A description of each table, view and folder."""
        return (
            *(f"table {table}" for table in self.tables),
            *(f"view {view}" for view in self.views),
            *(f"folder {path}" for path in self.folders),
        )


@dataclass(frozen=True, slots=True)
class Dropper:
    """Finds and removes what exists of models, including models whose files are gone
    from the project."""

    manifest: Manifest
    session: SparkSession
    catalog: OpenCatalog

    def find(self) -> Mapping[str, Remains]:
        """What exists of each model, by name; models of which nothing exists are
        missing.

        Looks in the namespaces of the target and of its models, and in the target's
        checkpoints. A table that belongs to no model of the project is attributed to
        the model in its newest ledger entry, if a checkpoint of that model on this
        target has written it, or if the model has no checkpoint here and is not in the
        project; otherwise it is `foreign`. The tables beside it are attributed alike.
        """
        owners = {
            table: name
            for name, model in self.manifest.models.items()
            for table in model.table.family
        }
        namespaces = {
            self.manifest.target.namespace,
            *(table.namespace for table in owners),
        }
        there = [
            table
            for namespace in sorted(namespaces)
            for table in list_tables(self.catalog, namespace)
        ]
        folders: dict[str, list[str]] = {}
        for name in sorted(
            CheckpointFiles(self.session, self.manifest.target.checkpoints).names()
        ):
            if model := model_of(name):
                folders.setdefault(model, []).append(
                    self.manifest.target.checkpoint_of(name)
                )
        views = self._views(namespaces, folders)
        foreign: dict[TableName, str] = {}
        writers = self._writers(set(there) - owners.keys())
        checkpoints = {
            model: self._checkpoints(folders.get(model, ()))
            for model in {it[0] for it in writers.values()}
        }
        for table, (model, checkpoint) in writers.items():
            ids = checkpoints[model]
            is_ours = checkpoint in ids or (
                not ids and model not in self.manifest.models
            )
            (owners if is_ours else foreign)[table] = model
        return {
            model: Remains(
                tuple(table for table in there if owners.get(table) == model),
                tuple(folders.get(model, ())),
                tuple(table for table in there if foreign.get(table) == model),
                tuple(view for view, owner in views.items() if owner == model),
            )
            for model in sorted(
                {
                    *(owners[table] for table in there if table in owners),
                    *foreign.values(),
                    *folders,
                    *views.values(),
                }
            )
        }

    def find_orphans(self) -> Mapping[str, Remains]:
        """What exists of models that the project does not have, by model."""
        found = self.find().items()
        known = self.manifest.models.keys() | self.manifest.groups.keys()
        return {
            model: remains for model, remains in found if remains and model not in known
        }

    def drop(self, model: str, remains: Remains, say: Callable[[str], None]) -> None:
        """Remove everything in `remains` under the model's lease. Idempotent, so it
        also completes an interrupted drop.

        Raises `RunError` (`lease-held`) if the model is running.
        """
        with closing(Leases(self.session)) as leases:
            while not leases.claim(
                model, self.manifest.target.checkpoint_of(model), say
            ):
                time.sleep(LOOK_EVERY_S)
            # the tables beside a table may be found through that one alone
            for table in reversed(remains.tables):
                drop_table(self.session, table)
            for view in remains.views:
                self.session.sql(f"DROP VIEW IF EXISTS {table_name(view)}")
            own = self.manifest.target.checkpoint_of(model) + LEASE_SUFFIX
            for folder in remains.folders:
                if folder != own:
                    CheckpointFiles(self.session, folder).remove_all()
        CheckpointFiles(self.session, own).remove_all()

    def _views(
        self, namespaces: Iterable[str], folders: Collection[str]
    ) -> Mapping[TableName, str]:
        """The views in the catalog that models of the project have made, or models with
        a folder among the target's checkpoints; each with its model."""
        catalog = self.manifest.target.catalog.name
        found = chain.from_iterable(
            list_views(self.session, catalog, each) for each in sorted(namespaces)
        )
        return {
            view: model
            for view, model in found
            if model in self.manifest.models or model in folders
        }

    def _writers(self, tables: set[TableName]) -> Mapping[TableName, tuple[str, str]]:
        """The model and the checkpoint that have last written each of the tables, as
        far as their histories tell.

        A table beside another one (dead letters, tombstones) is attributed to the
        writer of that one, unless another model has written it.
        """
        said = {table: newest_writer(self.catalog, table) for table in sorted(tables)}
        own = {
            table: (it[0].removesuffix(DEAD_LETTER_SUFFIX), it[1])
            for table, it in said.items()
            if it is not None
        }
        found: dict[TableName, tuple[str, str]] = {}
        for table, writer in own.items():
            for each in table.family if table not in found else ():
                if each in tables and own.get(each, writer)[0] == writer[0]:
                    found[each] = writer
        return found

    def _checkpoints(self, folders: Sequence[str]) -> set[str]:
        """The ids of the checkpoints in these folders, and of the earlier ones that
        they continue."""
        read = [
            read_checkpoint(CheckpointFiles(self.session, folder)) for folder in folders
        ]
        origins = [
            checkpoint.origin for checkpoint in read if checkpoint and checkpoint.origin
        ]
        followed = {origin.follows.checkpoint for origin in origins if origin.follows}
        return ({checkpoint.id for checkpoint in read if checkpoint} | followed) - {""}


@contextmanager
def open_dropper(manifest: Manifest, say: Callable[[str], None]) -> Iterator[Dropper]:
    """Yields a `Dropper` on the project's target, with a Spark session that ends with
    the block. Raises what opening Spark raises."""
    with open_spark(session_settings(manifest, (), say), say) as (session, catalog):
        yield Dropper(manifest, session, catalog)
