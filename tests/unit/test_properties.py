from __future__ import annotations

import pytest

from lakesql.errors import Place, ProjectError
from lakesql.model.properties import (
    ColumnProperties,
    FileSections,
    Freshness,
    ModelProperties,
    read_model_properties,
    read_sections,
)
from lakesql.project.duration import Duration
from lakesql.project.yaml import parse_yaml
from tests.cases import each_of


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        for node in read_sections(parse_yaml("p.yml", text)).models:
            read_model_properties(node)
    return [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ]


def test_a_file_has_models_and_streams() -> None:
    text = "x-a: 1\nmodels: [{name: m}, {}]\nstreams:\n- name: s\nunit_tests: [{name: t}]\nseeds: [{name: d}]\n"
    sections = read_sections(parse_yaml("p.yml", text))
    assert [node.plain() for node in sections.unit_tests] == [{"name": "t"}]
    assert [node.plain() for node in sections.models] == [{"name": "m"}, {}]
    assert [node.plain() for node in sections.streams] == [{"name": "s"}]
    assert [node.plain() for node in sections.seeds] == [{"name": "d"}]


@each_of("text", ["", "models:", "models: []\nstreams: ~", "x-only: 1"])
def test_a_file_may_say_nothing(text: str) -> None:
    assert read_sections(parse_yaml("p.yml", text)) == FileSections()


def test_every_property_of_a_model_is_read() -> None:
    text = (
        "models:\n  - description: 'a {{ b }}'\n    name: orders\n    columns:\n"
        "      - {name: ID, description: its number, tests: [not_null, {expression: ID > 0}]}\n      - {name: b}\n"
    )
    (node,) = read_sections(parse_yaml("p.yml", text)).models
    found = read_model_properties(node)
    assert found == ModelProperties(
        place=Place("p.yml", 3, 5),
        name="orders",
        description="a {{ b }}",
        columns=(
            ColumnProperties("ID", "its number", found.columns[0].tests),
            ColumnProperties("b"),
        ),
    )
    assert [entry.word for entry in found.columns[0].tests] == [
        "not_null",
        "expression",
    ]
    assert [found.description_of(name) for name in ("id", "B", "c")] == [
        "its number",
        "",
        "",
    ]


def test_what_a_table_is_held_to_is_read() -> None:
    limits = "{warn_after: 90 seconds, error_after: 1 hour 30 minutes, max_average_small_files: 2.5, "
    limits += "max_compaction_lag: 2 days, max_dead_letter_ratio: 0}"
    (node,) = read_sections(
        parse_yaml("p.yml", f"models: [{{name: a, freshness: {limits}}}]")
    ).models
    assert read_model_properties(node).freshness == Freshness(
        Duration("90 seconds", 90_000),
        Duration("1 hour 30 minutes", 5_400_000),
        2.5,
        Duration("2 days", 172_800_000),
        0.0,
    )


@each_of(
    ("text", "condition", "place"),
    [
        ("- a", "wrong-type", "1:1"),
        ("modles: []", "unknown-option", "1:1"),
        ("models: {orders: {}}", "wrong-type", "1:9"),
        ("models: orders", "wrong-type", "1:9"),
        ("streams: 3", "wrong-type", "1:10"),
        ("models: [orders]", "wrong-type", "1:10"),
        ("models: [{}]", "missing-option", "1:10"),
        ("models: [{name: 3}]", "bad-name", "1:17"),
        ("models: [{name: a b}]", "bad-name", "1:17"),
        ("models: [{name: a, place: x}]", "unknown-option", "1:20"),
        ("models: [{name: a, description: 3}]", "wrong-type", "1:33"),
        ("models: [{name: a, description: }]", "wrong-type", "1:33"),
        ("models: [{name: a, columns: [b]}]", "wrong-type", "1:30"),
        (
            "models: [{name: a, columns: [{name: b, tests: not_null}]}]",
            "wrong-type",
            "1:47",
        ),
        ("models: [{name: a, columns: [{name: b, tests: 3}]}]", "wrong-type", "1:47"),
        (
            "models: [{name: a, columns: [{name: b, type: int}]}]",
            "unknown-option",
            "1:40",
        ),
        ("models: [{name: a, freshness: }]", "wrong-type", "1:31"),
        ("models: [{name: a, freshness: 5 minutes}]", "wrong-type", "1:31"),
        ("models: [{name: a, freshness: {}}]", "missing-option", "1:31"),
        ("models: [{name: a, freshness: {warn: 5 minutes}}]", "unknown-option", "1:32"),
        ("models: [{name: a, freshness: {warn_after: 5}}]", "bad-interval", "1:44"),
        (
            "models: [{name: a, freshness: {warn_after: {count: 5, period: minute}}}]",
            "bad-interval",
            "1:44",
        ),
        (
            "models: [{name: a, freshness: {error_after: 2 months}}]",
            "bad-interval",
            "1:45",
        ),
        (
            "models: [{name: a, freshness: {warn_after: 1 hour, error_after: 60 minutes}}]",
            "wrong-value",
            "1:44",
        ),
        (
            "models: [{name: a, freshness: {max_average_small_files: -1}}]",
            "wrong-value",
            "1:57",
        ),
        (
            "models: [{name: a, freshness: {max_average_small_files: .inf}}]",
            "wrong-value",
            "1:57",
        ),
        (
            "models: [{name: a, freshness: {max_average_small_files: true}}]",
            "wrong-value",
            "1:57",
        ),
        (
            "models: [{name: a, freshness: {max_compaction_lag: 0.5}}]",
            "bad-interval",
            "1:52",
        ),
        (
            "models: [{name: a, freshness: {max_dead_letter_ratio: 1.1}}]",
            "wrong-value",
            "1:55",
        ),
        (
            "models: [{name: a, freshness: {max_dead_letter_ratio: '0.1'}}]",
            "wrong-value",
            "1:55",
        ),
    ],
)
def test_each_mistake_has_a_condition_and_a_place(
    text: str, condition: str, place: str
) -> None:
    assert problems(text) == [(condition, f"p.yml:{place}")]


def test_all_problems_of_a_model_are_reported_together() -> None:
    assert problems("models: [{name: a b, columns: {b: c}, tset: []}]") == [
        ("unknown-option", "p.yml:1:39"),
        ("bad-name", "p.yml:1:17"),
        ("unknown-option", "p.yml:1:32"),
        ("missing-option", "p.yml:1:31"),
    ]
