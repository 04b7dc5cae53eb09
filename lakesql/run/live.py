"""Reads the tables of models as their catalog has them, several at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from lakesql.catalog.connect import open_catalog
from lakesql.catalog.live_tables import LiveTable, read_live_table
from lakesql.graph.manifest import Manifest
from lakesql.project.profiles import Target, sqlite_file
from lakesql.run.status import READERS


def read_live_tables(manifest: Manifest, target: Target, names: Collection[str]) -> Mapping[str, LiveTable | None]:
    """The tables of the models, by their names; None of one that is not there.

    Raises what opening the catalog raises, and `RunError` (`table-unreadable`).
    """
    file = sqlite_file(target.catalog)
    if file is not None and not file.exists():  # opening it would make it
        return dict.fromkeys(names)
    opened = open_catalog(target.catalog)
    with ThreadPoolExecutor(READERS, thread_name_prefix="lakesql-plan") as pool:
        tables = pool.map(lambda name: read_live_table(opened, manifest.models[name].table, name), names)
        return dict(zip(names, tables, strict=True))
