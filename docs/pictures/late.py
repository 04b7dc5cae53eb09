"""Where each record of a late stream goes, by the unit test of an aggregate with a
watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from docs.pictures.cases import Row, clock, load_batches, load_cases
from docs.pictures.draw import box, line, svg, table, text

DELAY = timedelta(minutes=10)
HOUR = timedelta(hours=1)
LEFT, RIGHT, TOP, STEP = 110, 720, 92, 62
COLOURS = {
    "in time": "green",
    "its window is open": "amber",
    "late": "red",
    "ahead-of-time": "red",
    "waits": "plain",
}


def draw_late() -> str:
    """A line for each batch, from left to right by event time, with the watermark that
    Spark has as it reads it."""
    case = load_cases()["clicks_per_hour"]
    batches = load_batches(case)
    fates = fates_of(case, batches)
    parts = [
        text(
            24,
            30,
            "clicks by the hour, with a watermark of 10 minutes and late='dead_letter'",
            "head",
        ),
        *(_hour(hour) for hour in range(10, 13)),
    ]
    for at, (batch, watermark) in enumerate(
        zip(batches, watermarks(batches), strict=True)
    ):
        y = TOP + STEP * at
        parts += [
            text(24, y + 5, f"batch {at + 1}"),
            line(LEFT, y, RIGHT + 110, y, "grid"),
        ]
        if watermark:
            parts.append(line(_x(watermark), y - 26, _x(watermark), y + 22, "mark"))
            parts.append(
                text(
                    _x(watermark) - 5,
                    y + 32,
                    f"watermark {clock(watermark)}",
                    "small dim",
                    "middle",
                )
            )
        parts += [_click(record, fates[record["click"]], y) for record in batch]
    return svg(
        860,
        520,
        "Which click of a late stream goes to a row, and which to the dead letters",
        [*parts, *_below(case, fates)],
    )


def fates_of(
    case: Mapping[str, Any], batches: Sequence[Sequence[Row]]
) -> dict[str, str]:
    """What becomes of each click: it is in a row of the table, or it was late, too far
    ahead, or waits."""
    written = {click for row in case["expect"]["batches"][-1] for click in row["which"]}
    fates = {}
    for batch, watermark in zip(batches, watermarks(batches), strict=True):
        for record in batch:
            click, moment = record["click"], record["at"]
            if click in written:
                is_behind = watermark is not None and moment < watermark
                fates[click] = "its window is open" if is_behind else "in time"
            elif moment.year > 2090:
                fates[click] = "ahead-of-time"
            else:
                is_late = watermark is not None and _window(moment) + HOUR <= watermark
                fates[click] = "late" if is_late else "waits"
    return fates


def watermarks(batches: Sequence[Sequence[Row]]) -> list[datetime | None]:
    """The watermark with which each batch is read: of the newest click before it that
    is not too far ahead."""
    newest: datetime | None = None
    found = []
    for batch in batches:
        found.append(newest - DELAY if newest else None)
        moments = [record["at"] for record in batch if record["at"].year < 2090]
        newest = max(filter(None, [newest, *moments]))
    return found


def _window(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0)


def _x(moment: datetime) -> float:
    """The place of a time on the line, from 10:00 to 12:30."""
    minutes = (
        moment - moment.replace(hour=10, minute=0, second=0)
    ).total_seconds() / 60
    return LEFT + (RIGHT - LEFT) * minutes / 150


def _hour(hour: int) -> str:
    x = LEFT + (RIGHT - LEFT) * (hour - 10) / 2.5
    return line(x, 50, x, TOP + STEP * 3 + 24, "grid") + text(
        x + 5, 60, f"{hour}:00", "small dim"
    )


def _click(record: Row, fate: str, y: float) -> str:
    is_ahead = fate == "ahead-of-time"
    x = RIGHT + 60 if is_ahead else _x(record["at"])
    label = "2099" if is_ahead else clock(record["at"])
    circle = f'<circle class="{COLOURS[fate]}" cx="{x:g}" cy="{y}" r="11"/>'
    return (
        circle
        + text(x, y + 4, record["click"], "code", "middle")
        + text(x, y - 16, label, "small dim", "middle")
    )


def _below(case: Mapping[str, Any], fates: Mapping[str, str]) -> list[str]:
    """The table, the dead letters, and what the colours mean."""
    rows = [
        [clock(row["hour"]), str(row["clicks"]), " ".join(row["which"])]
        for row in case["expect"]["batches"][-1]
    ]
    dead = [
        [click, fate]
        for click, fate in fates.items()
        if fate in ("late", "ahead-of-time")
    ]
    (waiting,) = [click for click, fate in fates.items() if fate == "waits"]
    meanings = (
        ("green", "in time: not older than the watermark"),
        ("amber", "older than the watermark, but its window is open: it is counted"),
        (
            "red",
            "its window was finished, or it is a day ahead of the clock: a dead letter",
        ),
        (
            "plain",
            f"{waiting} waits in Spark's state: its window is written when the watermark has passed 13:00",
        ),
    )
    parts = [
        text(24, 352, "the table", "head"),
        table(24, 376, [60, 60, 90], ["hour", "clicks", "which"], rows),
        text(280, 352, "dead letters", "head"),
        table(280, 376, [60, 130], ["click", "reason"], dead),
    ]
    for at, (kind, words) in enumerate(meanings):
        parts.append(
            box(24, 438 + 20 * at, 12, 12, kind)
            + text(44, 448 + 20 * at, words, "small")
        )
    return parts
