"""Contracts that are found in samples: a model over the same samples has a row for
each, and no dead letter."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

from lakesql.project.files import read_project
from lakesql.project.profiles import Target
from lakesql.run.samples.infer import AskedContract, infer_contract, write_contract
from lakesql.source.recorded import Recorded
from tests.spark.project import Project
from tests.unit.infer_samples import dump, random_documents


def infer(project: Project, name: str, place: str, connection: str = "") -> None:
    """Write the stream's file, and a model that reads all of it."""
    connections = {"broker": Recorded(str(project.directory / "recorded"))}
    asked = AskedContract(place, name, connection)
    files = read_project(project.directory)
    write_contract(
        files,
        infer_contract(files, Target("dev", connections=connections), asked),
        None,
        force=False,
    )
    project.model(name, f"SELECT * FROM {{{name}}}", mode="append")


def dead_letters(project: Project, name: str) -> list[str]:
    """What is wrong with the model's dead letters."""
    table = f"{name}__dead_letter"
    there = project.lake.session.catalog.tableExists(project.table(table))
    return (
        [f"{row['reason']}: {row['detail']}" for row in project.rows(table)]
        if there
        else []
    )


def has_column(documents: Iterable[dict[str, Any]]) -> bool:
    return any(
        name.strip() and name.isprintable() and name != "_record"
        for row in documents
        for name in row
    )


def test_random_samples_have_a_row_each_and_no_dead_letter(project: Project) -> None:
    """In files of lines, in files of documents, and in topics."""
    counts: dict[str, int] = {}
    for seed in range(settings().max_examples):
        documents = [
            row for row in random_documents(random.Random(seed)) if has_column([row])
        ]
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
    assert {
        name: found for name in counts if (found := dead_letters(project, name))
    } == {}
    assert {name: len(project.rows(name)) for name in counts} == counts


def test_values_arrive_as_they_are_in_samples_of_every_format(project: Project) -> None:
    wanted = [
        {
            "id": number,
            "amount": Decimal(f"{number}.50"),
            "name": f"né{number}",
            "is_new": number % 2 == 0,
        }
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
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": kind} for name, kind in kinds.items()],
    }
    (project.directory / "avro").mkdir()
    with (project.directory / "avro" / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, wanted)
    text = "".join(
        f"{row['id']};{row['amount']};{row['name']};{row['is_new']}\r\n"
        for row in wanted
    )
    project.write(
        "csv/a.csv", f"id;amount;name;is_new\r\n{text}".encode("windows-1252")
    )
    places = {
        "json": "json/**/*.jsonl",
        "parquet": "parquet",
        "avro": "avro/*.avro",
        "csv": "csv/*.csv",
    }
    for name, place in places.items():
        infer(project, f"of_{name}", place)
    project.run().check()
    for name in places:
        rows = project.rows(f"of_{name}", "id")
        assert [{key: row[key] for key in kinds} for row in rows] == wanted, name
        assert dead_letters(project, f"of_{name}") == []
    assert {str(row["day"]) for row in project.rows("of_json")} == {"2026-03-01"}


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_files_whose_types_differ_are_read_as_the_larger_ones(
    project: Project, kind: str
) -> None:
    sizes = ((pa.int32(), pa.float32(), 9), (pa.int64(), pa.float64(), 12))
    (project.directory / kind).mkdir()
    for number, (whole, fraction, precision) in enumerate(sizes):
        path = project.directory / kind / f"{number}.{kind}"
        amount = Decimal("1.25")
        if kind == "avro":
            decimal = {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": precision,
                "scale": 2,
            }
            kinds = {
                "id": "long" if number else "int",
                "w": "double" if number else "float",
                "amount": decimal,
            }
            fields = [{"name": name, "type": each} for name, each in kinds.items()]
            with path.open("wb") as file:
                schema = {"type": "record", "name": "r", "fields": fields}
                fastavro.writer(
                    file, schema, [{"id": number, "w": 0.5, "amount": amount}]
                )
            continue
        columns = {
            "id": pa.array([number], whole),
            "w": pa.array([0.5], fraction),
            "amount": pa.array([amount], pa.decimal128(precision, 2)),
        }
        {"orc": pyarrow.orc.write_table, "parquet": pq.write_table}[kind](
            pa.table(columns), path
        )
    infer(project, "s", f"{kind}/*.{kind}")
    stream = project.manifest().streams["s"]
    assert stream.types == {"id": "bigint", "w": "double", "amount": "decimal(12,2)"}
    project.run().check()
    assert project.rows("s", "id") == [
        {"id": it, "w": 0.5, "amount": Decimal("1.25")} for it in (0, 1)
    ]
