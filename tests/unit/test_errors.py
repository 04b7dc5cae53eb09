from __future__ import annotations

import pytest

from lakesql.conditions import CONDITIONS, UNREACHABLE
from lakesql.errors import (
    MAX_LISTED,
    InternalError,
    LakesqlError,
    Place,
    Problem,
    ProfileError,
    ProjectError,
    RunError,
    TransientError,
    UsageError,
    did_you_mean,
    render_problem,
)
from tests.cases import each_of


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place("a.sql"), "a.sql"),
        (Place("a.sql", 3), "a.sql:3"),
        (Place("a.sql", 3, 5), "a.sql:3:5"),
    ],
)
def test_a_place_is_what_an_editor_opens(place: Place, text: str) -> None:
    assert str(place) == text


def test_a_problem_keeps_the_place_that_it_has() -> None:
    placed = Problem("cycle", "x", place=Place("a", 1, 1))
    assert placed.at(Place("b")) is placed
    assert Problem("cycle", "x").at(Place("b")).place == Place("b")


def test_an_undeclared_condition_is_an_internal_error() -> None:
    with pytest.raises(InternalError) as caught:
        Problem("no-such-condition", "x")
    assert [problem.condition for problem in caught.value.problems] == ["internal"]


@each_of(
    ("kind", "exit_code"),
    [
        (ProjectError, 2),
        (ProfileError, 2),
        (UsageError, 2),
        (RunError, 1),
        (TransientError, 1),
        (InternalError, 1),
    ],
)
def test_the_type_of_an_error_says_who_must_act(
    kind: type[LakesqlError], exit_code: int
) -> None:
    error = kind.of("cycle", "x", place=Place("a", 1))
    assert type(error) is kind
    assert error.exit_code == exit_code
    assert error.problems == (Problem("cycle", "x", place=Place("a", 1)),)
    assert getattr(error, "transient", False) == (kind is TransientError)


@each_of("condition", sorted(UNREACHABLE))
def test_what_does_not_answer_may_at_the_next_try(condition: str) -> None:
    """1 is what schedulers try again; they give up at 2."""
    away = Problem(condition, "x")
    assert ProfileError([away]).exit_code == 1
    assert ProfileError([away, Problem("missing-option", "x")]).exit_code == 2
    assert LakesqlError([]).exit_code == 2


def test_the_unreachable_are_those_that_are_called_so() -> None:
    assert {name for name in CONDITIONS if name.endswith("-unreachable")} == UNREACHABLE


@each_of(
    ("name", "known", "found"),
    [
        ("ordres", ["orders", "clicks"], "'orders'"),
        ("ORDERS", ["clicks", "orders"], "'orders'"),
        ("orders", ["ORDERS"], "'ORDERS'"),
        ("zzz", ["b", "a", "a"], "a, b."),
        ("", ["b", "a"], "a, b."),
    ],
)
def test_the_nearest_name_is_suggested(name: str, known: list[str], found: str) -> None:
    assert found in did_you_mean(name, known)


def test_a_suggestion_stays_short() -> None:
    assert did_you_mean("x", []) == ""
    listed = did_you_mean("zzz", [f"model_{number:03}" for number in range(1000)])
    assert listed.count("model_") == MAX_LISTED
    assert "model_000" in listed and "980" in listed


def test_a_caret_stands_under_the_column_whatever_is_before_it() -> None:
    problem = Problem("unknown-option", "what", "why", "fix", Place("m.sql", 12, 4))
    lines = render_problem(problem, "\té keyz=1").split("\n")
    assert lines[0] == "error[unknown-option] m.sql:12:4"
    assert lines[1] == "  12 | \té keyz=1"
    assert lines[2] == "     | \t  ^"
    assert lines[3:] == ["  what", "  why", "  fix"]


def test_a_problem_says_what_to_do_by_its_condition_or_in_words_of_its_own() -> None:
    assert (
        Problem("cycle", "what").fix
        == CONDITIONS["cycle"].do
        == ProjectError.of("cycle", "what").problems[0].fix
    )
    assert Problem("cycle", "what", fix="Break it at b.").fix == "Break it at b."


def test_a_problem_without_a_line_is_its_sentences() -> None:
    assert (
        render_problem(Problem("cycle", "what", fix="fix"))
        == "error[cycle]\n  what\n  fix"
    )


@each_of(
    ("condition", "path", "column", "line", "shown"),
    [
        (
            "client-option",
            "s.yml",
            5,
            '    sasl.jaas.config: x password="hush";',
            "    sasl.jaas.config: …",
        ),
        ("client-option", "s.yml", 5, "  - {kafka: {p: hush}}", "  - {kafka: …"),
        (
            "client-option",
            "m.sql",
            11,
            "{{ config(options={'x.y': 'hush'}) }}",
            "{{ config(options=…",
        ),
        (
            "kafka-option",
            "profiles.yml",
            3,
            "  ssl.key.text: hush",
            "  ssl.key.text: …",
        ),
        ("unknown-option", "s.yml", 1, "password: hush", "password: …"),
        (
            "unknown-option",
            "p.yaml",
            20,
            'a: {"s3.secret-access-key" : hush, b: 1}',
            'a: {"s3.secret-access-key" : …',
        ),
        ("yaml-syntax", "profiles.yml", 9, "  token: 'hush", "  token: …"),
        (
            "missing-option",
            "profiles.yml",
            3,
            "  uri: postgresql://me:hu@sh@h/db",
            "  uri: postgresql://me:…@h/db",
        ),
    ],
)
def test_a_quoted_line_holds_no_password(
    condition: str, path: str, column: int, line: str, shown: str
) -> None:
    said = render_problem(
        Problem(condition, "what", place=Place(path, 7, column)), line
    )
    assert "hush" not in said and "hu@sh" not in said
    assert f"  7 | {shown}\n" in said


def test_a_line_of_sql_is_quoted_whatever_its_columns_are_called() -> None:
    line = "WHERE token = 'a' AND pass:x = 2"
    assert f"  7 | {line}\n" in render_problem(
        Problem("sql-syntax", "what", place=Place("m.sql", 7, 9)), line
    )


def test_a_caret_stands_only_under_text_that_is_shown() -> None:
    line = "a: {password: hush, b: 1}"
    assert "^" in render_problem(
        Problem("unknown-option", "what", place=Place("p.yml", 7, 5)), line
    )
    assert "^" not in render_problem(
        Problem("unknown-option", "what", place=Place("p.yml", 7, 21)), line
    )
