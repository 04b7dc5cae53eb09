from __future__ import annotations

from lakesql.compile.checks import checked_rows, checks_of, kept_rows
from lakesql.graph.parse_cache import _DECLARATIONS
from lakesql.model.expectations import ExpectAcceptedValues, ExpectNotNull, ExpectThat
from lakesql.model.properties import (
    ModelProperties,
    read_model_properties,
    read_sections,
)
from lakesql.project.cache import decoder, encode
from lakesql.project.yaml import parse_yaml
from lakesql.review.option_changes import resolved
from lakesql.select.functions import is_unsteady
from tests.cases import each_of

TEXT = """
models:
  - name: m
    expect:
      - {that: "a >  0  OR b", on_fail: stop}
    columns:
      - {name: "a b", expect: [not_null, {accepted_values: [it's, 1, 2.50, true]}]}
      - {name: c, expect: {not_null: {name: "c!", on_fail: dead_letter}}}
"""


def read(text: str = TEXT) -> ModelProperties:
    (node,) = read_sections(parse_yaml("p.yml", text)).models
    return read_model_properties(node)


def test_each_expectation_has_a_name_and_a_condition() -> None:
    found = [
        (check.name, check.condition, check.on_fail, check.place.line)
        for check in checks_of(read())
    ]
    assert found == [
        ("a > 0 OR b", "a >  0  OR b", "stop", 5),
        ("not_null a b", "`a b` IS NOT NULL", "warn", 7),
        ("accepted_values a b", "`a b` IN ('it\\'s', 1, 2.5BD, true)", "warn", 7),
        ("c!", "c IS NOT NULL", "dead_letter", 8),
    ]
    assert [type(it) for _, it in read().expectations] == [
        ExpectThat,
        ExpectNotNull,
        ExpectAcceptedValues,
        ExpectNotNull,
    ]


def test_where_they_stand_makes_no_difference_and_a_cache_keeps_them() -> None:
    there, moved = read(), read(f"\n{TEXT}")
    assert there.expectations == moved.expectations
    assert resolved(there.expectations) == resolved(moved.expectations)
    assert decoder(_DECLARATIONS)(encode(there)) == there


def test_rows_stay_that_make_no_dead_letter() -> None:
    checks = checks_of(read())
    assert "NOT gone AND NOT (c IS NOT NULL) THEN 'c!'" in checked_rows(
        checks, "rows", "NOT gone"
    )
    assert kept_rows(checks, is_placed=False).endswith(
        "WHERE NOT arrays_overlap(_lakesql_failed, array('c!'))"
    )
    assert "WHERE" not in kept_rows(checks[:1], is_placed=True)


@each_of(
    ("text", "unsteady"),
    [
        ("at < Now()", True),
        ("current_timestamp > at", True),
        ("known = 1", False),
        ("a", False),
    ],
)
def test_what_may_be_another_value_when_it_is_read_again(
    text: str, unsteady: bool
) -> None:
    assert is_unsteady("1", text) == unsteady
