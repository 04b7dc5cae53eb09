"""The live view of a run on a terminal: a table of the models that is redrawn in place,
and above it lines on the events that are worth reading later."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from datetime import tzinfo
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lakesql.counts import number
from lakesql.events import (
    BatchSkipped,
    ColumnsAbsent,
    Event,
    FieldsRescued,
    FilesLate,
    FilesLeftOut,
    HealthJudged,
    LineageLost,
    ModelFinished,
    Noted,
    QueryPaused,
    RecordsRejected,
    Retrying,
    RowsWaiting,
    RunFinished,
    RunStarted,
    SeedFinished,
    SpelledOtherwise,
    StepApplied,
    StreamEmpty,
)
from lakesql.observe.emitter import Clock
from lakesql.observe.layout import LayoutColumn, Row, fit_table
from lakesql.observe.lines import name_cell
from lakesql.observe.summary import (
    ReadLine,
    render_closing,
    render_failures,
    render_remarks,
    render_totals,
)
from lakesql.observe.tally import ModelTally, Phase, RunTally
from lakesql.observe.text import (
    GAP,
    STYLES,
    WORD_TONES,
    age,
    backlog_text,
    describe,
    printable,
    stopwatch,
    time_left,
    wall_time,
)

REFRESHES_PER_SECOND = 8

REJECTED_EVERY_MS = 30_000
"""The least time between two lines on a model's dead letters or unknown fields that
have no new reason or field; the table counts them in any case."""

LINES_BESIDE_MODELS = 6
"""The number of lines of the view beside the models': the header, the foot, an empty
line above and below the table, the cursor's line, and one for a message above."""


