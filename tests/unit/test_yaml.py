from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError
from lakesql.project.yaml import MAX_DEPTH, parse_yaml
from tests.cases import each_of


def problem(text: str) -> tuple[str, str]:
    with pytest.raises(ProjectError) as caught:
        parse_yaml("f.yml", text)
    (found,) = caught.value.problems
    assert found.place is not None
    return found.condition, str(found.place)


def test_every_value_and_every_key_has_its_place() -> None:
    root = parse_yaml("f.yml", "a: 1\nb:\n  - x\n  - {ü: 2, 'k k':  [3]}\n")
    assert root.place == Place("f.yml", 1, 1)
    assert root.keys == {"a": Place("f.yml", 1, 1), "b": Place("f.yml", 2, 1)}
    listed = root.entries()["b"].items()
    assert [item.place for item in listed] == [
        Place("f.yml", 3, 5),
        Place("f.yml", 4, 5),
    ]
    assert listed[1].keys == {"ü": Place("f.yml", 4, 6), "k k": Place("f.yml", 4, 12)}
    assert listed[1].entries()["k k"].items()[0].place == Place("f.yml", 4, 21)


@each_of(
    "text", ["", "# nothing\n", "---\n", "---\n# nothing\n", "~", "\ufeff", "\r\n\r\n"]
)
def test_nothing_is_an_empty_mapping(text: str) -> None:
    assert parse_yaml("f.yml", text) == Node({}, Place("f.yml", 1, 1))


@each_of(
    ("written", "value"),
    [
        ("true", True),
        ("Yes", True),
        ("on", True),
        ("no", False),
        ("OFF", False),
        ("y", "y"),
        ("!!bool maybe", "maybe"),
        ("12", 12),
        ("-1_000", -1000),
        ("0x1F", 31),
        ("0b11", 3),
        ("010", "010"),
        ("0o17", "0o17"),
        ("12:30", "12:30"),
        ("12:30:45.5", "12:30:45.5"),
        ("1.50", 1.5),
        ("1e5", "1e5"),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("9" * 5000, "9" * 5000),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("null", None),
        ("~", None),
        ("'null'", "null"),
        ("=", "="),
        ("'<<'", "<<"),
        ("!!str 12", "12"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_are_what_people_mean(written: str, value: object) -> None:
    found = parse_yaml("f.yml", f"a: {written}").entries()["a"]
    assert (type(found.value), found.value) == (type(value), value)


def test_a_number_knows_how_it_is_written() -> None:
    values = parse_yaml("f.yml", "{a: 1.10, b: 0x1F, c: no, d: text, e: ~}").entries()
    assert [node.written for node in values.values()] == [
        "1.10",
        "0x1F",
        "no",
        None,
        None,
    ]


def test_keys_are_texts_whatever_they_look_like() -> None:
    assert parse_yaml(
        "f.yml", "{on: 1, 3: 2, ~: 3, 1.0: 4, '': 5, 2026-01-01: 6}"
    ).plain() == {
        "on": 1,
        "3": 2,
        "~": 3,
        "1.0": 4,
        "": 5,
        "2026-01-01": 6,
    }


def test_aliases_and_merges_are_data() -> None:
    root = parse_yaml(
        "f.yml",
        "x-a: &a {k: 1, l: 2}\nx-b: &b {k: 3, m: 4}\none: {<<: *a, l: 5}\ntwo:\n  n: 6\n  <<: [*a, *b]\nsame: *b\n",
    )
    assert root.entries()["one"].plain() == {"k": 1, "l": 5}
    assert root.entries()["two"].plain() == {"k": 1, "l": 2, "m": 4, "n": 6}
    assert root.entries()["same"].plain() == {"k": 3, "m": 4}
    assert root.entries()["one"].keys == {
        "k": Place("f.yml", 1, 10),
        "l": Place("f.yml", 3, 15),
    }


@each_of(
    ("text", "condition", "place"),
    [
        ("a: 1\nb: 2\na: 3", "yaml-duplicate-key", "f.yml:3:1"),
        ("{a: {b: 1, 'b': 2}}", "yaml-duplicate-key", "f.yml:1:12"),
        ("1: x\n1: y", "yaml-duplicate-key", "f.yml:2:1"),
        ("<<: {a: 1}\n<<: {b: 1}", "yaml-duplicate-key", "f.yml:2:1"),
        ("a: !!python/object:os.system x", "yaml-tag", "f.yml:1:4"),
        ("!!python/name:os.system a: x", "yaml-tag", "f.yml:1:1"),
        ("a: !x [1]", "yaml-tag", "f.yml:1:4"),
        ("a: !!set {x}", "yaml-tag", "f.yml:1:4"),
        ("a: !!binary aGk=", "yaml-tag", "f.yml:1:4"),
        ("a: !!omap [x: 1]", "yaml-tag", "f.yml:1:4"),
        ("<<: 3", "wrong-type", "f.yml:1:5"),
        ("<<: [{a: 1}, x]", "wrong-type", "f.yml:1:14"),
        ("a: *nobody", "yaml-syntax", "f.yml:1:4"),
        ("a: &self [*self]", "yaml-syntax", "f.yml:1:11"),
        ("[a]: 1", "yaml-syntax", "f.yml:1:1"),
        ("a: {{ env_var('X') }}", "yaml-syntax", "f.yml:1:5"),
        ("a: 1\n---\nb: 2", "yaml-syntax", "f.yml:2:1"),
        ("a: b: c", "yaml-syntax", "f.yml:1:5"),
        ("a:\n\t- b", "yaml-syntax", "f.yml:2:1"),
        ("a: @x", "yaml-syntax", "f.yml:1:4"),
        ("%YAML 3.0\n---\na: 1", "yaml-syntax", "f.yml:1:1"),
        ("é: 1\nb: \x00", "yaml-syntax", "f.yml:2:4"),
        ("b: \x1b[31m", "yaml-syntax", "f.yml:1:4"),
        ("a: '\ud800'", "yaml-syntax", "f.yml:1:5"),
    ],
)
def test_what_is_no_plain_data_is_refused(
    text: str, condition: str, place: str
) -> None:
    assert problem(text) == (condition, place)


@each_of("opening", ["[", "a: {", "{a: ", "- ", "- - "])
def test_endless_nesting_ends_in_a_condition(opening: str) -> None:
    condition, _ = problem(opening.replace("a: {", "{a: ") * 200_000)
    assert condition == "yaml-too-large"


def test_nesting_up_to_the_bound_is_read() -> None:
    node = parse_yaml("f.yml", "- " * MAX_DEPTH + "x")
    for _ in range(MAX_DEPTH):
        (node,) = node.items()
    assert node.value == "x"
    assert problem("- " * (MAX_DEPTH + 1) + "x")[0] == "yaml-too-large"


@pytest.mark.parametrize(
    "level",
    [
        "a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]",
        "a{0}: &a{0} {{x: *a{1}, y: *a{1}, z: *a{1}}}",
    ],
)
def test_an_alias_bomb_is_counted_as_it_would_expand(level: str) -> None:
    lines = [
        "a0: &a0 [x, x, x, x, x, x, x, x]",
        *(level.format(n, n - 1) for n in range(1, 30)),
    ]
    assert problem("\n".join(lines))[0] == "yaml-too-large"


def test_a_chain_of_aliases_nests_as_deep_as_what_it_stands_for() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100))]
    assert problem("\n".join(lines))[0] == "yaml-too-large"


