"""The output of `lakesql status` and `lakesql freshness`: tables for people, on a
terminal or not, and lines of JSON."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from lakesql.counts import number
from lakesql.model.maintenance_tasks import UnknownFiles
from lakesql.observe.layout import LayoutColumn, Row, fit_table
from lakesql.observe.status_day import render_day
from lakesql.observe.status_text import RESULT_TONES, TONES, Checked, mark, remarks
from lakesql.observe.text import (
    STYLES,
    Tone,
    age,
    duration,
    iso_time,
    percent,
    printable,
    size,
)
from lakesql.plan.health import Figures
from lakesql.plan.table_status import Known, TableStatus
from lakesql.seed.seed_state import SeedState, SeedStatus
from lakesql.table.maintenance_plan import Wait

EVERYWHERE = 400
"""The width in characters if there is no terminal: enough for all columns."""


def draw_statuses(
    out: TextIO, statuses: Sequence[TableStatus], environ: Mapping[str, str]
) -> None:
    """Print a row for each table, and below them the remarks on them."""
    said = [
        f"{printable(status.model.name)}: {text}"
        for status in statuses
        for text in remarks(status)
    ]
    draw(out, [*render_statuses(statuses, terminal_width()), *below(said)], environ)


def draw_day(
    out: TextIO, status: TableStatus, now_ms: int, environ: Mapping[str, str]
) -> None:
    """Print the last day of one table, all of its figures, and the remarks on it."""
    is_unicode = (out.encoding or "").lower().startswith("utf")
    lines = render_day(status, now_ms, terminal_width(), is_unicode=is_unicode)
    draw(out, [*lines, *below(remarks(status))], environ)


def draw_checks(
    out: TextIO, checked: Sequence[Checked], environ: Mapping[str, str]
) -> None:
    """Print a row for each limit that models' properties set for their tables."""
    columns = (
        LayoutColumn("model", words=True),
        LayoutColumn("result", words=True),
        LayoutColumn("figure", words=True, rank=1),
        LayoutColumn("", words=True),
    )
    rows = [
        Row(
            (
                printable(each.model),
                Text(each.result, STYLES[RESULT_TONES[each.result]]),
                each.figure,
                each.text,
            )
        )
        for each in checked
    ]
    draw(out, fit_table(columns, rows, 0, terminal_width()), environ)


def below(said: Sequence[str]) -> list[Text]:
    """The remarks below a table as lines, wrapped between words, after an empty line;
    none if there are no remarks."""
    folded = [
        line
        for text in said
        for line in textwrap.wrap(text, terminal_width(), subsequent_indent="  ")
    ]
    return [Text(), *map(Text, folded)] if folded else []


def draw(out: TextIO, lines: Sequence[Text], environ: Mapping[str, str]) -> None:
    """Print lines, in colours if the terminal has them."""
    console = Console(
        file=out, markup=False, emoji=False, highlight=False, _environ=dict(environ)
    )
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)


def terminal_width() -> int:
    """The width of the terminal in characters; `EVERYWHERE` if there is none."""
    return shutil.get_terminal_size(fallback=(EVERYWHERE, 0)).columns


def render_statuses(statuses: Sequence[TableStatus], width: int) -> list[Text]:
    """The lines of the table of statuses, the header first, with as many columns as
    fit into `width`: a row for each model's table."""
    columns = (
        LayoutColumn("model", words=True),
        LayoutColumn("health", words=True),
        LayoutColumn("last commit"),
        LayoutColumn("latency"),
        LayoutColumn("p95", rank=4),
        LayoutColumn("backlog", rank=6),
        LayoutColumn("commits/h", rank=6),
        LayoutColumn("data files"),
        LayoutColumn("avg size", rank=8),
        LayoutColumn("p10-p90", rank=2),
        LayoutColumn("small", rank=9),
        LayoutColumn("deleted", rank=7),
        LayoutColumn("not compacted", rank=5),
        LayoutColumn("snapshots", rank=3),
        LayoutColumn("metadata", rank=1),
        LayoutColumn("dead letters/h", rank=4),
    )
    rows = []
    for status in statuses:
        word = Text(mark(status), STYLES[TONES[status.health]])
        figures = status.figures
        cells = _cells(figures) if figures else [""] * (len(columns) - 2)
        rows.append(Row((printable(status.model.name), word, *cells)))
    return fit_table(columns, rows, 0, width)


