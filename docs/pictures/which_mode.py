"""Which mode is for what: a question a row, and the mode that it leads to."""

from __future__ import annotations

from docs.pictures.draw import arrow, box, chip, svg, text

STREAMS = (
    ("A record is an event, and never changes", "append", "every record is a row"),
    ("… and may be sent twice", "append", "with keys: a known key is left out"),
    ("A record is a newer state of a key", "upsert", "the newest row of each key"),
    (
        "A record is a change of a database's row",
        "cdc",
        "the rows that the database has now",
    ),
    ("What a row was at each time is asked", "scd2", "each version, with from and to"),
    (
        "Windows of events, each once finished",
        "append",
        "a row when the watermark has passed",
    ),
    ("… and while they grow", "upsert", "a row with each batch, by the window's keys"),
)
TABLES = (
    (
        "Figures, joins, the first N of what is there",
        "materialized_view",
        "kept by what has changed",
    ),
    ("A small whole, or ORDER BY … LIMIT", "table", "made anew on each change"),
    ("Nothing is to be stored", "view", "made when somebody reads it"),
    (
        "What a row of a table was at each time",
        "scd2",
        "each version, compared by each refresh",
    ),
    (
        "The table of a model is maintained by hand",
        "maintenance",
        "CALL statements of Iceberg",
    ),
)


def draw_which_mode() -> str:
    """What the SELECT reads, then what is asked of it."""
    parts = [text(24, 34, "What does the SELECT read?", "head")]
    y = 52
    for title, kind, rows in (
        ("streams", "blue", STREAMS),
        ("tables", "green", TABLES),
    ):
        height = 38 * len(rows) + 4
        parts += [
            box(24, y, 84, height, kind),
            text(66, y + height / 2 + 4, title, "head", "middle"),
        ]
        for at, (question, mode, meaning) in enumerate(rows):
            middle = y + 20 + 38 * at
            parts += [
                text(124, middle + 4, question),
                arrow((418, middle), (446, middle)),
                chip(450, middle - 12, 134, mode, kind),
                text(594, middle + 4, meaning, "small dim"),
            ]
        y += height + 18
    return svg(
        900,
        y + 4,
        "Which mode is for what: questions of streams and of tables, and the mode of each",
        parts,
    )
