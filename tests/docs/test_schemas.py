"""The JSON Schemas of a project's files, against what lakesql itself says of the files
of all tests and docs."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from docs.schemas import FOLDER_OF_SCHEMAS, render_schemas, stale_schemas
from lakesql.decode import Node, decode
from lakesql.errors import LakesqlError
from lakesql.graph.named_selectors import parse_selectors
from lakesql.graph.read_file import parse_declarations
from lakesql.project.files import SourceFile
from lakesql.project.profiles import Target, read_registries, render_env
from lakesql.project.settings import parse_settings
from lakesql.project.toml import parse_toml
from lakesql.project.yaml import parse_yaml, render_yaml

ROOT = Path(__file__).parents[2]
SECTIONS = ("models", "streams", "unit_tests", "seeds", "source_tables")


@cache
def validator(name: str) -> Draft7Validator:
    return Draft7Validator(json.loads((FOLDER_OF_SCHEMAS / f"{name}.json").read_text()))


def conditions_of(kind: str, text: str) -> list[str]:
    """What lakesql says of a file by itself."""
    try:
        match kind:
            case "properties":
                return [
                    each.condition
                    for each in parse_declarations(SourceFile("a.yml", text)).problems
                ]
            case "selectors":
                parse_selectors(SourceFile("selectors.yml", text))
            case "pyproject":
                settings = parse_settings("pyproject.toml", text)
                assert settings.name
            case _:
                for profile in parse_yaml("profiles.yml", text).entries().values():
                    for name, output in profile.entries()["outputs"].entries().items():
                        _decode_target(name, render_env(output, {**os.environ, **SET}))
    except LakesqlError as error:
        return [each.condition for each in error.problems]
    except KeyError:
        return ["missing-option"]
    return []


class _AnySet(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "1"


SET: dict[str, str] = _AnySet()


def _decode_target(name: str, output: Node) -> None:
    given = {"name": name, "registries": read_registries(output)}
    decode(output, Target, what=name, words="target", given=given)


_IN_CASE = re.compile(
    r"^=== (\S+)[^\n]*\n(.*?)(?=^(?:===|#####|>>>>>)|\Z)", re.M | re.S
)


def all_files() -> Iterator[tuple[str, str, str]]:
    """The kind, the text and the place of each file of a project that the repository
    has."""
    folders = [ROOT / name for name in ("tests", "docs", "streams", "models")]
    paths = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "target" not in path.parts
    ]
    for path in [
        *sorted(paths),
        ROOT / "profiles.yml",
        ROOT / "pyproject.toml",
        ROOT / "README.md",
    ]:
        place = path.relative_to(ROOT).as_posix()
        if path.suffix == ".case":
            for name, text in re.findall(
                r"^=== (\S+)[^\n]*\n(.*?)(?=^(?:===|#####|>>>>>)|\Z)",
                path.read_text(),
                re.M | re.S,
            ):
                yield from _kinds(name, text, f"{place}: {name}")
        elif path.suffix == ".md":
            for language, text in re.findall(
                r"^```(ya?ml|toml)\n(.*?)^```", path.read_text(), re.M | re.S
            ):
                name = (
                    "pyproject.toml"
                    if language == "toml"
                    else "profiles.yml"
                    if "outputs:" in text
                    else "a.yml"
                )
                yield from _kinds(name, text, place)
        elif path.name == "pyproject.toml" or path.suffix in (".yml", ".yaml"):
            yield from _kinds(path.name, path.read_text(), place)
            if "cases" in path.parts:
                for name, text in _texts_in(yaml.safe_load(path.read_text())):
                    yield from _kinds(name, text, f"{place}: {name}")


def _texts_in(value: Any) -> Iterator[tuple[str, str]]:
    """The files that a case of the linter has, by their paths."""
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, str) and str(key).endswith((".yml", ".toml")):
                yield str(key), each
            yield from _texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts_in(each)


def _kinds(name: str, text: str, place: str) -> Iterator[tuple[str, str, str]]:
    known = {
        "profiles.yml": "profiles",
        "selectors.yml": "selectors",
        "pyproject.toml": "pyproject",
    }
    kind = known.get(Path(name).name, "properties")
    if kind == "properties" and not re.search(rf"^({'|'.join(SECTIONS)}):", text, re.M):
        return
    yield kind, text, place


@cache
def accepted_files() -> list[tuple[str, str, str, Any]]:
    """The files that lakesql accepts, each with what it holds."""
    found = []
    for kind, text, place in all_files():
        if not conditions_of(kind, text):
            read = parse_toml if kind == "pyproject" else parse_yaml
            found.append((kind, text, place, read(place, text).plain()))
    return found


def test_they_are_fresh_and_are_schemas() -> None:
    assert stale_schemas() == {}
    for text in render_schemas().values():
        Draft7Validator.check_schema(json.loads(text))


def test_no_file_that_lakesql_accepts_is_refused() -> None:
    refused = []
    for kind, _, place, value in accepted_files():
        for error in validator(kind).iter_errors(value):
            refused.append(f"{place}: {error.json_path} {error.message[:200]}")
    assert refused == []
    counts = {
        kind: sum(1 for each in accepted_files() if each[0] == kind)
        for kind in ("properties", "profiles")
    }
    assert counts["properties"] > 150 and counts["profiles"] > 10, counts


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for each in (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    ):
        yield from _mappings(each)


def _misspell(value: Any, chance: random.Random) -> bool:
    """Give one key of a mapping a letter more."""
    mapping = chance.choice([each for each in _mappings(value) if each])
    key = chance.choice([*mapping])
    mapping[f"{key}q"] = mapping.pop(key)
    return True


def _change_type(value: Any, chance: random.Random) -> bool:
    """Put a mapping, a list or a number in the place of another value."""
    mapping = chance.choice([each for each in _mappings(value) if each])
    key = chance.choice([*mapping])
    mapping[key] = chance.choice([{"a": 1}, [[1]], 7])
    return True


@pytest.mark.parametrize(
    ("change", "conditions", "share"),
    [(_misspell, {"unknown-option"}, 0.9), (_change_type, {"wrong-type"}, 0.6)],
    ids=["a key is misspelt", "a value is of another type"],
)
def test_most_files_that_lakesql_refuses_for_a_key_or_a_type_are_refused(
    change: Callable[[Any, random.Random], bool], conditions: set[str], share: float
) -> None:
    chance = random.Random(1)
    told, refused, missed = 0, 0, []
    for kind, _, place, value in chance.sample(accepted_files(), 150):
        if kind == "pyproject":
            continue
        for _ in range(2):
            changed = json.loads(json.dumps(value, default=str))
            if not any(_mappings(changed)):
                continue
            change(changed, chance)
            text = render_yaml(changed)
            if not conditions & {*conditions_of(kind, text)}:
                continue
            told += 1
            if validator(kind).is_valid(parse_yaml(place, text).plain()):
                missed.append(f"{place}: {text[:300]}")
            else:
                refused += 1
    assert told > 50
    assert refused / told >= share, (refused, told, missed[:5])
