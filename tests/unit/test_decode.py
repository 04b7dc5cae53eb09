from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from lakesql.decode import (
    MAX_SHOWN,
    Node,
    decode,
    fields_of,
    node_of,
    option,
    read_each,
    read_entries,
    read_option_text,
    read_positive,
    read_value,
)
from lakesql.errors import Place, ProjectError
from lakesql.project.yaml import parse_yaml
from tests.cases import each_of


@dataclass(frozen=True, slots=True)
class Inner:
    a: int = option("A number.")
    b: tuple[str, ...] = option("Words.", default=())


@dataclass(frozen=True, slots=True)
class Outer:
    name: str = option("A name.")
    size: int | None = option("A size.", default=3)
    ratio: float = option("A ratio.", default=0.5)
    flag: bool = option("A flag.", default=False)
    kind: Literal["x", "y"] = option("A kind.", default="x")
    inner: Inner | None = option("More.", default=None)
    texts: Mapping[str, str] = option("Texts.", factory=dict)
    many: tuple[Inner, ...] = option("Several.", default=())


def read(text: str, **given: object) -> Outer:
    return decode(parse_yaml("f.yml", text), Outer, what="an outer", given=given)


def problems(text: str) -> list[tuple[str, int | None, int | None]]:
    with pytest.raises(ProjectError) as caught:
        read(text)
    return [
        (
            problem.condition,
            problem.place and problem.place.line,
            problem.place and problem.place.column,
        )
        for problem in caught.value.problems
    ]


def test_everything_that_is_given_is_decoded() -> None:
    text = """\
name: n
size: 7
ratio: 1
flag: true
kind: y
inner: {a: 1, b: one}
texts: {k: v, l: w}
many: [{a: 2, b: [x, y]}, {a: 3}]
x-anchors: {anything: 1}
"""
    assert read(text) == Outer(
        name="n",
        size=7,
        ratio=1.0,
        flag=True,
        kind="y",
        inner=Inner(1, ("one",)),
        texts={"k": "v", "l": "w"},
        many=(Inner(2, ("x", "y")), Inner(3)),
    )
    assert isinstance(read("{name: n, ratio: 1}").ratio, float)


def test_a_missing_field_has_its_default() -> None:
    assert read("name: n") == Outer("n", 3, 0.5, False, "x", None, {}, ())
    assert read("{name: n, size: ~, inner: null}") == Outer("n", size=None, inner=None)


@each_of(
    ("line", "condition", "column"),
    [
        ("nmae: n", "unknown-option", 1),
        ("size: x", "wrong-type", 7),
        ("size: 1.5", "wrong-type", 7),
        ("size: true", "wrong-type", 7),
        ("size: [1]", "wrong-type", 7),
        ("ratio: yes", "wrong-type", 8),
        ("ratio: {a: 1}", "wrong-type", 8),
        ("flag: 1", "wrong-type", 7),
        ("flag: 'true'", "wrong-type", 7),
        ("flag:", "wrong-type", 6),
        ("kind: z", "wrong-value", 7),
        ("kind: [x]", "wrong-value", 7),
        ("kind: {x: 1}", "wrong-value", 7),
        ("kind: 1", "wrong-value", 7),
        ("inner: 3", "wrong-type", 8),
        ("inner: {}", "missing-option", 8),
        ("inner: {a: 1, b: {c: 1}}", "wrong-type", 18),
        ("inner: {a: 1, b: [x, 3]}", "wrong-type", 22),
        ("inner: {a: 1, c: 2}", "unknown-option", 15),
        ("texts: [a]", "wrong-type", 8),
        ("texts: {k: 1}", "wrong-type", 12),
        ("many: [{a: 1}, {b: x}]", "missing-option", 16),
    ],
)
def test_each_mistake_has_a_condition_and_a_place(
    line: str, condition: str, column: int
) -> None:
    assert problems(f"name: n\n{line}") == [(condition, 2, column)]


def test_all_problems_of_a_tree_are_reported_together() -> None:
    assert problems("size: x\nkind: z\nsice: 1\nmany: [{a: x}, 3, {a: y}]") == [
        ("unknown-option", 3, 1),
        ("missing-option", 1, 1),
        ("wrong-type", 1, 7),
        ("wrong-value", 2, 7),
        ("wrong-type", 4, 12),
        ("wrong-type", 4, 16),
        ("wrong-type", 4, 23),
    ]


@each_of("text", ["- a", "text", "3", "~ "])
def test_a_tree_that_is_no_mapping_is_refused(text: str) -> None:
    condition = "missing-option" if text == "~ " else "wrong-type"
    assert problems(text) == [(condition, 1, 1)]


def test_a_field_that_the_caller_gives_is_no_option() -> None:
    assert read("size: 1", name="n") == Outer("n", 1)
    with pytest.raises(ProjectError) as caught:
        read("name: other", name="n")
    assert [problem.condition for problem in caught.value.problems] == [
        "unknown-option"
    ]


