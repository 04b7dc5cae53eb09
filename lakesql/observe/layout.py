"""How tables of text are laid out for a terminal's width, by rich: those of models, and
those of rows."""

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
"""The width to which models' names may be shortened before a column is left out."""

LONGEST_CELL = 60
NARROWEST_CELL = 20
MOST_LINES = 8
"""The limits of a value that is shown: the most characters in a table; where it is
wrapped, the least width of a line, and the most lines."""

UNBOUNDED = 1_000_000


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """A column of a table, aligned to the left if it has `words`, else to the right.

    It is at least `least` characters wide, so that a live table does not move with each
    digit, or exactly `width`. On a narrow terminal, columns of `rank` 1 are left out
    first, then those of rank 2, and so on; those of rank 0 never.
    """

    header: str
    words: bool = False
    least: int = 0
    rank: int = 0
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: a cell for each column, without markup, and the style of the
    row."""

    cells: Sequence[str | Text]
    style: str = ""


PAIR = (LayoutColumn("", words=True), LayoutColumn("", words=True))


def fit_table(
    columns: Sequence[LayoutColumn], rows: Sequence[Row], name: int, width: int
) -> list[Text]:
    """The lines of a table of models, with as many columns as fit into `width`.

    The names, which are in the column with the number `name`, are shortened to
    `SHORTEST_NAME` before a column is left out, and further once none is left to leave
    out.
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
    """The lines of a table of rows, with long values shortened. `words` has, for each
    column, whether it is aligned as text.

    If the table would be wider than `width`, each row is shown as a block of lines
    instead: its number, then for each column the name and the value, which is wrapped
    if it is long.
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
    """The lines of a table, the header first if a column has one, without a limit of
    width."""
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
    """The width of each column in characters of the terminal."""
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
    """The text wrapped into lines of at most `width`; after `MOST_LINES` lines it ends
    with `…`."""
    lines = chop_cells(text, width)
    return "\n".join(
        lines
        if len(lines) <= MOST_LINES
        else [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][:-1] + "…"]
    )
