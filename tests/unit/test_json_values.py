"""How values of tables stand in JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from lakesql.json_values import plain
from tests.cases import each_of

MOMENT = datetime(2026, 3, 1, 12, 0, 0, 500_000)


@each_of(
    ("value", "found"),
    [
        (None, None),
        (True, True),
        (2**62, 2**62),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("1.20"), "1.20"),
        (MOMENT, "2026-03-01T12:00:00.500000Z"),
        (MOMENT.replace(tzinfo=UTC), "2026-03-01T12:00:00.500000+00:00"),
        (date(2026, 3, 1), "2026-03-01"),
        (time(12, 30), "12:30:00"),
        ("é".encode(), "é"),
        (b"\xff", "/w=="),
        (
            {"a": [MOMENT, (Decimal(1),)], 2: None},
            {"a": ["2026-03-01T12:00:00.500000Z", ["1"]], "2": None},
        ),
    ],
)
def test_a_value_is_one_of_json(value: Any, found: Any) -> None:
    made = plain(value, "Z")
    assert made == found and type(made) is type(found)
    assert json.loads(json.dumps(made, allow_nan=False)) == found


def test_a_time_without_a_zone_gets_the_one_that_is_known() -> None:
    assert plain(MOMENT) == "2026-03-01T12:00:00.500000"
