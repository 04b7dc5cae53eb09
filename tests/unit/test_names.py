from __future__ import annotations

from typing import Any

import pytest

from lakesql.decode import node_of
from lakesql.errors import Place, ProjectError
from lakesql.names import (
    check_column,
    check_landing,
    check_name,
    is_reserved,
    keeper_of,
)
from tests.cases import each_of

PLACE = Place("f", 2, 3)


def conditions(
    caught: pytest.ExceptionInfo[ProjectError],
) -> list[tuple[str, Place | None]]:
    return [(problem.condition, problem.place) for problem in caught.value.problems]


@each_of("name", ["orders", "_x", "A1_b", "record", "x_lakesql_"])
def test_a_plain_word_is_a_name(name: str) -> None:
    assert check_name(node_of(name, PLACE)) == name


@each_of(
    "value",
    [
        *(
            "",
            " a",
            "a b",
            "a.b",
            "1a",
            "a-b",
            "größe",
            "a\n",
            "a\x00",
            "`a`",
            "_record",
            "_Change",
            "_LAKESQL_x",
            "١",
        ),
        *(None, 3, True, 1.5, ["a"], {"a": 1}),
    ],
)
def test_a_text_that_is_no_plain_word_is_refused_as_a_name(value: Any) -> None:
    with pytest.raises(ProjectError) as caught:
        check_name(node_of(value, PLACE))
    assert conditions(caught) == [("bad-name", PLACE)]


@each_of(
    "name",
    [
        "a",
        "a b",
        "größe",
        "it's",
        'say "so"',
        "列",
        "1",
        "select",
        "a-b",
        "_records",
        "(x)",
    ],
)
def test_a_column_may_have_nearly_any_name(name: str) -> None:
    check_column(name, PLACE, "Rename it.")


@each_of(
    ("name", "condition"),
    [
        ("", "bad-column-name"),
        (" ", "bad-column-name"),
        ("a.b", "bad-column-name"),
        ("a`b", "bad-column-name"),
        ("a\nb", "bad-column-name"),
        ("a\x00", "bad-column-name"),
        ("\u200b", "bad-column-name"),
        ("_record", "reserved-column"),
        ("_RECORD", "reserved-column"),
        ("_change", "reserved-column"),
        ("_Lakesql_position", "reserved-column"),
    ],
)
def test_a_column_that_would_be_lost_is_refused(name: str, condition: str) -> None:
    with pytest.raises(ProjectError) as caught:
        check_column(name, PLACE, "Rename it.")
    assert conditions(caught) == [(condition, PLACE)]


def test_reserved_names_are_ours_in_every_spelling() -> None:
    assert [
        is_reserved(name)
        for name in (
            "_record",
            "_Change",
            "_lakesql_",
            "lakesql_",
            "record",
            "__record",
        )
    ] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


@each_of(
    ("name", "keeper"),
    [
        ("_file", "Iceberg"),
        ("_POS", "Iceberg"),
        ("_Row_Id", "Iceberg"),
        ("_last_updated_sequence_number", "Iceberg"),
        ("_commit_snapshot_id", "Iceberg"),
        ("__row_operation", "Spark's MERGE"),
        ("__Original_Row_Id_7", "Spark's MERGE"),
        *(
            (name, "")
            for name in (
                "pos",
                "file_path",
                "file",
                "_deleted_at",
                "_files",
                "row_id",
                "__row",
            )
        ),
    ],
)
def test_no_table_has_a_column_that_somebody_else_adds(name: str, keeper: str) -> None:
    assert keeper_of(name) == keeper
    check_column(name, PLACE)
    if keeper:
        with pytest.raises(ProjectError) as caught:
            check_landing(name, PLACE)
        assert conditions(caught) == [("reserved-column", PLACE)]
    else:
        check_landing(name, PLACE)
