from __future__ import annotations

from typing import Any

import pytest

from lakesql.decode import node_of
from lakesql.errors import Place, ProjectError
from lakesql.project.duration import Duration, parse_duration
from tests.cases import each_of


@each_of(
    ("text", "canonical", "length_ms"),
    [
        ("30 seconds", "30 seconds", 30_000),
        (" 1  Hour 30 MINUTES ", "1 hour 30 minutes", 5_400_000),
        ("10minutes", "10 minutes", 600_000),
        ("1 seconds", "1 second", 1_000),
        ("500 milliseconds", "500 milliseconds", 500),
        ("2 weeks 1 day", "2 weeks 1 day", 1_296_000_000),
        ("0 seconds", "0 seconds", 0),
    ],
)
def test_an_interval_has_one_spelling_that_spark_reads(
    text: str, canonical: str, length_ms: int
) -> None:
    assert parse_duration(node_of(text, Place("f"))) == Duration(canonical, length_ms)


@each_of(
    "value",
    [
        *(
            "",
            " ",
            "30",
            "seconds",
            "1 month",
            "2 years",
            "-5 minutes",
            "1.5 hours",
            "10 min",
            "interval 5 minutes",
        ),
        *(
            "5 minutes ago",
            "5 minutes, 3 seconds",
            "9" * 30 + " days",
            "1 day " * 1000,
            "1" * 100_000,
        ),
        *(None, 30, True, ["5 minutes"], {"minutes": 5}),
    ],
)
def test_a_text_that_is_no_interval_is_refused(value: Any) -> None:
    with pytest.raises(ProjectError) as caught:
        parse_duration(node_of(value, Place("f", 2, 3)))
    assert [
        (problem.condition, problem.place) for problem in caught.value.problems
    ] == [("bad-interval", Place("f", 2, 3))]
