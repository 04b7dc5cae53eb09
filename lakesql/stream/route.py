"""Which records of a topic belong to one table, if a value of a column takes the place
of the table that a change feed names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """The records of one table: those whose `column`, or field of a struct by its path,
    is `value`.

    `known` are all values that the project assigns to a table or leaves out. Of the
    others, those that match a pattern of `include` and none of `exclude` are reported:
    they belong to tables that are yet to be created, or refused.
    """

    column: str
    value: str
    known: tuple[str, ...] = ()
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
