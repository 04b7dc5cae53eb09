"""What a plan says: its verdicts from harmless to hard, each with an edit that has
it."""

from __future__ import annotations

from dataclasses import dataclass

from docs.pictures.draw import arrow, box, chip, svg, text


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of docs/pictures/project: of a file one text for another, or the whole;
    what it is, and its verdict."""

    verdict: str
    words: str
    path: str
    old: str
    new: str
    meaning: str


EDITS = (
    Edit(
        "none",
        "a comment in a SELECT",
        "models/log.sql",
        "SELECT",
        "-- a log\nSELECT",
        "nothing happens",
    ),
    Edit(
        "docs",
        "a tag",
        "models/log.sql",
        "mode='append'",
        "mode='append', tags='x'",
        "nothing happens",
    ),
    Edit(
        "added",
        "a new model",
        "models/more.sql",
        "",
        "{{ config(mode='append') }}\nSELECT click FROM {{ stream('clicks') }}\n",
        "its table is made and filled",
    ),
    Edit(
        "renamed",
        "a model's file has another name",
        "models/log.sql",
        "",
        "",
        "it begins anew; the old table stays",
    ),
    Edit(
        "next-batch",
        "upper(status), in mode append",
        "models/log.sql",
        "status,",
        "upper(status) AS status,",
        "new rows have it, old rows stay",
    ),
    Edit(
        "alter",
        "a new column",
        "models/log.sql",
        "op,",
        "op, 1 AS version,",
        "ALTER TABLE; old rows have NULL",
    ),
    Edit(
        "rebuild",
        "upper(status), in mode cdc",
        "models/mirror.sql",
        "status,",
        "upper(status) AS status,",
        "old rows are wrong until lakesql rebuild",
    ),
    Edit(
        "removed",
        "a model's file is deleted",
        "models/newest.sql",
        "",
        "",
        "its table stays, and is not kept",
    ),
    Edit(
        "breaks",
        "another catalog in profiles.yml",
        "profiles.yml",
        "name: lake",
        "name: other",
        "no table is where the checkpoint stands",
    ),
    Edit(
        "refused",
        "a column that is not there",
        "models/log.sql",
        "status,",
        "state,",
        "it does not run",
    ),
)
GROUPS = (
    (0, 2, "plain", "no effect"),
    (2, 6, "green", "runs on"),
    (6, 8, "amber", "see to it"),
    (8, 10, "red", "act first"),
)


def draw_verdicts() -> str:
    """A row for each verdict: the edit, the word, what happens."""
    parts = [
        text(124, 34, "an edit", "head"),
        text(420, 34, "its verdict", "head"),
        text(556, 34, "what happens to the table", "head"),
    ]
    for first, last, kind, words in GROUPS:
        parts.append(box(20, 48 + 34 * first, 88, 34 * (last - first) - 6, kind))
        parts.append(text(64, 48 + 17 * (first + last), words, "small", "middle"))
        for at in range(first, last):
            edit, middle = EDITS[at], 62 + 34 * at
            parts += [
                text(124, middle + 4, edit.words),
                arrow((376, middle), (404, middle)),
                chip(408, middle - 12, 116, edit.verdict, kind),
                text(556, middle + 4, edit.meaning, "small dim"),
            ]
    return svg(
        860,
        404,
        "The verdicts of a plan from harmless to hard, each with an edit that has it",
        parts,
    )
