"""What `lakesql status` says of the tables of seeds: whether they have the rows of
their files, and since when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TextIO

from rich.text import Text

from lakesql.counts import number
from lakesql.observe.layout import LayoutColumn, Row, fit_table
from lakesql.observe.status_table import below, draw, terminal_width
from lakesql.observe.text import STYLES, Tone, age, iso_time, printable
from lakesql.seed.seed_state import SeedState, SeedStatus

_TONES: Mapping[SeedState, Tone] = {
    "filled": "good",
    "outdated": "warning",
    "missing": "plain",
    "foreign": "bad",
    "unreadable": "bad",
}


def draw_seeds(
    out: TextIO, statuses: Sequence[SeedStatus], now_ms: int, environ: Mapping[str, str]
) -> None:
    """A row for each seed, and below it how those are filled that are not."""
    columns = (
        LayoutColumn("seed", words=True),
        LayoutColumn("state", words=True),
        LayoutColumn("rows"),
        LayoutColumn("filled"),
    )
    rows = [_row(it, now_ms) for it in statuses]
    said = [
        f"{printable(it.seed.name)}: {_remark(it)}"
        for it in statuses
        if it.state in ("outdated", "missing")
    ]
    draw(out, [*fit_table(columns, rows, 0, terminal_width()), *below(said)], environ)


def render_seed_lines(statuses: Sequence[SeedStatus]) -> str:
    """An object for each seed, as a line of JSON."""
    return "".join(
        f"{json.dumps(_fields(status), ensure_ascii=False)}\n" for status in statuses
    )


def _row(status: SeedStatus, now_ms: int) -> Row:
    state = Text(status.state, STYLES[_TONES[status.state]])
    rows = "-" if status.rows is None else number(status.rows)
    filled = "-" if status.filled_at_ms is None else age(now_ms - status.filled_at_ms)
    return Row((printable(status.seed.name), state, rows, filled))


def _remark(status: SeedStatus) -> str:
    fill = f"lakesql seed --select {status.seed.name}"
    if status.state == "missing":
        return f"there is no table {status.seed.table} yet: {fill}"
    return f"its table has not the rows that its file has now: {fill}"


def _fields(status: SeedStatus) -> dict[str, object]:
    return {
        "seed": status.seed.name,
        "table": str(status.seed.table),
        "state": status.state,
        "rows": status.rows,
        "filled_at": None
        if status.filled_at_ms is None
        else iso_time(status.filled_at_ms),
        "problems": [asdict(problem) for problem in status.problems],
    }
