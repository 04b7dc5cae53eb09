"""What `lakesql status` and `lakesql freshness` show of tables, on a terminal or
elsewhere."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from lakesql.counts import number
from lakesql.observe.layout import LayoutColumn, Row, fit_table
from lakesql.observe.status_day import render_day
from lakesql.observe.status_text import RESULT_TONES, TONES, Checked, mark, remarks
from lakesql.observe.text import STYLES, age, duration, percent, printable, size
from lakesql.plan.health import Figures
from lakesql.plan.table_status import TableStatus

EVERYWHERE = 400
"""Columns where there is no terminal: all that there is."""


def draw_statuses(
    out: TextIO, statuses: Sequence[TableStatus], environ: Mapping[str, str]
) -> None:
    """A row for each table, and below it what the row has no room for."""
    said = [
        f"{printable(status.model.name)}: {text}"
        for status in statuses
        for text in remarks(status)
    ]
    draw(out, [*render_statuses(statuses, terminal_width()), *below(said)], environ)


def draw_day(
    out: TextIO, status: TableStatus, now_ms: int, environ: Mapping[str, str]
) -> None:
    """The last day of one table, all of its figures, and what of them is not well."""
    is_unicode = (out.encoding or "").lower().startswith("utf")
    lines = render_day(status, now_ms, terminal_width(), is_unicode=is_unicode)
    draw(out, [*lines, *below(remarks(status))], environ)


def draw_checks(
    out: TextIO, checked: Sequence[Checked], environ: Mapping[str, str]
) -> None:
    """A row for each figure that a model's properties hold its table to."""
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
    """Remarks below a table, folded between words."""
    folded = [
        line
        for text in said
        for line in textwrap.wrap(text, terminal_width(), subsequent_indent="  ")
    ]
    return [Text(), *map(Text, folded)] if folded else []


def draw(out: TextIO, lines: Sequence[Text], environ: Mapping[str, str]) -> None:
    """Print lines, in colours where the terminal has them."""
    console = Console(
        file=out, markup=False, emoji=False, highlight=False, _environ=dict(environ)
    )
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)


def terminal_width() -> int:
    """Columns of the terminal, or all that anybody needs where there is none."""
    return shutil.get_terminal_size(fallback=(EVERYWHERE, 0)).columns


def render_statuses(statuses: Sequence[TableStatus], width: int) -> list[Text]:
    """The lines of a table, its header first: a row for each model's table, by the
    columns that fit."""
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
