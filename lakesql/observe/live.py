"""The live view of a run on a terminal: a table that stays in its place, and above it what is worth reading later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from types import TracebackType
from typing import Self, TextIO, assert_never

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lakesql.events import (
    BatchSkipped,
    Event,
    ModelFinished,
    Noted,
    RecordsRejected,
    Retrying,
    RunFinished,
    RunStarted,
    StepApplied,
)
from lakesql.observe.board import Board, ModelState, Phase, advance, most_telling
from lakesql.observe.emitter import Clock
from lakesql.observe.plain import LONGEST_NAME, name_width
from lakesql.observe.summary import (
    GAP,
    ReadLine,
    render_closing,
    render_failures,
    render_remarks,
    render_table,
    shorten,
)
from lakesql.observe.text import Tone, age, describe, number, printable, stopwatch, wall_time

REFRESHES_PER_SECOND = 8

REJECTED_EVERY_MS = 30_000
"""How often a model's dead letters get a line while their reasons are known already; the table counts on."""

LINES_BESIDE_MODELS = 6
"""The table's header, its foot, the air above and below it, the cursor's line, and one for a message above."""

STYLES: Mapping[Tone, str] = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}


class LiveView:
    """Draws a run on the terminal `out` from its first event to its last, and writes the failures to `err`.

    Left as a context manager it gives the terminal back, however the run ended. The times of the lines above the table
    are of `zone`, this machine's if it is None.
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
        self._signs = PICTURES if self._out.encoding.lower().startswith("utf") else LETTERS
        self._told: dict[str, tuple[int, frozenset[str]]] = {}
        self._name_width = 0
        # The thread that redraws reads it: an immutable value, replaced by one assignment, needs no lock.
        self._board = Board()
        self._live: Live | None = None

    def __call__(self, event: Event) -> None:
        """Takes the event into the table, and writes it above where it is worth a line."""
        self._board = advance(self._board, event)
        match event:
            case RunStarted():
                self._name_width = name_width(event.models)
                self._live = Live(self, console=self._out, refresh_per_second=REFRESHES_PER_SECOND, transient=True)
                self._live.start()
            case RunFinished():
                self._stop()
                self._close()
            case _ if self._is_worth_a_line(event):
                self._out.print(self._line(event))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table as it is now, for rich's redrawing thread."""
        yield render_board(self._board, options.max_width, console.size.height, self._clock(), self._signs)

    def _stop(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def _is_worth_a_line(self, event: Event) -> bool:
        match event:
            case Noted() | StepApplied() | BatchSkipped() | Retrying():
                return True
            case ModelFinished():
                return event.status != "success"
            case RecordsRejected():
                return self._is_news(event)
            case _:
                return False

    def _is_news(self, event: RecordsRejected) -> bool:
        """Whether a model sets records aside for a new reason, or has not said for a while that it does."""
        last_at_ms, known = self._told.get(event.model, (0, frozenset()))
        reasons = {reason for reason, _ in event.reasons}
        if reasons <= known and event.at_ms - last_at_ms < REJECTED_EVERY_MS:
            return False
        self._told[event.model] = (event.at_ms, known | reasons)
        return True

    def _line(self, event: Event) -> RenderableType:
        line = describe(event)
        head = Text(f"{wall_time(event.at_ms, self._zone)} ", style="dim")
        if line.model:
            head.append(shorten(line.model, LONGEST_NAME).ljust(self._name_width) + GAP, style="not dim bold")
        # A grid, so that a long text goes on below itself and not below the time.
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(head, Text(line.text, style=STYLES[line.tone]))
        return grid

    def _close(self) -> None:
        header, *rows = render_table(self._board, self._out.width)
        self._out.print()
        self._out.print(Text(GAP.join(header.cells), style="dim"), soft_wrap=True)
        for row in rows:
            name, status, *figures = row.cells
            self._out.print(
                Text.assemble(name, GAP, (status, STYLES[row.tone]), GAP, GAP.join(figures)), soft_wrap=True
            )
        remarks = render_remarks(self._board)
        if remarks:
            self._out.print(Text("\n".join(("", *remarks)), style="yellow"))
        failed = self._board.count("error") > 0
        self._out.print(Text(f"\n{render_closing(self._board)}", style="bold red" if failed else "bold green"))
        self._out.file.flush()
        for failure in render_failures(self._board, self._read_line):
            self._err.print(_style_failure(failure), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Signs:
    """What stands before a model's name, by phase; the sign of a running one goes through `running`."""

    waiting: str
    running: str
    retrying: str
    success: str
    error: str
    skipped: str
    between: str


PICTURES = Signs(waiting="·", running="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", retrying="↻", success="✓", error="✗", skipped="-", between=" · ")
LETTERS = Signs(waiting=".", running="-\\|/", retrying="~", success="+", error="x", skipped="-", between=", ")

FIGURES: Sequence[tuple[str, int]] = (
    ("batch", 5),
    ("records/s", 9),
    ("records", 10),
    ("rows", 10),
    ("set aside", 9),
    ("left", 8),
    ("last commit", 11),
)
"""The table's figures, each with a width that it keeps until it needs more, so that nothing moves at every digit."""

FEWER_FIGURES: Sequence[frozenset[str]] = (
    frozenset(),
    frozenset({"records", "set aside"}),
    frozenset({"records", "set aside", "batch", "records/s"}),
)
"""What narrower and narrower terminals do without."""

SHORTEST_NAME = 16
"""Columns that a model's name keeps as long as there are figures to do without."""

BEFORE_NAME = 3
"""Columns of the sign and the gap after it."""


def render_board(board: Board, width: int, height: int, now_ms: int, signs: Signs) -> Text:
    """The table of the models, as many as `height` has room for, and a line that counts them all."""
    models = most_telling(board, _room(board, height))
    rows = [_figures(model, now_ms) for model in models]
    longest = max((len(printable(model.name)) for model in board.models.values()), default=0)
    wanted = min(max(longest, len("model")), LONGEST_NAME)
    columns = _fit(rows, wanted, width - BEFORE_NAME)
    names = max(len("model"), min(wanted, width - BEFORE_NAME - _width_of(columns)))
    lines = [Text(f"   {'model'.ljust(names)}{_align({name: name for name in columns}, columns)}", style="dim")]
    spare = height - LINES_BESIDE_MODELS - len(models)
    for model, figures in zip(models, rows, strict=True):
        name = shorten(printable(model.name), names).ljust(names)
        sign, style = _dress(model.phase, signs, now_ms)
        lines.append(Text.assemble(sign, GAP, f"{name}{_align(figures, columns)}", style=style))
        if spare > 0 and (lag := _lag(model, width - BEFORE_NAME - len(GAP), signs)):
            lines.append(Text(f"{' ' * BEFORE_NAME}{GAP}{lag}", style="dim"))
            spare -= 1
    foot = _foot(board, len(models), now_ms, signs)
    view = Text("\n").join((Text(), *lines, Text(), foot))
    view.no_wrap, view.overflow = True, "crop"
    return view


def _room(board: Board, height: int) -> int:
    """How many models are shown: all if they fit, else half a screen, and more only for those that run or failed."""
    most = max(3, height - LINES_BESIDE_MODELS)
    if len(board.models) <= most:
        return most
    return min(most, max(height // 2, board.count("running") + board.count("retrying") + board.count("error")))


def _figures(model: ModelState, now_ms: int) -> Mapping[str, str]:
    """The model's figures by column; how fast and how far a query is, it says only while it runs."""
    runs = model.phase in ("running", "retrying")
    has_run = runs or model.phase in ("success", "error")
    speed = model.records_per_second
    left = "" if model.left is None else number(model.left) + (" files" if model.left_unit == "files" else "")
    return {
        "batch": "" if model.batch is None else str(model.batch),
        "records/s": f"{speed:,.0f}" if runs and speed is not None else "",
        "records": number(model.records) if has_run else "",
        "rows": number(model.rows) if has_run else "",
        "set aside": number(model.rejected) if model.rejected else "",
        "left": left if runs else "",
        "last commit": age(now_ms - model.committed_at_ms) if runs and model.committed_at_ms is not None else "",
    }


def _lag(model: ModelState, width: int, signs: Signs) -> str:
    """What is left by partition, most of all first, as many as `width` has room for; '' where there is nothing."""
    behind = sorted((each for each in model.lag if each.records), key=lambda each: -each.records)
    if model.phase != "running" or not behind:
        return ""
    parts = [printable(f"{each.topic}-{each.partition} {number(each.records)}") for each in behind]
    for shown in range(len(parts), 0, -1):
        more = [f"{number(len(parts) - shown)} more"] if shown < len(parts) else []
        line = f"left in {signs.between.join((*parts[:shown], *more))}"
        if len(line) <= width:
            return line
    return ""


def _fit(rows: Sequence[Mapping[str, str]], name: int, width: int) -> Mapping[str, int]:
    """The columns with their widths: every one, if that leaves `name` columns of `width`; fewer else."""
    every = {column: max([least, *(len(row[column]) for row in rows)]) for column, least in FIGURES}
    needed = (name, min(name, SHORTEST_NAME), 0)
    for without, least_name in zip(FEWER_FIGURES, needed, strict=True):
        columns = {column: size for column, size in every.items() if column not in without}
        if least_name + _width_of(columns) <= width:
            break
    return columns


def _width_of(columns: Mapping[str, int]) -> int:
    return sum(columns.values()) + len(GAP) * len(columns)


def _align(figures: Mapping[str, str], columns: Mapping[str, int]) -> str:
    return "".join(GAP + figures[name].rjust(width) for name, width in columns.items())


def _dress(phase: Phase, signs: Signs, now_ms: int) -> tuple[tuple[str, str], str]:
    """The sign of a phase with its style, and the style of the line."""
    match phase:
        case "waiting":
            return (signs.waiting, ""), "dim"
        case "running":
            return (_turning(signs, now_ms), "cyan"), ""
        case "retrying":
            return (signs.retrying, ""), "yellow"
        case "success":
            return (signs.success, "not dim green"), "dim"
        case "error":
            return (signs.error, ""), "red"
        case "skipped":
            return (signs.skipped, ""), "yellow"
        case _:
            assert_never(phase)


def _turning(signs: Signs, now_ms: int) -> str:
    return signs.running[now_ms * REFRESHES_PER_SECOND // 1000 % len(signs.running)]


def _foot(board: Board, shown: int, now_ms: int, signs: Signs) -> Text:
    """`dev · 2 running · 3 done · 1 failed · 0:42`."""
    time = stopwatch(now_ms - board.started_at_ms)
    if not board.spark_is_up:
        said = signs.between.join((board.target, "starting Spark", time))
        return Text.assemble((_turning(signs, now_ms), "not dim cyan"), GAP, said, style="dim")
    counts = (
        (board.count("running"), "running"),
        (board.count("retrying"), "tried again"),
        (board.count("waiting"), "waiting"),
        (board.count("success"), "done"),
        (board.count("error"), "failed"),
        (board.count("skipped"), "skipped"),
        (len(board.models) - shown, "not shown"),
    )
    said = signs.between.join((board.target, *(f"{number(times)} {how}" for times, how in counts if times), time))
    return Text(f"   {said}", style="dim")


def _style_failure(failure: str) -> Text:
    """The model's line and the conditions' in colour, the rest as it is."""
    lines = failure.split("\n")
    styled = (
        Text(line, style="bold red" if number == 0 or line.startswith("error[") else "")
        for number, line in enumerate(lines)
    )
    return Text("\n").join((Text(), *styled))


def _open_console(stream: TextIO, environ: Mapping[str, str], *, terminal: bool) -> Console:
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=bool(environ.get("NO_COLOR")),
        highlight=False,
        markup=False,
        emoji=False,
        _environ=environ,
    )
