"""A file that stands for a model for each table of a feed, as the project is read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.compiled import compiled_files
from lakesql.errors import ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.graph.selector import parse_selection, select_nodes
from lakesql.lint.lint import lint
from lakesql.lint.lint_settings import LintSettings
from lakesql.stream.found_tables import tables_in
from lakesql.stream.recording import RawRecord
from lakesql.stream.source_table import tables_text

FEED = "streams: [{name: shop, connection: broker, pattern: 'shop\\..*', envelope: debezium}]\n"
TABLES = """source_tables:
  - {stream: shop, name: public.orders, topic: shop.public.orders, key: [id], columns: {id: bigint, email: string}}
  - {stream: shop, name: sales.orders, topic: shop.sales.orders, key: [id], columns: {id: bigint}}
  - {stream: shop, name: public.audit_a, topic: shop.public.audit_a, key: [id], columns: {id: bigint}}
"""
MIRROR = "{{ config(mode='cdc', tables=%s) }}\nSELECT * FROM {{ stream('shop') }}"
PROFILES = """g:
  target: dev
  outputs:
    dev:
      namespace: shop
      catalog: {name: lake, type: sql, uri: 'sqlite:///lake.db', warehouse: warehouse}
      checkpoints: checkpoints
      connections: {broker: {type: recorded, path: recorded}}
