"""Seeds beside Spark: their values are those of a CSV stream, and a model joins what
the file has by now."""

from __future__ import annotations

import csv
import io
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.events import Noted, SeedFinished
from lakesql.run.seeds.seed import fill_seeds
from lakesql.seed.seed_values import NoValueError, reader_of
from lakesql.stream.types import parse_type
from tests.spark.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.long]

TYPES = {
    "boolean": ("true", "FALSE", "True", "t", "1", " true", "yes"),
    "tinyint": ("1", "-128", "127", "128", "+5", "007", " 1", "1.0", ""),
    "smallint": ("32767", "-32768", "32768", "-0"),
    "int": ("2147483647", "2147483648", "-2147483648", "1e3", "１"),
    "bigint": ("9223372036854775807", "-9223372036854775808", "9223372036854775808"),
    "float": (
        "0.1",
        "1e38",
        "3.4028235e38",
        "1e39",
        ".5",
        "5.",
        "NaN",
        "Inf",
        "-Infinity",
        "1f",
        "16777217",
    ),
    "double": (
        "0.1",
        "1e308",
        "1e309",
        "-0.0",
        "+1.5",
        "nan",
        "Infinity",
        "1d",
        "0x1p3",
        "4.9e-324",
    ),
    "decimal(5,2)": (
        "1.5",
        "1.50",
        "1.5000",
        "1.555",
        "999.99",
        "1000",
        "-0.01",
        "12e1",
        "+1",
        ".5",
        "1,5",
        "1e-3",
    ),
    "decimal(38,18)": (
        "12345678901234567890.123456789012345678",
        "1e19",
        "1e20",
        "0e-30",
    ),
    "date": (
        "2026-03-01",
        "2026-3-1",
        "0001-01-01",
        "9999-12-31",
        "2026-02-30",
        "01.03.2026",
        "2026-03-01 ",
    ),
    "timestamp": (
        *(
            "2026-03-01",
            "2026-03-01 10:20:30",
            "2026-03-01T10:20:30.123456Z",
            "2026-03-01 10:20:30.1",
            "2026-3-1 1:2:3",
        ),
        *(
            "2026-03-01 10:20",
            "2026-03-01T10:20:30+02:00",
            "2026-03-01 10:20:30-11:30",
            "2026-02-30 10:20",
            "10:20",
            "2026-3-1 1:2:3",
        ),
    ),
    "timestamp_ntz": (
        "2026-03-01",
        "2026-03-01 10:20:30.5",
        "2026-03-01T10:20:30",
        "2026-03-01 10:20:30Z",
    ),
    "string": (" a ", "NULL", 'a "b"', "x\ny", "x\r\ny", "a,b", "é", "\t", "'"),
}
"""Texts of each type, some of which are none of its values."""


def texts_of(kind: str) -> list[str]:
    """The texts of a type, and others that are near them."""
    chance, texts = random.Random(kind), [*TYPES[kind]]
    for text in TYPES[kind] * 3:
        at = chance.randrange(len(text) + 1)
        texts.append(text[:at] + chance.choice("0123456789.-+eE:T ") + text[at:])
    return list(dict.fromkeys(texts))


def is_value(text: str, kind: str) -> bool:
    parsed = parse_type(kind)
    read = reader_of(parsed, UTC) if parsed is not None else None
    assert read is not None
    try:
        return text == "" or read(text) is not None
    except NoValueError:
        return False


def fill(project: Project, name: str) -> SeedFinished:
    manifest = load_project(Options(project_dir=project.directory))
    events: list[Any] = []
    fill_seeds(manifest, [name], events.append, is_forced=False)
    (event,) = events
    assert isinstance(event, SeedFinished) and event.status == "success", event.problems
    return event


@pytest.mark.parametrize("kind", TYPES)
def test_what_a_seed_takes_for_a_value_is_that_value_of_a_stream(
    project: Project, kind: str
) -> None:
    taken = [text for text in texts_of(kind) if is_value(text, kind)]
    assert len(taken) > 1, "there is something to compare"
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["id", "v"])
    writer.writerows(enumerate(taken))
    project.write("landing/rows.csv", file.getvalue())
    project.write("seeds/rows.csv", file.getvalue())
    project.write(
        "seeds/rows.yml",
        f"seeds: [{{name: rows, columns: {{id: int, v: '{kind}'}}}}]\n",
    )
    project.stream(
        "landed",
        {"id": "int", "v": kind},
        path="landing/*.csv",
        format="csv",
        csv={"header": True},
    )
    project.model("streamed", "SELECT id, v FROM {landed}", mode="append")
    project.run().check()
    assert fill(project, "rows").rows == len(taken)
    found = project.rows("streamed"), project.rows("rows")
    streamed, seeded = ({row["id"]: repr(row["v"]) for row in rows} for rows in found)
    wrong = {
        taken[id_]: (streamed.get(id_), seeded[id_])
        for id_ in seeded
        if streamed.get(id_) != seeded[id_]
    }
    assert not wrong


def test_a_model_joins_a_seed_and_what_its_file_has_by_the_next_run(
    project: Project,
) -> None:
    project.stream("orders", {"code": "string"})
    project.write("seeds/countries.csv", "code,name,since\nDE,Germany,1958-01-01\n")
    project.write(
        "seeds/seeds.yml",
        "seeds: [{name: countries, columns: {code: string, name: string, since: date}}]\n",
    )
    select = "SELECT o.code, c.name FROM {orders} AS o LEFT JOIN {countries!r} AS c ON c.code = o.code"
    project.model("named", select, mode="append")
    project.record("orders", [{"code": "DE"}, {"code": "FR"}])
    ran = project.run()
    assert ran.conditions("named") == ["table-missing"]
    fill(project, "countries")
    project.run().check()
    before = [{"code": "DE", "name": "Germany"}, {"code": "FR", "name": None}]
    assert sorted(project.rows("named"), key=str) == before
    project.write(
        "seeds/countries.csv", "code,since,name,eu\nFR,1958-01-01,France,yes\n"
    )
    columns = "{code: string, name: string, since: timestamp, eu: string}"
    project.write(
        "seeds/seeds.yml", f"seeds: [{{name: countries, columns: {columns}}}]\n"
    )
    project.record("orders", [{"code": "CH"}])
    said = [event.text for event in project.run().check().of(Noted, "named")]
    assert any("lakesql seed --select countries" in text for text in said), (
        "before it is filled"
    )
    before.append({"code": "CH", "name": None})
    assert fill(project, "countries").done == "filled"
    project.record("orders", [{"code": "DE"}, {"code": "FR"}])
    project.run().check()
    after = [*before, {"code": "DE", "name": None}, {"code": "FR", "name": "France"}]
    assert sorted(project.rows("named"), key=str) == sorted(after, key=str)
    (row,) = project.rows("countries")
    assert row["since"] == datetime(1958, 1, 1, tzinfo=UTC) and row["eu"] == "yes"
