"""The keys of a batch as a literal predicate, which bounds what its statements read of
a table."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.compile.quote import Literal, column_of, literal

BOUNDS_PLACE = "/* the batch's key range */ true"
"""What stands in the compiled MERGE where each batch puts a literal predicate on the
target's keys."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of one batch in one column: all of them, the smallest and the largest,
    or both; NULL is named apart (`has_null`), and may be the only one."""

    column: str
    values: tuple[Literal, ...] = ()
    low: Literal | None = None
    high: Literal | None = None
    has_null: bool = False


def bounds_text(ranges: tuple[KeyRange, ...], alias: str = "target") -> str:
    """The literal predicate on the keys of a table."""
    return "\n  AND ".join(_bound(bound, alias) for bound in ranges) or "true"


def _bound(bound: KeyRange, alias: str) -> str:
    column, tests = column_of(alias, bound.column), []
    if bound.low is not None and bound.high is not None:
        tests.append(f"{column} BETWEEN {literal(bound.low)} AND {literal(bound.high)}")
    if bound.values:
        tests.append(
            f"{column} IN ({', '.join(literal(value) for value in bound.values)})"
        )
    known = "\n  AND ".join(tests)
    if not bound.has_null:
        return known
    return f"({known} OR {column} IS NULL)" if known else f"{column} IS NULL"
