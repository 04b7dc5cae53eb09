"""Contracts that are found in samples: a model over the same samples has a row for each, and no dead letter."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings

from lakesql.project.files import read_project
from lakesql.project.profiles import Target
from lakesql.run.infer import AskedContract, infer_contract, write_contract
from lakesql.source.recorded import Recorded
from tests.spark.project import Project
from tests.unit.infer_samples import dump, random_documents


def infer(project: Project, name: str, place: str, connection: str = "") -> None:
    """Write the stream's file, and a model that reads all of it."""
    connections = {"broker": Recorded(str(project.directory / "recorded"))}
    asked = AskedContract(place, name, connection)
    files = read_project(project.directory)
    write_contract(files, infer_contract(files, Target("dev", connections=connections), asked), None, force=False)
    project.model(name, f"SELECT * FROM {{{name}}}", mode="append")


def dead_letters(project: Project, name: str) -> list[str]:
    """What is wrong with the model's dead letters."""
    table = f"{name}__dead_letter"
    there = project.lake.session.catalog.tableExists(project.table(table))
    return [f"{row['reason']}: {row['detail']}" for row in project.rows(table)] if there else []


def has_column(documents: Iterable[dict[str, Any]]) -> bool:
    return any(name.strip() and name.isprintable() and name != "_record" for row in documents for name in row)


def test_random_samples_have_a_row_each_and_no_dead_letter(project: Project) -> None:
    """In files of lines, in files of documents, and in topics."""
    counts: dict[str, int] = {}
    for seed in range(settings().max_examples):
        documents = [row for row in random_documents(random.Random(seed)) if has_column([row])]
        if not has_column(documents):
            continue
        lines = [dump(row) for row in documents]
        project.write(f"lines/{seed}.jsonl", "\n".join(lines))
        project.write(f"whole/{seed}.json", "[\n" + ",\n".join(lines) + "]")
        project.record(f"topic{seed}", lines)
        for name, place, connection in (
            (f"lines{seed}", f"lines/{seed}.jsonl", ""),
            (f"whole{seed}", f"whole/{seed}.json", ""),
            (f"topic{seed}", f"topic{seed}", "broker"),
        ):
            infer(project, name, place, connection)
            counts[name] = len(documents)
    project.run().check()
    assert {name: found for name in counts if (found := dead_letters(project, name))} == {}
    assert {name: len(project.rows(name)) for name in counts} == counts


def test_values_arrive_as_they_are_in_samples_of_every_format(project: Project) -> None:
    wanted = [
        {"id": number, "amount": Decimal(f"{number}.50"), "name": f"né{number}", "is_new": number % 2 == 0}
        for number in range(1, 30)
    ]
    lines = [json.dumps({**row, "amount": str(row["amount"])}) for row in wanted]
    project.write("json/day=2026-03-01/a.jsonl", "\n".join(lines))
    table = pa.Table.from_pylist(wanted).set_column(
        1, "amount", pa.array([row["amount"] for row in wanted], pa.decimal128(18, 2))
    )
    (project.directory / "parquet").mkdir()
    pq.write_table(table, project.directory / "parquet" / "a.parquet")
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
    kinds = {"id": "long", "amount": decimal, "name": "string", "is_new": "boolean"}
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    (project.directory / "avro").mkdir()
    with (project.directory / "avro" / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, wanted)
    text = "".join(f"{row['id']};{row['amount']};{row['name']};{row['is_new']}\r\n" for row in wanted)
    project.write("csv/a.csv", f"id;amount;name;is_new\r\n{text}".encode("windows-1252"))
    places = {"json": "json/**/*.jsonl", "parquet": "parquet", "avro": "avro/*.avro", "csv": "csv/*.csv"}
    for name, place in places.items():
        infer(project, f"of_{name}", place)
    project.run().check()
    for name in places:
        rows = project.rows(f"of_{name}", "id")
        assert [{key: row[key] for key in kinds} for row in rows] == wanted, name
        assert dead_letters(project, f"of_{name}") == []
    assert {str(row["day"]) for row in project.rows("of_json")} == {"2026-03-01"}
