"""Notes on what a table holds that its author may have meant otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.cli.main import run_command

STREAMS = """streams:
  - {name: orders, connection: c, topic: o, key: [id], columns: {id: int, amount: int, at: timestamp}}
  - {name: clicks, connection: c, topic: k, columns: {id: int, at: timestamp}}
  - {name: rows, connection: c, topic: r, key: [id], envelope: debezium, columns: {id: int, amount: int}}
"""
UPSERT = "{{ config(mode='upsert', keys=['id']) }}\n"
APPEND = "{{ config(mode='append') }}\n"
KEPT = (
    UPSERT.replace(") }}", ", sequence_by='at') }}")
    + "SELECT id, at FROM {{ stream('clicks') }}"
)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            UPSERT
            + "SELECT id, sum(amount) AS n FROM {{ stream('orders') }} GROUP BY id",
            ["a newer state of its id"],
        ),
        (
            UPSERT + "SELECT id, count(*) AS n FROM {{ stream('rows') }} GROUP BY id",
            ["each change of rows counts"],
        ),
        (
            UPSERT + "SELECT id, count(*) AS n FROM {{ stream('clicks') }} GROUP BY id",
            [],
        ),
        (APPEND + "SELECT id, amount FROM {{ stream('orders') }}", []),
        (
            APPEND
            + "SELECT c.id, o.at FROM {{ stream('clicks') }} c JOIN {{ stream('orders') }} o ON o.id = c.id",
            ["pairs of newest rows"],
        ),
        (
            APPEND
            + "SELECT c.id, k.at FROM {{ stream('clicks') }} c JOIN {{ ref('kept') }} k ON k.id = c.id",
            ["kept as it is when the batch runs", "no row is joined again"],
        ),
        (
            "{{ config(mode='cdc', keys=['id']) }}\n"
            "SELECT r.id, k.at FROM {{ stream('rows') }} r LEFT JOIN {{ ref('kept') }} k ON k.id = r.id",
            ["joined again when its source changes"],
        ),
    ],
)
def test_parse_says_what_a_table_holds(
    model: str, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "pyproject.toml": "[tool.lakesql]\nname = 'p'\n",
        "profiles.yml": "p:\n  target: dev\n  outputs:\n    dev:\n      catalog: {name: lake, type: sql, uri: 'sqlite:///"
        "c.db', warehouse: w}\n      connections: {c: {type: recorded, path: recorded}}\n",
        "streams/s.yml": STREAMS,
        "models/kept.sql": KEPT,
        "models/m.sql": model,
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    for _ in range(2):  # the second time from what was kept of the first
        assert run_command(["parse", "--project-dir", str(tmp_path)]) == 0
        notes = [
            line
            for line in capsys.readouterr().out.splitlines()
            if line.startswith("note")
        ]
        assert len(notes) == bool(said)
        assert all(line.startswith("note  models/m.sql: ") for line in notes)
        assert all(text in notes[0] for text in said)
