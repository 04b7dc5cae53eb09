"""A compiled text as people are shown it: its CALLs with times, and the comments that
open it as pairs.

What a run would say in the places of times is known when it runs, so the text that is
compared has a mark there; what people are shown has the time that holds when it is
compiled, and can be pasted.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache

from lakesql.clock import now
from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.project.duration import parse_duration

_AGE = re.compile(
    r"older_than => (?:TIMESTAMP '[^']*' )?(?P<mark>/\* (?P<age>[a-z0-9 ]+) before it runs[^*]*\*/)"
)


def age_mark(age: str, more: str = "") -> str:
    """The mark in a compiled CALL for a time that is known only when the procedure
    runs; it names the age of what is removed."""
    return f"/* {age} before it runs{more} */"


def with_times(text: str, at: datetime | None = None) -> str:
    """A compiled text with a time before each mark: the beginning of the day minus the
    age.

    So the text is the same all day, and no time is later than that of a run.
    """
    today = datetime.combine((at or now()).astimezone(UTC).date(), time(tzinfo=UTC))

    def stamped(found: re.Match[str]) -> str:
        return f"older_than => {_time_before(today, found['age'])} {found['mark']}"

    return _AGE.sub(stamped, text)


@lru_cache(maxsize=256)
def _time_before(day: datetime, age: str) -> str:
    """The beginning of a day minus an age, as a literal."""
    # imported here: most texts are read from files, with their times
    from lakesql.compile.quote import timestamp

    length_ms = parse_duration(Node(age, Place(""))).length_ms
    return timestamp(day - timedelta(milliseconds=length_ms))


def without_times(text: str) -> str:
    """The text with only the marks, so that texts compiled at different times can be
    compared."""
    return _AGE.sub(lambda found: f"older_than => {found['mark']}", text)


def read_header(text: str) -> tuple[tuple[str, str], ...]:
    """The label and the sentence of each comment after the first, which names the
    model's origin."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines()[1:]:
        if not line.startswith("-- "):
            break
        said = line.removeprefix("-- ")
        if said.startswith("  ") and found:
            label, before = found[-1]
            found[-1] = label, f"{before} {said.strip()}"
            continue
        label, _, rest = said.partition(": ")
        found.append((label, rest))
    return tuple(found)
