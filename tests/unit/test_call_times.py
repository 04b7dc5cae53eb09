"""The times that stand in compiled CALLs, and the texts that do not depend on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from lakesql.compile.shown_text import age_mark, with_times, without_times
from tests.cases import each_of

AT = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)


@each_of(
    ("age", "before"),
    [
        ("5 days", "2026-03-05 00:00:00.000Z"),
        ("30 hours", "2026-03-08 18:00:00.000Z"),
        ("1 day 90 minutes", "2026-03-08 22:30:00.000Z"),
        ("1 week", "2026-03-03 00:00:00.000Z"),
    ],
)
@each_of("more", ["", ", or less where there are more than 7,200"])
def test_an_age_becomes_a_time_beside_it_and_back(
    age: str, before: str, more: str
) -> None:
    plain = f"CALL c(a => 1, older_than => {age_mark(age, more)}, b => 2);\n"
    shown = with_times(plain, AT)
    assert (
        shown
        == f"CALL c(a => 1, older_than => TIMESTAMP '{before}' {age_mark(age, more)}, b => 2);\n"
    )
    assert without_times(shown) == plain == without_times(plain)
    tomorrow = with_times(shown, AT + timedelta(days=1))
    assert tomorrow != shown and without_times(tomorrow) == plain
    elsewhere = AT.replace(hour=23).astimezone(timezone(timedelta(hours=9)))
    assert with_times(plain, elsewhere) == shown, "the same all day, wherever that is"


def test_what_is_no_mark_stays() -> None:
    text = "SELECT 'older_than => 5', /* 5 days before it runs */ TIMESTAMP '2026-01-01 00:00:00' AS older_than"
    assert with_times(text, AT) == without_times(text) == text
