"""LK002: a WHERE that leaves an outdated row of a key in the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import CHANGE, RECORD


class FilteredStates:
    """Finds a WHERE over records that are states of rows, by a column that changes."""

    code: ClassVar[str] = "LK002"
    name: ClassVar[str] = "filtered-states"
    finds: ClassVar[str] = (
        "A WHERE compares what may change of a row, in a model that keeps the newest row of a key."
    )
    why: ClassVar[str] = (
        "The WHERE chooses which records are merged, not which rows stay. If the newest record of a key does not pass, "
        "the row of an older one stays in the table: an order that was cancelled is there as it was before."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/open_orders.sql": """{{ config(mode='upsert', keys='order_id', sequence_by='updated_at') }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
WHERE status <> 'cancelled'
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/open_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    delete_when="status = 'cancelled'",
) }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for the first column of each WHERE whose value may change while the
        key stays."""
        left = batches_of(model.select).left_by_filter()
        if not left or model.model.config.reads != "streams":
            return
        steady = self._steady_names(model)
        for read in model.selects:
            where = read.select.args.get("where")
            if where is None or not any(source.streams for _, source in read.sources):
                continue
            changing = [
                column
                for column in where.find_all(exp.Column)
                if not _names(column) & steady
            ]
            if changing:
                first = min(changing, key=lambda column: model.range_of(column)[0])
                what = f"If the newest record of a key does not pass this filter, the table keeps {left}."
                fix = f"Select '{first.name}' and leave rows out by `delete_when`, or where the table is read."
                yield model.found_at(first, what, fix)

    def _steady_names(self, model: LintedModel) -> frozenset[str]:
        """The names, in lower case, that a WHERE may use: columns from which keys and
        `sequence_by` are made, and metadata of the change or record."""
        writing = model.select.writing
        named = {name.lower() for name in (*writing.keys, *writing.sequence_by)}
        outputs = model.select.query.outputs or ()
        plain = {
            output.column.lower()
            for output in outputs
            if output.column and output.name.lower() in named
        }
        return frozenset({*plain, CHANGE, RECORD})


def _names(column: exp.Column) -> frozenset[str]:
    return frozenset(part.name.lower() for part in column.parts)


RULE = FilteredStates()
