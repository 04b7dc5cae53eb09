"""What a stream says of its records' text."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError
from lakesql.stream.stream import Stream, read_stream
from lakesql.stream.text_encoding import characters, find_encoding
from tests.cases import each_of

PLACE = Place(Path("streams/s.yml"), 1, 1)


def stream(**options: object) -> Stream:
    entries = {"name": "s", "connection": "c", "columns": {"a": "string"}, **options}
    return read_stream(_node(entries))


def _node(value: object) -> Node:
    if isinstance(value, dict):
        return Node({name: _node(it) for name, it in value.items()}, PLACE)
    return Node(value, PLACE)


def test_a_record_of_csv_in_files_may_have_several_lines_unless_it_is_said() -> None:
    assert stream(path="*.csv", format="csv").multiline
    assert not stream(path="*.csv", format="csv", multiline=False).multiline
    assert not stream(path="*.json").multiline
    assert not stream(topic="t", format="csv").multiline


@each_of(
    "options",
    [
        {"topic": "t", "multiline": True},
        {"path": "*", "format": "parquet", "multiline": True},
        {"path": "*.json", "encoding": "utf-16"},
        {"path": "*.csv", "format": "csv", "multiline": False, "encoding": "utf-16"},
        {"path": "*", "format": "parquet", "encoding": "latin-1"},
        {"path": "*.csv", "format": "csv", "encoding": "shift_jis"},
        {"path": "*", "format": "parquet", "decimals": "round"},
        {"path": "*", "format": "parquet", "unknown_fields": "rescue"},
        {"path": "*.csv", "format": "csv", "unknown_fields": "dead_letter"},
        {
            "topic": "t",
            "envelope": "debezium",
            "format": "avro",
            "registry": "r",
            "unknown_fields": "rescue",
        },
        {"topic": "t", "key": "_rescued", "unknown_fields": "rescue"},
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ProjectError) as caught:
        stream(**options)
    assert [problem.condition for problem in caught.value.problems] == ["wrong-value"]


def test_a_stream_that_rescues_fields_has_a_column_for_them_and_no_field() -> None:
    rescuing = stream(topic="t", unknown_fields="rescue")
    assert rescuing.types == {"a": "string", "_rescued": "string"}
    assert [column.name for column in rescuing.columns if column.is_rescued] == [
        "_rescued"
    ]
    for word in ("ignore", "dead_letter"):
        assert stream(topic="t", unknown_fields=word).types == {"a": "string"}
    assert stream(topic="t", envelope="debezium", unknown_fields="rescue").rescues


def test_encodings_of_one_byte_a_character_are_known_by_any_name() -> None:
    assert find_encoding("Latin-1") == find_encoding("ISO-8859-1") == "iso8859-1"
    assert find_encoding("windows-1252") == "cp1252"
    assert [
        find_encoding(name) for name in ("gbk", "cp037", "unicode_escape", "hex", "x")
    ] == [None] * 5
    assert characters("cp1252")[0x80] == "€"
