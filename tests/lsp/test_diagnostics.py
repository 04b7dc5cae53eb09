"""What an editor is shown while somebody types: conditions, findings, fixes."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from tests.lsp.editor import editing, run

CARTS = "models/all_carts.sql"
TYPED = "{{ config(mode='append') }}\nSELECT cart_id, status = NULL AS is_new\nFROM {{ stream('carts') }}\n"


def test_a_finding_is_shown_at_its_place_with_its_code_its_page_and_its_fix(
    tmp_path: Path,
) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(CARTS)
            editor.type(CARTS, TYPED)
            (found,) = [
                each for each in await editor.until_codes(CARTS, "LK051") if each.code
            ]
            assert editor.written(CARTS, found.range) == "= NULL"
            assert (
                found.severity == types.DiagnosticSeverity.Warning
                and found.source == "lakesql"
            )
            assert found.code_description and found.code_description.href.endswith(
                "lint.md#lk051-null-comparison"
            )
            action = next(
                each
                for each in await editor.actions(CARTS, found.range)
                if each.kind == "quickfix"
            )
            assert action.edit and action.edit.changes
            fixed = editor.apply(CARTS, action.edit.changes[editor.uri(CARTS)])
            assert fixed == TYPED.replace("= NULL", "IS NULL")
            editor.type(CARTS, fixed)
            await editor.until_codes(CARTS)

    run(script())


@pytest.mark.parametrize(
    ("text", "condition", "word"),
    [
        (
            "{{ config(mode='append') }}\nSELECT cart_id FROM {{ stream('crats') }}\n",
            "unknown-stream",
            "'crats'",
        ),
        (
            "{{ config(mode='append') }}\nSELECT cart_id FROM {{ ref('nobody') }}\n",
            "unknown-ref",
            "'nobody'",
        ),
        (
            "{{ config(mode='apend') }}\nSELECT cart_id FROM {{ stream('carts') }}\n",
            "unknown-mode",
            "'apend'",
        ),
        (
            "{{ config(mode='append') }}\nSELECT cart_idd FROM {{ stream('carts') }}\n",
            "unknown-column",
            "cart_idd",
        ),
        (
            "{{ config(mode='append') }}\nSELECT cart_id, FROM {{ stream('carts') }}\n",
            "sql-syntax",
            None,
        ),
        ("{{ config(mode='append'", "template-syntax", None),
    ],
)
def test_what_parse_refuses_is_shown_while_it_is_typed(
    text: str, condition: str, word: str | None, tmp_path: Path
) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(CARTS)
            editor.type(CARTS, text)
            (found,) = await editor.until_codes(CARTS, condition)
            assert found.severity == types.DiagnosticSeverity.Error
            assert found.code_description and found.code_description.href.endswith(
                f"errors.md#{condition}"
            )
            if word is not None:
                assert editor.written(CARTS, found.range) == word
            assert (editor.root / CARTS).read_text() != text

    run(script())


def test_a_name_that_was_meant_is_offered(tmp_path: Path) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(CARTS)
            editor.type(CARTS, TYPED.replace("'carts'", "'cartss'"))
            (found,) = await editor.until_codes(CARTS, "unknown-stream")
            (action,) = await editor.actions(CARTS, found.range)
            assert action.edit and action.edit.changes
            assert editor.apply(CARTS, action.edit.changes[editor.uri(CARTS)]) == TYPED

    run(script())
