"""LK056: a table of the project that is named by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class TableByHand:
    """The whole name of a table that a model or a seed of the project writes."""

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
        """Each of them."""
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
    """The model or the seed whose table is called so; '' where it is somebody
    else's."""
    named = [
        model.name for model in manifest.models.values() if model.table.folded == parts
    ]
    named += [
        seed.name for seed in manifest.seeds.values() if seed.table.folded == parts
    ]
    return named[0] if named else ""


RULE = TableByHand()
