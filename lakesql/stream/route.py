"""Which records of a topic are those of one table: what stands in the place of the
table that a change names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """A table has the records whose `column`, or field of a struct by its path, is
    `value`.

    `known` are the values of which the project knows what becomes of them. Of the
    others those are told that fit a pattern of `include` and none of `exclude`: they
    are of tables that are still to be made, or refused.
    """

    column: str
    value: str
    known: tuple[str, ...] = ()
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
