"""LK056: a table of the project that is named directly instead of by `ref`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class TableByHand:
    """Finds the full name of a table that belongs to a model or a seed of the
    project."""

    code: ClassVar[str] = "LK056"
    name: ClassVar[str] = "table-by-hand"
    finds: ClassVar[str] = (
        "A SELECT names the table of another model, where `ref` would."
    )
    why: ClassVar[str] = (
        "Without `ref` the graph does not know who reads the table: it may be built after its reader, `orders+` leaves "
        "the reader out, a rename breaks it, and another target reads the tables of this one."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/named_orders.sql": """{{ config(mode='table') }}
SELECT order_id, amount
FROM lake.sample.latest_orders
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/named_orders.sql": """{{ config(mode='table') }}
SELECT order_id, amount
FROM {{ ref('latest_orders') }}
"""
    }
    fix: ClassVar[str] = "`{{ ref('…') }}` takes the place of the name."

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such name."""
        for table in model.read.tree.find_all(exp.Table):
            if len(table.parts) < 3 or isinstance(table.this, exp.Func):
                continue
            start, end = (
                model.range_of(table.parts[0])[0],
                model.range_of(table.parts[-1])[1],
            )
            if not model.select.rendered.origin(start)[1]:
                continue  # an expression has written it
            name = _owner(
                model.manifest, tuple(part.name.lower() for part in table.parts)
            )
            if name:
                written = (
                    "{{ this }}"
                    if name == model.model.name
                    else f"{{{{ ref('{name}') }}}}"
                )
                what = f"This is the table of '{name}', and the graph does not know that it is read here."
                edit = model.edit(start, end, written)
                yield model.found(start, end, what, f"Write {written}.", (edit,))


def _owner(manifest: Manifest, parts: tuple[str, ...]) -> str:
    """The name of the model or seed that has this table; '' if none of the project
    does."""
    named = [
        model.name for model in manifest.models.values() if model.table.folded == parts
    ]
    named += [
        seed.name for seed in manifest.seeds.values() if seed.table.folded == parts
    ]
    return named[0] if named else ""


RULE = TableByHand()