def test_ignored_keys_are_no_unknown_options() -> None:
    node = parse_yaml("f", "{name: n, other: 1}")
    assert decode(node, Outer, what="x", ignore=frozenset({"other"})) == Outer("n")


def test_one_value_is_a_list_of_one() -> None:
    place = Place("f")
    assert read_value(Node("a", place), tuple[str, ...], "x") == ("a",)
    assert read_value(Node((), place), tuple[str, ...], "x") == ()
    with pytest.raises(ProjectError):
        read_value(Node(None, place), tuple[str, ...], "x")


def test_each_entry_is_placed_at_its_key() -> None:
    node = parse_yaml("f", "a: 1\nb: x\nc: y")

    def read_number(key: str, entry: Node) -> int:
        if isinstance(entry.value, int):
            return entry.value
        raise ProjectError.of("wrong-value", key)

    with pytest.raises(ProjectError) as caught:
        read_entries(node, read_number)
    assert [(problem.what, problem.place) for problem in caught.value.problems] == [
        ("b", Place("f", 2, 1)),
        ("c", Place("f", 3, 1)),
    ]
    assert read_entries(parse_yaml("f", "{a: 1, b: 2}"), read_number) == {
        "a": 1,
        "b": 2,
    }
    assert read_each(parse_yaml("f", "[1, 2]").items(), read_positive) == (1, 2)


@each_of("value", [0, -1, True, 1.0, "1", None, (), {}])
def test_a_count_is_one_at_least(value: Any) -> None:
    with pytest.raises(ProjectError) as caught:
        read_positive(node_of(value, Place("f", 2)))
    assert [
        (problem.condition, problem.place) for problem in caught.value.problems
    ] == [("wrong-value", Place("f", 2))]


@each_of(
    ("written", "text"),
    [
        ("1.10", "1.10"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("yes", "true"),
        ("off", "false"),
        ("'no'", "no"),
        ("010", "010"),
    ],
)
def test_a_handed_on_option_is_as_the_file_has_it(written: str, text: str) -> None:
    assert read_option_text(parse_yaml("f", f"a: {written}").entries()["a"]) == text


@pytest.mark.parametrize("written", ["~", "[a]", "{a: 1}"])
def test_a_handed_on_option_is_one_value(written: str) -> None:
    with pytest.raises(ProjectError) as caught:
        read_option_text(parse_yaml("f", f"a: {written}").entries()["a"])
    assert [problem.condition for problem in caught.value.problems] == ["wrong-type"]


@each_of(
    ("node", "shown"),
    [
        (Node("a", Place("f")), "'a'"),
        (Node(1000, Place("f"), written="1_000"), "'1_000'"),
        (
            Node("s3cret", Place("f"), written="{{ env_var('X') }}"),
            "'{{ env_var('X') }}'",
        ),
        (Node("a\n\x1bb", Place("f")), r"'a\n\x1bb'"),
        (Node("x" * 1000, Place("f")), "'" + "x" * MAX_SHOWN + "…'"),
        (Node(None, Place("f")), "An empty value"),
        (Node((), Place("f")), "A list"),
        (Node({}, Place("f")), "A mapping"),
    ],
)
def test_problems_show_a_value_as_it_is_written(node: Node, shown: str) -> None:
    assert node.shown == shown


def test_plain_values_have_no_places() -> None:
    value = {"a": [1, {"b": None}], "c": "d"}
    node = node_of(value, Place("f", 1, 1))
    assert node.plain() == value
    assert node.entries()["a"].items()[1].place == Place("f", 1, 1)
    assert node.get("z") is None


def test_the_docs_can_list_every_field() -> None:
    assert [
        (field.name, field.required, field.default, field.doc)
        for field in fields_of(Inner)
    ] == [
        ("a", True, None, "A number."),
        ("b", False, (), "Words."),
    ]


@dataclass(frozen=True, slots=True)
class Switches:
    on: bool = option("A switch.", default=False)
    share: float = option("A share.", default=0.0)
    label: str = option("A text.", default="")


@each_of(
    ("written", "expected"),
    [
        (("true", "0.5", "1"), Switches(True, 0.5, "1")),
        (("FALSE", "2", "true"), Switches(False, 2.0, "true")),
        (("yes", "1", ""), "wrong-type"),
        (("1", "1", ""), "wrong-type"),
        (("true", "inf", ""), "wrong-type"),
        (("true", "one", ""), "wrong-type"),
    ],
)
def test_a_rendered_text_is_read_as_the_field_takes_it(written, expected):
    place = Place("profiles.yml", 1, 1)
    entries = dict(
        zip(
            ("on", "share", "label"),
            (Node(text, place, written="{{ … }}") for text in written),
            strict=True,
        )
    )
    if isinstance(expected, Switches):
        assert decode(Node(entries, place), Switches, what="it") == expected
    else:
        with pytest.raises(ProjectError) as caught:
            decode(Node(entries, place), Switches, what="it")
        assert [problem.condition for problem in caught.value.problems] == [expected]
