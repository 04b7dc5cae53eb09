"""Contracts that are found in samples, against a reader in plain Python: every sample
fits, and the file parses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.errors import ProjectError, UsageError
from lakesql.graph.load_manifest import load_manifest
from lakesql.project.files import read_project
from lakesql.project.profiles import Target
from lakesql.project.yaml import parse_yaml
from lakesql.run.samples.infer import (
    AskedContract,
    infer_contract,
    name_of,
    write_contract,
)
from lakesql.source.recorded import Recorded
from lakesql.stream.contract_text import render_entry
from lakesql.stream.found_contract import contract_of_rows
from lakesql.stream.json_samples import parse_record
from lakesql.stream.stream import Stream, read_stream
from lakesql.stream.text_encoding import find_encoding
from lakesql.stream.types import SparkType, parse_type
from tests.cases import each_of
from tests.unit.infer_samples import dump, random_documents

Run = Callable[..., tuple[int, str, str]]


def fits(value: Any, kind: SparkType) -> bool:
    """Whether a reader of JSON gives exactly this value in a column of a type. Decimals
    and doubles are `Decimal`."""
    if value is None:
        return True
    match kind.name:
        case "string":
            return True
        case "boolean":
            return isinstance(value, bool)
        case "bigint":
            return (
                isinstance(value, int)
                and not isinstance(value, bool)
                and -(2**63) <= value < 2**63
            )
        case "double":
            return (
                not isinstance(value, bool)
                and isinstance(value, int | Decimal)
                and is_double(Decimal(value))
            )
        case "decimal":
            return is_exact(value, *map(int, kind.parameters))
        case "date":
            return (
                isinstance(value, str)
                and date.fromisoformat(value).isoformat() == value
            )
        case "timestamp":
            return (
                isinstance(value, str)
                and len(value) > 10
                and datetime.fromisoformat(value).year > 1
            )
        case "timestamp_ntz":
            return (
                isinstance(value, str)
                and len(value) > 10
                and datetime.fromisoformat(value).tzinfo is None
            )
        case "array":
            return isinstance(value, list) and all(
                fits(each, kind.fields[0].type) for each in value
            )
        case "map":
            return isinstance(value, dict) and all(
                fits(each, kind.fields[1].type) for each in value.values()
            )
        case "struct":
            fields = {field.name: field.type for field in kind.fields}
            return isinstance(value, dict) and all(
                name in fields and fits(value[name], fields[name]) for name in value
            )
        case other:
            raise AssertionError(f"no sample is read as {other}")


def is_double(value: Decimal) -> bool:
    return (
        not value.is_finite()
        or Decimal(repr(float(value))) == value
        or Decimal(float(value)) == value
    )


def is_exact(value: Any, precision: int, scale: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return False
    number = Fraction(value)
    return (number * 10**scale).denominator == 1 and abs(number) < 10 ** (
        precision - scale
    )


def read(text: str) -> Stream:
    (entry,) = parse_yaml("streams/s.yml", text).entries()["streams"].items()
    return read_stream(entry)


def infer(directory: Path, place: str, **options: Any) -> tuple[Stream, str]:
    """The stream that is found in files, and its file."""
    (directory / "pyproject.toml").write_text('[tool.lakesql]\nname = "p"\n')
    asked = AskedContract(place, "s", **options)
    found = infer_contract(read_project(directory), Target("dev"), asked)
    return read(found.text), found.text


# Types


@given(st.integers())
def test_every_sample_fits_the_contract_that_is_found_in_it(seed: int) -> None:
    documents = random_documents(random.Random(seed))
    lines = [dump(document) for document in documents]
    rows = [row for line in lines for row in parse_record(line.encode()) or ()]
    assert len(rows) == len(documents)
    found = contract_of_rows(rows)
    if not found.columns:
        assert not any(
            name.strip() and name.isprintable()
            for row in rows
            for name in row
            if name != "_record"
        )
        return
    stream = read(render_entry("s", {"path": "s.jsonl"}, found, ["x"]))
    assert [(column.name, column.field) for column in stream.columns] == [
        (it.name, it.field) for it in found.columns
    ]
    for line in lines:
        row = json.loads(line, parse_float=Decimal, parse_constant=Decimal)
        for column in stream.columns:
            kind = parse_type(column.type)
            assert kind is not None and fits(row.get(column.field), kind), (column, row)
    named = {column.field for column in stream.columns} | {
        field for field, _ in found.left_out
    }
    assert named == {name for row in rows for name in row}


@each_of(
    ("values", "kind"),
    [
        (["1", "2"], "bigint"),
        (["1", str(2**63)], "decimal(38,0)"),
        ([str(10**30)], "decimal(38,0)"),
        ([str(10**45)], "string"),
        (["1.5", "2"], "double"),
        (["1.0", "2.0"], "double"),
        (["12.50", "3.00"], "decimal(18,2)"),
        (["12.50", "1e3"], "double"),
        (["0.12345678901234567890"], "decimal(38,20)"),
        (["1.5", "NaN"], "double"),
        (['"12.50"', '"7.1"'], "decimal(18,2)"),
        (['"12.50"', '"x"'], "string"),
        (["true"], "boolean"),
        (["true", "1"], "string"),
        (['"2026-01-31"'], "date"),
        (['"2026-02-30"'], "string"),
        (['"2026-01-31T10:00:00Z"', '"2026-01-31 10:00:00.5+01:00"'], "timestamp"),
        (['"2026-01-31T10:00:00"'], "timestamp_ntz"),
        (['"2026-01-31T10:00:00"', '"2026-01-31T10:00:00Z"'], "timestamp"),
        (['"2026-01-31"', '"2026-01-31T10:00:00"'], "string"),
        (['"2026-01-31T25:00:00"'], "string"),
        (["null"], "string"),
        (["{}"], "string"),
        (["[]"], "array<string>"),
        (['{"a": 1}', '{"b": [true]}'], "struct<a:bigint,b:array<boolean>>"),
        (['{"a": 1, "A": 2}'], "string"),
        (['{"a": 1}', "1"], "string"),
    ],
)
def test_the_type_of_samples(values: list[str], kind: str) -> None:
    rows = [
        row
        for value in values
        for row in parse_record(f'{{"x": {value}}}'.encode()) or ()
    ]
    (column,) = contract_of_rows(rows).columns
    assert column.type == kind.replace(
        "decimal(18,0)",
        "decimal(38,0)" if values[-1] == str(2**63) else "decimal(18,0)",
    )


def test_an_object_is_a_map_where_somebody_says_so() -> None:
    rows = parse_record(b'[{"x": {"a": {"b": 1, "c": 2}}}, {"x": {"a": {"d": null}}}]')
    assert rows is not None
    assert (
        contract_of_rows(rows, [("x", "a")]).columns[0].type
        == "struct<a:map<string,bigint>>"
    )
    assert (
        contract_of_rows(rows, [("x",)]).columns[0].type
        == "map<string,struct<b:bigint,c:bigint,d:string>>"
    )


def test_a_few_values_of_another_kind_are_named() -> None:
    rows = [{"x": number, "n": None} for number in range(40)] + [{"x": "many"}]
    column, empty = contract_of_rows(rows).columns
    assert (column.type, empty.type) == ("string", "string")
    assert "bigint but for 1 value, such as 'many'" in column.note
    assert empty.note == "NULL in all samples: its type is a guess"


# Files


def test_files_of_json_with_folders_and_bad_lines(tmp_path: Path) -> None:
    folder = tmp_path / "landing" / "day=2026-03-01"
    folder.mkdir(parents=True)
    lines = [
        f'{{"id": {number}, "updated_at": "2026-03-01T10:00:{number:02d}Z"}}'
        for number in range(30)
    ]
    (folder / "1.jsonl").write_text("\n".join([*lines, "broken", ""]))
    stream, text = infer(tmp_path, "landing/**/*.jsonl")
    assert stream.types == {"id": "bigint", "updated_at": "timestamp", "day": "date"}
    assert stream.key == ("id",) and "unique in 30 of 30 samples" in text
    assert (
        "# 1 record could not be read: record 31 of 1.jsonl is no JSON object." in text
    )
    assert "updated_at (rises, or stays, from sample to sample in 29 of 29)" in text


@pytest.mark.parametrize(
    "content",
    ['[{"a": 1},\n {"a": 2}]', '{\n"a": 1\n}\n{\n"a": 2\n}\n', '\ufeff[\n{"a": 1}\n]'],
)
def test_documents_of_several_lines(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    stream, _ = infer(tmp_path, "a.json")
    assert stream.multiline and stream.types == {"a": "bigint"}


def test_arrays_in_lines_are_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1}, {"a": 2}]\n{"a": 3}\n')
    stream, text = infer(tmp_path, "a.json")
    assert not stream.multiline and "in 3 samples" in text


@pytest.mark.parametrize(
    ("content", "csv", "types"),
    [
        ("id,name\n1,a\n2,\n", {"header": True}, {"id": "bigint", "name": "string"}),
        (
            "id;at;x\n007;2026-01-01;1.5\n008;2026-01-02;2\n",
            {"header": True, "delimiter": ";"},
            None,
        ),
        (
            "1\t2.50\tNULL\n3\t4.25\t7\n",
            {"delimiter": "\t", "null_value": "NULL"},
            None,
        ),
        ('a,"b\nc"\ntrue,"x\ny"\n', {"header": True}, {"a": "boolean"}),
    ],
)
def test_csv(
    tmp_path: Path, content: str, csv: dict[str, Any], types: dict[str, str] | None
) -> None:
    (tmp_path / "a.csv").write_text(content)
    stream, _ = infer(tmp_path, "a.csv")
    assert {name: getattr(stream.csv, name) for name in csv} == csv
    assert stream.csv.header == csv.get("header", False)
    if types is not None:
        assert stream.types.items() >= types.items()
    elif csv.get("delimiter") == ";":
        assert stream.types == {"id": "string", "at": "date", "x": "double"}
    else:
        assert stream.types == {"c1": "bigint", "c2": "decimal(18,2)", "c3": "bigint"}


@pytest.mark.parametrize(
    ("content", "decimal", "thousands", "types"),
    [
        ("a;b\n1,5;2\n1.234,50;3\n", ",", ".", ["decimal(18,2)", "bigint"]),
        ("a;b\n1,5;1.234\n2,5;3\n", ",", ".", ["double", "bigint"]),
        ("a;b\n1,5;1.234\n2,5;3.1\n", ".", "", ["string", "double"]),
        ("sep=;\na;b\n1,50;2\n1,20;3\n", ",", "", ["decimal(18,2)", "bigint"]),
        ("a;b\n1.5;2,5\n", ".", "", ["double", "string"]),
        ('a,b\n"1,234.5",2\n', ".", ",", ["double", "bigint"]),
        ("a;b\n1’234.5;2\n", ".", "’", ["double", "bigint"]),
        ("a;b\n0.123;0,5\n", ".", "", ["double", "string"]),
    ],
)
def test_marks_in_numbers_of_csv(
    tmp_path: Path, content: str, decimal: str, thousands: str, types: list[str]
) -> None:
    (tmp_path / "a.csv").write_text(content)
    stream, _ = infer(tmp_path, "a.csv")
    assert (stream.csv.decimal, stream.csv.thousands) == (decimal, thousands)
    assert list(stream.types.values()) == types


def test_csv_of_other_encodings_and_headers(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes("Größe,ID,x,X\n1,2,3,4\n".encode("windows-1252"))
    (tmp_path / "2.csv").write_bytes(b"id\n5\n")
    stream, text = infer(tmp_path, "*.csv")
    assert stream.encoding == find_encoding("windows-1252")
    assert (
        stream.types == {"Größe": "bigint", "ID": "bigint"}
        and 'has the column "x" twice' in text
    )
    (tmp_path / "1.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    (tmp_path / "2.csv").unlink()
    assert infer(tmp_path, "*.csv")[0].encoding == find_encoding("utf-16")
    (tmp_path / "2.csv").write_bytes("a,b\nä,2\n".encode())
    with pytest.raises(UsageError) as caught:
        infer(tmp_path, "*.csv")
    assert "1.csv is UTF-16, and 2.csv is not" in caught.value.problems[0].what


@pytest.mark.parametrize("spare", [0, 1])
def test_a_file_of_csv_loses_a_record_only_where_it_is_longer_than_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    content = b"a,b\n1,2\n3,x"
    monkeypatch.setattr(
        "lakesql.run.samples.sample_files.CSV_BYTES", len(content) - spare
    )
    (tmp_path / "1.csv").write_bytes(content)
    types = infer(tmp_path, "*.csv")[0].types
    assert types["b"] == ("bigint" if spare else "string")


def test_maps_are_not_asked_for_where_a_schema_says_them(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    with pytest.raises(UsageError) as caught:
        infer(tmp_path, "*.parquet", maps=("a.b",))
    assert "--map" in caught.value.problems[0].what


def test_parquet_says_types_and_clashes(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1)
    first = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "u": pa.array([1, 2], pa.uint32()),
            "at": pa.array([at, at], pa.timestamp("us", "UTC")),
            "local": pa.array([at, at], pa.timestamp("us")),
            "amount": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "tags": pa.array([{"k": 1}, None], pa.map_(pa.string(), pa.int64())).cast(
                pa.map_(pa.string(), pa.int64())
            ),
            "s": pa.array([{"a.b": 1}, None]),
            "odd": pa.array([1, 2], pa.int32()),
            "time": pa.array([1, 2], pa.time64("us")),
        }
    )
    pq.write_table(first, tmp_path / "1.parquet")
    second = pa.table(
        {
            "id": pa.array([3], pa.int64()),
            "odd": ["x"],
            "new": pa.array([1.5], pa.float32()),
        }
    )
    pq.write_table(second, tmp_path / "2.parquet")
    stream, text = infer(tmp_path, "*.parquet")
    assert stream.types == {
        "id": "bigint",
        "u": "bigint",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "amount": "decimal(9,2)",
        "tags": "map<string,bigint>",
        "s": "struct<`a.b`:bigint>",
        "new": "float",
    }
    assert (
        '"odd": it is int in 1.parquet and string in 2.parquet' in text
        and '"time": it is time64[us]' in text
    )
    assert stream.key == ("id",)


def test_orc_says_types(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1)
    table = {
        "id": pa.array([1], pa.int32()),
        "at": pa.array([at], pa.timestamp("us")),
        "zoned": pa.array([at], pa.timestamp("us", "UTC")),
        "amount": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
    }
    pa.orc.write_table(pa.table(table), tmp_path / "1.orc")
    pa.orc.write_table(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "2")
    stream, text = infer(tmp_path, "[12]*", format="orc")
    assert stream.types == {"id": "bigint", "at": "timestamp", "amount": "decimal(9,2)"}
    assert '"zoned": it has times of a local zone' in text
    assert infer(tmp_path, "2")[0].format == "orc"
    for kind in ("orc", "parquet", "avro"):
        with pytest.raises(UsageError, match=r"pyproject\.toml"):
            infer(tmp_path, "pyproject.toml", format=kind)


def test_avro_says_types_and_what_is_required(tmp_path: Path) -> None:
    fields = [
        {"name": "id", "type": "int"},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            "default": None,
        },
        {"name": "either", "type": ["int", "string"]},
    ]
    with (tmp_path / "a.avro").open("wb") as file:
        schema = {"type": "record", "name": "r", "fields": fields}
        fastavro.writer(
            file, schema, [{"id": 1, "at": None, "either": "x"}], codec="deflate"
        )
    stream, text = infer(tmp_path, "a.avro")
    assert [(it.name, it.type, it.required) for it in stream.columns] == [
        ("id", "int", True),
        ("at", "timestamp", False),
    ]
    assert '"either": it is a union of int, string, which no column holds' in text


# Topics


def record(folder: Path, topic: str, lines: list[dict[str, Any]]) -> None:
    (folder / topic).mkdir(parents=True)
    written = [
        {"partition": 0, "offset": at, "timestamp": at, **line}
        for at, line in enumerate(lines)
    ]
    (folder / topic / "1.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in written)
    )


def infer_topic(
    directory: Path, lines: list[dict[str, Any]], **options: Any
) -> tuple[Stream, str]:
    record(directory / "recorded", "t", lines)
    (directory / "pyproject.toml").write_text('[tool.lakesql]\nname = "p"\n')
    target = Target(
        "dev", connections={"broker": Recorded(str(directory / "recorded"))}
    )
    asked = AskedContract("t", "s", "broker", **options)
    found = infer_contract(read_project(directory), target, asked)
    return read(found.text), found.text


def test_the_key_of_a_topics_records_is_the_streams(tmp_path: Path) -> None:
    lines = [
        {"key": str(at % 3), "value": {"order": at % 3, "n": at}} for at in range(9)
    ]
    stream, text = infer_topic(tmp_path, [*lines, {"key": "1", "value": None}])
    assert (
        stream.key == ("order",)
        and "the key of 9 of 9 records" in text
        and "1 record had no value" in text
    )


@pytest.mark.parametrize("rows", [10, 1_500])
def test_as_many_records_of_a_recording_are_read_as_are_asked_for(
    tmp_path: Path, rows: int
) -> None:
    lines = [{"value": {"id": at}} for at in range(2_000)]
    assert f"in {rows:,} samples" in infer_topic(tmp_path, lines, rows=rows)[1]


def test_a_feed_of_debezium_is_recognised(tmp_path: Path) -> None:
    row = {"id": 1, "name": "a"}
    events = [
        {"op": "c", "before": None, "after": row},
        {"op": "d", "before": row, "after": None},
        {"op": "t"},
    ]
    stream, _ = infer_topic(
        tmp_path, [{"key": {"id": 1}, "value": {"payload": event}} for event in events]
    )
    assert stream.envelope == "debezium" and stream.key == ("id",)
    assert stream.types == {"id": "bigint", "name": "string"}


def test_a_feed_with_its_schema_has_the_types_that_it_says(tmp_path: Path) -> None:
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    ]
    schema = {"fields": [{"field": "after", "type": "struct", "fields": fields}]}
    event = {
        "schema": schema,
        "payload": {"op": "c", "before": None, "after": {"id": 1, "at": 5}},
    }
    stream, _ = infer_topic(tmp_path, [{"value": event}])
    assert stream.envelope == "debezium" and stream.types == {
        "id": "int",
        "at": "timestamp_ntz",
    }


def test_values_that_are_no_json(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no JSON objects"):
        infer_topic(tmp_path / "a", [{"value": "1;x"}])
    stream, _ = infer_topic(
        tmp_path / "b", [{"value": "1;x"}, {"value": "2;y"}], format="csv"
    )
    assert (
        stream.types == {"c1": "bigint", "c2": "string"} and stream.csv.delimiter == ";"
    )


# The command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.lakesql]\nname = "p"\nprofile = "p"\n'
    )
    (tmp_path / "profiles.yml").write_text("p: {target: dev, outputs: {dev: {}}}\n")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.jsonl").write_text('{"a": 1}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_is_written_once_and_replaced_where_that_is_said(
    run: Run, project: Path
) -> None:
    code, out, _ = run("infer", "landing/a.jsonl")
    written = project / "streams" / "a.yml"
    assert code == 0 and out.strip() == str(written)
    assert read(written.read_text()).types == {"a": "bigint"}
    code, out, err = run("infer", "landing/a.jsonl", "--log-format", "json")
    assert (code, out) == (2, "") and '"stream-exists"' in err
    (project / "landing" / "a.jsonl").write_text('{"b": 1}\n')
    code, out, _ = run("infer", "landing/a.jsonl", "--output", "-")
    assert (
        code == 0
        and read(out).types == {"b": "bigint"}
        and "a: bigint" in written.read_text()
    )
    assert run("infer", "landing/a.jsonl", "--force")[0] == 0
    assert read(written.read_text()).types == {"b": "bigint"}
    assert run("parse")[0] == 0


def test_no_other_stream_is_ever_removed(run: Run, project: Path) -> None:
    both = "streams:\n  - {name: a, path: a, columns: {x: int}}\n  - {name: b, path: b, columns: {x: int}}\n"
    (project / "streams").mkdir()
    for file, name in (("a.yml", "a"), ("others.yml", "b"), ("c.yml", "c")):
        (project / "streams" / file).write_text(both)
        assert run("infer", "landing/a.jsonl", "--name", name, "--force")[0] == 2
        assert (project / "streams" / file).read_text() == both
        (project / "streams" / file).unlink()
    (project / "other.yml").write_text("x")
    assert (
        run("infer", "landing/a.jsonl", "-o", "other.yml")[0] == 2
        and (project / "other.yml").read_text() == "x"
    )


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (["nothing/*.json"], "no-samples"),
        (["../x.json"], "outside-project"),
        (["landing/a.jsonl", "--name", "a b"], "bad-name"),
        (["topic", "--connection", "broker"], "unknown-connection"),
    ],
)
def test_refusals(
    run: Run, project: Path, arguments: list[str], condition: str
) -> None:
    code, out, err = run("infer", *arguments, "--log-format", "json")
    assert (code, out) == (2, "") and f'"{condition}"' in err


def test_files_of_several_formats_are_not_guessed(run: Run, project: Path) -> None:
    (project / "landing" / "b.csv").write_text("a\n1\n")
    code, _, err = run("infer", "landing", "--log-format", "json")
    assert code == 2 and "several formats" in err
    (project / "landing" / "b.csv").unlink()
    assert run("infer", "landing", "-o", "-")[0] == 0


def test_the_names_of_streams() -> None:
    places = (
        "landing/orders/*.json",
        "landing/Page Views.csv.gz",
        "shop.public.items",
        "*.json",
        "2026/1.json",
    )
    assert [*map(name_of, places)] == [
        "orders",
        "page_views",
        "items",
        "stream",
        "stream_1",
    ]


def test_a_project_with_what_was_found_parses(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"yes": 1, "a: b": {"x y": 1}, "#": "2026-01-01"}\n'
    )
    (tmp_path / "pyproject.toml").write_text('[tool.lakesql]\nname = "p"\n')
    files = read_project(tmp_path)
    found = infer_contract(files, Target("dev"), AskedContract("a.jsonl"))
    write_contract(files, found, None, force=False)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.sql").write_text(
        "{{ config(mode='append') }}\nSELECT * FROM {{ stream('a') }}\n"
    )
    manifest = load_manifest(read_project(tmp_path), Target("dev"), {})
    assert manifest.streams["a"].column_names == ("yes", "a: b", "#")
    with pytest.raises((ProjectError, UsageError)):
        write_contract(read_project(tmp_path), found, None, force=False)