class LiveView:
    """A renderer that draws a run on the terminal `out` from its first event to its
    last, and writes the failures to `err`.

    As a context manager it restores the terminal, however the run ended. Lines above
    the table have times of `zone`, or of this machine's zone if it is None.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        environ: Mapping[str, str],
        clock: Clock,
        zone: tzinfo | None,
        read_line: ReadLine,
    ) -> None:
        self._out = _open_console(out, environ, terminal=True)
        self._err = _open_console(err, environ, terminal=err.isatty())
        self._clock = clock
        self._zone = zone
        self._read_line = read_line
        self._signs = (
            PICTURES if self._out.encoding.lower().startswith("utf") else LETTERS
        )
        self._told: dict[str, tuple[int, frozenset[str]]] = {}
        # The redrawing thread reads this without a lock: the value is immutable and
        # replaced by one assignment.
        self._run = RunTally()
        self._live: Live | None = None

    def __call__(self, event: Event, run: RunTally) -> None:
        """Update the table, and write the event above it if it is worth a line."""
        self._run = run
        match event:
            case RunStarted(models=()):
                self._out.print(self._line(event))
            case RunStarted():
                self._live = Live(
                    self,
                    console=self._out,
                    refresh_per_second=REFRESHES_PER_SECOND,
                    transient=True,
                )
                self._live.start()
            case RunFinished():
                self._stop()
                self._close()
            case _ if self._is_worth_a_line(event):
                self._out.print(self._line(event))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """The table as it is now, for rich's redrawing thread."""
        yield render_live(
            self._run,
            options.max_width,
            console.size.height,
            self._clock(),
            self._signs,
        )

    def _stop(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def _is_worth_a_line(self, event: Event) -> bool:
        match event:
            case (
                Noted()
                | StreamEmpty()
                | FilesLeftOut()
                | FilesLate()
                | RowsWaiting()
                | ColumnsAbsent()
                | SpelledOtherwise()
            ):
                return True
            case (
                StepApplied()
                | BatchSkipped()
                | QueryPaused()
                | Retrying()
                | SeedFinished()
            ):
                return True
            case LineageLost():
                return True
            case HealthJudged():
                return event.health != event.was
            case ModelFinished():
                return event.status != "success"
            case RecordsRejected():
                return self._is_news(
                    event.model, {reason for reason, _ in event.reasons}, event.at_ms
                )
            case FieldsRescued():
                fields = {
                    f"{each.stream}.{name}"
                    for each in event.rescued
                    for name in each.fields
                }
                return self._is_news(event.model, fields, event.at_ms)
            case _:
                return False

    def _is_news(self, model: str, facts: Set[str], at_ms: int) -> bool:
        """Whether one of `facts` (reasons of dead letters, or unknown fields) is new
        for the model, or its last line is `REJECTED_EVERY_MS` old."""
        last_at_ms, known = self._told.get(model, (0, frozenset()))
        if facts <= known and at_ms - last_at_ms < REJECTED_EVERY_MS:
            return False
        self._told[model] = (at_ms, known | facts)
        return True

    def _line(self, event: Event) -> RenderableType:
        line = describe(event)
        head = Text(f"{wall_time(event.at_ms, self._zone)} ", style="dim")
        if line.model:
            head.append(name_cell(line.model, self._run), style="not dim bold")
        # A grid wraps a long text below itself and not below the time.
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(head, Text(line.text, style=STYLES[line.tone]))
        return grid

    def _close(self) -> None:
        self._out.print()
        for line in (
            render_totals(self._run, self._out.width) if self._run.models else ()
        ):
            self._out.print(line, soft_wrap=True)
        remarks = render_remarks(self._run)
        if remarks:
            self._out.print(Text("\n".join(("", *remarks)), style="yellow"))
        failed = self._run.has_failed
        self._out.print(
            Text(
                f"\n{render_closing(self._run)}",
                style="bold red" if failed else "bold green",
            )
        )
        self._out.file.flush()
        for failure in render_failures(self._run, self._read_line):
            self._err.print(_style_failure(failure), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters of the live view: the sign before a model's name by phase, the
    frames of the spinner (`turning`), and the separator of facts (`between`)."""

    phases: Mapping[Phase, str]
    turning: str
    between: str


PICTURES = Signs(
    {"waiting": "·", "retrying": "↻", "success": "✓", "error": "✗", "skipped": "-"},
    "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    " · ",
)
LETTERS = Signs(
    {"waiting": ".", "retrying": "~", "success": "+", "error": "x", "skipped": "-"},
    "-\\|/",
    ", ",
)

PHASE_STYLES: Mapping[Phase, tuple[str, str]] = {
    "waiting": ("", "dim"),
    "running": ("cyan", ""),
    "retrying": ("", "yellow"),
    "success": ("not dim green", "dim"),
    "error": ("", "red"),
    "skipped": ("", "yellow"),
}
"""By phase, the style of a model's sign and of its line."""

COLUMNS = (
    LayoutColumn("", words=True),
    LayoutColumn("model", words=True),
    LayoutColumn("health", words=True, least=6, rank=4),
    LayoutColumn("batch", least=5, rank=2),
    LayoutColumn("records/s", least=9, rank=3),
    LayoutColumn("records", least=10, rank=1),
    LayoutColumn("rows", least=10),
    LayoutColumn("dead letters", rank=1),
    LayoutColumn("late", rank=1),
    LayoutColumn("failing", rank=1),
    LayoutColumn("backlog", least=8),
    LayoutColumn("last commit"),
)

BEFORE_NAME = 3
"""The width in characters of the sign and the gap after it."""

ATTENTION: Mapping[Phase, int] = {
    "error": 0,
    "retrying": 1,
    "running": 2,
    "waiting": 3,
    "skipped": 4,
    "success": 5,
}


def render_live(
    run: RunTally, width: int, height: int, now_ms: int, signs: Signs
) -> Text:
    """The table of as many models as fit into `height`, and a last line that counts all
    of them by phase."""
    models = most_telling(run, _room(run, height))
    longest = max((len(printable(name)) for name in run.models), default=0)
    columns = [
        replace(column, least=longest) if column.header == "model" else column
        for column in COLUMNS
    ]
    rows = [_row(model, signs, now_ms) for model in models]
    header, *table = fit_table(columns, rows, 1, width)
    lines = [header]
    spare = height - LINES_BESIDE_MODELS - len(models)
    for model, line in zip(models, table, strict=True):
        lines.append(line)
        room = width - BEFORE_NAME - len(GAP)
        for text, style in (
            (_reasons(model, room, signs), "yellow"),
            (_lag(model, room, signs), "dim"),
        ):
            if spare > 0 and text:
                lines.append(Text(f"{' ' * BEFORE_NAME}{GAP}{text}", style=style))
                spare -= 1
    view = Text("\n").join(
        (Text(), *lines, Text(), _foot(run, len(models), now_ms, signs))
    )
    view.no_wrap, view.overflow = True, "crop"
    return view


def most_telling(run: RunTally, limit: int) -> tuple[ModelTally, ...]:
    """At most `limit` models, in the run's order. Chosen first are those that have
    failed, then those that are retried, running, waiting, skipped, and done."""
    by_attention = sorted(run.models.values(), key=lambda model: ATTENTION[model.phase])
    chosen = {model.name for model in by_attention[: max(limit, 0)]}
    return tuple(model for model in run.models.values() if model.name in chosen)


def _room(run: RunTally, height: int) -> int:
    """The number of models to show: all if they fit, else half a screen, or more if
    more are running, retried or failed."""
    most = max(3, height - LINES_BESIDE_MODELS)
    if len(run.models) <= most:
        return most
    return min(most, max(height // 2, run.count("running", "retrying", "error")))


def _row(model: ModelTally, signs: Signs, now_ms: int) -> Row:
    """The model's row of the table."""
    sign = signs.phases.get(model.phase) or _turning(signs, now_ms)
    sign_style, style = PHASE_STYLES[model.phase]
    health, records, rows = _outcome(model)
    speed, backlog, committed = _progress(model, now_ms)
    figures = (
        health,
        "" if model.batch is None else str(model.batch),
        speed,
        records,
        rows,
        _number_or_nothing(model.rejected),
        _number_or_nothing(model.late),
        _failing(model),
        backlog,
        committed,
    )
    return Row((Text(sign, sign_style), printable(model.name), *figures), style)


def _outcome(model: ModelTally) -> tuple[Text | str, str, str]:
    """The health of the model's table, the records read, and the rows written; ''
    before it has begun."""
    has_begun = model.phase in ("running", "retrying", "success", "error")
    if not has_begun:
        return "", "", ""
    health = Text(model.health, f"not dim {STYLES[WORD_TONES[model.health]]}")
    return health, number(model.records), number(model.rows)


def _progress(model: ModelTally, now_ms: int) -> tuple[str, str, str]:
    """The speed of the model's query, its backlog, and the age of its last commit; ''
    unless it runs or is retried."""
    if model.phase not in ("running", "retrying"):
        return "", "", ""
    speed = (
        "" if model.records_per_second is None else f"{model.records_per_second:,.0f}"
    )
    committed = (
        "" if model.committed_at_ms is None else age(now_ms - model.committed_at_ms)
    )
    return speed, _backlog(model), committed


def _backlog(model: ModelTally) -> str:
    """The backlog of the model's streams, with the time that it takes at the present
    speed; '' if unknown."""
    if model.backlog is None:
        return ""
    is_counted = model.backlog_unit == "records"
    backlog = (
        number(model.backlog)
        if is_counted
        else backlog_text(model.backlog, model.backlog_unit)
    )
    left = time_left(model.backlog, model.backlog_unit, model.records_per_second)
    return f"{backlog} ({left})" if left else backlog


def _failing(model: ModelTally) -> str:
    """The number of rows that failed an expectation; '' if none did."""
    if not model.violations:
        return ""
    return number(sum(rows for _, rows in model.violations))


def _number_or_nothing(value: int) -> str:
    return number(value) if value else ""


def _reasons(model: ModelTally, width: int, signs: Signs) -> str:
    """The reasons why the model's table is not healthy, the worst first, shortened to
    `width`; '' unless the model runs or is retried."""
    if model.phase not in ("running", "retrying"):
        return ""
    text = printable(
        signs.between.join(
            f"{reason.word}: {reason.text}" for reason in model.judged_because
        )
    )
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _lag(model: ModelTally, width: int, signs: Signs) -> str:
    """The backlog by partition, the largest first, of as many partitions as fit into
    `width`; '' if there is none or the model does not run."""
    behind = sorted(
        (each for each in model.lag if each.records), key=lambda each: -each.records
    )
    if model.phase != "running" or not behind:
        return ""
    parts = [
        printable(f"{each.topic}-{each.partition} {number(each.records)}")
        for each in behind
    ]
    for shown in range(len(parts), 0, -1):
        more = [f"{number(len(parts) - shown)} more"] if shown < len(parts) else []
        line = f"backlog {signs.between.join((*parts[:shown], *more))}"
        if len(line) <= width:
            return line
    return ""


def _turning(signs: Signs, now_ms: int) -> str:
    return signs.turning[now_ms * REFRESHES_PER_SECOND // 1000 % len(signs.turning)]


def _foot(run: RunTally, shown: int, now_ms: int, signs: Signs) -> Text:
    """The last line of the view: `dev · 2 running · 3 done · 1 failed · 0:42`."""
    time = stopwatch(now_ms - run.started_at_ms)
    if not run.spark_is_up:
        said = signs.between.join((run.target, "starting Spark", time))
        return Text.assemble(
            (_turning(signs, now_ms), "not dim cyan"), GAP, said, style="dim"
        )
    counts = (
        (run.count("running"), "running"),
        (run.count("retrying"), "retrying"),
        (run.count("waiting"), "waiting"),
        (run.count("success"), "done"),
        (run.count("error"), "failed"),
        (run.count("skipped"), "skipped"),
        (len(run.models) - shown, "not shown"),
    )
    said = signs.between.join(
        (
            run.target,
            *(f"{number(times)} {how}" for times, how in counts if times),
            time,
        )
    )
    return Text(f"   {said}", style="dim")


def _style_failure(failure: str) -> Text:
    """A failure with the model's line and the lines of conditions in colour."""
    lines = failure.split("\n")
    styled = (
        Text(line, style="bold red" if number == 0 or line.startswith("error[") else "")
        for number, line in enumerate(lines)
    )
    return Text("\n").join((Text(), *styled))


def _open_console(
    stream: TextIO, environ: Mapping[str, str], *, terminal: bool
) -> Console:
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=bool(environ.get("NO_COLOR")),
        highlight=False,
        markup=False,
        emoji=False,
        _environ=environ,
    )
