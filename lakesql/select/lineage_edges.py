"""The ways in which a column is made of another column, in OpenLineage's words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

ColumnOf: TypeAlias = tuple[str, str]
"""A relation, as its name with dots, and a column of it; both in lower case."""

Direct: TypeAlias = Literal["identity", "transformation", "aggregation"]
"""The value becomes a part of the column's value: unchanged, by an expression, or
together with those of other rows."""

Indirect: TypeAlias = Literal[
    "join", "group_by", "filter", "sort", "window", "conditional"
]
"""The value decides which value the column has, or which rows there are."""

Kind: TypeAlias = Direct | Indirect

Made: TypeAlias = frozenset[tuple[str, str, Kind]]
"""The columns that something is made of: the relation, the column, and the way."""

NOTHING: Made = frozenset()

DIRECT: tuple[Direct, ...] = get_args(Direct)
INDIRECT: tuple[Indirect, ...] = get_args(Indirect)


def column_itself(relations: Iterable[str], column: str) -> Made:
    """The column of this name in each of the relations, unchanged."""
    kind: Kind = "identity"
    return frozenset((relation, column, kind) for relation in relations)


def through(made: Made, kind: Kind) -> Made:
    """The columns that the result of another step on `made` is made of. Indirect ways
    stay as they are; of two direct ways the stronger counts."""
    if kind == "identity":
        return made
    if kind not in DIRECT:
        return as_rows(made, kind)
    return frozenset(
        (relation, column, _stronger(before, kind)) for relation, column, before in made
    )


def as_rows(made: Made, kind: Kind) -> Made:
    """The columns as those that decide which rows there are, or what they hold, in the
    way `kind`. Columns that are already indirect keep their way."""
    return frozenset(
        (relation, column, kind if before in DIRECT else before)
        for relation, column, before in made
    )


def columns_of(made: Made) -> frozenset[ColumnOf]:
    """The columns without the ways."""
    return frozenset((relation, column) for relation, column, _ in made)


def direct_or_not(kind: Kind) -> Literal["DIRECT", "INDIRECT"]:
    """Whether a way is direct or indirect, in OpenLineage's words."""
    return "DIRECT" if kind in DIRECT else "INDIRECT"


def _stronger(before: Kind, kind: Kind) -> Kind:
    if before not in DIRECT:
        return before
    return max(before, kind, key=DIRECT.index)
