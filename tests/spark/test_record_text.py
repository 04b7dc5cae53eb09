"""Texts in JSON that no table can have: bytes that are not UTF-8, and halves of
surrogate pairs, beside Python."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes, with_change_detail
from lakesql.engine.records.parse import (
    Contract,
    ContractColumn,
    parse_records,
    with_detail,
)
from lakesql.names import REJECTED
from tests.spark.test_plain_event import RAW

pytestmark = pytest.mark.spark

COLUMNS = (ContractColumn("k", T.LongType()), ContractColumn("s", T.StringType()))
RECORD = Contract(COLUMNS)
KEYED = Contract(COLUMNS[:1], key_columns=COLUMNS[1:])
MIRROR = Contract(COLUMNS, key=("k",), envelope="debezium", is_mirrored=True)
BY_TEXT = Contract(
    (ContractColumn("s", T.StringType()),),
    key=("s",),
    envelope="debezium",
    is_mirrored=True,
)
PIECES = (
    *(
        rb"\ud83d",
        rb"\ude00",
        rb"\uD83D\uDE00",
        rb"\uDBFF",
        rb"\uDfff",
        rb"\\",
        rb"\\\\",
        rb"\"",
        rb"\n",
        rb"\u00e9",
    ),
    *(
        b"ud83d",
        b"ude00",
        b"d83d",
        b"",
        b"a",
        "é".encode(),
        "😀".encode(),
        b"\xff",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
    ),
    *("\ufffd".encode(), rb"\ufffd", rb"\u005c", rb"\u005cud83d"),
)


def texts() -> Iterator[bytes]:
    """What may stand between the quotes of a text in JSON, its bytes as random as its
    escapes."""
    made = random.Random(7)
    yield from PIECES
    for _ in range(600):
        yield b"".join(made.choices(PIECES, k=made.randint(2, 6)))


TEXTS = [*dict.fromkeys(texts())]


def read_by_python(written: bytes) -> str | None:
    """The text; None where there is none."""
    try:
        text: str = json.loads(b'"%b"' % written)
        text.encode()
    except UnicodeError:
        return None
    return text


def of_record(written: bytes) -> tuple[bytes | None, bytes | None]:
    return None, b'{"k":1,"s":"%b"}' % written


def of_key(written: bytes) -> tuple[bytes | None, bytes | None]:
    return b'{"s":"%b"}' % written, b'{"k":1}'


def of_wrapped_key(written: bytes) -> tuple[bytes | None, bytes | None]:
    return b'{"schema":{"type":"struct"},"payload":{"s":"%b"}}' % written, b'{"k":1}'


def of_quoted_key(written: bytes) -> tuple[bytes | None, bytes | None]:
    return b'"%b"' % written, b'{"k":1}'


def of_event(written: bytes) -> tuple[bytes | None, bytes | None]:
    event = b'{"before":null,"after":{"k":1,"s":"%b"},"source":{"lsn":1},"op":"u","ts_ms":5}'
    return b'{"k":1}', event % written


def of_wrapped_event(written: bytes) -> tuple[bytes | None, bytes | None]:
    key, event = of_event(written)
    return key, b'{"schema":null,"payload":%b}' % (event or b"")


def of_deleted_key(written: bytes) -> tuple[bytes | None, bytes | None]:
    return (
        b'{"s":"%b"}' % written,
        b'{"before":null,"after":null,"source":{"lsn":1},"op":"d","ts_ms":5}',
    )


def of_flat_event(written: bytes) -> tuple[bytes | None, bytes | None]:
    return b'{"k":1}', b'{"k":1,"s":"%b","__op":"u"}' % written


CASES: dict[
    str, tuple[Contract, Callable[[bytes], tuple[bytes | None, bytes | None]]]
] = {
    "a record": (RECORD, of_record),
    "the key of a record": (KEYED, of_key),
    "the key of a record beside its schema": (KEYED, of_wrapped_key),
    "a key that is a text in JSON": (KEYED, of_quoted_key),
    "an event": (MIRROR, of_event),
    "an event beside its schema": (MIRROR, of_wrapped_event),
    "the key of a deleted row": (BY_TEXT, of_deleted_key),
    "a flat event": (
        Contract(COLUMNS, key=("k",), envelope="debezium_flat", add_fields_prefix="__"),
        of_flat_event,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_what_stands_there_or_its_record_a_dead_letter(
    spark: SparkSession, case: str
) -> None:
    contract, record_of = CASES[case]
    records = [
        (*record_of(text), "t", 0, offset, None, None)
        for offset, text in enumerate(TEXTS)
    ]
    raw = spark.createDataFrame(
        [(_bytes(key), _bytes(value), *rest) for key, value, *rest in records], RAW
    )
    if contract.envelope == "none":
        parsed = parse_records(raw, contract, frozenset({"offset"}))
    else:
        parsed = parse_changes(raw, contract, frozenset({"offset"}), frozenset())
    found = {row._record.offset: row for row in parsed.collect()}
    assert len(found) == len(TEXTS)
    for offset, text in enumerate(TEXTS):
        expected, row = read_by_python(text), found[offset]
        assert (row[REJECTED] is None) == (expected is not None), text
        assert expected is None or row.s == expected, text
    assert {
        row.detail.split(": ")[-2 if "half" in row.detail else -1]
        for row in _letters(parsed, contract)
    } == {
        "not UTF-8",
        "half of a surrogate pair, which is no text",
    }


def test_a_key_in_bytes_matters_where_the_row_is_read_of_it(
    spark: SparkSession,
) -> None:
    said = '"source":{"lsn":1},"ts_ms":5'
    whole = f'{{"before":{{"k":1,"s":"x"}},"after":null,"op":"d",{said}}}'
    alone = f'{{"before":null,"after":null,"op":"d",{said}}}'
    values = (
        whole,
        alone,
        f'{{"before":null,"after":{{"k":1,"s":"x"}},"op":"u",{said}}}',
    )
    rows = [
        (bytearray(b"\xff\x00\x01"), bytearray(it.encode()), "t", 0, at, None, None)
        for at, it in enumerate(values)
    ]
    parsed = parse_changes(
        spark.createDataFrame(rows, RAW), MIRROR, frozenset({"offset"}), frozenset()
    )
    found = {
        row.offset: row.reason
        for row in parsed.select("_record.offset", f"{REJECTED}.reason").collect()
    }
    assert found == {0: None, 1: "unparsable", 2: None}


def _bytes(value: bytes | None) -> bytearray | None:
    return None if value is None else bytearray(value)


def _letters(parsed: object, contract: Contract) -> list[Row]:
    rejected = parsed.where(f"{REJECTED} IS NOT NULL").select(f"{REJECTED}.*")  # type: ignore[attr-defined]
    detailed = with_detail if contract.envelope == "none" else with_change_detail
    found: list[Row] = detailed(rejected, contract).collect()
    return found


@pytest.mark.parametrize(
    "fields",
    [
        '{"type":"int64"}',
        '{"field":null}',
        '{"field":"k"},{"field":"s"},{"field":"k"}',
        "5",
    ],
)
def test_a_schema_that_is_none_makes_no_batch_fail(
    spark: SparkSession, fields: str
) -> None:
    """Neither a field without a name, nor one that stands there twice."""
    after = f'{{"field":"after","fields":[{fields}]}}' if fields != "5" else "5"
    event = (
        '{"before":null,"after":{"k":1,"s":"x"},"source":{"lsn":1},"op":"u","ts_ms":5}'
    )
    value = f'{{"schema":{{"fields":[{after}]}},"payload":{event}}}'
    key = f'{{"schema":{{"fields":[{fields}]}},"payload":{{"k":1}}}}'
    rows = [(bytearray(key.encode()), bytearray(value.encode()), "t", 0, 0, None, None)]
    (row,) = parse_changes(
        spark.createDataFrame(rows, RAW), MIRROR, frozenset(), frozenset()
    ).collect()
    assert row[REJECTED] is not None if fields == "5" else (row.k, row.s) == (1, "x")
