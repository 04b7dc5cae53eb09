from __future__ import annotations

import pytest

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError
from lakesql.project.toml import parse_toml
from tests.cases import each_of

DOCUMENT = '''\
# [tool.lakesql]
text = """
[tool.lakesql]
name = 'not here' """
[ tool . "lakesql" ] # the header
name = 'shop'   # a comment = 1
paths.models = "m"
paths . "stre\\u0061ms" = 's'
[tool.lakesql.models]
trigger = "1 minute"
tags = ["a", # ]
  'b, c',
  [1, {x = 2, y.z = [3]}],
]
"quoted key" = 1979-05-27 07:32:00
[tool.lakesql.models.staging.orders]
keys = ['id']
[[tool.lakesql.more]]
a = 1
[[tool.lakesql.more]]
a = 2
[tool.lakesql.more.inner]
b = -inf
[tool.lakesql.vars]
'''


def at(node: Node, *path: str | int) -> Node:
    for step in path:
        node = node.items()[step] if isinstance(step, int) else node.entries()[step]
    return node


def where(place: Place) -> tuple[int | None, int | None]:
    return place.line, place.column


ROOT = at(parse_toml("pyproject.toml", DOCUMENT), "tool", "lakesql")


@each_of(
    ("path", "key", "value"),
    [
        (("name",), (6, 1), (6, 8)),
        (("paths",), (7, 1), (7, 1)),
        (("paths", "models"), (7, 7), (7, 16)),
        (("paths", "streams"), (8, 9), (8, 26)),
        (("models",), (9, 15), (9, 1)),
        (("models", "trigger"), (10, 1), (10, 11)),
        (("models", "tags"), (11, 1), (11, 8)),
        (("models", "tags", 1), None, (11, 8)),
        (("models", "tags", 2, 1, "x"), (11, 8), (11, 8)),
        (("models", "tags", 2, 1, "y", "z", 0), None, (11, 8)),
        (("models", "quoted key"), (15, 1), (15, 16)),
        (("models", "staging"), (16, 22), (16, 22)),
        (("models", "staging", "orders"), (16, 30), (16, 1)),
        (("models", "staging", "orders", "keys", 0), None, (17, 8)),
        (("more",), (18, 16), (18, 1)),
        (("more", 0, "a"), (19, 1), (19, 5)),
        (("more", 1), None, (18, 1)),
        (("more", 1, "inner", "b"), (23, 1), (23, 5)),
        (("vars",), (24, 15), (24, 1)),
    ],
)
def test_keys_and_values_have_their_places(
    path: tuple[str | int, ...], key: tuple[int, int] | None, value: tuple[int, int]
) -> None:
    assert where(at(ROOT, *path).place) == value
    if key:
        assert where(at(ROOT, *path[:-1]).keys[str(path[-1])]) == key


def test_values_are_those_of_the_file() -> None:
    assert ROOT.plain() == {
        "name": "shop",
        "paths": {"models": "m", "streams": "s"},
        "models": {
            "trigger": "1 minute",
            "tags": ["a", "b, c", [1, {"x": 2, "y": {"z": [3]}}]],
            "quoted key": "1979-05-27 07:32:00",
            "staging": {"orders": {"keys": ["id"]}},
        },
        "more": [{"a": 1}, {"a": 2, "inner": {"b": float("-inf")}}],
        "vars": {},
    }


def test_lines_may_end_as_on_windows() -> None:
    root = parse_toml("f", DOCUMENT.replace("\n", "\r\n"))
    assert where(at(root, "tool", "lakesql", "models", "quoted key").place) == (15, 16)


def test_a_table_may_come_after_its_own_subtable() -> None:
    root = parse_toml("f", "[a.b]\nc = 1\n[a]\nd = 2\n")
    assert where(root.keys["a"]) == (1, 2)
    assert where(at(root, "a").place) == (3, 1)
    assert where(at(root, "a").keys["b"]) == (1, 4)
    assert where(at(root, "a").keys["d"]) == (4, 1)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_text_of_several_lines_may_end_in_quotes(quotes: str) -> None:
    root = parse_toml(
        "f", f"a = {quotes}\nx = 1\n{quotes[0]}y{quotes[:2]}{quotes}\nb = 2\n"
    )
    assert root.plain() == {"a": f"x = 1\n{quotes[0]}y{quotes[:2]}", "b": 2}
    assert where(root.keys["b"]) == (4, 1)


@each_of(
    ("text", "place"),
    [
        ("a = 1\nb == 2\n", "f:2:4"),
        ("a = 1\na = 2\n", "f:2:6"),
        ("[a]\n[a]\n", "f:2:3"),
        ("a = '\x00'", "f:1:6"),
        ("a = [1\n", "f"),
        ("a = " + "[" * 100_000, "f"),
        ("\ufeffa = 1", "f:1:1"),
    ],
)
def test_what_is_not_toml_is_refused(text: str, place: str) -> None:
    with pytest.raises(ProjectError) as caught:
        parse_toml("f", text)
    assert [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ] == [("toml-syntax", place)]
