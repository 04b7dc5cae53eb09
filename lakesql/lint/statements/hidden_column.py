"""LK053: an alias with the name of a column, where that name still means the column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class HidingAlias:
    """Finds aliases with the name of a column that the same SELECT also reads by that
    name."""

    code: ClassVar[str] = "LK053"
    name: ClassVar[str] = "hidden-column"
    finds: ClassVar[str] = (
        "An alias has the name of a column, and GROUP BY or a later expression means the column."
    )
    why: ClassVar[str] = (
        "Spark takes a name for a column before it takes it for an alias. `SELECT date_trunc('day', at) AS at … GROUP "
        "BY at` has a row for each moment, each with the name of its day."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/carts_per_day.sql": """{{ config(mode='table') }}
SELECT date_trunc('DAY', changed_at) AS changed_at, count(*) AS carts
FROM {{ ref('all_carts') }}
GROUP BY changed_at
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/carts_per_day.sql": """{{ config(mode='table') }}
SELECT date_trunc('DAY', changed_at) AS day, count(*) AS carts
FROM {{ ref('all_carts') }}
GROUP BY day
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each name that means the column although an alias has it too."""
        for read in model.selects:
            group = read.select.args.get("group")
            keys = group.expressions if group is not None else []
            for number, item in enumerate(read.select.expressions):
                if not isinstance(item, exp.Alias) or not self._hides(
                    item, read.meaning(exp.column(item.alias)).columns
                ):
                    continue
                later = [
                    each
                    for other in read.select.expressions[number + 1 :]
                    for each in other.find_all(exp.Column)
                ]
                if item.this.find(exp.AggFunc):
                    # An aggregate cannot contain an aggregate: inside of one the name
                    # can only mean the column.
                    later = [
                        column
                        for column in later
                        if column.find_ancestor(exp.AggFunc) is None
                    ]
                for column in (
                    *later,
                    *(key for key in keys if isinstance(key, exp.Column)),
                ):
                    if (
                        len(column.parts) == 1
                        and column.name.lower() == item.alias.lower()
                    ):
                        what = f"'{column.name}' means the column here, and not the expression that is called so."
                        yield model.found_at(
                            column,
                            what,
                            "Give the expression another name, or repeat it here.",
                        )

    def _hides(self, item: exp.Alias, columns: tuple[object, ...]) -> bool:
        """Whether an alias has the name of a column, and is not that column itself."""
        is_same = (
            isinstance(item.this, exp.Column)
            and item.this.name.lower() == item.alias.lower()
        )
        return bool(columns) and not is_same


RULE = HidingAlias()
