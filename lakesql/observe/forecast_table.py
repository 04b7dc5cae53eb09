"""The output of `lakesql forecast` for people: a model's table after a time, and a
comparison of triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

from rich.text import Text

from lakesql.counts import number
from lakesql.model.config import Every, trigger_text
from lakesql.observe.layout import LayoutColumn, Row, fit_table
from lakesql.observe.statuses import below, draw, terminal_width
from lakesql.observe.text import STYLES, duration, percent, printable, size
from lakesql.plan.forecast import Forecast, Input, Outlook, Source
from lakesql.table.simulation import TableCounts


def draw_forecasts(
    out: TextIO, forecasts: Sequence[Forecast], environ: Mapping[str, str]
) -> None:
    """Print the forecasts one after another: the table under the model's own trigger,
    the comparison of triggers, and the sources of the figures."""
    width = terminal_width()
    lines: list[Text] = []
    for found in forecasts:
        if lines:
            lines.append(Text())
        own = found.own
        table = f"{printable(found.model.name)}: {found.model.table}, {_every(own)}"
        lines += [
            Text(table, "bold"),
            *_table(found, own, width),
            Text(),
            *_triggers(found, width),
        ]
        lines += below([*_verdict(found), *_made_of(found)])
    draw(out, lines, environ)


def _every(own: Outlook) -> str:
    every = f"trigger {trigger_text(own.trigger)}"
    is_slower = (
        not isinstance(own.trigger, Every) or own.interval_ms > own.trigger.interval_ms
    )
    return (
        f"{every}, a commit every {duration(round(own.interval_ms))}"
        if is_slower
        else every
    )


def _table(found: Forecast, own: Outlook, width: int) -> list[Text]:
    """The lines on the table now, and after the time without and with maintenance."""
    columns = [
        LayoutColumn(f"after {_span(found)}", words=True),
        LayoutColumn("now"),
        LayoutColumn("unmaintained"),
    ]
    columns += [LayoutColumn("maintained"), LayoutColumn("at most")] if own.kept else []
    grown = [own.unkept, *([own.kept] if own.kept else [])]
    rows = [("commits", "", *(number(growth.commits) for growth in grown), "")]
    for title, read in COUNTS:
        now = read(found.now) if found.now else "-"
        rows.append(
            (title, now, *(read(growth.end) for growth in grown), read(grown[-1].most))
        )
    rows.append(
        ("metadata written", "", *(size(growth.written_bytes) for growth in grown), "")
    )
    return fit_table(columns, [Row(row[: len(columns)]) for row in rows], 0, width)


COUNTS: tuple[tuple[str, Callable[[TableCounts], str]], ...] = (
    ("data files", lambda counts: number(counts.data_files)),
    ("delete files", lambda counts: number(counts.delete_files)),
    ("snapshots", lambda counts: number(counts.snapshots)),
    ("metadata", lambda counts: size(counts.metadata_bytes)),
)


def _span(found: Forecast) -> str:
    days, rest = divmod(found.span_ms, 86_400_000)
    if days and not rest:
        return f"{days} day{'' if days == 1 else 's'}"
    return duration(found.span_ms)


def _triggers(found: Forecast, width: int) -> list[Text]:
    """The lines of the comparison, a row for each trigger: the maximum of each figure
    without maintenance and, if there is any, with it."""
    columns = (
        LayoutColumn("trigger", words=True),
        LayoutColumn("", words=True),
        LayoutColumn("freshness"),
        LayoutColumn("commits", rank=6),
        LayoutColumn("data files"),
        LayoutColumn("delete files", rank=4),
        LayoutColumn("snapshots", rank=3),
        LayoutColumn("metadata", rank=5),
        LayoutColumn("written", rank=2),
    )
    return fit_table(columns, [_outlook(each) for each in found.triggers], 0, width)


def _outlook(outlook: Outlook) -> Row:
    unkept, kept = outlook.unkept, outlook.kept
    pairs = [
        _pair(read(unkept.most), read(kept.most) if kept else "") for _, read in COUNTS
    ]
    return Row(
        (
            trigger_text(outlook.trigger),
            Text(
                _mark(outlook),
                STYLES[
                    "good"
                    if outlook.is_cheapest
                    else "bad"
                    if outlook.is_behind
                    else "plain"
                ],
            ),
            Text(
                duration(round(outlook.freshness_ms)),
                STYLES["warning" if outlook.is_fresh is False else "plain"],
            ),
            _pair(number(unkept.commits), number(kept.commits) if kept else ""),
            *pairs,
            _pair(size(unkept.written_bytes), size(kept.written_bytes) if kept else ""),
        )
    )


def _pair(unkept: str, kept: str) -> str:
    return f"{unkept} > {kept}" if kept and kept != unkept else unkept


def _mark(outlook: Outlook) -> str:
    marks = (
        ("own", outlook.is_own),
        ("cheapest", outlook.is_cheapest),
        ("behind", outlook.is_behind),
    )
    return ", ".join(word for word, is_so in marks if is_so)


def _verdict(found: Forecast) -> Iterator[str]:
    """Remarks on whether the table is as fresh as it must be, and on how to read the
    comparison."""
    own, limit = found.own, found.limit
    age = f"before a commit the newest row is {duration(round(own.freshness_ms))} old"
    if limit is None:
        yield f"freshness: {age}; no `freshness` of the model says how old it may be, so no trigger is marked"
    else:
        kept = "within" if own.is_fresh else "more than"
        none = (
            ""
            if any(each.is_cheapest for each in found.triggers)
            else "; none of these triggers keeps it"
        )
        yield f"freshness: {age}, {kept} the {limit.text} of the model's properties{none}"
    if any(each.is_behind for each in found.triggers):
        yield "behind: more rows come in this time than `max_per_batch` of the streams lets a batch read"
    if own.kept is not None:
        yield "a > b: at most without maintenance, and with it; commits and metadata written are all"


def _made_of(found: Forecast) -> Iterator[str]:
    """A line for each source of figures (given, measured, assumed), with its
    figures."""
    for source in _SOURCES:
        said = [
            text
            for each in found.inputs
            if each.source == source and (text := _say(each))
        ]
        if said:
            over = next(
                (
                    f" over {number(round(each.value))} commits"
                    for each in found.inputs
                    if _is_over(each)
                ),
                "",
            )
            yield f"{source}{over if source == 'measured' else ''}: {', '.join(said)}"


_SOURCES: tuple[Source, ...] = ("given", "measured", "assumed")


def _is_over(each: Input) -> bool:
    return each.name == "commits"


def _say(each: Input) -> str:
    """A figure in words; '' for the number of commits, which is shown elsewhere, and
    for figures of 0."""
    value = each.value
    match each.name:
        case "rows_per_second":
            return f"{_short(value)} rows/s"
        case "row_bytes":
            return f"{_short(value)} B a row in data files"
        case "batch_ms":
            return f"a batch takes {duration(round(value))}"
        case "delay_ms":
            return (
                f"the newest event is {duration(round(value))} old when a batch begins"
                if value
                else ""
            )
        case "interval_ms":
            return f"a run every {duration(round(value))} ({each.note})"
        case "commit_partitions" if each.note:
            return f"a commit writes to one of the {each.note}"
        case "replaced_ratio":
            return f"{percent(value)} of the rows replace {each.note}, at random"
        case "commits":
            return ""
        case name:
            return f"{_short(value)} {_COMMIT[name]} a commit" if value else ""


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


_COMMIT = {
    "commit_rows": "rows",
    "commit_files": "data files",
    "commit_partitions": "partitions",
    "commit_deleted": "deleted rows",
    "commit_delete_files": "more delete files",
}