"""


def load(folder: Path, files: dict[str, str] | None = None, **tables: Any) -> Manifest:
    texts = {
        "pyproject.toml": "[tool.lakesql]\nname = 'g'\n",
        "profiles.yml": PROFILES,
        "streams/shop.yml": FEED + TABLES,
        "models/mirror.sql": MIRROR % tables,
        **(files or {}),
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return load_project(Options(project_dir=folder))


def refusals(
    folder: Path, files: dict[str, str] | None = None, **tables: Any
) -> list[str]:
    with pytest.raises(ProjectError) as caught:
        load(folder, files, **tables)
    return [problem.condition for problem in caught.value.problems]


def selected(manifest: Manifest, *words: str) -> list[str]:
    found = select_nodes(parse_selection(words, ()), manifest.graph)
    return sorted(id_.removeprefix("model.") for id_ in found.ids)


def record(
    table: str,
    row: dict[str, Any],
    topic: str = "shop.t",
    key: str = "id",
    **source: str,
) -> RawRecord:
    event = {
        "op": "c",
        "after": row,
        "source": {"schema": "public", "table": table, **source},
    }
    fields = [{"field": name, "type": "int64"} for name in row]
    schema = {"fields": [{"field": "after", "fields": fields}]}
    value = json.dumps({"schema": schema, "payload": event}).encode()
    return RawRecord(topic, 0, 0, 0, json.dumps({key: row[key]}).encode(), value)


def test_each_table_that_is_taken_is_a_model(tmp_path: Path) -> None:
    manifest = load(tmp_path, exclude=["public.audit_*"])
    assert sorted(manifest.models) == ["mirror.public_orders", "mirror.sales_orders"]
    model = manifest.models["mirror.public_orders"]
    assert (str(model.table), model.fqn) == (
        "lake.shop.public_orders",
        ("g", "mirror", "public_orders"),
    )
    assert manifest.streams["shop__public_orders"].key == ("id",)
    assert manifest.groups["mirror"].members == (
        "mirror.public_orders",
        "mirror.sales_orders",
    )


def test_a_rule_is_for_a_column_whatever_its_capitals(tmp_path: Path) -> None:
    manifest = load(tmp_path, columns={"*.EMAIL": "mask_hash"})
    assert (
        "sha2"
        in compiled_files(manifest).compile(["mirror.public_orders"])[
            "mirror.public_orders"
        ]
    )
    assert manifest.warnings == ()


def test_a_rule_that_is_for_no_column_is_told(tmp_path: Path) -> None:
    (told,) = load(
        tmp_path, columns={"public.orders.mail": "mask_hash", "public.*": "mask_null"}
    ).warnings
    assert (told.condition, told.fix) == (
        "unknown-column",
        "Did you mean 'public.orders.email'?",
    )


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (
            ["mirror"],
            ["mirror.public_audit_a", "mirror.public_orders", "mirror.sales_orders"],
        ),
        (["mirror.public_*"], ["mirror.public_audit_a", "mirror.public_orders"]),
        (["mirror.sales_orders"], ["mirror.sales_orders"]),
        (
            ["models/mirror.sql"],
            ["mirror.public_audit_a", "mirror.public_orders", "mirror.sales_orders"],
        ),
        (
            ["stream:shop__sales_orders+"],
            ["mirror.sales_orders", "stream.shop__sales_orders"],
        ),
    ],
)
def test_selectors_find_a_group_and_its_models(
    tmp_path: Path, words: list[str], wanted: list[str]
) -> None:
    assert selected(load(tmp_path), *words) == wanted


def test_models_are_compiled_each_into_a_file(tmp_path: Path) -> None:
    manifest = load(tmp_path, columns={"*.email": "mask_null"})
    compiled = compiled_files(manifest).compile(manifest.models)
    paths = [
        path.relative_to(manifest.outputs.compiled)
        for path in manifest.outputs.compiled.rglob("*.sql")
    ]
    assert sorted(map(str, paths)) == [
        "models/mirror/public_audit_a.sql",
        "models/mirror/public_orders.sql",
        "models/mirror/sales_orders.sql",
    ]
    assert "CAST(NULL AS string) AS email" in compiled["mirror.public_orders"]
    assert "AS email" not in compiled["mirror.sales_orders"]


def test_folders_give_options_to_a_group_and_to_one_table_of_it(tmp_path: Path) -> None:
    settings = "[tool.lakesql.models.mirror]\ntags = ['x']\n[tool.lakesql.models.mirror.sales_orders]\ntags = ['y']\n"
    manifest = load(
        tmp_path, {"pyproject.toml": f"[tool.lakesql]\nname = 'g'\n{settings}"}
    )
    assert manifest.models["mirror.public_orders"].config.tags == ("x",)
    assert manifest.models["mirror.sales_orders"].config.tags == ("x", "y")


def test_a_file_and_properties_may_be_of_one_table(tmp_path: Path) -> None:
    own = "{{ config(mode='upsert', keys=['id'], delete_when=\"_change.op = 'd'\") }} SELECT id FROM {{ stream('shop') }}"
    properties = "models: [{name: mirror.public_orders, description: All orders.}]"
    manifest = load(
        tmp_path, {"models/mirror.sales_orders.sql": own, "models/m.yml": properties}
    )
    assert manifest.models["mirror.sales_orders"].config.mode == "upsert"
    assert [
        found.name for found in manifest.models["mirror.sales_orders"].facts.streams
    ] == ["shop__sales_orders"]
    assert (
        manifest.models["mirror.public_orders"].properties.description == "All orders."
    )


def test_the_linter_says_once_what_it_finds_in_a_group(tmp_path: Path) -> None:
    select = "SELECT *, id = '1' AS is_first FROM {{ stream('shop') }}"
    manifest = load(
        tmp_path,
        {"models/mirror.sql": f"{{{{ config(mode='cdc', tables={{}}) }}}}\n{select}"},
    )
    assert [
        found.code for found in lint(manifest, LintSettings(), manifest.models)
    ] == ["LK052"]


def test_another_model_reads_one_of_a_group(tmp_path: Path) -> None:
    view = "{{ config(mode='materialized_view') }} SELECT count(*) AS n FROM {{ ref('mirror.public_orders') }}"
    manifest = load(tmp_path, {"models/n.sql": view})
    assert "model.mirror.public_orders" in manifest.graph.nodes["model.n"].depends_on


@pytest.mark.parametrize(
    ("files", "tables", "wanted"),
    [
        ({}, {"include": ["public.*"], "nam": "x"}, ["unknown-option"]),
        ({}, {"name": "all"}, ["wrong-value"]),
        ({}, {"name": "{schem}_{table}"}, ["wrong-value"]),
        ({}, {"name": "{table}"}, ["duplicate-name"]),
        ({}, {"columns": {"email": "drop"}}, ["wrong-value"]),
        ({}, {"columns": {"*.email": "hash"}}, ["wrong-value"]),
        ({}, {"columns": {"*.email": "mask_truncate"}}, ["wrong-value"]),
        ({}, {"columns": {"*.email": "cast(strin)"}}, ["unknown-type"]),
        ({}, {"rename": {"public.order": "o"}}, ["unknown-source-table"]),
        ({}, {"new_tables": "drop"}, ["wrong-value"]),
        ({"models/mirror.public_order.sql": MIRROR % "None"}, {}, ["wrong-type"]),
        (
            {
                "models/a.b.c.sql": "{{ config(mode='append') }} SELECT * FROM {{ stream('shop') }}"
            },
            {},
            ["bad-name"],
        ),
        (
            {
                "models/a.b.sql": "{{ config(mode='append') }} SELECT * FROM {{ stream('shop') }}"
            },
            {},
            ["bad-name"],
        ),
        (
            {
                "models/mirror.public_order.sql": "{{ config(mode='append') }} SELECT * FROM {{ stream('shop') }}"
            },
            {},
            ["unknown-source-table"],
        ),
        (
            {
                "models/n.sql": "{{ config(mode='table') }} SELECT * FROM {{ ref('mirror') }}"
            },
            {},
            ["unknown-ref"],
        ),
        ({"streams/more.yml": TABLES}, {}, ["duplicate-name"] * 3),
        (
            {"streams/more.yml": "source_tables: [{stream: shp, name: a.b}]"},
            {},
            ["unknown-stream"],
        ),
        (
            {"models/mirror.sql": "{{ config(mode='cdc', tables={}) }} SELECT 1 AS a"},
            {},
            ["group-stream"],
        ),
        (
            {"models/mirror.sql": MIRROR.replace("'cdc'", "'ccd'") % {}},
            {},
            ["unknown-mode"],
        ),
    ],
)
def test_what_a_group_is_refused_for(
    tmp_path: Path, files: dict[str, str], tables: dict[str, Any], wanted: list[str]
) -> None:
    assert refusals(tmp_path, files, **tables) == wanted


def test_tables_that_a_feed_has_are_found_in_its_newest_records(tmp_path: Path) -> None:
    feed = load(tmp_path).streams["shop"]
    found = tables_in(
        [
            record("a", {"id": 1}),
            record("b", {"id": 1}),
            record("a", {"id": 1, "n": 2}),
        ],
        feed,
    )
    assert [(table.name, table.topic, table.key) for table in found] == [
        ("public.a", "shop.t", ("id",)),
        ("public.b", "shop.t", ("id",)),
    ]
    assert [len(table.schema_fields) for table in found] == [2, 1]


def test_a_file_of_tables_reads_as_what_was_found(tmp_path: Path) -> None:
    feed = load(tmp_path).streams["shop"]
    found = tables_in([record("a", {"id": 1, "n": 2}, topic="shop.public.a")], feed)
    manifest = load(
        tmp_path,
        {"streams/shop.yml": FEED, "streams/shop.tables.yml": tables_text(found)},
    )
    (table,) = manifest.source_tables
    assert (table.name, table.topic, table.key, table.schema_fields) == (
        found[0].name,
        found[0].topic,
        found[0].key,
        found[0].schema_fields,
    )


def test_what_a_file_declares_of_a_table_counts_beside_its_recording(
    tmp_path: Path,
) -> None:
    """A pull request that changes the schema changes the columns, before any record has
    them."""
    fields = "[{field: id, type: int64}, {field: n, type: int64}, {field: extra, type: string}]"
    table = f"source_tables: [{{stream: shop, name: public.a, topic: shop.public.a, key: [id], fields: {fields}}}]"
    folder = tmp_path / "recorded/shop.public.a"
    folder.mkdir(parents=True)
    recorded = '[{"field": "id", "type": "int64"}, {"field": "n", "type": "int32"}]'
    schema = f'{{"fields": [{{"field": "after", "fields": {recorded}}}]}}'
    event = '{"op": "c", "after": {"id": 1, "n": 2}, "source": {"schema": "public", "table": "a"}}'
    line = (
        f'{{"key": {{"id": 1}}, "value": {{"schema": {schema}, "payload": {event}}}, '
    )
    (folder / "part-1.jsonl").write_text(
        line + '"partition": 0, "offset": 0, "timestamp": 0}\n'
    )
    manifest = load(tmp_path, {"streams/shop.yml": FEED + table})
    columns = {
        column.name: column.type
        for column in manifest.streams["shop__public_a"].columns
    }
    assert columns == {"id": "bigint", "n": "bigint", "extra": "string"}


@pytest.mark.parametrize(
    ("new_tables", "conditions", "lacks"),
    [
        ("create", [], False),
        ("refuse", ["new-table"], True),
        ("ignore", ["table-left-out"], False),
    ],
)
def test_what_becomes_of_a_table_that_no_file_declares(
    tmp_path: Path, new_tables: str, conditions: list[str], lacks: bool
) -> None:
    folder = tmp_path / "recorded/shop.public.new"
    folder.mkdir(parents=True)
    line = '{"value": {"schema": {"fields": [{"field": "after", "fields": [{"field": "id", "type": "int64"}]}]}, '
    line += '"payload": {"op": "c", "after": {"id": 1}, "source": {"schema": "public", "table": "new"}}}, '
    (folder / "part-1.jsonl").write_text(
        line + '"key": {"id": 1}, "partition": 0, "offset": 0, "timestamp": 0}\n'
    )
    manifest = load(tmp_path, new_tables=new_tables)
    assert [warning.condition for warning in manifest.warnings] == conditions
    assert ("mirror.public_new" in manifest.models) == (new_tables == "create")
    assert manifest.lacks_tables(manifest.models) == lacks


def test_a_table_that_was_found_and_does_not_fit_stops_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "recorded/shop.public.log"
    folder.mkdir(parents=True)
    line = '{"value": {"op": "c", "after": {"at": 1}, "source": {"schema": "public", "table": "log"}}, '
    (folder / "part-1.jsonl").write_text(
        line + '"key": null, "partition": 0, "offset": 0, "timestamp": 0}\n'
    )
    manifest = load(tmp_path)
    assert [warning.condition for warning in manifest.warnings] == ["table-unfit"]
    assert sorted(manifest.models) == [
        "mirror.public_audit_a",
        "mirror.public_orders",
        "mirror.sales_orders",
    ]
    assert manifest.lacks_tables(manifest.models)


def test_a_table_that_was_only_truncated_is_not_known_yet(tmp_path: Path) -> None:
    """It has no row, and no record says its key."""
    feed = load(tmp_path).streams["shop"]
    cleared = record("a", {"id": 1})
    event = json.loads(cleared.value or b"")
    event["payload"] |= {"op": "t", "after": None}
    truncate = replace(cleared, key=None, value=json.dumps(event).encode())
    assert tables_in([truncate], feed) == []
    (table,) = tables_in([cleared, truncate], feed)
    assert (table.key, len(table.schema_fields)) == (("id",), 1)


def test_what_tells_of_a_tables_schema_is_no_change_of_it(tmp_path: Path) -> None:
    """MySQL's connector writes it to a topic that is called as the prefix of all
    others, which a pattern may take."""
    feed = load(tmp_path).streams["shop"]
    row = record("a", {"id": 1}, topic="shop.public.a")
    event = json.loads(row.value or b"")["payload"]
    told = {
        "source": event["source"],
        "databaseName": "public",
        "ddl": "ALTER TABLE a ADD n int",
    }
    altered = RawRecord(
        "shop", 0, 0, 1, b'{"databaseName": "public"}', json.dumps(told).encode()
    )
    (table,) = tables_in([row, altered], feed)
    assert (table.topic, table.key) == ("shop.public.a", ("id",))


def test_a_name_for_a_table_that_no_row_has_come_of_stops_no_other(
    tmp_path: Path,
) -> None:
    """One that is empty is not in the feed."""
    write_recorded(tmp_path, "new")
    manifest = load(
        tmp_path,
        {"streams/shop.yml": FEED},
        rename={"public.empty": "later", "public.new": "renamed"},
    )
    assert [
        (warning.condition, bool(warning.why)) for warning in manifest.warnings
    ] == [("unknown-source-table", True)]
    assert [*manifest.models] == ["mirror.renamed"] and not manifest.lacks_tables(
        manifest.models
    )


def write_recorded(
    folder: Path, table: str, column: str = "id", topic: str = ""
) -> None:
    """A record of a table that no file declares."""
    place = folder / "recorded" / f"shop.public.{topic or table}"
    place.mkdir(parents=True, exist_ok=True)
    fields = [
        {"field": name, "type": "int64"} for name in dict.fromkeys(("id", column))
    ]
    payload = {
        "op": "c",
        "after": dict.fromkeys(("id", column), 1),
        "source": {"schema": "public", "table": table},
    }
    value = {
        "schema": {"fields": [{"field": "after", "fields": fields}]},
        "payload": payload,
    }
    line = {
        "value": value,
        "key": {"id": 1},
        "partition": 0,
        "offset": len(list(place.iterdir())),
        "timestamp": 0,
    }
    (place / f"part-{len(list(place.iterdir()))}.jsonl").write_text(
        json.dumps(line) + "\n"
    )


def test_a_name_that_is_too_long_stops_no_other_table(tmp_path: Path) -> None:
    write_recorded(tmp_path, "a" * 250, topic="long")
    manifest = load(tmp_path)
    assert [warning.condition for warning in manifest.warnings] == ["table-unfit"]
    assert len(manifest.models) == 3 and manifest.lacks_tables(manifest.models)
    renamed = load(tmp_path, rename={f"public.{'a' * 250}": "short"})
    assert "mirror.short" in renamed.models and not renamed.lacks_tables(renamed.models)


def test_a_column_that_no_table_has_is_declared_with_another_name(
    tmp_path: Path,
) -> None:
    """As the advice says it."""
    write_recorded(tmp_path, "dotted", "with.dot")
    (warning,) = load(tmp_path).warnings
    assert warning.condition == "table-unfit"
    entry = '{stream: "shop", name: "public.dotted", topic: "shop.public.dotted", key: ["id"], columns: {…}}'
    assert entry in warning.fix
    columns = "{id: bigint, with_dot: {type: bigint, from: 'with.dot'}}"
    declared = "source_tables: [" + entry.replace("{…}", columns) + "]"
    manifest = load(tmp_path, {"streams/dotted.yml": declared})
    assert manifest.warnings == () and "mirror.public_dotted" in manifest.models


def test_tables_that_share_a_topic_take_each_its_own_changes(tmp_path: Path) -> None:
    for table in ("größe", "gräße"):
        write_recorded(tmp_path, table, topic="gr__e")
    manifest = load(tmp_path, rename={"public.größe": "sizes"})
    taken = {
        name: manifest.streams[f"shop__{name}"].source_table
        for name in ("sizes", "public_gr__e", "public_orders")
    }
    assert taken == {
        "sizes": ("public.größe",),
        "public_gr__e": ("public.gräße",),
        "public_orders": (),
    }


DATABASES = ("north", "south")
DECLARED = "".join(
    f"  - {{stream: shop, name: {it}.public.new, topic: shop.public.{it}.new, key: [id], columns: {{id: bigint}}}}\n"
    for it in DATABASES
)


def test_a_table_of_another_database_that_is_called_the_same_is_told(
    tmp_path: Path,
) -> None:
    """It is in a topic of its own, which is not read."""
    for database in DATABASES:
        write_recorded(tmp_path, "new", topic=f"{database}.new")
    manifest = load(tmp_path, {"streams/shop.yml": FEED})
    (warning,) = manifest.warnings
    assert warning.condition == "table-unfit"
    assert all(f"'shop.public.{it}.new'" in warning.what for it in DATABASES)
    assert [*manifest.models] == ["mirror.public_new"] and manifest.lacks_tables(
        manifest.models
    )


def test_a_file_that_declares_one_of_them_leaves_the_other_to_be_told(
    tmp_path: Path,
) -> None:
    for database in DATABASES:
        write_recorded(tmp_path, "new", topic=f"{database}.new")
    one = DECLARED.splitlines()[0].replace("north.public", "public")
    manifest = load(tmp_path, {"streams/shop.yml": f"{FEED}source_tables:\n{one}\n"})
    assert [warning.condition for warning in manifest.warnings] == ["table-unfit"]


def test_tables_of_two_databases_are_both_read_where_files_say_these(
    tmp_path: Path,
) -> None:
    for database in DATABASES:
        write_recorded(tmp_path, "new", topic=f"{database}.new")
    files = {"streams/shop.yml": f"{FEED}source_tables:\n{DECLARED}"}
    manifest = load(tmp_path, files, rename={"south.public.new": "south_new"})
    assert not manifest.warnings
    assert sorted(manifest.models) == ["mirror.public_new", "mirror.south_new"]
