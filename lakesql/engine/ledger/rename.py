"""How a table and its ledger get a new name when their model is renamed: the changes in
the catalog, each made once.

Snapshots cannot be changed. So a rename appends, for each query of the model, one
snapshot without files that has the query's newest entry under its new name, and moves
the ledger's tags to these. The table's UUID and history stay, and with them the
positions of models that stream it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import (
    former_models,
    load_table,
    read_entry,
    set_tag,
    table_exists,
)
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.ledger.entry import Entry, ledger_tag, summary_of
from lakesql.model.table_name import TableName
from lakesql.names import FORMER_PROPERTY

_API = "org.apache.iceberg."


def rename_table(session: SparkSession, before: TableName, after: TableName) -> None:
    """Rename a table in the catalog; nothing if that is done already. Its files stay
    where they are.

    Raises `RunError` (`rename-impossible`) if the catalog does not support it, or both
    tables exist.
    """
    if before == after or not table_exists(session, before):
        return
    if table_exists(session, after):
        raise RunError.of(
            "rename-impossible",
            f"Table {before} cannot be renamed: there is a table {after}.",
            fix=f"Move {after} away, or drop it, and give the command again.",
        )
    catalog = java_class(f"{_API}spark.Spark3Util").loadIcebergCatalog(
        session._jsparkSession, before.catalog
    )
    try:
        catalog.renameTable(_identifier(before), _identifier(after))
    except Py4JJavaError as error:
        if "UnsupportedOperation" not in str(error.java_exception.getClass().getName()):
            raise
        raise RunError.of(
            "rename-impossible",
            f"Catalog '{before.catalog}' cannot rename table {before}: {error.java_exception.getMessage()}",
            fix=f"Let the model keep the table, by table='{before.name}' in its config, and give the command again.",
        ) from None


def rename_entries(
    session: SparkSession,
    name: TableName,
    owners: Mapping[str, str],
    former: str,
    model: str,
) -> bool:
    """Write the newest ledger entry of each of `owners`, the old names of queries,
    under its new name, in one commit. Returns whether it was done now.

    The former name is then recorded in a property of the table, which tells that the
    rename from `former` to `model` is done.
    """
    if not table_exists(session, name):
        return False
    table = load_table(session, name)
    formers = former_models(table)
    if former in formers:
        return False
    found = {old: read_entry(table, old) for old in owners}
    transaction: Any = table.newTransaction()
    for old, entry in found.items():
        if entry is not None:
            _append_entry(transaction, _renamed(entry, owners[old]), ledger_tag(old))
    known = ",".join((*(each for each in formers if each != model), former))
    transaction.updateProperties().set(FORMER_PROPERTY, known).commit()
    transaction.commitTransaction()
    return True


def _renamed(entry: Entry, owner: str) -> Entry:
    """The entry under another name, without the counts, which belong to the snapshot of
    its batch."""
    return replace(
        entry, model=owner, late=0, violations=(), remembered=0, older=0, rescued=()
    )


def _append_entry(transaction: Any, entry: Entry, old_tag: str) -> None:
    append = transaction.newAppend()
    for key, value in summary_of(entry).items():
        append = append.set(key, value)
    append.commit()
    table = transaction.table()
    tag, refs, head = (
        ledger_tag(entry.model),
        table.refs(),
        table.currentSnapshot().snapshotId(),
    )
    manage = set_tag(
        transaction.manageSnapshots(), tag, head, is_there=refs.containsKey(tag)
    )
    if refs.containsKey(old_tag):
        manage = manage.removeTag(old_tag)
    manage.commit()


def _identifier(name: TableName) -> Any:
    return java_class(f"{_API}catalog.TableIdentifier").parse(
        f"{name.namespace}.{name.name}"
    )
