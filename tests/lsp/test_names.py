"""What a name means, where it is declared, where it is used, and what a rename
changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from lakesql.cli.init import write_project
from tests.lsp.editor import editing, run

ORDERS = "models/orders.sql"
REVENUE = "models/revenue_per_day.sql"


def test_hover_says_what_a_name_means(tmp_path: Path) -> None:
    write_project(tmp_path / "p", "shop")

    async def script() -> None:
        async with editing(tmp_path / "p", plain=True) as editor:
            editor.open(ORDERS)
            stream = await editor.hover(ORDERS, "stream('ord‸ers')")
            assert (
                "stream orders" in stream and "| `amount` | `decimal(12,2)` |" in stream
            )
            column = await editor.hover(ORDERS, "customer_id, am‸ount, status")
            assert column.startswith("**amount** `decimal(12,2)`, stream orders")
            option = await editor.hover(ORDERS, "sequ‸ence_by=")
            assert option.startswith("**sequence_by**:")
            assert "newest" in await editor.hover(ORDERS, "mode='up‸sert'")
            compiled = await editor.hover(ORDERS, "con‸fig(")
            assert (
                "MERGE INTO lake.shop.orders AS target" in compiled
                and "-- a day: " in compiled
            )
            assert await editor.hover(ORDERS, "SEL‸ECT") == ""
            editor.open(REVENUE)
            model = await editor.hover(REVENUE, "ref('or‸ders')")
            assert "mode upsert, table `lake.shop.orders`" in model
            assert "Orders as they are now. Purged ones are gone." in model
            assert "- a day: " in model and "- rows: " in model

    run(script())


def test_definitions_lead_through_jinja_to_every_kind_of_file(tmp_path: Path) -> None:
    write_project(tmp_path / "p", "shop")

    async def script() -> None:
        async with editing(tmp_path / "p", plain=True) as editor:
            editor.open(REVENUE)
            editor.open(ORDERS)
            assert await editor.definition(REVENUE, "ref('or‸ders')") == [
                (ORDERS, 1, 1)
            ]
            (found,) = await editor.definition(ORDERS, "stream('or‸ders')")
            assert _line(tmp_path / "p", found).strip() == "- name: orders"
            (found,) = await editor.definition(ORDERS, "customer_id, am‸ount, status")
            assert _line(tmp_path / "p", found).strip().startswith("amount:")
            editor.open("models/customers.sql")
            (found,) = await editor.definition("models/customers.sql", "cl‸ean(")
            assert found[0] == "macros/text.sql" and "macro clean" in _line(
                tmp_path / "p", found
            )
            editor.open("models/order_states.sql")
            (found,) = await editor.definition(
                "models/order_states.sql", "var('big‸_order'"
            )
            assert found[0] == "pyproject.toml" and _line(
                tmp_path / "p", found
            ).startswith("big_order")
            editor.open("models/shop.yml")
            (found,) = await editor.definition(
                "models/shop.yml", "  - name: or‸ders\n    description: Orders"
            )
            assert found == (ORDERS, 1, 1)

    run(script())


def _line(root: Path, found: tuple[str, int, int]) -> str:
    return (root / found[0]).read_text().splitlines()[found[1] - 1]


def test_a_table_of_a_group_leads_to_its_file_and_to_its_declaration(
    tmp_path: Path,
) -> None:
    files = {
        "streams/feed.yml": "streams:\n  - {name: feed, connection: shop, pattern: 'p.*', envelope: debezium}\n"
        "source_tables:\n  - {stream: feed, name: public.items, topic: p.items, key: [id], columns: {id: bigint}}\n",
        "models/mirror.sql": "{{ config(mode='cdc', tables={}) }}\nSELECT * FROM {{ stream('feed') }}\n",
        "models/reader.sql": "{{ config(mode='table') }}\nSELECT id FROM {{ ref('mirror.public_items') }}\n",
    }

    async def script() -> None:
        async with editing(tmp_path / "p", files) as editor:
            editor.open("models/reader.sql")
            found = await editor.definition(
                "models/reader.sql", "ref('mirror.pub‸lic_items')"
            )
            assert [(path, line) for path, line, _ in found] == [
                ("models/mirror.sql", 1),
                ("streams/feed.yml", 4),
            ]
            assert "| `id` | `bigint` |" in await editor.hover(
                "models/reader.sql", "ref('mirror.pub‸lic_items')"
            )
            with pytest.raises(JsonRpcException, match="stands for a table of a feed"):
                await editor.rename(
                    "models/reader.sql", "ref('mirror.pub‸lic_items')", "items"
                )

    run(script())


def test_references_are_found_in_every_kind_of_file(tmp_path: Path) -> None:
    write_project(tmp_path / "p", "shop")
    tests = tmp_path / "p" / "tests"
    tests.mkdir()
    (tests / "no_refunds.sql").write_text(
        "SELECT * FROM {{ ref('orders') }} WHERE amount < 0\n"
    )

    async def script() -> None:
        async with editing(tmp_path / "p", plain=True) as editor:
            editor.open(REVENUE)
            found = await editor.references(REVENUE, "ref('or‸ders')")
            paths = {path for path, _, _ in found}
            assert {"tests/no_refunds.sql", REVENUE, "models/shop.yml"} <= paths
            lines = [_line(tmp_path / "p", each) for each in found]
            assert all("orders" in line for line in lines)
            assert sum(1 for line in lines if "model: orders" in line) == 2
            assert not any("stream: orders" in line for line in lines), (
                "the stream has the same name"
            )
            editor.open(ORDERS)
            streams = await editor.references(ORDERS, "stream('or‸ders')")
            assert {"streams/shop.yml", ORDERS, "models/shop.yml"} <= {
                path for path, _, _ in streams
            }
            editor.open("models/customers.sql")
            macros = await editor.references("models/customers.sql", "cl‸ean(")
            assert ("macros/text.sql" in {path for path, _, _ in macros}) and len(
                macros
            ) > 1

    run(script())


def test_a_rename_changes_every_file_and_says_what_becomes_of_the_table(
    tmp_path: Path,
) -> None:
    files = {
        "models/orders_of_day.sql": "{{ config(mode='table') }}\nSELECT order_id FROM {{ ref('latest_orders') }}\n",
        "models/models.yml": "models:\n  - name: latest_orders\n    tests: [unique: {column: order_id}]\n"
        "  - name: all_payments\n    columns:\n      - name: order_id\n        tests:\n"
        "          - relationships: {to: ref('latest_orders'), field: order_id}\n",
        "pyproject.toml": '[tool.lakesql]\nname = "sample"\n\n[tool.lakesql.models.latest_orders]\ntags = ["a"]\n',
    }
    files["models/models.yml"] = files["models/models.yml"].replace(
        "    tests: [unique: {column: order_id}]\n", ""
    )

    async def script() -> None:
        async with editing(tmp_path / "p", files) as editor:
            path = "models/orders_of_day.sql"
            editor.open(path)
            edit = await editor.rename(path, "ref('latest‸_orders')", "newest_orders")
            assert (
                edit is not None
                and edit.document_changes is not None
                and edit.change_annotations is not None
            )
            changed = {}
            renamed = []
            for change in edit.document_changes:
                if isinstance(change, types.TextDocumentEdit):
                    name = editor.path(change.text_document.uri)
                    changed[name] = editor.apply(name, change.edits)
                elif isinstance(change, types.RenameFile):
                    renamed.append(
                        (editor.path(change.old_uri), editor.path(change.new_uri))
                    )
            assert renamed == [("models/latest_orders.sql", "models/newest_orders.sql")]
            assert changed == {
                name: files[name].replace("latest_orders", "newest_orders")
                for name in files
            }
            (said,) = editor.shown
            assert "lakesql rename latest_orders newest_orders" in said
            assert "lake.sample.latest_orders becomes lake.sample.newest_orders" in said
            assert next(iter(edit.change_annotations.values())).description == said
            assert (editor.root / "models/latest_orders.sql").exists(), (
                "the editor makes the edits"
            )
            # what the editor makes of it is a project without errors
            for name, text in changed.items():
                (editor.root / name).write_text(text)
            (editor.root / renamed[0][0]).rename(editor.root / renamed[0][1])
            editor.type(path, changed[path])
            editor.tell(renamed[0][0], types.FileChangeType.Deleted)
            editor.tell(renamed[0][1], types.FileChangeType.Created)
            await editor.settle()
            assert not any(
                each.severity == 1
                for found in editor.published.values()
                for each in found
            )

    run(script())


@pytest.mark.parametrize(
    ("at", "name", "why"),
    [
        ("ref('latest‸_orders')", "customers", "already"),
        ("ref('latest‸_orders')", "CUSTOMERS", "already"),
        ("ref('latest‸_orders')", "zones", "already"),
        ("ref('latest‸_orders')", "no name", "name"),
        ("ref('latest‸_orders')", "", "name"),
        ("SELECT order‸_id", "x", "Only the name of a model"),
    ],
)
def test_a_rename_that_cannot_be_is_refused(
    at: str, name: str, why: str, tmp_path: Path
) -> None:
    files = {
        "models/a.sql": "{{ config(mode='table') }}\nSELECT order_id FROM {{ ref('latest_orders') }}\n"
    }

    async def script() -> None:
        async with editing(tmp_path / "p", files) as editor:
            editor.open("models/a.sql")
            with pytest.raises(JsonRpcException, match=why):
                await editor.rename("models/a.sql", at, name)

    run(script())
