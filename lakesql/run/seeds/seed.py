"""`lakesql seed`: fills the tables of seeds with the rows of their files, if these have
changed. Needs no JVM."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.catalog.seed_table import (
    SeedTable,
    check_owner,
    fill_seed_table,
    read_seed_table,
)
from lakesql.catalog.tables import list_tables
from lakesql.errors import LakesqlError, ProjectError
from lakesql.events import Emit, RunFinished, RunStarted, SeedFinished
from lakesql.graph.manifest import Manifest
from lakesql.model.table_name import TableName
from lakesql.project.files import decode_seed, digest_of, read_seed_content
from lakesql.seed.seed import Seed
from lakesql.seed.seed_rows import read_rows
from lakesql.seed.seed_values import find_zone


def run_seeds(
    manifest: Manifest, names: Sequence[str], emit: Emit, *, is_forced: bool
) -> bool:
    """Fill the tables of those seeds whose file or contract has changed, or with
    `is_forced` of all; whether none failed."""
    started = time.monotonic()
    emit(RunStarted(manifest.target.name, (), False, seeds=tuple(names)))
    failed = fill_seeds(manifest, names, emit, is_forced=is_forced)
    emit(RunFinished(_since(started), False))
    return not failed


def fill_seeds(
    manifest: Manifest, names: Sequence[str], emit: Emit, *, is_forced: bool
) -> frozenset[str]:
    """Fill the seeds as `run_seeds` does; returns the names of those that failed. A
    failure of one seed does not stop the others.

    Raises `ProfileError` if the catalog cannot be reached.
    """
    if not names:
        return frozenset()
    opened = open_catalog(manifest.target.catalog)
    filler = _Filler(manifest, opened, manifest.target.spark.time_zone, is_forced)
    failed = set()
    for name in names:
        done = filler.fill(manifest.seeds[name])
        failed |= {name} if done.status == "error" else set()
        emit(done)
    return frozenset(failed)


@dataclass(frozen=True, slots=True)
class _Filler:
    manifest: Manifest
    opened: OpenCatalog
    zone: str
    is_forced: bool

    def fill(self, seed: Seed) -> SeedFinished:
        """Fill the table of the seed, unless it is up to date."""
        started = time.monotonic()
        try:
            found = read_seed_table(self.opened, seed.table)
            if found is not None:
                check_owner(seed.table, found, owner_of(self.manifest, seed), seed.name)
            if (
                found is not None
                and found.version == seed.version(self.zone)
                and not self.is_forced
            ):
                because = f"since {_at(found)}"
                return SeedFinished(
                    seed.name,
                    "success",
                    "unchanged",
                    str(seed.table),
                    found.rows,
                    because,
                    _since(started),
                )
            filled = self.exchange(seed)
        except LakesqlError as error:
            return SeedFinished(
                seed.name,
                "error",
                None,
                str(seed.table),
                None,
                "",
                _since(started),
                error.problems,
            )
        because = _why(found, is_forced=self.is_forced)
        return SeedFinished(
            seed.name,
            "success",
            "filled",
            str(seed.table),
            filled.rows,
            because,
            _since(started),
            location=filled.location,
        )

    def exchange(self, seed: Seed) -> SeedTable:
        """Replace the rows of the table by those of the file. Raises `ProjectError`
        (`seed-not-filled`) if the file has changed since the project was read."""
        content = read_seed_content(
            self.manifest.directory / seed.path,
            seed.path,
            self.manifest.settings.seeds.max_size,
        )
        if digest_of(content) != seed.digest:
            what = f"The file of seed '{seed.name}' was written while it was read."
            raise ProjectError.of(
                "seed-not-filled",
                what,
                fix="Fill it again: lakesql seed",
                place=seed.place,
            )
        rows = read_rows(seed, decode_seed(content, seed.path), find_zone(self.zone))
        owner, version = owner_of(self.manifest, seed), seed.version(self.zone)
        return fill_seed_table(
            self.opened, seed, owner, version, rows, is_forced=self.is_forced
        )


def owner_of(manifest: Manifest, seed: Seed) -> str:
    """The owner mark in the properties of a seed's table: project and seed."""
    return f"{manifest.settings.name}.{seed.name}"


def find_seed_tables(manifest: Manifest, opened: OpenCatalog) -> dict[str, TableName]:
    """The tables in the target's namespace that seeds of this project have filled, by
    seed name; also of seeds whose files are gone."""
    found: dict[str, TableName] = {}
    for name in list_tables(opened, manifest.target.namespace):
        state = read_seed_table(opened, name)
        project, _, seed = (state.owner if state is not None else "").partition(".")
        if project == manifest.settings.name and seed:
            found[seed] = name
    return found


def find_dropped(
    manifest: Manifest, opened: OpenCatalog, name: str
) -> TableName | None:
    """The table of a seed that is to be dropped, None if there is none.

    Raises `RunError` (`table-not-of-seed`) if the seed's table name is taken by another
    table.
    """
    seed = manifest.seeds.get(name)
    if seed is None:
        return find_seed_tables(manifest, opened).get(name)
    state = read_seed_table(opened, seed.table)
    if state is None:
        return None
    check_owner(seed.table, state, owner_of(manifest, seed), name)
    return seed.table


def open_if_there(manifest: Manifest) -> OpenCatalog | None:
    """The target's catalog; None if it is a local file that does not exist yet, which
    opening would create."""
    file = manifest.target.catalog.sqlite_file
    return (
        open_catalog(manifest.target.catalog) if file is None or file.exists() else None
    )


def _why(found: SeedTable | None, *, is_forced: bool) -> str:
    """Why the table of a seed is filled, for its event."""
    if found is None:
        return "it is new"
    if found.filled_at_ms is None:
        return "it had never been filled"
    if not found.version:
        return "others had written rows into it, which are replaced"
    return "as asked for" if is_forced else "its file or contract has changed"


def _at(found: SeedTable) -> str:
    return time.strftime(
        "%Y-%m-%d %H:%M:%S", time.localtime((found.filled_at_ms or 0) / 1000)
    )


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
