from __future__ import annotations

import pytest

from lakesql.errors import ProjectError
from lakesql.project.settings import Paths, parse_settings
from tests.cases import each_of


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        parse_settings("pyproject.toml", text)
    return [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ]


def test_a_name_is_enough() -> None:
    settings = parse_settings("pyproject.toml", "[tool.lakesql]\nname = 'shop'\n")
    assert (settings.name, settings.profile, settings.paths) == (
        "shop",
        "shop",
        Paths("models", "streams", "macros"),
    )
    assert settings.vars.plain() == {} and settings.models.plain() == {}


def test_every_setting_of_a_project_is_read() -> None:
    settings = parse_settings(
        "pyproject.toml",
        "[tool.other]\nname = 1\n[tool.lakesql]\nname = 'shop'\nprofile = 'lake-house'\nx-note = 'any'\n"
        "[tool.lakesql.paths]\nmodels = './sql/models/'\n[tool.lakesql.vars]\na = [{b = 2026-01-31}]\n"
        "[tool.lakesql.models.staging]\ntags = ['x']\n",
    )
    assert (settings.name, settings.profile) == ("shop", "lake-house")
    assert settings.paths == Paths("sql/models", "streams", "macros")
    assert settings.vars.plain() == {"a": [{"b": "2026-01-31"}]}
    assert settings.models.plain() == {"staging": {"tags": ["x"]}}
    assert (
        str(settings.models.entries()["staging"].keys["tags"]) == "pyproject.toml:12:1"
    )


@each_of(
    "text", ["", "[tool]\n", "[tool.other]\nlakesql = 1\n", "[lakesql]\nname = 'x'\n"]
)
def test_a_project_without_settings_is_refused(text: str) -> None:
    assert problems(text) == [("no-settings", "pyproject.toml")]


@each_of(
    ("text", "condition", "place"),
    [
        ("tool = 3", "wrong-type", "1:8"),
        ("[tool]\nlakesql = 'x'", "wrong-type", "2:11"),
        ("[[tool.lakesql]]\nname = 'x'", "wrong-type", "1:1"),
        ("[tool.lakesql]\n", "missing-option", "1:1"),
        ("[tool.lakesql]\nname = 'a b'", "bad-name", "2:8"),
        ("[tool.lakesql]\nname = 3", "bad-name", "2:8"),
        ("[tool.lakesql]\nname = 'x'\nnmae = 'x'", "unknown-option", "3:1"),
        ("[tool.lakesql]\nname = 'x'\nprofile = ['x']", "wrong-type", "3:11"),
        ("[tool.lakesql]\nname = 'x'\nvars = 3", "wrong-type", "3:8"),
        ("[tool.lakesql]\nname = 'x'\nvars = []", "wrong-type", "3:8"),
        ("[tool.lakesql]\nname = 'x'\nmodels = 'm'", "wrong-type", "3:10"),
        (
            "[tool.lakesql]\nname = 'x'\n[[tool.lakesql.models]]\na = 1",
            "wrong-type",
            "3:1",
        ),
        ("[tool.lakesql]\nname = 'x'\npaths = 'm'", "wrong-type", "3:9"),
        ("[tool.lakesql]\nname = 'x'\npaths.modles = 'm'", "unknown-option", "3:7"),
        ("[tool.lakesql]\nname = 'x'\npaths.models = ['m', 'n']", "wrong-type", "3:16"),
        (
            "[tool.lakesql]\nname = 'x'\npaths = {models = '/etc'}",
            "outside-project",
            "3:9",
        ),
        (
            "[tool.lakesql]\nname = 'x'\npaths.macros = 'a/../../b'",
            "outside-project",
            "3:16",
        ),
        ("[tool.lakesql]\nname = \n", "toml-syntax", "2:8"),
    ],
)
def test_each_mistake_has_a_condition_and_a_place(
    text: str, condition: str, place: str
) -> None:
    assert problems(text) == [(condition, f"pyproject.toml:{place}")]


def test_all_problems_of_the_settings_are_reported_together() -> None:
    assert problems("[tool.lakesql]\nprofile = 1\npaths.models = 2\nnope = 3\n") == [
        ("unknown-option", "pyproject.toml:4:1"),
        ("missing-option", "pyproject.toml:1:1"),
        ("wrong-type", "pyproject.toml:2:11"),
        ("wrong-type", "pyproject.toml:3:16"),
    ]