def _cells(figures: Figures) -> list[str]:
    spread = (figures.file_bytes_p10, figures.file_bytes_p90)
    return [
        age(figures.age_ms) if figures.age_ms is not None else "-",
        _time(figures.latency_ms),
        _time(figures.latency_p95_ms),
        _backlog(figures),
        number(figures.commits_last_hour),
        number(figures.data_files),
        size(figures.file_bytes_average)
        if figures.file_bytes_average is not None
        else "-",
        "-".join(size(each) for each in spread if each is not None) or "-",
        percent(figures.small_file_ratio) if figures.data_files else "-",
        percent(figures.delete_ratio) if figures.data_files else "-",
        age(figures.compaction_lag_ms).removesuffix(" ago")
        if figures.uncompacted_bytes
        else "-",
        number(figures.snapshots),
        size(figures.metadata_bytes),
        _letters(figures.dead_letters_last_hour),
    ]


def _letters(letters: int | None) -> str:
    if letters is None:
        return "unknown"
    return number(letters) if letters else "-"


def _time(ms: int | None) -> str:
    return "-" if ms is None else duration(ms)


def _backlog(figures: Figures) -> str:
    if figures.backlog is None:
        return "-"
    return (
        duration(figures.backlog)
        if figures.backlog_unit == "ms"
        else number(figures.backlog)
    )


def render_status_lines(statuses: Iterable[TableStatus]) -> str:
    """A line of JSON for each table. Times are in milliseconds, sizes in bytes; values
    that are not known are null."""
    return "".join(
        f"{json.dumps(_status_fields(status), ensure_ascii=False, allow_nan=False)}\n"
        for status in statuses
    )


def render_check_lines(checked: Iterable[Checked]) -> str:
    """A line of JSON for each limit that was checked, in the units of `Figures`."""
    return "".join(
        f"{json.dumps(asdict(each), ensure_ascii=False, allow_nan=False)}\n"
        for each in checked
    )


def _status_fields(status: TableStatus) -> dict[str, Any]:
    table, state = status.model.table, status.state
    return {
        "model": status.model.name,
        "table": str(table),
        "health": status.health,
        "remarks": list(remarks(status)),
        "by_lakesql": state.facts.is_ours if isinstance(state, Known) else None,
        "unknown_files": _unknown(state.facts.metadata.record.unknown)
        if isinstance(state, Known)
        else None,
        "waits": [_wait(wait) for wait in state.waits]
        if isinstance(state, Known)
        else [],
        "inputs": [asdict(lag) for lag in state.lags]
        if isinstance(state, Known)
        else [],
        "findings": [asdict(finding) for finding in state.findings]
        if isinstance(state, Known)
        else [],
        "figures": asdict(state.figures) if isinstance(state, Known) else None,
        "problems": [asdict(problem) for problem in status.problems],
    }


def _wait(wait: Wait) -> dict[str, Any]:
    return {
        "task": wait.task.name,
        "why": wait.why,
        "waits_for": wait.waits_for,
        "until_ms": wait.until_ms,
    }


def _unknown(files: UnknownFiles) -> dict[str, Any]:
    return {"count": files.count, "bytes": files.bytes, "example": files.example}


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
    """Print a row for each seed, and below them how to fill those that are missing or
    outdated."""
    columns = (
        LayoutColumn("seed", words=True),
        LayoutColumn("state", words=True),
        LayoutColumn("rows"),
        LayoutColumn("filled"),
    )
    rows = [_seed_row(it, now_ms) for it in statuses]
    said = [
        f"{printable(it.seed.name)}: {_seed_remark(it)}"
        for it in statuses
        if it.state in ("outdated", "missing")
    ]
    draw(out, [*fit_table(columns, rows, 0, terminal_width()), *below(said)], environ)


def render_seed_lines(statuses: Sequence[SeedStatus]) -> str:
    """A line of JSON for each seed."""
    return "".join(
        f"{json.dumps(_seed_fields(status), ensure_ascii=False)}\n"
        for status in statuses
    )


def _seed_row(status: SeedStatus, now_ms: int) -> Row:
    state = Text(status.state, STYLES[_TONES[status.state]])
    rows = "-" if status.rows is None else number(status.rows)
    filled = "-" if status.filled_at_ms is None else age(now_ms - status.filled_at_ms)
    return Row((printable(status.seed.name), state, rows, filled))


def _seed_remark(status: SeedStatus) -> str:
    fill = f"lakesql seed --select {status.seed.name}"
    if status.state == "missing":
        return f"there is no table {status.seed.table} yet: {fill}"
    return f"its table has not the rows that its file has now: {fill}"


def _seed_fields(status: SeedStatus) -> dict[str, object]:
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
