"""Bytes that are no UTF-8 and become text in a SELECT: replaced and counted, or dead letters."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lakesql.events import BatchCommitted
from tests.spark.project import Fields, Project

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

MADE_OF_CHARACTERS = ("upper", "formatted")
"""Those of which Spark itself makes U+FFFD of the bytes, as it makes characters of them."""


def keyed(id_: int, key: bytes) -> Fields:
    return Fields(value={"id": id_}, key_base64=base64.b64encode(key).decode())


def arrow_rows(project: Project, table: str) -> list[dict[str, Any]]:
    """The rows as Arrow reads them, which refuses text that is not UTF-8."""
    return project.rows(table, "id")


@pytest.mark.promise
def test_text_of_bytes_is_valid_in_the_table_and_what_was_replaced_is_said(project: Project) -> None:
    project.stream("s", {"id": "int"})
    project.stream("t", format="string")
    ways = ", ".join(f"{way} AS {name}" for name, way in WAYS.items())
    key = WAYS["cast"]
    nested = f"array({key}) AS a, map('x', {key}) AS m, named_struct('t', {key}) AS n, _record.key AS kept"
    project.model("m", f"SELECT id, {ways}, {nested} FROM {{s}}", mode="append")
    project.model("k", f"SELECT id, {key} AS k FROM {{s}}", mode="upsert", keys=["k"])
    project.model("t_m", "SELECT value FROM {t}", mode="append")
    project.record("s", [keyed(1, BAD), keyed(2, b"good")])
    project.record("t", ["plain", Fields(value_base64=base64.b64encode(BAD).decode())])
    ran = project.run().check()
    (bad, good) = arrow_rows(project, "m")
    assert {name: bad[name] for name in WAYS} == dict.fromkeys(WAYS, SEEN)
    assert (bad["a"], dict(bad["m"]), bad["n"], bytes(bad["kept"])) == ([SEEN], {"x": SEEN}, {"t": SEEN}, BAD)
    assert (good["cast"], good["a"], bytes(good["kept"])) == ("good", ["good"], b"good")
    assert sorted(row["k"] for row in arrow_rows(project, "k")) == [SEEN, "good"]
    assert sorted(row["value"] for row in project.rows("t_m", "value")) == [SEEN, "plain"]
    of_constants = len({"hexed", "literal", "encoded", "chosen"})
    said = {event.model: (event.replaced, event.replaced_keys, event.rejected) for event in ran.of(BatchCommitted)}
    assert said == {
        "m": (len(WAYS) - len(MADE_OF_CHARACTERS) + 3 + of_constants, 0, 0),
        "k": (1, 1, 0),
        "t_m": (1, 0, 0),
    }
    assert (ran.finished("k").replaced, ran.finished("k").replaced_keys) == (1, 1)


def test_a_record_whose_text_is_invalid_is_a_dead_letter_where_the_stream_says_so(project: Project) -> None:
    project.stream("s", {"id": "int"}, invalid_text="dead_letter")
    project.stream("t", format="string", invalid_text="dead_letter")
    project.model("m", "SELECT id, CAST(_record.key AS string) AS k, _record.key AS kept FROM {s}", mode="append")
    project.model("u", "SELECT id, array(_record.key || '') AS k FROM {s}", mode="upsert", keys=["id"])
    project.model("t_m", "SELECT value FROM {t}", mode="append")
    project.record("s", [keyed(1, BAD), keyed(2, b"good")])
    project.record("t", ["plain", Fields(value_base64=base64.b64encode(BAD).decode())])
    ran = project.run().check()
    for name in ("m", "u"):
        assert [row["id"] for row in arrow_rows(project, name)] == [2]
        (letter,) = project.rows(f"{name}__dead_letter", "offset")
        assert (bytes(letter["key"]), letter["offset"], letter["reason"]) == (BAD, 0, "expectation-failed")
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
