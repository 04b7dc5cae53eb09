"""The output of `lakesql status MODEL`: the last day of its table as sparklines, and
all figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from lakesql.counts import count, number
from lakesql.observe.layout import PAIR, Row, render_table
from lakesql.observe.sparkline import ASCII_BARS, BARS, in_buckets, sparkline
from lakesql.observe.status_text import TONES, mark
from lakesql.observe.text import GAP, STYLES, age, backlog_text, duration, percent, size
from lakesql.plan.health import HOUR_MS, Figures, TableFacts
from lakesql.plan.table_status import Known, TableStatus

DAY_MS = 24 * HOUR_MS

PLACES = (96, 72, 48, 24)
"""The possible lengths in characters of a sparkline of a day: a character is a quarter
of an hour, twenty minutes, half an hour or an hour."""

_LABEL, _SAID = 11, 21
"""The widths in characters of the text before a sparkline and of the one after it."""


def render_day(
    status: TableStatus, now_ms: int, width: int, *, is_unicode: bool
) -> list[Text]:
    """The lines of the output; only the first one if the table could not be read."""
    word = Text(mark(status), STYLES[TONES[status.health]])
    lines = [Text.assemble((str(status.model.table), "bold"), GAP, word)]
    if not isinstance(status.state, Known):
        return lines
    day = _day(status.state.facts, now_ms, width, BARS if is_unicode else ASCII_BARS)
    pairs = [Row((label, text)) for label, text in figure_pairs(status.state)]
    return [*lines, Text(), *map(Text, day), Text(), *render_table(PAIR, pairs)]


def _day(facts: TableFacts, now_ms: int, width: int, bars: str) -> list[str]:
    places = next(
        (places for places in PLACES if _LABEL + places + _SAID <= width), PLACES[-1]
    )
    lines = [
        f"{label.ljust(_LABEL)}{sparkline(values, bars)}{GAP}{said}".rstrip()
        for label, values, said in day_figures(facts, now_ms, places)
    ]
    return [*lines, f"{'':{_LABEL}}{'24 h ago'.ljust(places - 3)}now"]


def day_figures(
    facts: TableFacts, now_ms: int, places: int
) -> Iterator[tuple[str, Sequence[float | None], str]]:
    """The sparklines of a table's last day: for each a label, the values for `places`
    equal parts of the day (None for a part without any), and a text."""
    start_ms = now_ms - DAY_MS
    commits = [commit for commit in facts.commits if commit.at_ms >= start_ms]
    times = [(commit.at_ms, 1.0) for commit in commits]
    sizes = [
        (commit.at_ms, commit.size_bytes / commit.files)
        for commit in commits
        if commit.files
    ]
    latencies = [
        (commit.at_ms, float(ms))
        for commit in commits
        if (ms := commit.latency_ms) is not None
    ]
    yield (
        "commits",
        in_buckets(times, start_ms, now_ms, places, sum),
        number(len(commits)),
    )
    mean = (
        f"mean {size(_mean([each for _, each in sizes]))}" if sizes else "no new file"
    )
    yield "file size", in_buckets(sizes, start_ms, now_ms, places, _mean), mean
    most = (
        f"at most {duration(round(max(each for _, each in latencies)))}"
        if latencies
        else "not in the ledger"
    )
    yield "latency", in_buckets(latencies, start_ms, now_ms, places, max), most


def figure_pairs(known: Known) -> list[tuple[str, str]]:
    """The figures of a table as texts, each with its label."""
    figures = known.figures
    spread = (figures.file_bytes_p10, figures.file_bytes_p50, figures.file_bytes_p90)
    sizes = ", ".join(size(each) for each in spread if each is not None)
    read = figures.data_files + figures.delete_files
    of_all = (
        f" (of the newest {number(figures.files_read)} files)"
        if figures.files_read < read
        else ""
    )
    target = size(known.facts.metadata.target_bytes)
    return [
        ("last commit", age(figures.age_ms) if figures.age_ms is not None else "none"),
        ("last hour", _last_hour(figures)),
        (
            "latency",
            f"{_time(figures.latency_ms)} of the last commit, p95 {_time(figures.latency_p95_ms)}",
        ),
        (
            "backlog",
            backlog_text(figures.backlog, figures.backlog_unit)
            if figures.backlog is not None
            else "-",
        ),
        ("rows", number(figures.rows)),
        (
            "data files",
            f"{number(figures.data_files)} in {count(figures.partitions, 'partition')}, {_bytes(figures)}",
        ),
        (
            "file size",
            f"p10, p50, p90: {sizes}; target {target}{of_all}" if sizes else "-",
        ),
        (
            "small",
            f"{number(figures.small_files)} ({percent(figures.small_file_ratio)}), {_average(figures)}",
        ),
        (
            "deletes",
            f"{count(figures.delete_files, 'delete file')}, {percent(figures.delete_ratio)} of the rows",
        ),
        ("not compacted", _not_compacted(figures)),
        ("snapshots", number(figures.snapshots)),
        ("metadata", size(figures.metadata_bytes)),
    ]


def _last_hour(figures: Figures) -> str:
    return ", ".join(
        (
            count(figures.commits_last_hour, "commit"),
            count(figures.rows_last_hour, "row"),
            _letters(figures.dead_letters_last_hour),
            count(figures.late_last_hour, "late event"),
            *(
                [f"{count(figures.older_last_hour, 'row')} left out as older"]
                if figures.older_last_hour
                else []
            ),
        )
    )


def _letters(letters: int | None) -> str:
    return "dead letters unknown" if letters is None else count(letters, "dead letter")


def _time(ms: int | None) -> str:
    return "unknown" if ms is None else duration(ms)


def _bytes(figures: Figures) -> str:
    average = (
        ""
        if figures.file_bytes_average is None
        else f", {size(figures.file_bytes_average)} on average"
    )
    return f"{size(figures.data_bytes)}{average}"


def _average(figures: Figures) -> str:
    return f"{figures.average_small_files:,.4g} in a partition on average"


def _not_compacted(figures: Figures) -> str:
    if not figures.uncompacted_bytes:
        return "nothing"
    return f"{size(figures.uncompacted_bytes)}, the oldest from {age(figures.compaction_lag_ms)}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
