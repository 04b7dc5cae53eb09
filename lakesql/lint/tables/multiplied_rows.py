"""LK040: a join of a stream with a table on fewer columns than the table's key has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.graph.manifest import own_table
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.select.selects_read import SelectRead


class MultipliedRows:
    """Finds joins of a stream with a table of this project that do not compare all
    columns of the table's key."""

    code: ClassVar[str] = "LK040"
    name: ClassVar[str] = "multiplied-rows"
    finds: ClassVar[str] = (
        "A stream is joined with a table by less than the columns of its key."
    )
    why: ClassVar[str] = (
        "One record meets several rows of the table then, and becomes several: sums are too large, and a key that was "
        "unique is not. That is right where all of them are wanted; then say so by a noqa."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/priced_carts.sql": """{{ config(mode='append') }}
SELECT c.cart_id, c.amount, p.price
FROM {{ stream('carts') }} AS c
JOIN {{ ref('price_list') }} AS p ON p.status = c.status
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/priced_carts.sql": """{{ config(mode='append') }}
SELECT c.cart_id, c.amount, p.price
FROM {{ stream('carts') }} AS c
JOIN {{ ref('price_list') }} AS p ON p.status = c.status AND p.customer_id = c.customer_id
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such join."""
        if model.model.config.reads != "streams":
            return
        keys = dict(_keys_by_table(model))
        for read in model.selects:
            for join in read.select.args.get("joins") or ():
                table = join.this
                if (
                    not isinstance(table, exp.Table)
                    or join.kind.upper() in ("SEMI", "ANTI")
                    or join.method
                ):
                    continue
                key = keys.get(tuple(part.name.lower() for part in table.parts), ())
                missing = [
                    column
                    for column in key
                    if column.lower() not in _compared(join, table, read)
                ]
                if missing:
                    what = f"A record may meet several rows of '{table.name}': its key is {', '.join(key)}, and "
                    what += f"{', '.join(missing)} is not compared."
                    yield model.found_at(
                        table, what, "Compare all columns of the key in ON."
                    )


def _keys_by_table(
    model: LintedModel,
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The tables that the model reads by `ref`: for each the parts of its name in lower
    case, and the columns of its key."""
    for reference in model.model.facts.refs:
        joined = model.manifest.models.get(reference.name)
        if (
            joined is not None
            and joined.config.is_stored
            and joined.config.versions is None
        ):
            yield (
                own_table(model.manifest, reference.name).folded,
                model.unique_by(reference.name),
            )


def _compared(join: exp.Join, table: exp.Table, read: SelectRead) -> set[str]:
    """The columns of a table, in lower case, for which ON, USING or WHERE has an
    equality. A column that may be of another table is included."""
    named = {identifier.name.lower() for identifier in join.args.get("using") or ()}
    called = (table.alias or table.name).lower()
    where = read.select.args.get("where")
    for condition in (join.args.get("on"), where.this if where is not None else None):
        for equal in (
            condition.find_all(exp.EQ, exp.NullSafeEQ) if condition is not None else ()
        ):
            for side in (equal.left, equal.right):
                if isinstance(side, exp.Column) and read.source_of(side) in (
                    called,
                    None,
                ):
                    named.add(side.name.lower())
    return named


RULE = MultipliedRows()
