"""Ten records, and the tables that four modes make of them: the rows are those of the
unit tests."""

from __future__ import annotations

from collections.abc import Sequence

from docs.pictures.cases import Row, clock, load_batches, load_cases
from docs.pictures.draw import box, lines, svg, table, text

LOG = ("record", "op", "order", "status", "at")
MIRROR = ("record", "order", "status", "at")
HISTORY = ("record", "order", "status", "from", "to")
WIDTHS = {
    "record": 52,
    "op": 26,
    "order": 44,
    "status": 66,
    "at": 46,
    "from": 46,
    "to": 46,
}

NOTES = (
    (
        "7 deletes order 3: a record as others to",
        "append and upsert; cdc removes the row,",
        "scd2 ends its version.",
    ),
    (
        "8 is 5, sent again: a row more in the log,",
        "the same row elsewhere, no new version.",
    ),
    (
        "9 comes late: it is older than 6, which",
        "stays the newest. The history gets it in",
        "its place.",
    ),
)


def draw_modes() -> str:
    """The records and the log above, the newest rows, the mirror and the history
    below."""
    cases = load_cases()
    batches = load_batches(cases["log"])
    parts = [
        box(12, 12, 264, 270, "plain"),
        text(24, 32, "Ten changes of a table", "head"),
        text(24, 50, "as they arrive, in two batches", "small dim"),
        table(
            24,
            76,
            _widths(LOG),
            LOG,
            [_arrived(change) for batch in batches for change in batch],
        ),
    ]
    for x, y, model, columns, title, meaning in (
        (304, 32, "log", LOG, "mode='append'", "every record, a row"),
        (586, 32, "newest", LOG, "mode='upsert'", "the newest row of each key"),
        (586, 190, "mirror", MIRROR, "mode='cdc'", "the rows that the database has"),
        (304, 314, "history", HISTORY, "mode='scd2'", "each version of each row"),
    ):
        rows = [_stored(row, columns) for row in cases[model]["expect"]["rows"]]
        parts.append(text(x, y, title, "code head"))
        parts.append(text(x, y + 18, meaning, "small dim"))
        parts.append(table(x, y + 44, _widths(columns), columns, rows))
    for at, note in enumerate(NOTES):
        parts.append(lines(24, 314 + 62 * at, note, "small"))
    batch_ends = 76 + 19 * len(batches[0]) + 5
    parts.append(f'<path class="mark" d="M24 {batch_ends}L262 {batch_ends}"/>')
    return svg(
        860,
        530,
        "Ten records, and the tables of the modes append, upsert, cdc and scd2",
        parts,
    )


def _widths(columns: Sequence[str]) -> list[int]:
    return [WIDTHS[column] for column in columns]


def _arrived(change: Row) -> list[str]:
    row = change.get("after") or change["before"]
    return [
        str(row["record"]),
        change["op"],
        str(row["order_id"]),
        row["status"],
        clock(row["updated_at"]),
    ]


def _stored(row: Row, columns: Sequence[str]) -> list[str]:
    cells = {
        "record": str(row["record"]),
        "op": row.get("op", ""),
        "order": str(row["order_id"]),
        "status": row["status"],
        "at": clock(row.get("updated_at")),
        "from": clock(row.get("valid_from")),
        "to": clock(row.get("valid_to")),
    }
    return [cells[column] for column in columns]
