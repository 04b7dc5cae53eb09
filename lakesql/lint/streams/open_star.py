"""LK012: `SELECT *` over a stream that declares no columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class OpenStar:
    """Finds `SELECT *` over a stream whose columns follow the schema of its records."""

    code: ClassVar[str] = "LK012"
    name: ClassVar[str] = "open-star"
    finds: ClassVar[str] = (
        "`SELECT *` reads a stream whose columns follow a schema that others change."
    )
    why: ClassVar[str] = (
        "Where a stream declares no columns, they are those of its records' schemas. With `*` whoever writes the topic "
        "decides which columns the table has: a field that is added, personal data perhaps, lands in the lake by "
        "itself, and one that is renamed leaves an empty column behind."
    )
    example: ClassVar[Mapping[str, str]] = {
        "streams/products.yml": """streams:
  - name: product_changes
    connection: shop
    topic: shop.public.products
    envelope: debezium
    key: [product_id]
""",
        "models/products.sql": """{{ config(mode='cdc', keys='product_id') }}
SELECT *
FROM {{ stream('product_changes') }}
""",
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/products.sql": """{{ config(mode='cdc', keys='product_id') }}
SELECT product_id, name
FROM {{ stream('product_changes') }}
""",
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each `*` over such a stream. Models of a group are left out, as
        they are meant to follow their tables."""
        if model.model.member is not None:
            return
        for read in model.selects:
            names = {name for _, source in read.sources for name in source.streams}
            streams = [
                model.select.streams[name]
                for name in sorted(names)
                if name in model.select.streams
            ]
            following = [
                stream
                for stream in streams
                if stream.is_open or (stream.registry and stream.pulled)
            ]
            stars = [
                item
                for item in read.select.expressions
                if item.is_star and not isinstance(item, exp.Count)
            ]
            if following and stars:
                what = f"* takes in whatever columns '{following[0].name}' has, today and after its next schema."
                yield model.found_at(
                    stars[0],
                    what,
                    "Name the columns, or declare the stream's `columns`.",
                )


RULE = OpenStar()
