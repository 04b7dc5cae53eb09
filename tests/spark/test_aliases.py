"""Columns whose names statements use for something of their own: aliases, fields,
variables, CTEs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import lakesql.compile
from lakesql.engine.records.change_values import UNAVAILABLE
from tests.spark.project import Fields, Project, Row, sorted_rows
from tests.spark.test_cdc import Source

pytestmark = pytest.mark.long

ALIAS = re.compile(
    r"\bAS ([a-z][a-z_]*)\b|\b([a-z]+) AS \(|\(?\b([a-z]\w*)(?:, (\w+))?\)? ->"
)
PYTHON = {
    "bool",
    "boolean",
    "datetime",
    "float",
    "int",
    "object",
    "self",
    "str",
    "string",
    "timestamp",
}
OUTER = [
    "source",
    "target",
    "batch",
    "stored",
    "remembered",
    "deleted",
    "changed",
    "place",
    "n",
    "i",
    "emptied",
]
"""What statements have called the rows that a sub-query takes from without, and the
like."""
INNER = sorted(
    {
        word
        for path in Path(*lakesql.compile.__path__).glob("*.py")
        for found in ALIAS.findall(path.read_text(encoding="utf-8"))
        for word in found
        if word.islower()
    }
    - PYTHON
    - {*OUTER}
)
PARTS = [OUTER, *(INNER[at::3] for at in range(3))]
BATCHES = 2


class Named:
    """The models of every mode over streams whose columns have these names.

    A third of the columns stands for the key's number, one for its text, and one for
    the value of a row.
    """

    def __init__(self, prefix: str, names: list[str]) -> None:
        self.prefix = prefix
        self.place, *rest = names
        self.a, self.b, self.v = rest[0::3], rest[1::3], rest[2::3]
        self.at = self.v[0]
        self.keys = [*self.a, *self.b]

    def row(self, row: Row | None, text: str | None = None) -> Row | None:
        """A row of the source; `text` stands in the place of its last value."""
        if row is None:
            return None
        value = None if row["v"] is None else str(row["v"])
        named = (
            dict.fromkeys(self.a, row["a"])
            | dict.fromkeys(self.b, row["b"])
            | dict.fromkeys(self.v, value)
        )
        return named if text is None else named | {self.v[-1]: text}

    def change(self, fields: Fields) -> Fields:
        """A record of the change feed: of some updates the last value is not sent."""
        named = Fields(fields)
        named["key"] = fields["key"] and {
            name: self.row({**fields["key"], "v": None})[name] for name in self.keys
        }  # type: ignore[index]
        if event := fields["value"]:
            unsent = UNAVAILABLE if event["op"] == "u" and event["ts_ms"] % 2 else None
            named["value"] = {
                **event,
                "before": self.row(event["before"]),
                "after": self.row(event["after"], unsent),
            }
        return named

    def plain(self, fields: Fields, number: int) -> Fields:
        """A record of the plain topic: a delete has no value."""
        key = self.row({**fields["key"], "v": None})
        assert key is not None
        event = fields["value"]
        row = event and self.row(event["after"])
        value = row and {
            **row,
            self.place: number,
            self.at: f"2026-03-01T00:00:{number % 60:02}Z",
        }
        return Fields(key={name: key[name] for name in self.keys}, value=value)

    def declare(self, project: Project) -> None:
        columns: dict[str, Any] = {
            name: {"type": "int", "required": True} for name in self.a
        }
        columns |= {name: {"type": "string", "required": True} for name in self.b}
        values = dict.fromkeys(self.v, "string")
        project.stream(
            f"{self.prefix}_feed",
            {**columns, **values},
            envelope="debezium",
            key=self.keys,
        )
        more = {self.place: "int", self.at: "timestamp"}
        project.stream(
            f"{self.prefix}_rows", {**columns, **values, **more}, key=self.keys
        )
        listed = ", ".join(f"`{name}`" for name in (*self.keys, *self.v))
        placed = f"SELECT {listed}, _change.position AS `{self.place}` FROM {{{self.prefix}_feed}}"
        rows = f"SELECT * FROM {{{self.prefix}_rows}} WHERE `{self.a[0]}` >= 0"
        by_place = {"keys": self.keys, "sequence_by": "_change.position"}
        by_number = {"keys": self.keys, "sequence_by": [self.place]}
        models: dict[str, tuple[str, Row]] = {
            "soft": (placed, {"mode": "cdc", "apply_deletes": "soft", **by_place}),
            "versions": (placed, {"mode": "scd2", **by_place}),
            "newest": (
                rows,
                {
                    "mode": "upsert",
                    "delete_when": f"`{self.v[1]}` = '3'",
                    "when_matched": f"NOT source.`{self.v[2]}` <=> target.`{self.v[2]}`",
                    **by_number,
                },
            ),
            "folded": (
                rows,
                {
                    "mode": "upsert",
                    "ignore_null_updates": True,
                    "exclude_columns": self.v[1:3],
                    **by_number,
                },
            ),
            "near": (
                rows,
                {
                    "mode": "append",
                    "keys": self.keys,
                    "within": "4 seconds",
                    "partition_by": [f"days(`{self.at}`)"],
                },
            ),
        }
        for name, (select, config) in models.items():
            project.model(f"{self.prefix}_{name}", select, **config)
        self.models = list(models)

    def rows(self, project: Project, model: str) -> list[Row]:
        """A table's rows with their columns by the places of their names."""
        places = {
            name: f"{at:03}"
            for at, name in enumerate((self.place, *self.a, *self.b, *self.v))
        }
        rows = project.rows_without_spark(f"{self.prefix}_{model}")
        return sorted_rows(
            {places.get(name, name): value for name, value in row.items()}
            for row in rows
        )


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_a_table_does_not_depend_on_the_names_of_its_columns(
    project: Project, part: int
) -> None:
    names = PARTS[part]
    words, plain = named = (
        Named("words", names),
        Named("plain", [f"column_{number}" for number in range(len(names))]),
    )
    source = Source(part, is_full=True)
    for each in named:
        each.declare(project)
    at = 0
    for _ in range(BATCHES):
        for _ in range(25):
            source.change()
        events = [
            fields
            for _, fields in source.events[at:]
            if not fields["value"] or fields["value"]["op"] != "t"
        ]
        for each in named:
            project.record(
                f"{each.prefix}_feed", [each.change(fields) for fields in events]
            )
            of_rows = [
                (fields, number)
                for number, fields in enumerate(events, at)
                if fields["key"]
                and (fields["value"] is None or fields["value"]["after"])
            ]
            project.record(
                f"{each.prefix}_rows",
                [each.plain(fields, number) for fields, number in of_rows],
            )
        at = len(source.events)
        project.run().check()
    for model in words.models:
        expected = plain.rows(project, model)
        assert words.rows(project, model) == expected, model
        assert expected, model
