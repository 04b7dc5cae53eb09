"""Bytes that are no UTF-8 and become text in a SELECT: replaced and counted, or dead
letters."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pyspark.sql.types import BinaryType

from lakesql.compile.build_select import build_select
from lakesql.compile.checks import check_of_text
from lakesql.errors import Place, ProjectError
from lakesql.events import BatchCommitted
from tests.spark.project import Fields, Project, in_bytes

pytestmark = pytest.mark.spark

BAD = b"a\xffb"
SEEN = "a\ufffdb"
WAYS = {
    "cast": "CAST(_record.key AS string)",
    "called": "string(_record.key)",
    "joined": "_record.key || ''",
    "concat": "concat(CAST(_record.key AS string), '')",
    "concat_ws": "concat_ws('', array(CAST(_record.key AS string)))",
    "coalesced": "coalesce(CAST(_record.key AS string), '')",
    "upper": "lower(CAST(_record.key AS string))",
    "hexed": "CAST(unhex('61ff62') AS string)",
    "part": "CAST(substring(_record.key, 1, 3) AS string)",
    "formatted": "format_string('%s', CAST(_record.key AS string))",
    "literal": "CAST(X'61ff62' AS string)",
    "encoded": "CAST(unbase64('Yf9i') AS string)",
    "chosen": "(SELECT CAST(unhex('61ff62') AS string))",
}

IMPLICIT = (
    "lower({})",
    "upper({})",
    "ucase({})",
    "initcap({})",
    "format_string('%s', string({}))",
    "printf('<%s>', string({}))",
    "concat({}, '')",
    "concat('<', {}, '>')",
    "concat_ws('-', {}, 'x')",
    "{} || 'x'",
    "trim({})",
    "ltrim({})",
    "btrim({})",
    "replace({}, 'z', 'y')",
    "translate({}, 'z', 'y')",
    "regexp_replace({}, 'z', 'y')",
    "regexp_extract({}, '(.*)', 1)",
    "split({}, 'z')",
    "split_part({}, 'z', 1)",
    "substring_index({}, 'z', 1)",
    "reverse({})",
    "repeat({}, 2)",
    "lpad(string({}), 9, 'x')",
    "overlay(string({}) PLACING 'x' FROM 1 FOR 1)",
    "coalesce({}, 'x')",
    "nullif(string({}), 'x')",
    "if(id > 0, {}, 'x')",
    "CASE WHEN id > 0 THEN {} ELSE 'x' END",
    "mask(string({}))",
    "array(string({}), 'x')",
    "map('x', lower({}))",
    "named_struct('t', upper({}))",
    "to_json(named_struct('t', string({})))",
    "element_at(array(lower({})), 1)",
    "(SELECT max(lower(t.k)) FROM (SELECT {} AS k) AS t)",
    "any_value(lower({})) OVER (PARTITION BY id)",
)
"""Ways to make text of bytes without a CAST, or beyond one."""


def keyed(id_: int, key: bytes) -> Fields:
    return Fields(value={"id": id_}, key_base64=base64.b64encode(key).decode())


def arrow_rows(project: Project, table: str) -> list[dict[str, Any]]:
    """The rows as Arrow reads them, which refuses text that is not UTF-8."""
    return project.rows(table, "id")


def test_text_of_bytes_is_valid_in_the_table_and_what_was_replaced_is_said(
    project: Project,
) -> None:
    project.stream("s", {"id": "int"})
    project.stream("t", format="string")
    ways = ", ".join(f"{way} AS {name}" for name, way in WAYS.items())
    key = WAYS["cast"]
    nested = f"array({key}) AS a, map('x', {key}) AS m, named_struct('t', {key}) AS n, _record.key AS kept"
    project.model("m", f"SELECT id, {ways}, {nested} FROM {{s}}", mode="append")
    project.model("k", f"SELECT id, {key} AS k FROM {{s}}", mode="upsert", keys=["k"])
    project.model("t_m", "SELECT value FROM {t}", mode="append")
    project.record("s", [keyed(1, BAD), keyed(2, b"good")])
    project.record("t", ["plain", in_bytes(BAD)])
    ran = project.run().check()
    (bad, good) = arrow_rows(project, "m")
    assert {name: bad[name] for name in WAYS} == dict.fromkeys(WAYS, SEEN)
    assert (bad["a"], dict(bad["m"]), bad["n"], bytes(bad["kept"])) == (
        [SEEN],
        {"x": SEEN},
        {"t": SEEN},
        BAD,
    )
    assert (good["cast"], good["a"], bytes(good["kept"])) == ("good", ["good"], b"good")
    assert sorted(row["k"] for row in arrow_rows(project, "k")) == [SEEN, "good"]
    assert sorted(row["value"] for row in project.rows("t_m", "value")) == [
        SEEN,
        "plain",
    ]
    of_constants = len({"hexed", "literal", "encoded", "chosen"})
    said = {
        event.model: (event.replaced, event.replaced_keys, event.rejected)
        for event in ran.of(BatchCommitted)
    }
    assert said == {
        "m": (len(WAYS) + 3 + of_constants, 0, 0),
        "k": (1, 1, 0),
        "t_m": (1, 0, 0),
    }
    assert (ran.finished("k").replaced, ran.finished("k").replaced_keys) == (1, 1)


def test_a_record_whose_text_is_invalid_is_a_dead_letter_where_the_stream_says_so(
    project: Project,
) -> None:
    project.stream("s", {"id": "int"}, invalid_text="dead_letter")
    project.stream("t", format="string", invalid_text="dead_letter")
    project.model(
        "m",
        "SELECT id, CAST(_record.key AS string) AS k, _record.key AS kept FROM {s}",
        mode="append",
    )
    project.model(
        "u",
        "SELECT id, array(_record.key || '') AS k FROM {s}",
        mode="upsert",
        keys=["id"],
    )
    project.model("t_m", "SELECT value FROM {t}", mode="append")
    project.record("s", [keyed(1, BAD), keyed(2, b"good")])
    project.record("t", ["plain", in_bytes(BAD)])
    ran = project.run().check()
    for name in ("m", "u"):
        assert [row["id"] for row in arrow_rows(project, name)] == [2]
        (letter,) = project.rows(f"{name}__dead_letter", "offset")
        assert (bytes(letter["key"]), letter["offset"], letter["reason"]) == (
            BAD,
            0,
            "expectation-failed",
        )
    assert [row["value"] for row in project.rows("t_m", "value")] == ["plain"]
    (letter,) = project.rows("t_m__dead_letter", "offset")
    assert (bytes(letter["value"]), letter["reason"]) == (BAD, "unparsable")
    assert all(event.replaced == 0 for event in ran.of(BatchCommitted))


def test_a_select_of_json_alone_is_not_looked_at(project: Project) -> None:
    project.stream("s", {"id": "int", "name": "string"})
    project.model("m", "SELECT id, upper(name) AS name FROM {s}", mode="append")
    project.record("s", [{"id": 1, "name": "é"}])
    (event,) = project.run().check().of(BatchCommitted)
    assert (event.rows, event.replaced) == (1, 0)


@pytest.mark.long
def test_text_that_functions_make_of_bytes_is_counted_or_a_dead_letter_as_that_of_a_cast(
    project: Project,
) -> None:
    session = project.lake.session
    project.stream("s", {"id": "int", "name": "string"}, invalid_text="dead_letter")
    keys = [(1, SEEN, BAD), (2, SEEN, b"good"), (3, SEEN, "é".encode())]
    frame = session.createDataFrame(keys, "id int, name string, k binary")
    frame.selectExpr(
        "id", "name", "named_struct('key', k) AS _record"
    ).createOrReplaceTempView("s")
    usable = []
    for way in IMPLICIT:
        text = way.format("_record.key")
        project.model(
            "m",
            f"SELECT id, upper(name) AS name, {text} AS t FROM {{s}}",
            mode="append",
        )
        try:
            select = build_select(project.manifest(), "m")
        except ProjectError:  # what lakesql does not take of bytes needs no judgement
            continue
        check = check_of_text(("name", "t"), select.text_of_bytes, Place(""))
        rows = session.sql(select.query.sql)
        if rows.schema["t"].dataType == BinaryType():  # Spark makes no text of it
            continue
        assert [
            row["id"] for row in rows.where(check.condition).select("id").collect()
        ] == [2, 3], way
        usable.append(text)
    assert len(usable) > len(IMPLICIT) * 0.8
    project.stream("r", {"id": "int", "name": "string"})
    columns = ", ".join(f"{text} AS t{number}" for number, text in enumerate(usable))
    project.model(
        "m", f"SELECT id, upper(name) AS name, {columns} FROM {{r}}", mode="append"
    )
    records = [keyed(1, BAD), keyed(2, b"good"), keyed(3, "é".encode())]
    project.record(
        "r", [Fields({**it, "value": {**it["value"], "name": SEEN}}) for it in records]
    )
    (event,) = project.run().check().of(BatchCommitted, "m")
    assert (event.replaced, event.rows, event.rejected) == (len(usable), 3, 0)
    assert [row["name"] for row in arrow_rows(project, "m")] == [SEEN.upper()] * 3
