"""Reads the status of the tables of seeds, for `lakesql status`. Needs no JVM."""

from __future__ import annotations

from collections.abc import Iterable

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.seed_table import check_owner, read_seed_table
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.run.seeds.seed import open_if_there, owner_of
from lakesql.seed.seed import Seed
from lakesql.seed.seed_state import SeedStatus


def read_seed_statuses(
    manifest: Manifest, names: Iterable[str]
) -> tuple[SeedStatus, ...]:
    """The status of the seeds' tables. An error with one table, or with the catalog,
    becomes a status."""
    seeds = [manifest.seeds[name] for name in names]
    if not seeds:
        return ()
    try:
        opened = open_if_there(manifest)
    except LakesqlError as error:
        return tuple(
            SeedStatus(seed, "unreadable", problems=error.problems) for seed in seeds
        )
    if opened is None:
        return tuple(SeedStatus(seed, "missing") for seed in seeds)
    return tuple(_read_status(manifest, opened, seed) for seed in seeds)


def outdated_seeds(
    manifest: Manifest, opened: OpenCatalog, names: Iterable[str]
) -> tuple[str, ...]:
    """Notes on those of the named seeds whose tables do not have the rows of their
    current files."""
    seeds = [
        manifest.seeds[name]
        for name in names
        if name in manifest.seeds and name not in manifest.deferred
    ]
    statuses = [_read_status(manifest, opened, seed) for seed in seeds]
    outdated = [status.seed.name for status in statuses if status.state == "outdated"]
    changed = (
        "as it was filled: its file or contract has changed since. To fill it again"
    )
    return tuple(
        f"joins seed {name} {changed}: lakesql seed --select {name}"
        for name in outdated
    )


def _read_status(manifest: Manifest, opened: OpenCatalog, seed: Seed) -> SeedStatus:
    try:
        found = read_seed_table(opened, seed.table)
    except LakesqlError as error:
        return SeedStatus(seed, "unreadable", problems=error.problems)
    if found is None:
        return SeedStatus(seed, "missing")
    try:
        check_owner(seed.table, found, owner_of(manifest, seed), seed.name)
    except LakesqlError as error:
        return SeedStatus(seed, "foreign", problems=error.problems)
    is_fresh = found.version == seed.version(manifest.target.spark.time_zone)
    return SeedStatus(
        seed, "filled" if is_fresh else "outdated", found.rows, found.filled_at_ms
    )
