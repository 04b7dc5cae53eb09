"""What is offered at the cursor, in texts that are broken off there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.editor import CURSOR, editing, run

CARTS = "models/all_carts.sql"
HEAD = "{{ config(mode='append') }}\n"
MACROS = {
    "macros/text.sql": "{% macro clean(text) %}lower(trim({{ text }})){% endmacro %}\n"
}
VARS = {
    "pyproject.toml": '[tool.lakesql]\nname = "sample"\n\n[tool.lakesql.vars]\nsmallest = 10\n'
}


@pytest.mark.parametrize(
    ("text", "offered", "kind"),
    [
        (
            HEAD + "SELECT cart_id FROM {{ stream('‸",
            {"orders", "carts", "clicks", "latest_orders"},
            "",
        ),
        (HEAD + 'SELECT cart_id FROM {{ stream("ca‸") }} -- more', {"carts"}, "stream"),
        (
            HEAD + "SELECT 1 FROM {{ ref('‸') }}",
            {"customers", "zones", "price_list"},
            "",
        ),
        (
            HEAD + "SELECT o.‸ FROM {{ stream('orders') }} AS o",
            {"order_id", "amount", "_record"},
            "",
        ),
        (
            HEAD + "SELECT cart_id, ‸\nFROM {{ stream('carts') }}",
            {"weight", "carts"},
            "",
        ),
        (
            HEAD
            + "SELECT o.‸ FROM {{ stream('carts') }} c JOIN {{ ref('latest_orders') }} o ON",
            {"created_at"},
            "",
        ),
        (
            HEAD
            + "WITH w AS (SELECT cart_id AS id, amount FROM {{ stream('carts') }}) SELECT w.‸ FROM w",
            {"id"},
            "",
        ),
        (
            HEAD
            + "SELECT s.‸ FROM (SELECT *, 1 AS one FROM {{ stream('carts') }}) s WHERE",
            {"one", "weight"},
            "",
        ),
        (
            "{{ config(mode='‸",
            {"append", "upsert", "materialized_view", "maintenance"},
            "",
        ),
        (
            "{{ config(mode='upsert', ‸) }}\nSELECT 1 FROM {{ stream('carts') }}",
            {"keys", "sequence_by"},
            "",
        ),
        (
            "{{ config(mode='append', on_schema_change='‸') }}\nSELECT",
            {"ignore", "fail", "sync_all_columns"},
            "",
        ),
        (
            "{{ config(mode='append', maintenance={'‸'}) }}",
            {"expire_snapshots", "rewrite_data_files"},
            "",
        ),
        (
            HEAD + "SELECT {{ cl‸ }} FROM {{ stream('carts') }}",
            {"clean", "stream", "ref", "this"},
            "",
        ),
        (
            HEAD + "SELECT {{ var('‸') }} FROM {{ stream('carts') }}",
            {"smallest"},
            "variable: 10",
        ),
    ],
)
def test_names_are_offered_where_they_may_stand(
    text: str, offered: set[str], kind: str, tmp_path: Path
) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p", MACROS, VARS) as editor:
            editor.open(CARTS)
            editor.type(CARTS, text)
            found = await editor.complete(CARTS, text)
            assert offered <= found.keys()
            assert kind in {found[name].detail or "" for name in offered} or not kind
            for name in offered - {
                "stream",
                "ref",
                "this",
            }:
                edit = found[name].text_edit
                assert edit is not None
                written = editor.written(CARTS, getattr(edit, "range"))  # noqa: B009  one of two kinds of edits
                assert name.startswith(written)

    run(script())


def test_columns_have_their_types_and_what_is_said_of_them(tmp_path: Path) -> None:
    described = {
        "models/models.yml": "models:\n  - name: latest_orders\n    columns:\n"
        "      - {name: amount, description: In euros.}\n"
    }
    text = "{{ config(mode='table') }}\nSELECT o.‸ FROM {{ ref('latest_orders') }} o"

    async def script() -> None:
        async with editing(tmp_path / "p", described) as editor:
            editor.open(CARTS)
            editor.type(CARTS, text)
            found = await editor.complete(CARTS, text)
            assert found.keys() == {
                "order_id",
                "customer_id",
                "amount",
                "status",
                "created_at",
                "updated_at",
            }
            amount = found["amount"]
            assert amount.detail == "decimal(12,2) (model latest_orders)"
            assert getattr(amount.documentation, "value", "") == "In euros."

    run(script())


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "SELECT 'in a text ‸' FROM {{ stream('carts') }}",
        HEAD + "-- in a comment ‸\nSELECT cart_id FROM {{ stream('carts') }}",
        HEAD + "{# in a comment ‸ #}SELECT cart_id FROM {{ stream('carts') }}",
        HEAD + "SELECT nobody.‸ FROM {{ stream('carts') }}",
    ],
)
def test_nothing_is_offered_where_nothing_of_the_project_stands(
    text: str, tmp_path: Path
) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(CARTS)
            editor.type(CARTS, text)
            assert await editor.complete(CARTS, text) == {}

    run(script())


def test_a_stream_that_is_declared_in_a_buffer_is_offered(tmp_path: Path) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(
                "streams/new.yml",
                "streams:\n  - {name: returns, connection: shop, topic: r, columns: {a: int}}\n",
            )
            editor.open(CARTS)
            await editor.settle()
            text = HEAD + "SELECT ‸ FROM {{ stream('returns') }}"
            editor.type(CARTS, text)
            assert "a" in await editor.complete(CARTS, text)
            assert CURSOR not in editor.texts[CARTS]

    run(script())
