"""What is kept of a compiled model beside its text, from one command to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakesql.compile.made_columns import MadeColumn, ModelLineage, SourceColumn
from lakesql.project.codec import decoder
from lakesql.stream.stream import Column


@dataclass(frozen=True, slots=True)
class Compiled:
    """What compiling a model says of it, beside the text: `columns` is None where only
    Spark's analyzer knows them.

    `notes` are what its rows are that its author may have meant otherwise; `lineage` is
    where its columns come from.
    """

    digest: str
    columns: tuple[Column, ...] | None
    stateful: bool
    notes: tuple[str, ...] = ()
    lineage: ModelLineage = ModelLineage()


def decode_compiled(said: Any) -> Compiled:
    """What was kept, of the JSON that it was kept as."""
    return _decode(said)  # type: ignore[no-any-return]


_decode = decoder([Compiled, Column, ModelLineage, MadeColumn, SourceColumn])
