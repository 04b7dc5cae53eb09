"""Questions that are asked of each record in a quick way answer as the thorough way
does, whatever the text is."""

from __future__ import annotations

import itertools
import json
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakesql.engine.records import event_faults
from lakesql.engine.records.json_text import is_rewritten
from lakesql.engine.records.parse import Contract
from lakesql.engine.records.times import is_whole_number
from tests.spark.project import Lake

pytestmark = [pytest.mark.spark, pytest.mark.long]


def texts_of(lake: Lake, found: list[str | None]) -> DataFrame:
    return lake.session.createDataFrame([(text,) for text in found], "text string")


def answers(frame: DataFrame, quick: Any, thorough: Any) -> list[tuple[Any, ...]]:
    """The texts of which both ways have an answer of their own."""
    told = frame.select(
        "text", quick.alias("quick"), thorough.alias("thorough")
    ).collect()
    assert len({str(row.thorough) for row in told}) > 1, (
        "a check that always says the same shows nothing"
    )
    return [tuple(row) for row in told if row.quick != row.thorough]


VALUES = [
    "1",
    "-7",
    "0",
    "-0",
    "01",
    "1.5",
    "1e3",
    '"x"',
    '""',
    '"a\\"b"',
    '"é"',
    "true",
    "false",
    "null",
    "NaN",
    "[1]",
]
VALUES += ['{"a":1}', '"tab\there"', '"x', "", "1 ", "2147483648", '"}"', '",\\u0022b"']
NAMES = [
    "id",
    "Id",
    "straße",
    "with space",
    'quo"te',
    "a.b",
    "other",
    "schema",
    "payload",
    "__dbz__physicalTableIdentifier",
]


def random_key(pick: random.Random, declared: list[str]) -> str:
    """The text of a key: most often of the declared columns, perhaps with one thing
    that is otherwise."""
    names = [*declared]
    match pick.randrange(8):
        case 0:
            pick.shuffle(names)
        case 1:
            names.append(pick.choice(NAMES))
        case 2:
            names.pop(pick.randrange(len(names)))
        case 3:
            names[pick.randrange(len(names))] = pick.choice(NAMES)
    is_odd = pick.random() < 0.5
    members = (
        f"{json.dumps(name, ensure_ascii=False)}:{pick.choice(VALUES if is_odd else VALUES[:3])}"
        for name in names
    )
    text = "{" + ",".join(members) + "}"
    ends = ["", "", "", "", "\n", " ", "}", ",", '{"id":1}']
    text = text.replace(",", ", ") if pick.random() < 0.1 else text
    wrapped = f'{{"schema":{{"fields":[]}},"payload":{text}}}'
    return (wrapped if pick.random() < 0.1 else text) + pick.choice(ends)


@pytest.mark.parametrize(
    "declared", [["id"], ["id", "straße"], ["with space", 'quo"te', "a.b"]]
)
def test_a_key_has_the_names_that_reading_it_finds(
    lake: Lake, declared: list[str]
) -> None:
    pick = random.Random(str(declared))
    contract = cast("Contract", SimpleNamespace(key=tuple(declared)))
    texts = [random_key(pick, declared) for _ in range(2000)]
    frame = texts_of(lake, [None, "", "7", *texts]).withColumn(
        "key", F.col("text").cast("binary")
    )
    quick = event_faults.key_names(contract)
    thorough = event_faults._names_read(F.col("key").cast("string"), contract)
    assert not answers(frame, F.array_sort(quick), F.array_sort(thorough))
    plain = frame.where(
        F.col("text").rlike(event_faults._as_declared(contract))
    ).count()
    assert 100 < plain < 1900, "both ways are gone"


def test_what_may_be_rewritten_is_what_a_pattern_finds(lake: Lake) -> None:
    firsts = [chr(code) for code in range(256)]
    frame = texts_of(
        lake,
        [
            None,
            "",
            *(first + end for first, end in itertools.product(firsts, ("", "1", "x"))),
        ],
    )
    pattern = F.coalesce(F.col("text").rlike(r"^[-0-9NI\[{\"]"), F.lit(False))
    assert not answers(
        frame, is_rewritten(F.col("text"), F.lit(""), 'escaped"name'), pattern
    )


def test_a_whole_number_is_what_a_pattern_finds(lake: Lake) -> None:
    parts = ["", "-", "0", "12", "Z", "z", "\n", " ", "2013-01-01T05:00:00Z", "+", "."]
    frame = texts_of(lake, [None, *map("".join, itertools.product(parts, repeat=3))])
    assert not answers(
        frame, is_whole_number(F.col("text")), F.col("text").rlike("^-?[0-9]+$")
    )