def test_a_document_may_be_as_large_as_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakesql.project.yaml.MAX_NODES", 1_000)
    assert len(parse_yaml("f.yml", "[" + "1," * 999 + "]").items()) == 999
    assert problem("[" + "1," * 1_000 + "]")[0] == "yaml-too-large"


def test_line_ends_of_every_system_count_as_lines() -> None:
    for end in ("\n", "\r\n", "\r"):
        root = parse_yaml("f.yml", f"\ufeffa: 1{end}b:{end}  c: 2{end}")
        assert root.plain() == {"a": 1, "b": {"c": 2}}
        assert root.entries()["b"].keys["c"] == Place("f.yml", 3, 3)


_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(_TEXT, _VALUES, max_size=3), st.booleans())
def test_what_is_written_is_read(value: dict[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=False)
    assert parse_yaml("f.yml", text).plain() == value


@given(st.text(st.sampled_from("ab:-[]{},&*!<>|'\"# \n\t?%@`~1.0"), max_size=30))
def test_any_text_is_a_tree_or_a_problem(text: str) -> None:
    try:
        parse_yaml("f.yml", text).plain()
    except ProjectError as error:
        assert all(problem.place is not None for problem in error.problems)


@each_of("text", ["a:\n\t- b\n", "a:\n  b: 1\n\tc: 2\n", "a:\n  \tb: 1\n", "\ta: 1"])
def test_a_tab_is_named_as_what_it_is(text: str) -> None:
    with pytest.raises(ProjectError) as caught:
        parse_yaml("f.yml", text)
    (found,) = caught.value.problems
    assert (found.condition, "tab" in found.what, "blanks" in found.fix) == (
        "yaml-syntax",
        True,
        True,
    )


@pytest.mark.parametrize("text", ["a:\tb: c: d", "a:\n  b:\tc: 'x", "a: b: c # \t"])
def test_a_tab_that_does_no_harm_is_not_blamed(text: str) -> None:
    with pytest.raises(ProjectError) as caught:
        parse_yaml("f.yml", text)
    assert "tab" not in caught.value.problems[0].what
