"""Fields that no contract knows: ignored, kept in `_rescued` as they stand in the
record, or a dead letter."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as T

from lakesql.engine.records.parse import (
    Contract,
    ContractColumn,
    parse_records,
    with_detail,
)
from lakesql.events import FieldsRescued, RescuedFields
from lakesql.observe.status_text import remarks
from lakesql.run.tell.status import read_statuses
from lakesql.stream.stream import UnknownFields
from tests.spark.project import Project
from tests.spark.test_parse import raw_of
from tests.spark.test_replay_letters import replay

pytestmark = pytest.mark.spark

TYPES: dict[str, Any] = {
    "a": "leaf",
    "b": "leaf",
    "n": {"p": "leaf", "d": {"t": "leaf"}},
    "l": [{"p": "leaf"}],
    "m": ("map", {"p": "leaf", "n": {"q": "leaf"}}),
    "ll": [[{"q": "leaf"}]],
}
DDL = (
    "a string, b string, n struct<p:string,d:struct<t:string>>, l array<struct<p:string>>, "
    "m map<string,struct<p:string,n:struct<q:string>>>, ll array<array<struct<q:string>>>"
)
NAMES = [
    "a",
    "b",
    "n",
    "l",
    "m",
    "p",
    "q",
    "A",
    "N",
    "x",
    "extra",
    "a.b",
    "x[0]",
    "`y`",
    "é",
    "",
    'q"t',
    "\\",
    "null",
    "_rescued",
]
SCALARS = ["0", "-1", "1.10", "-0", "1e400", "12345678901234567890123", '"5"', '""', '"a, \\"b\\": {1}"', '"\\u00e9"',
           "true", "null", '"it\'s [NaN]"', "[]", "{}", "[1, {\"k\": [2.50]}]", '{"p": 1, "p": 2}']  # fmt: skip


class Number(str):
    """A number as it is written."""


class Object(list[tuple[str, Any]]):
    """The members of an object, those of one name among them."""


def parse(text: str) -> Any:
    return json.loads(
        text,
        object_pairs_hook=Object,
        parse_float=Number,
        parse_int=Number,
        parse_constant=str,
    )


def step(path: str | None, name: str) -> str:
    quoted = "`" + name.replace("`", "``") + "`" if set(name) & set(".[]`") else name
    return quoted if path is None else f"{path}.{quoted}"


def unknown_of(value: Any, kind: Any, path: str | None) -> Iterable[tuple[str, Any]]:
    """The unknown fields of a parsed value, by their paths: this test's own reading of
    what the docs say."""
    match kind, value:
        case dict(), Object():
            for name, item in dict(value).items():
                if name in kind:
                    yield from unknown_of(item, kind[name], step(path, name))
                else:
                    yield step(path, name), item
        case [element], list():
            for number, item in enumerate(value):
                yield from unknown_of(item, element, f"{path}[{number}]")
        case ("map", element), Object():
            for name, item in dict(value).items():
                yield from unknown_of(item, element, step(path, name))


def repeats_key(value: Any, kind: Any) -> bool:
    """Whether an object that becomes a map has a name twice."""
    match kind, value:
        case dict(), Object():
            return any(
                repeats_key(item, kind[name])
                for name, item in dict(value).items()
                if name in kind
            )
        case [element], list():
            return any(repeats_key(item, element) for item in value)
        case ("map", element), Object():
            return len(dict(value)) < len(value) or any(
                repeats_key(item, element) for _, item in value
            )
        case _:
            return False


def written(rnd: random.Random, kind: Any, depth: int = 0) -> str:
    """A random text of a value of this kind, with other fields in it."""
    space = rnd.choice(["", "", " ", "\n\t"])
    if rnd.random() < 0.08 and depth:
        return "null"
    match kind:
        case dict():
            members = [
                (name, below) for name, below in kind.items() if rnd.random() < 0.7
            ]
            members += [
                (name, kind.get(name, "leaf"))
                for name in rnd.choices(NAMES, k=rnd.choice([0, 0, 1, 2]))
            ]
            rnd.shuffle(members)
            return members_of(
                rnd,
                space,
                [(name, written(rnd, below, depth + 1)) for name, below in members],
            )
        case [element]:
            items = (written(rnd, element, depth + 1) for _ in range(rnd.randrange(3)))
            return f"[{space}{f'{space},{space}'.join(items)}{space}]"
        case ("map", element):
            names = rnd.choices(NAMES, k=rnd.randrange(3))
            return members_of(
                rnd, space, [(name, written(rnd, element, depth + 1)) for name in names]
            )
        case _:
            return rnd.choice(SCALARS)


def members_of(rnd: random.Random, space: str, members: list[tuple[str, str]]) -> str:
    each = (f"{spelled(rnd, name)}{space}:{space}{value}" for name, value in members)
    return f"{{{space}{f'{space},{space}'.join(each)}{space}}}"


def spelled(rnd: random.Random, name: str) -> str:
    if name and rnd.random() < 0.1:
        return '"' + "".join(f"\\u{ord(character):04x}" for character in name) + '"'
    return json.dumps(name, ensure_ascii=rnd.random() < 0.5)


def contract(unknown_fields: UnknownFields, ddl: str = DDL) -> Contract:
    fields = T.StructType.fromDDL(ddl).fields  # type: ignore[attr-defined]
    columns = tuple(ContractColumn(field.name, field.dataType) for field in fields)
    return Contract(columns, unknown_fields=unknown_fields)


def parsed(
    spark: SparkSession, unknown_fields: UnknownFields, texts: list[str], ddl: str = DDL
) -> list[Row]:
    raw = raw_of(spark, [text.encode() for text in texts])
    read = parse_records(raw, contract(unknown_fields, ddl), frozenset({"offset"}))
    return read.orderBy("_record.offset").collect()


def test_what_is_rescued_is_what_stands_in_the_record(
    spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    rnd = random.Random(request.config.getoption("--seed"))
    texts = [written(rnd, TYPES) for _ in range(1_000)]
    expected = [dict(unknown_of(parse(text), TYPES, None)) for text in texts]
    assert sum(map(bool, expected)) > 300 and not all(expected)

    rescued, rejected, ignored = (
        parsed(spark, word, texts) for word in ("rescue", "dead_letter", "ignore")
    )

    bad = [repeats_key(parse(text), TYPES) for text in texts]
    assert [row._lakesql_rejected is not None for row in rescued] == bad
    for text, wanted, row in zip(texts, expected, rescued, strict=True):
        if row._lakesql_rejected is not None:
            continue
        found = parse(row._rescued) if row._rescued is not None else Object()
        assert sorted(found) == sorted(wanted.items()), text
    reasons = [
        row._lakesql_rejected.reason if row._lakesql_rejected else None
        for row in rejected
    ]
    undeclared = ["undeclared-field" if unknown else None for unknown in expected]
    assert reasons == [
        "unparsable" if is_bad else other
        for is_bad, other in zip(bad, undeclared, strict=True)
    ]
    columns = [field.name for field in T.StructType.fromDDL(DDL).fields]  # type: ignore[attr-defined]
    assert [[row[name] for name in columns] for row in rescued] == [
        [row[name] for name in columns] for row in ignored
    ]


FLAT = "id int, note string"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"id": 1, "note": "x"}', None),
        (
            '{"id": 1, "x": NaN, "y": [-Infinity, "NaN, INF"]}',
            '{"x":"NaN","y":["-Infinity", "NaN, INF"]}',
        ),
        ('{"id": 1, "ID": 2}', '{"ID":2}'),
        ('{"id": 1, "id": 2, "x": 1, "x": 1.00}', '{"x":1.00}'),
        ("{}", None),
    ],
)
def test_a_record_has_what_its_contract_does_not_know(
    spark: SparkSession, text: str, found: str | None
) -> None:
    (row,) = parsed(spark, "rescue", [text], FLAT)
    assert row._rescued == found and row._lakesql_rejected is None


DEEP = "[" * 30 + "]" * 30


@pytest.mark.parametrize(
    "text",
    ["{'id': 1, 'x': 2}", f'{{"x": {DEEP}}}', """{"x": {'"': 1}, "y": {'"': 2}}"""],
)
def test_fields_that_cannot_be_told_apart_are_not_lost(
    spark: SparkSession, text: str
) -> None:
    for word in ("rescue", "dead_letter"):
        (row,) = parsed(spark, word, [text], FLAT)
        assert row._lakesql_rejected.reason == "undeclared-field", word
    assert parsed(spark, "ignore", [text], FLAT)[0]._lakesql_rejected is None


UNTOLD = (
    "its fields cannot be told apart, as they are nested too deep or no strict JSON"
)


def test_a_dead_letter_names_the_fields_and_a_worse_fault_comes_first(
    spark: SparkSession,
) -> None:
    ddl = "id int, n struct<p:int>"
    several = json.dumps({"id": 1, **{f"x{number}": number for number in range(9)}})
    texts = [
        '{"id": 1, "n": {"p": 1, "q": 2}, "N": 3}',
        several,
        '{"id": "x", "y": 1}',
        "{'id': 1}",
    ]
    read = parse_records(
        raw_of(spark, [text.encode() for text in texts]),
        contract("dead_letter", ddl),
        frozenset(),
    )
    letters = with_detail(
        read.select("_lakesql_rejected.*"), contract("dead_letter", ddl)
    ).orderBy("offset")

    assert [(row.reason, row.detail) for row in letters.collect()] == [
        ("undeclared-field", "N, n.q: the contract has no such field"),
        (
            "undeclared-field",
            "x0, x1, x2, x3, x4 and 4 more: the contract has no such field",
        ),
        ("unparsable", "id: not a int, or out of its range"),
        (
            "undeclared-field",
            "the record: its fields cannot be told apart, as they are nested too deep or no strict JSON",
        ),
    ]


COLUMNS: dict[str, Any] = {
    "id": {"type": "int", "required": True},
    "at": "timestamp",
    "code": {"type": "string", "from": "the.code"},
    "n": "struct<p:int>",
}


def record(number: int, **others: Any) -> dict[str, Any]:
    return {
        "id": number,
        "at": f"2026-03-01T00:00:{number:02}Z",
        "the.code": "c",
        "n": {"p": 1},
        **others,
    }


ROWS = [
    record(1),
    record(2, extra=[1.5]),
    record(3, n={"p": 1, "q": None}),
    record(4, extra=2, ID=5),
]
RESCUED = [
    (1, None),
    (2, '{"extra":[1.5]}'),
    (3, '{"n.q":null}'),
    (4, '{"extra":2,"ID":5}'),
]


def test_a_run_and_the_status_say_which_fields_are_new(project: Project) -> None:
    project.connections["landing"] = {"type": "files", "path": "landing"}
    project.stream("topic", COLUMNS, unknown_fields="rescue")
    project.stream(
        "files", COLUMNS, connection="landing", path="*.json", unknown_fields="rescue"
    )
    project.stream(
        "documents",
        COLUMNS,
        connection="landing",
        path="*.json",
        unknown_fields="rescue",
        multiline=True,
    )
    project.stream("quiet", COLUMNS, topic="topic")
    for name in ("topic", "files", "documents", "quiet"):
        project.model(name, f"SELECT * FROM {{{name}}}", mode="append")
    project.model(
        "keyed",
        "SELECT id, code, _rescued AS others FROM {topic}",
        mode="upsert",
        keys=["id"],
    )
    project.record("topic", ROWS)
    project.write("landing/1.json", "".join(f"{json.dumps(row)}\n" for row in ROWS))

    ran = project.run().check()

    for name in ("topic", "files", "documents"):
        assert [
            (row["id"], row["_rescued"]) for row in project.rows(name, "id")
        ] == RESCUED, name
        (told,) = ran.finished(name).rescued
        assert (told.stream, told.records, {*told.fields}) == (
            name,
            3,
            {"extra", "n.q", "ID"},
        )
    assert [
        (row["id"], row["others"]) for row in project.rows("keyed", "id")
    ] == RESCUED
    assert {row["code"] for row in project.rows("keyed")} == {"c"}
    assert "_rescued" not in project.rows("quiet")[0]
    assert not ran.of(FieldsRescued, "quiet") and not ran.finished("quiet").rescued

    project.record("topic", [record(5)])
    again = project.run("topic").check()

    assert not again.of(FieldsRescued)
    end_ms = ran.finished("topic").at_ms
    (said,) = rescued_last_day(project, end_ms + 1_000)
    assert (said.stream, said.records, {*said.fields}) == (
        "topic",
        3,
        {"extra", "n.q", "ID"},
    )
    assert not rescued_last_day(project, end_ms + 90_000_000)


def rescued_last_day(project: Project, now_ms: int) -> tuple[RescuedFields, ...]:
    (status,) = read_statuses(project.manifest(), ["topic"], now_ms)
    assert status.figures is not None
    assert any("extra" in each for each in remarks(status)) == bool(
        status.figures.rescued_last_day
    )
    return status.figures.rescued_last_day


def test_records_with_new_fields_are_dead_letters_that_a_replay_takes_once_they_are_declared(
    project: Project,
) -> None:
    project.stream("topic", COLUMNS, unknown_fields="dead_letter")
    project.model("m", "SELECT id FROM {topic}", mode="append")
    project.record("topic", ROWS)

    project.run().check()

    assert [row["id"] for row in project.rows("m", "id")] == [1]
    assert project.reasons("m") == {"undeclared-field": 3}

    project.stream(
        "topic", {**COLUMNS, "extra": "string"}, unknown_fields="dead_letter"
    )
    replay(project)

    assert [row["id"] for row in project.rows("m", "id")] == [1, 2]


@pytest.mark.parametrize(
    "options",
    [{}, {"unknown_fields": "rescue"}, {"multiline": True}, {"encoding": "latin-1"}],
)
def test_folders_name_columns_of_records_that_are_read_as_texts(
    project: Project, options: dict[str, Any]
) -> None:
    project.connections["landing"] = {"type": "files", "path": "landing"}
    columns = {
        "id": "int",
        "day": {"type": "date", "required": True},
        "amount": "decimal(5,2)",
        "note": "string",
    }
    project.stream("s", columns, connection="landing", path="*/*/*.json", **options)
    project.model(
        "m",
        "SELECT id, CAST(day AS string) AS day, CAST(amount AS string) AS amount, note FROM {s}",
        mode="append",
    )
    project.write(
        "landing/day=2026-03-01/amount=1.5/1.json",
        '{"id": 1}\n{"id": 2, "day": "2026-03-09"}\n{"id": "x"}\n',
    )
    project.write(
        "landing/day=2026-03-02/note=a b/1.json",
        '{"id": 3, "note": null, "amount": 2}\n',
    )
    project.write("landing/other/x/1.json", '{"id": 4}\n')

    project.run().check()

    assert [
        (row["id"], row["day"], row["amount"], row["note"])
        for row in project.rows("m", "id")
    ] == [
        (1, "2026-03-01", "1.50", None),
        (2, "2026-03-09", "1.50", None),
        (3, "2026-03-02", "2.00", "a b"),
    ]
    details = {row["detail"] for row in project.rows("m__dead_letter")}
    assert details == {"id: not a int, or out of its range", "day"}


def test_a_stateful_select_reads_and_counts_what_is_rescued(project: Project) -> None:
    watermark = {"column": "at", "delay": "1 second"}
    project.stream("topic", COLUMNS, unknown_fields="rescue", watermark=watermark)
    project.model(
        "m",
        "SELECT count(_rescued) AS n FROM {topic} GROUP BY window(at, '10 seconds')",
        mode="append",
    )
    project.record("topic", [*ROWS, record(30), record(50)])

    ran = project.run().check()

    assert sorted(row["n"] for row in project.rows("m")) == [0, 3]
    assert [each.records for each in ran.finished("m").rescued] == [3]
