"""`--defer`: lets models join the tables of another target, where this one does not
have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from lakesql.errors import Problem, UsageError
from lakesql.graph.manifest import Manifest, own_table, reads_model, stored_refs
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.template.reader import Reference


def defer_refs(
    manifest: Manifest,
    names: Collection[str],
    state: Mapping[str, TableName],
    is_there: Callable[[TableName], bool] | None,
) -> Manifest:
    """The manifest in which `ref` of a model that is not among `names` and has no table
    on this target means the table in `state`.

    Without `is_there`, the tables in `state` are used even if this target has its own.
    Streams are never deferred: a position belongs to one table, and the model would
    continue with rows of another.

    Raises `UsageError` (`defer-stream`, `defer-catalog`, `defer-missing`), each at the
    place that reads the table.
    """
    deferred: dict[str, TableName] = {}
    problems: list[Problem] = []
    for model in names:
        facts = manifest.models[model].facts
        for reference in facts.streams:
            read = reads_model(manifest, reference.name)
            if read is None or not _is_wanted(read.name, read.table, names, state):
                continue
            if is_there and not is_there(read.table):
                problems.append(_refuse_stream(read, state[read.name], reference))
        for reference in stored_refs(manifest, manifest.models[model]):
            name, own = reference.name, own_table(manifest, reference.name)
            if name in deferred or not _is_wanted(name, own, names, state):
                continue
            if is_there is not None and is_there(own):
                continue
            table = state[name]
            if table.catalog != own.catalog:
                what = f"'{name}' is {table} in the state, and this target has the catalog '{own.catalog}'."
                problems.append(Problem("defer-catalog", what, place=reference.place))
            elif is_there is not None and not is_there(table):
                what = f"Neither {own} nor {table}, which the state names, is in the catalog."
                problems.append(Problem("defer-missing", what, place=reference.place))
            else:
                deferred[name] = table
    if problems:
        raise UsageError(dict.fromkeys(problems))
    return replace(manifest, deferred=deferred)


def _is_wanted(
    name: str, own: TableName, names: Collection[str], state: Mapping[str, TableName]
) -> bool:
    return name not in names and state.get(name, own) != own


def _refuse_stream(read: Model, table: TableName, reference: Reference) -> Problem:
    what = f"stream('{reference.name}') is not deferred to {table}, and there is no table {read.table}."
    fix = f"Run it here too: add '{read.name}' to --select. Or read the table with ref('{read.name}')."
    return Problem("defer-stream", what, "", fix, reference.place)
