from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakesql.errors import Place, ProjectError
from lakesql.graph.load_manifest import load_manifest
from lakesql.graph.manifest import Manifest, reads_model
from lakesql.graph.read_file import parse_declarations
from lakesql.model.config import AvailableNow, Every, Trigger
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.modes.append import Append
from lakesql.modes.upsert import Upsert
from lakesql.project.duration import Duration
from lakesql.project.files import ProjectFiles, SourceFile, outputs_of
from lakesql.project.profiles import Target
from lakesql.project.settings import parse_settings
from tests.cases import each_of

DIRECTORY = Path("/project")
STREAM = "streams: [{name: orders, topic: t, columns: {id: bigint}}]"
APPEND = "{{ config(mode='append') }} SELECT id FROM {{ stream('orders') }}"
UPSERT = "{{ config(mode='upsert', keys='id') }} SELECT id FROM {{ stream('orders') }}"


def load(
    files: Mapping[str, str],
    settings: str = "",
    overrides: Mapping[str, Any] | None = None,
    target: Target = Target("dev", "main"),  # noqa: B008
) -> Manifest:
    """A project of these files, one stream `orders` beside them unless they declare
    their own."""
    texts = {"streams/s.yml": STREAM, **files}

    def under(folder: str, *suffixes: str) -> tuple[SourceFile, ...]:
        paths = sorted(
            path
            for path in texts
            if path.startswith(f"{folder}/") and path.endswith(suffixes)
        )
        return tuple(SourceFile(path, texts[path]) for path in paths)

    parsed = parse_settings(
        "pyproject.toml", f"[tool.lakesql]\nname = 'shop'\n{settings}"
    )
    project = ProjectFiles(
        DIRECTORY,
        parsed,
        models=under(parsed.paths.models, ".sql"),
        streams=under(parsed.paths.streams, ".yml", ".yaml"),
        macros=under(parsed.paths.macros, ".sql"),
        properties=under(parsed.paths.models, ".yml", ".yaml"),
        outputs=outputs_of(DIRECTORY),
    )
    return load_manifest(project, target, overrides or {})


def problems(files: Mapping[str, str], settings: str = "") -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        load(files, settings)
    return [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ]


def test_an_empty_project_is_a_manifest() -> None:
    manifest = load({"streams/s.yml": ""})
    assert (manifest.streams, manifest.models, manifest.graph.nodes) == ({}, {}, {})
    assert manifest.target.checkpoints == "/project/.lakesql/checkpoints"


def test_a_model_is_its_file_its_folder_and_its_properties() -> None:
    manifest = load(
        {
            "models/staging/deep/orders.sql": UPSERT,
            "models/clicks.sql": "{{ config(mode='append', table='c', namespace='other') }} SELECT 1",
            "models/any.yml": "models: [{name: orders, description: what it is}]",
        },
        "[tool.lakesql.models.staging]\ntags = 'raw'\n",
    )
    orders, clicks = manifest.models["orders"], manifest.models["clicks"]
    assert (orders.fqn, orders.path) == (
        ("shop", "staging", "deep", "orders"),
        "models/staging/deep/orders.sql",
    )
    assert (orders.table, clicks.table) == (
        TableName("lake", "main", "orders"),
        TableName("lake", "other", "c"),
    )
    assert orders.config == Upsert(keys=("id",), tags=("raw",))
    assert orders.options == {"mode": "upsert", "keys": "id", "tags": "raw"}
    assert orders.properties == ModelProperties(
        Place("models/any.yml", 1, 11), "orders", "what it is"
    )
    assert (clicks.fqn, clicks.properties.description) == (("shop", "clicks"), "")
    assert isinstance(clicks.config, Append)


