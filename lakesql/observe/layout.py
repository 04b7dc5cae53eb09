"""Tables on a terminal, laid out by rich: of a run that goes on, of what it has done,
and of rows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.box import ASCII, Box
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakesql.observe.text import GAP, shorten

SHORTEST_NAME = 16
"""Columns of the terminal that a model's name keeps as long as there are figures to do
without."""

LONGEST_CELL = 60
NARROWEST_CELL = 20
MOST_LINES = 8
"""Bounds of what is shown of a value: characters in a table; characters of a line and
lines where it is folded."""

UNBOUNDED = 1_000_000


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """A column: figures to the right, or `words` to the left.

    It takes `least` columns of the terminal, so that nothing moves at every digit, or
    exactly `width`. On a narrow terminal those of `rank` 1 are left out first, then
    those of rank 2, and so on; never those of rank 0.
    """

    header: str
    words: bool = False
    least: int = 0
    rank: int = 0
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a cell for each column, shown to the letter, and the style of all of
    them."""

    cells: Sequence[str | Text]
    style: str = ""


PAIR = (LayoutColumn("", words=True), LayoutColumn("", words=True))


def fit_table(
    columns: Sequence[LayoutColumn], rows: Sequence[Row], name: int, width: int
) -> list[Text]:
    """The lines of a table of models in `width`, by the columns that it has room for.

    The names, in the column number `name`, are shortened before a column is left out,
    and more where none is left.
    """
    sizes = _sizes(columns, rows)
    for rank in range(max(column.rank for column in columns) + 1):
        kept = [
            index for index, column in enumerate(columns) if not 0 < column.rank <= rank
        ]
        spare = width - sum(sizes[index] for index in kept) - len(GAP) * (len(kept) - 1)
        if sizes[name] + spare >= min(sizes[name], SHORTEST_NAME):
            break
    sizes[name] = max(len(columns[name].header), sizes[name] + min(spare, 0))
    fitting = []
    for row in rows:
        cells = [*row.cells]
        cells[name] = shorten(str(cells[name]), sizes[name])
        fitting.append(Row([cells[index] for index in kept], row.style))
    named = [
        replace(column, width=sizes[name]) if index == name else column
        for index, column in enumerate(columns)
    ]
    return render_table([named[index] for index in kept], fitting)


def render_values(
    names: Sequence[str],
    words: Sequence[bool],
    rows: Sequence[Sequence[str]],
    width: int,
) -> list[Text]:
    """The lines of a table of rows of values, long ones shortened; `words` says which
    columns hold no numbers.

    Where it is wider than `width` it is turned: each row under its number, a line for
    each of its columns with the value beside the name, folded where it is long.
    """
    if not names:
        return []
    columns = [
        LayoutColumn(_shorten(name), is_words)
        for name, is_words in zip(names, words, strict=True)
    ]
    shortened = [Row([_shorten(text) for text in row]) for row in rows]
    if (
        not rows
        or sum(_sizes(columns, shortened)) + len(" | ") * (len(columns) - 1) <= width
    ):
        return render_table(columns, shortened, ASCII)
    room = max(
        width - max(cell_len(column.header) for column in columns) - len(" | "),
        NARROWEST_CELL,
    )
    turned = []
    for number, row in enumerate(rows, start=1):
        pairs = [
            Row((column.header, _fold(text, room)))
            for column, text in zip(columns, row, strict=True)
        ]
        turned += [
            Text(f"-- {number} ".ljust(width, "-")),
            *render_table(PAIR, pairs, ASCII),
        ]
    return turned


def render_table(
    columns: Sequence[LayoutColumn], rows: Sequence[Row], box: Box | None = None
) -> list[Text]:
    """The lines of the table, its header first if it has one, each as wide as it
    takes."""
    table = Table(
        box=box,
        show_edge=False,
        show_header=any(column.header for column in columns),
        header_style="none" if box else "dim",
        padding=(0, 1) if box else (0, len(GAP), 0, 0),
        pad_edge=False,
    )
    for column in columns:
        table.add_column(
            column.header,
            justify="left" if column.words else "right",
            min_width=column.least or None,
            width=column.width,
            no_wrap=True,
            overflow="crop",
        )
    for row in rows:
        table.add_row(*row.cells, style=row.style)
    console = Console(
        file=io.StringIO(),
        width=UNBOUNDED,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    lines = console.render_lines(table, pad=False)
    return [
        Text.assemble(*((part.text, part.style or "") for part in line))
        for line in lines
    ]


def _sizes(columns: Sequence[LayoutColumn], rows: Sequence[Row]) -> list[int]:
    """How much of the terminal each column takes."""
    return [
        max(
            column.least,
            cell_len(column.header),
            *(cell_len(str(row.cells[index])) for row in rows),
        )
        for index, column in enumerate(columns)
    ]


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def _fold(text: str, width: int) -> str:
    """The text in lines of at most `width`; what goes beyond `MOST_LINES` of them is
    left out."""
    lines = chop_cells(text, width)
    return "\n".join(
        lines
        if len(lines) <= MOST_LINES
        else [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][:-1] + "…"]
    )
