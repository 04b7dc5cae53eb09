"""In which way a column is made of another one, in the words of OpenLineage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

ColumnOf: TypeAlias = tuple[str, str]
"""A relation, by the parts of its name with dots between them, and a column; both in
small letters."""

Direct: TypeAlias = Literal["identity", "transformation", "aggregation"]
"""A value becomes a part of the column's: as it is, by an expression, or together with
those of other rows."""

Indirect: TypeAlias = Literal[
    "join", "group_by", "filter", "sort", "window", "conditional"
]
"""A value decides which value the column has, or which rows there are."""

Kind: TypeAlias = Direct | Indirect

Made: TypeAlias = frozenset[tuple[str, str, Kind]]
"""What is made of which columns: a relation, a column, and the way."""

NOTHING: Made = frozenset()

DIRECT: tuple[Direct, ...] = get_args(Direct)
INDIRECT: tuple[Indirect, ...] = get_args(Indirect)


def column_itself(relations: Iterable[str], column: str) -> Made:
    """What is a column of this name of each of the relations."""
    kind: Kind = "identity"
    return frozenset((relation, column, kind) for relation in relations)


def through(made: Made, kind: Kind) -> Made:
    """What is made of `made` in another step: what is indirect stays so, and of two
    direct ways the stronger counts."""
    if kind == "identity":
        return made
    if kind not in DIRECT:
        return as_rows(made, kind)
    return frozenset(
        (relation, column, _stronger(before, kind)) for relation, column, before in made
    )


def as_rows(made: Made, kind: Kind) -> Made:
    """The columns as those that decide which rows there are, or what they hold: `kind`
    is how they do. Columns that are indirect already stay as they are."""
    return frozenset(
        (relation, column, kind if before in DIRECT else before)
        for relation, column, before in made
    )


def columns_of(made: Made) -> frozenset[ColumnOf]:
    """The columns alone."""
    return frozenset((relation, column) for relation, column, _ in made)


def direct_or_not(kind: Kind) -> Literal["DIRECT", "INDIRECT"]:
    """Whether values become a part of the column's, in OpenLineage's words."""
    return "DIRECT" if kind in DIRECT else "INDIRECT"


def _stronger(before: Kind, kind: Kind) -> Kind:
    if before not in DIRECT:
        return before
    return max(before, kind, key=DIRECT.index)