def test_the_graph_knows_who_reads_whom() -> None:
    manifest = load(
        {
            "models/orders.sql": APPEND,
            "models/clicks.sql": "{{ config(mode='append') }} SELECT id FROM {{ stream('orders') }}",
            "models/late.sql": APPEND.replace("orders", "clicks")
            + "\nJOIN {{ ref('orders') }}",
        }
    )
    assert manifest.graph.nodes["model.late"].depends_on == (
        "model.orders",
        "model.clicks",
    )
    assert manifest.graph.nodes["model.late"].references["model.orders"] == Place(
        "models/late.sql", 2, 13
    )
    assert manifest.graph.nodes["model.orders"].depends_on == ("stream.orders",)
    assert reads_model(manifest, "orders") is None
    assert reads_model(manifest, "clicks") == manifest.models["clicks"]


def test_streams_may_stand_beside_models() -> None:
    files = {
        "streams/s.yml": "",
        "models/shop.yml": STREAM + "\nmodels: [{name: m, description: x}]",
        "models/m.sql": APPEND,
    }
    manifest = load(files)
    assert list(manifest.streams) == ["orders"]
    assert manifest.models["m"].properties.description == "x"


def test_folders_may_lie_in_one_another() -> None:
    files = {
        "streams/s.yml": "",
        "models/streams/s.yml": STREAM,
        "models/m.sql": APPEND,
    }
    assert list(load(files, "paths.streams = 'models/streams'").streams) == ["orders"]
    assert list(load(files, "paths.streams = 'models'").streams) == ["orders"]


def test_vars_of_the_command_line_go_over_those_of_the_settings() -> None:
    settings = "[tool.lakesql.vars]\na = 1\nb = [{c = 2}]\n"
    assert load({}, settings, {"a": 3, "d": None}).vars == {
        "a": 3,
        "b": [{"c": 2}],
        "d": None,
    }


@each_of(
    ("files", "found"),
    [
        ({"models/a b.sql": APPEND}, ("bad-name", "models/a b.sql")),
        ({"models/orders.v2.sql": APPEND}, ("bad-name", "models/orders.v2.sql")),
        ({"models/_record.sql": APPEND}, ("bad-name", "models/_record.sql")),
        (
            {"models/a/m.sql": APPEND, "models/b/m.sql": APPEND},
            ("duplicate-name", "models/b/m.sql:1:1"),
        ),
        (
            {"models/a/m.sql": APPEND, "models/b/M.sql": APPEND},
            ("duplicate-name", "models/b/M.sql:1:1"),
        ),
        ({"models/ORDERS.sql": APPEND}, ("duplicate-name", "models/ORDERS.sql:1:1")),
        ({"streams/t.yml": STREAM}, ("duplicate-name", "streams/t.yml:1:12")),
        (
            {"streams/t.yml": STREAM.replace("orders", "Orders")},
            ("duplicate-name", "streams/t.yml:1:12"),
        ),
        ({"models/p.yml": STREAM}, ("duplicate-name", "models/p.yml:1:12")),
        (
            {"models/p.yml": "models: [{name: nobody}]"},
            ("unknown-model", "models/p.yml:1:11"),
        ),
        (
            {"models/p.yml": "models: [{name: M}]", "models/m.sql": APPEND},
            ("unknown-model", "models/p.yml:1:11"),
        ),
        (
            {
                "models/p.yml": "models: [{name: m}]",
                "models/q.yml": "models: [{name: m}]",
                "models/m.sql": APPEND,
            },
            ("duplicate-name", "models/q.yml:1:11"),
        ),
        (
            {
                "models/m.sql": APPEND,
                "models/n.sql": APPEND.replace("mode", "table='m', mode"),
            },
            ("duplicate-table", "models/n.sql:1:17"),
        ),
        (
            {
                "models/m.sql": APPEND,
                "models/n.sql": APPEND.replace("mode", "table='M', mode"),
            },
            ("duplicate-table", "models/n.sql:1:17"),
        ),
        (
            {"models/m.sql": APPEND, "models/m__dead_letter.sql": APPEND},
            ("duplicate-table", "models/m__dead_letter.sql:1:4"),
        ),
        (
            {
                "models/a.sql": APPEND.replace("mode", "table='m__Dead_letter', mode"),
                "models/m.sql": APPEND,
            },
            ("duplicate-table", "models/m.sql:1:4"),
        ),
        (
            {"models/m.sql": APPEND.replace("orders", "ordres")},
            ("unknown-stream", "models/m.sql:1:54"),
        ),
        (
            {"models/m.sql": APPEND + " JOIN {{ ref('x') }}"},
            ("unknown-ref", "models/m.sql:1:79"),
        ),
        (
            {"models/m.sql": APPEND + " JOIN {{ ref('orders') }}"},
            ("unknown-ref", "models/m.sql:1:79"),
        ),
        (
            {"models/m.sql": APPEND.replace("orders", "m")},
            ("cycle", "models/m.sql:1:54"),
        ),
        ({"macros/a.sql": "SELECT 1"}, ("not-a-macro", "macros/a.sql:1:1")),
        ({"models/m.sql": "SELECT 1"}, ("missing-option", "models/m.sql:1:1")),
    ],
)
def test_each_conflict_between_files_has_a_condition_and_a_place(
    files: Mapping[str, str], found: tuple[str, str]
) -> None:
    assert problems(files) == [found]


