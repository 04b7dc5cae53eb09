"""A project that is known from a command before says what it would say if it were read
anew, whatever has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakesql.cli.init import write_project
from lakesql.cli.options import Options
from lakesql.cli.project import load_project, write_manifest
from lakesql.compile.compiled import compiled_files
from lakesql.errors import LakesqlError, ProjectError
from lakesql.graph.known_project import version_of
from lakesql.graph.manifest import Manifest
from lakesql.project.files import (
    ProjectFiles,
    SeedFile,
    SourceFile,
    outputs_of,
    read_project,
)
from lakesql.project.profiles import load_target
from tests.cases import each_of
from tests.share import a_few
from tests.unit.test_cli_cache import EDITS, change

Edit = Callable[[Path], object]

MORE_EDITS: dict[str, Edit] = {
    "a data test": change("models/shop.yml", "not_null", "unique"),
    "a unit test": change("models/shop.yml", "unit_tests:", "unit_tests:  # all"),
    "a second target": change("profiles.yml", "run: once", "run: continuous"),
    "a wrong option": change("models/orders.sql", "mode='", "moode='"),
    "a stream that is not there": change(
        "models/clicks.sql", "stream('", "stream('not_"
    ),
    "a new model": lambda shop: (shop / "models/more.sql").write_text(
        "{{ config(mode='append') }}\nSELECT order_id FROM {{ stream('orders') }}"
    ),
    "selectors": lambda shop: (shop / "selectors.yml").write_text(
        "selectors:\n  - {name: mine, default: true, definition: orders}\n"
    ),
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_project(tmp_path / "shop", "shop")
    return tmp_path / "shop"


def said_of(shop: Path, **options: Any) -> object:
    """All that a manifest says and what is compiled of it, or the conditions of what is
    wrong."""
    try:
        manifest = load_project(Options(project_dir=shop, **options))
        compiled = compiled_files(manifest)
        names = manifest.model_names
        texts = dict(compiled.compile(names))
        file = write_manifest(manifest, compiled).read_text()
        assert names == tuple(manifest.models)
    except LakesqlError as error:
        return sorted(problem.condition for problem in error.problems)
    derived = (manifest.file_streams, manifest.schema_paths)
    return (
        {field.name: getattr(manifest, field.name) for field in fields(Manifest)},
        derived,
        texts,
        file,
    )


def said_anew(shop: Path, **options: Any) -> object:
    shutil.rmtree(outputs_of(shop).target, ignore_errors=True)
    return said_of(shop, **options)


def is_known(shop: Path, **options: Any) -> bool:
    """Whether a command that asks for the graph alone reads no file for it."""
    manifest = load_project(Options(project_dir=shop, **options))
    assert manifest.graph.nodes
    try:
        object.__getattribute__(manifest, "models")
    except AttributeError:
        return True
    return False


def test_an_unchanged_project_is_known_and_says_the_same(shop: Path) -> None:
    first = said_of(shop)
    assert not isinstance(first, list)
    assert is_known(shop)
    assert said_of(shop) == first


@pytest.mark.parametrize("name", a_few({**EDITS, **MORE_EDITS}, 3))
def test_an_edit_is_seen(shop: Path, name: str) -> None:
    before = said_of(shop)
    {**EDITS, **MORE_EDITS}[name](shop)
    found = said_of(shop)
    assert found == said_anew(shop)
    if "compiled" not in name:
        assert found != before


@pytest.mark.parametrize("seed", a_few(range(12), 1))
def test_any_row_of_edits_is_seen(shop: Path, seed: int) -> None:
    """Edits one after the other, some of them undone, and variables of the command line
    in between."""
    random = Random(seed)
    edits = {**EDITS, **MORE_EDITS}
    kept = shop.parent / "kept"
    shutil.copytree(shop, kept)
    for _ in range(6):
        name = random.choice(sorted(edits))
        if random.random() < 0.3:
            shutil.copytree(kept, shop, dirs_exist_ok=True)
        try:
            edits[name](shop)
        except (AssertionError, OSError):
            continue  # it has been done, or what it edits is gone
        options = random.choice([{}, {"vars": "{big_order: 7}"}])
        found = said_of(shop, **options)
        target, away = outputs_of(shop).target, shop.parent / "away"
        target.mkdir(exist_ok=True)
        shutil.move(target, away)
        assert found == said_anew(shop, **options), name
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(away, target)


def test_variables_of_the_command_line_are_seen(shop: Path) -> None:
    without, given = said_of(shop), {"vars": "{big_order: 7}"}
    assert not is_known(shop, **given)
    assert said_of(shop, **given) == said_anew(shop, **given) != without
    assert is_known(shop, **given)
    assert said_of(shop) == without


def test_a_variable_of_the_environment_is_seen(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(
        "profiles.yml",
        "namespace: shop",
        "namespace: \"{{ env_var('SPACE', 'one') }}\"",
    )(shop)
    first = said_of(shop)
    monkeypatch.setenv("SPACE", "two")
    second = said_of(shop)
    assert first != second == said_anew(shop)


def test_a_link_on_the_disk_is_seen(shop: Path) -> None:
    """A namespace's folder that has become a link to the checkpoints' folder is
    refused, though no file has changed."""
    first = said_of(shop)
    assert is_known(shop)
    lake = shop / ".lakesql"
    (lake / "checkpoints").mkdir(parents=True, exist_ok=True)
    (lake / "warehouse").mkdir(exist_ok=True)
    (lake / "warehouse" / "shop").symlink_to(lake / "checkpoints")
    with pytest.raises(ProjectError) as caught:
        is_known(shop)
    assert [problem.condition for problem in caught.value.problems] == ["unsafe-folder"]
    (lake / "warehouse" / "shop").unlink()
    assert said_of(shop) == first


def test_a_secret_is_in_no_digest(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "LAKESQL_SECRET_KEY"
    change(
        "profiles.yml",
        "type: sql",
        f"s3.secret-access-key: \"{{{{ env_var('{secret}', 'none-of-it') }}}}\", type: sql",
    )(shop)
    versions = set()
    for value in ("correct-horse", "battery-staple"):
        monkeypatch.setenv(secret, value)
        assert not isinstance(said_of(shop), list)
        versions.add(load_project(Options(project_dir=shop)).version)
    assert len(versions) == 1 and "" not in versions


def test_where_a_folder_has_a_secret_in_its_name_nothing_is_known(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "LAKESQL_SECRET_PLACE"
    monkeypatch.setenv(secret, "hidden-place")
    change(
        "profiles.yml",
        "checkpoints: .lakesql",
        f"checkpoints: \"{{{{ env_var('{secret}') }}}}\"  #",
    )(shop)
    assert not isinstance(said_of(shop), list)
    assert not is_known(shop)
    assert load_project(Options(project_dir=shop)).version == ""


FOUND_ELSEWHERE = {
    "a stream whose columns are those of its records": {
        "streams/any.yml": "streams: [{name: any, connection: shop, topic: any, envelope: debezium}]\n",
    },
    "a group whose tables are those of its feed": {
        "streams/any.yml": "streams: [{name: any, connection: shop, pattern: 'any\\..*', envelope: debezium}]\n"
        "source_tables: [{stream: any, name: a.t, topic: any.a.t, key: [id], columns: {id: bigint}}]\n",
        "models/every.sql": "{{ config(mode='cdc', tables={}) }}\nSELECT * FROM {{ stream('any') }}",
    },
    "a schema that a program reads": {"streams/any.avsc": "{}"},
}


@pytest.mark.parametrize("name", FOUND_ELSEWHERE)
def test_what_is_found_elsewhere_than_in_files_is_looked_for_again(
    shop: Path, name: str
) -> None:
    assert load_project(Options(project_dir=shop)).version
    for path, text in FOUND_ELSEWHERE[name].items():
        (shop / path).write_text(text)
    for _ in range(2):
        assert load_project(Options(project_dir=shop)).version == ""


def test_a_manifest_with_another_field_is_no_longer_the_known_one(shop: Path) -> None:
    manifest = load_project(Options(project_dir=shop))
    assert manifest.version
    changed = replace(manifest, vars={**manifest.vars, "big_order": 1})
    assert changed.version == ""
    assert compiled_files(changed).key("order_states") != compiled_files(manifest).key(
        "order_states"
    )


ANOTHER = (SourceFile("a.sql", "SELECT 1"),)


@each_of(
    "name", [field.name for field in fields(ProjectFiles) if field.name != "settings"]
)
def test_whatever_the_files_say_makes_another_version(
    name: str, tmp_path: Path
) -> None:
    """But for the settings, which are those of their text."""
    (tmp_path / "pyproject.toml").write_text('[tool.lakesql]\nname = "shop"\n')
    (tmp_path / "profiles.yml").write_text("shop:\n  outputs:\n    dev: {}\n")
    files, target = read_project(tmp_path), load_target("shop", None, [tmp_path], {})
    others: dict[str, Any] = {
        "directory": tmp_path.parent,
        "outputs": outputs_of(tmp_path.parent),
        "settings_text": "",
        "selectors": ANOTHER[0],
        "seeds": (SeedFile("a.csv", "a", "1"),),
    }
    changed = replace(files, **{name: others.get(name, ANOTHER)})
    assert version_of(changed, target, {}, {}) != version_of(files, target, {}, {})
