"""What the unit tests of models take to mean the same in DuckDB and in Spark means the same in Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.spark.project import Lake
from tests.unit import test_unit_expressions as expressions

(MARK,) = expressions.test_an_expression_means_what_it_means_to_spark.pytestmark
TEXTS = [text for text, _, kind in MARK.args[1] if kind is not None and not text.startswith("current_")]
"""The expressions that DuckDB answers, but for the time that it is."""


def plain(value: Any) -> Any:
    """A value of Spark's as DuckDB gives it: times are in UTC, without their zone; a struct is a dict."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


def test_spark_says_the_same(lake: Lake) -> None:
    """All expressions in one query, and their types."""
    session = lake.session.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    columns = ", ".join(f"{name} {kind}" for name, kind in expressions.TYPES.items())
    session.createDataFrame([tuple(expressions.ROW.values())], columns).createOrReplaceTempView("r")
    frame = session.sql(f"SELECT {', '.join(f'{text} AS c{at}' for at, text in enumerate(TEXTS))} FROM r")
    (row,) = frame.collect()
    kinds = [field.dataType.simpleString() for field in frame.schema]
    other = [
        (text, found, kind, answer)
        for text, found, kind in zip(TEXTS, map(plain, row), kinds, strict=True)
        if (found, kind) != (answer := expressions.evaluate(text))
    ]
    assert other == []
