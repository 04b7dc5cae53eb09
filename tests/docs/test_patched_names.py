"""What tests put in the place of names of the package is there: a test of a rare tier
would tell of it months later."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")
)
BY_NAME = ("setattr", "delattr", "patch")
BY_OBJECT = ("setattr", "delattr", "object")


def test_what_is_patched_is_there() -> None:
    found = [
        (path, line, name)
        for path in FILES
        for line, name in patched_names(ast.parse(path.read_text("utf-8")))
    ]
    assert len(found) > 80
    missing = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, line, name in found
        if not is_there(name)
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("patch.setattr('lakesql.names.ROW', 1)", ["lakesql.names.ROW"]),
        ("with mock.patch('lakesql.names.NONE'): ...", ["lakesql.names.NONE"]),
        (
            "from lakesql import names\npatch.setattr(names, 'NONE', 1)",
            ["lakesql.names.NONE"],
        ),
        (
            "from lakesql.errors import Problem\nmock.patch.object(Problem, 'at')",
            ["lakesql.errors.Problem.at"],
        ),
        ("patch.setattr('os.name', 1)\nsetattr(self, 'x', 1)", []),
    ],
)
def test_patched_names_are_found(text: str, names: list[str]) -> None:
    assert [name for _, name in patched_names(ast.parse(text))] == names


def patched_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The whole names of what a file patches in the package, each with its line."""
    imported = dict(imported_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = patched_name(node, imported)
            if name.startswith("lakesql."):
                yield node.lineno, name


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (
                (each.asname or each.name, f"{node.module}.{each.name}")
                for each in node.names
            )


def patched_name(call: ast.Call, imported: Mapping[str, str]) -> str:
    """What a call patches; '' where it patches nothing that can be told."""
    what = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    texts = [
        each.value if isinstance(each, ast.Constant) else None for each in call.args[:2]
    ]
    if what in BY_NAME and texts and isinstance(texts[0], str):
        return texts[0]
    if what not in BY_OBJECT or len(texts) < 2 or not isinstance(texts[1], str):
        return ""
    owner = call.args[0]
    return (
        f"{imported.get(owner.id, '')}.{texts[1]}"
        if isinstance(owner, ast.Name)
        else ""
    )


def is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
