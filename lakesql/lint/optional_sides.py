"""Which tables of a FROM may have no row beside those of the others."""

from __future__ import annotations

from sqlglot import exp


def optional_sides(select: exp.Select) -> frozenset[str]:
    """The names, in small letters, of what outer joins of a SELECT may find no row
    of."""
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
