"""The tables of other models and of seeds that a model reads, and whether they
exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import load_table_state
from lakesql.compile.select import Select
from lakesql.errors import Problem, RunError
from lakesql.graph.manifest import Manifest, read_table, reads_model, stored_refs

if TYPE_CHECKING:
    from lakesql.model.table_name import TableName
    from lakesql.template.reader import Reference


def check_tables(manifest: Manifest, catalog: OpenCatalog, select: Select) -> None:
    """Raise `RunError` (`table-missing`) for models and seeds that this model reads and
    whose tables do not exist."""
    missing = []
    for reference, table in tables_read(manifest, select):
        if load_table_state(catalog, table) is not None:
            continue
        kind, fix = (
            "Model",
            f"Run it first, or with this model: lakesql run --select +{select.model.name}",
        )
        if reference.name in manifest.seeds:
            kind, fix = "Seed", f"Fill it: lakesql seed --select {reference.name}"
        what = f"{kind} '{reference.name}' has no table yet."
        missing.append(Problem("table-missing", what, "", fix, reference.place))
    if missing:
        raise RunError(missing)


def tables_read(
    manifest: Manifest, select: Select
) -> list[tuple[Reference, TableName]]:
    """The tables of other models and of seeds that a model reads, each with the
    reference in the model's file."""
    read = [
        (found, read_table(manifest, found.name))
        for found in stored_refs(manifest, select.model)
    ]
    models = [
        (found, reads_model(manifest, found.name))
        for found in select.model.facts.streams
    ]
    return [
        *read,
        *((found, model.table) for found, model in models if model is not None),
    ]
