"""Finds the tables of a FROM that an outer join may leave without a row."""

from __future__ import annotations

from sqlglot import exp


def optional_sides(select: exp.Select) -> frozenset[str]:
    """The names, in lower case, of the tables for which an outer join of the SELECT may
    have no row."""
    from_ = select.args.get("from_")
    if from_ is None:
        return frozenset()
    before = [from_.this.alias_or_name.lower()]
    optional: set[str] = set()
    for join in select.args.get("joins") or ():
        own = join.this.alias_or_name.lower()
        side = "" if join.kind.upper() in ("SEMI", "ANTI") else join.side.upper()
        optional |= {own} if side in ("LEFT", "FULL") else set()
        optional |= {*before} if side in ("RIGHT", "FULL") else set()
        before.append(own)
    return frozenset(optional)