def test_one_broken_file_brings_no_other_problems() -> None:
    reader = "{{ config(mode='append') }} SELECT id FROM {{ stream('broken') }} JOIN {{ ref('bad') }}"
    files = {
        "models/m.sql": reader,
        "models/bad.sql": "{{ config(mode='apend') }}",
        "streams/t.yml": "streams: [",
    }
    assert [condition for condition, _ in problems(files)] == [
        "yaml-syntax",
        "unknown-mode",
    ]
    described = {
        "models/bad.sql": "{{ config(mode='apend') }}",
        "models/p.yml": "models: [{name: bad}]",
    }
    assert problems(described) == [("unknown-mode", "models/bad.sql:1:16")]


def test_the_problems_of_all_files_are_reported_together() -> None:
    files = {
        "streams/t.yml": "streams: [{name: 3}, {nme: x}]",
        "models/p.yml": "models: [{name: m, descr: x}]",
        "models/a.sql": "{{ config(mode='x') }}",
        "models/b.sql": "{{ config(mode='append', delete_when='x') }}",
    }
    assert {
        (condition, place.split(":")[0])
        for condition, place in problems(files, "models.tgas = 'x'")
    } == {
        ("bad-name", "streams/t.yml"),
        ("missing-option", "streams/t.yml"),
        ("unknown-option", "streams/t.yml"),
        ("unknown-option", "models/p.yml"),
        ("unknown-option", "pyproject.toml"),
        ("unknown-mode", "models/a.sql"),
        ("unknown-option", "models/b.sql"),
    }


def test_what_can_be_understood_of_a_file_is_kept() -> None:
    text = "streams: [{name: a, topic: t, columns: {x: int}}, {name: 3}]\nmodels: [{name: m}, {}]"
    found = parse_declarations(SourceFile("f.yml", text))
    assert [stream.name for stream in found.streams] == ["a"]
    assert [model.name for model in found.models] == ["m"]
    assert sorted(problem.condition for problem in found.problems) == [
        "bad-name",
        "missing-option",
    ]
    assert [
        problem.condition
        for problem in parse_declarations(SourceFile("f.yml", "- a")).problems
    ] == ["wrong-type"]


@each_of(
    ("config", "target", "trigger"),
    [
        ("", Target("dev"), Every("1 minute", 60_000)),
        (
            "",
            Target("dev", trigger=Duration("5 seconds", 5_000)),
            Every("5 seconds", 5_000),
        ),
        (", trigger='2 hours'", Target("dev"), Every("2 hours", 7_200_000)),
        (", trigger='available_now'", Target("dev"), AvailableNow()),
    ],
)
def test_a_trigger_is_the_models_or_the_targets(
    config: str, target: Target, trigger: Trigger
) -> None:
    text = f"{{{{ config(mode='append'{config}) }}}} SELECT 1"
    assert load({"models/m.sql": text}, target=target).models["m"].trigger == trigger
