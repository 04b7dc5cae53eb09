"""How the commits of several tables become one: all of them become their tables' heads
in one step of the catalog, or none does.

A REST catalog has a request for it. A catalog in a database has the location of each
table's newest metadata in a row: these rows are changed in one transaction. In other
catalogs the tables are committed one after another.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.move_metadata import MetadataMove, move_metadata
from lakesql.catalog.snapshot_list import ATOMIC_CATALOGS
from lakesql.engine.ledger.commit import (
    HeadMovedError,
    Publication,
    Replacement,
    conflict,
    is_commit_failure,
    replacement_of,
    wait_before_try,
)
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import ProfileError
from lakesql.ledger.entry import Snapshot

_API = "org.apache.iceberg."


class CommitTogether(Protocol):
    """How a catalog commits several tables."""

    is_atomic: bool
    """Whether no reader can see one of the commits before the others."""

    def commit(self, replacements: Sequence[Replacement]) -> None:
        """Replace the metadata of all tables. Raises `CommitRefusedError` if another
        commit came in between."""
        ...


class CommitRefusedError(Exception):
    """One of the tables has been committed to since its metadata were read."""


@dataclass(frozen=True, slots=True)
class Published:
    """The results of committing several tables, by model.

    `heads` are the snapshots that are published. If foreign commits came in between,
    the commits of the models in `moved` must be staged again; then no further commit is
    published yet, and `waiting` are the others.
    """

    heads: Mapping[str, Snapshot]
    moved: frozenset[str] = frozenset()
    waiting: Mapping[str, Publication] | None = None


class OneFailedError(Exception):
    """The commit of one model cannot be published, for the `reason`; so none is."""

    def __init__(self, model: str, reason: Exception) -> None:
        super().__init__(str(reason))
        self.model, self.reason = model, reason


def commit_of(catalog: OpenCatalog, session: SparkSession) -> CommitTogether:
    """How the catalog commits several tables."""
    profile = catalog.profile
    if profile.type not in ATOMIC_CATALOGS:
        return InOrder()
    return (
        _Rest(session, profile.name) if profile.type == "rest" else _Database(catalog)
    )


def publish_together(
    publications: Mapping[str, Publication], catalog: CommitTogether
) -> Published:
    """Make the staged commits of several models the heads of their tables: all or none,
    if the catalog can do that.

    Raises `OneFailedError`, whose reason is what `publish` would raise for that model,
    and what the catalog raises.
    """
    current, tries = dict(publications), 0
    while True:
        heads, replacements, moved = {}, {}, set()
        for model, publication in current.items():
            try:
                found = replacement_of(publication, is_again=tries > 0)
            except HeadMovedError:
                moved.add(model)
                continue
            except Exception as error:
                raise OneFailedError(model, error) from error
            if isinstance(found, Snapshot):
                heads[model] = found
                continue
            replacements[model] = found
            current[model] = found.publication
        if moved:
            waiting = {model: current[model] for model in replacements}
            return Published(heads, frozenset(moved), waiting)
        try:
            catalog.commit([*replacements.values()])
        except CommitRefusedError:
            some = next(iter(replacements.values()))
            wait_s = wait_before_try(some.table, tries)
            if wait_s is None:
                raise conflict(some.publication.name) from None
            time.sleep(wait_s)
            tries += 1
            continue
        return Published(
            heads | {model: each.head for model, each in replacements.items()}
        )


class InOrder:
    """Commits one table after another: readers may see the first ones before the
    last."""

    is_atomic = False

    def commit(self, replacements: Sequence[Replacement]) -> None:
        """Commit each table. If one is refused, those before it stay committed."""
        for each in replacements:
            try:
                each.table.operations().commit(each.base, each.updated)
            except Py4JJavaError as error:
                if is_commit_failure(error):
                    raise CommitRefusedError from None
                raise


class _Rest:
    """The request `transactions/commit` of a REST catalog."""

    is_atomic = True

    def __init__(self, session: SparkSession, name: str) -> None:
        self._session, self._name = session, name

    def commit(self, replacements: Sequence[Replacement]) -> None:
        catalogs = self._session._jsparkSession.sessionState().catalogManager()
        catalog = catalogs.catalog(self._name).icebergCatalog()
        create = java_class(f"{_API}catalog.TableCommit").create
        identifier = java_class(f"{_API}catalog.TableIdentifier").parse
        commits = java_class("java.util.ArrayList")()
        for each in replacements:
            name = each.publication.name
            commits.add(
                create(
                    identifier(f"{name.namespace}.{name.name}"), each.base, each.updated
                )
            )
        try:
            catalog.commitTransaction(commits)
        except UnsupportedOperationException:
            raise _not_atomic(self._name) from None
        except Py4JJavaError as error:
            if is_commit_failure(error):
                raise CommitRefusedError from None
            if _lacks_request(error):
                raise _not_atomic(self._name) from None
            raise


def _lacks_request(error: Py4JJavaError) -> bool:
    """Whether a REST catalog does not support the request: it answers 404 or 405.

    All tables were loaded a moment ago, so what it does not find is the request.
    """
    name = str(error.java_exception.getClass().getSimpleName())
    return name in ("NoSuchTableException", "RESTException")


def _not_atomic(catalog: str) -> ProfileError:
    what = f"Catalog '{catalog}' does not take the commits of several tables as one (transactions/commit)."
    return ProfileError.of("catalog-not-atomic", what)


class _Database:
    """Changes the rows that name the metadata of tables in a catalog's database, in one
    transaction."""

    is_atomic = True

    def __init__(self, catalog: OpenCatalog) -> None:
        self._catalog = catalog

    def commit(self, replacements: Sequence[Replacement]) -> None:
        written = [(each, _write_metadata(each)) for each in replacements]
        moves = [
            MetadataMove(
                each.publication.name, str(each.base.metadataFileLocation()), location
            )
            for each, location in written
        ]
        if not move_metadata(self._catalog, moves):
            for each, location in written:
                each.table.io().deleteFile(location)
            raise CommitRefusedError
        for each, _ in written:
            java_class(f"{_API}CatalogUtil").deleteRemovedMetadataFiles(
                each.table.io(), each.base, each.updated
            )


def _write_metadata(replacement: Replacement) -> str:
    """Write the file of a table's next metadata, named as Iceberg's own catalogs name
    it; returns its location."""
    parser = java_class(f"{_API}TableMetadataParser")
    former = (
        str(replacement.base.metadataFileLocation())
        .rpartition("/")[2]
        .partition("-")[0]
    )
    version = int(former) + 1 if former.isdecimal() else 0
    codec = replacement.updated.property("write.metadata.compression-codec", "none")
    name = f"{version:05d}-{uuid4()}{parser.getFileExtension(str(codec))}"
    location = str(replacement.table.operations().metadataFileLocation(name))
    parser.overwrite(
        replacement.updated, replacement.table.io().newOutputFile(location)
    )
    return location
