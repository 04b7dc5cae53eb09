"""Where the queries of a model keep their progress, and what tells one SELECT from
another there."""

from __future__ import annotations

import hashlib

from lakesql.compile.select import Select
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import DEAD_LETTER_SUFFIX
from lakesql.progress.state import QueryIdentity


def query_identities(select: Select, folder: str) -> tuple[QueryIdentity, ...]:
    """The folder and the table of a model's query, by which its progress is found; and
    those of the companion query, where the model is stateful."""
    model = select.model
    identity = QueryIdentity(
        model.name,
        model.name,
        model.table,
        folder,
        select.query.state,
        select.writing.mode,
        batches_of(select).identity,
        unique_by=select.writing.keys,
        deletes=select.writing.deletes,
    )
    if not select.query.stateful:
        return (identity,)
    owner, beside = model.name + DEAD_LETTER_SUFFIX, folder + DEAD_LETTER_SUFFIX
    return identity, QueryIdentity(
        model.name, owner, model.table.dead_letter, beside, is_companion=True
    )


def hash_of(select: Select) -> str:
    """The hash by which the ledger identifies a SELECT."""
    return hashlib.sha256(select.query.sql.encode()).hexdigest()[:16]
