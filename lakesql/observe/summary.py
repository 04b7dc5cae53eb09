"""What a run has done, at its end: a table, what was set aside, and each failure in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from lakesql.errors import Place, render_problem
from lakesql.observe.board import Board, ModelState
from lakesql.observe.text import Tone, count, duration, is_up_to_date, number, printable, reasons

ReadLine = Callable[[Place], str | None]
"""The text of the line at a place, if it can be read."""

HEADER = ("model", "status", "batches", "records", "rows", "dead letters", "time")
GAP = "  "
SHORTEST_NAME = 12


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: its cells, each padded to its column's width, and how the model fared."""

    cells: tuple[str, ...]
    tone: Tone


def render_table(board: Board, width: int) -> tuple[Row, ...]:
    """The table, its header first: a row for each model in the run's order.

    It fits `width` as long as twelve columns are left for the names, which are shortened in their middle.
    """
    states = tuple(board.models.values())
    content = (HEADER, *(_cells(model) for model in states))
    widths = [max(len(cells[column]) for cells in content) for column in range(len(HEADER))]
    others = sum(widths[1:]) + len(GAP) * (len(HEADER) - 1)
    widths[0] = min(widths[0], max(SHORTEST_NAME, width - others))
    tones: tuple[Tone, ...] = ("plain", *(_tone(model) for model in states))
    return tuple(Row(_pad(cells, widths), tone) for cells, tone in zip(content, tones, strict=True))


def render_closing(board: Board) -> str:
    """The run in one sentence: `41,000 rows written in 41.2 s. Models: 3 done, 1 up to date, 1 failed.`"""
    over = board.finished
    took = duration(over.duration_ms) if over else ""
    states = board.models.values()
    fresh = sum(_status(model) == "up to date" for model in states)
    if fresh == len(states) and fresh:
        return f"Nothing new to read: {count(fresh, 'model')} up to date, after {took}."
    fared = (
        (board.count("success") - fresh, "done"),
        (fresh, "up to date"),
        (board.count("error"), "failed"),
        (board.count("skipped"), "skipped"),
        (board.count("running") + board.count("waiting"), "not finished"),
    )
    said = ", ".join(f"{number(times)} {how}" for times, how in fared if times)
    models = f" Models: {said}." if said else ""
    rows = count(sum(model.rows for model in states), "row")
    return f"{'Stopped. ' if over and over.interrupted else ''}{rows} written in {took}.{models}"


def render_remarks(board: Board) -> tuple[str, ...]:
    """What the table has no room for: where the dead letters are, and why models were skipped."""
    states = board.models.values()
    aside = (
        f"{model.name}: {count(model.rejected, 'record')} set aside in {model.dead_letters} ({reasons(model.reasons)})"
        for model in states
        if model.rejected and model.dead_letters
    )
    skipped = (
        f"{model.name}: skipped, {model.finished.because}"
        for model in states
        if model.finished and model.finished.status == "skipped"
    )
    return tuple(printable(remark) for remark in (*aside, *skipped))


def render_failures(board: Board, read_line: ReadLine) -> tuple[str, ...]:
    """Each problem of each failed model in full, as one text of several lines."""
    failures = []
    for model in board.models.values():
        if model.finished and model.finished.status == "error":
            texts = [
                render_problem(problem, read_line(problem.place) if problem.place else None)
                for problem in model.finished.problems
            ]
            told = "\n".join(texts) if texts else "  No problem was given."
            failures.append(printable(f"{model.name} failed\n{told}", keep="\n\t"))
    return tuple(failures)


def shorten(name: str, width: int) -> str:
    """`name` in at most `width` characters; what is too much is left out in its middle, so that both ends tell."""
    if len(name) <= width:
        return name
    tail = (width - 3) // 2
    return f"{name[: width - 3 - tail]}...{name[len(name) - tail :]}"


def _cells(model: ModelState) -> tuple[str, ...]:
    figures = (model.batches, model.records, model.rows, model.rejected)
    took = duration(model.finished.duration_ms) if model.finished and model.phase != "skipped" else ""
    return (printable(model.name), _status(model), *(number(figure) if figure else "-" for figure in figures), took)


def _status(model: ModelState) -> str:
    match model.phase:
        case "success":
            return "up to date" if model.finished and is_up_to_date(model.finished) else "done"
        case "error":
            return "failed"
        case "skipped":
            return "skipped"
        case "waiting" | "running" | "retrying":
            return "unfinished"
        case _:
            assert_never(model.phase)


def _tone(model: ModelState) -> Tone:
    match model.phase:
        case "success":
            return "good"
        case "error":
            return "bad"
        case "skipped" | "waiting" | "running" | "retrying":
            return "warning"
        case _:
            assert_never(model.phase)


def _pad(cells: tuple[str, ...], widths: list[int]) -> tuple[str, ...]:
    """Names and words to the left, figures to the right."""
    name, status, *figures = cells
    return (
        shorten(name, widths[0]).ljust(widths[0]),
        status.ljust(widths[1]),
        *(figure.rjust(width) for figure, width in zip(figures, widths[2:], strict=True)),
    )
