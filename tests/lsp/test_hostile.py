"""What an editor may do to the server, which lives on and says what is so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types

from tests.lint.samples import lay
from tests.lsp.editor import editing, run

CARTS = "models/all_carts.sql"
GOOD = (
    "{{ config(mode='append') }}\nSELECT cart_id, amount\nFROM {{ stream('carts') }}\n"
)


RIGHT = {
    "selectors.yml": "selectors:\n  - {name: a, definition: all_carts}\n",
    "tests/bad.sql": "SELECT * FROM {{ ref('customers') }} WHERE customer_id < 0\n",
}


def test_a_model_that_is_typed_letter_by_letter(tmp_path: Path) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(CARTS)
            for end in range(len(GOOD) + 1):
                editor.type(CARTS, GOOD[:end])
                if end % 9 == 0:
                    await asyncio.sleep(0.08)
            await editor.until_codes(CARTS)
            for cut in range(0, len(GOOD), 5):
                editor.type(CARTS, GOOD[:cut] + GOOD[cut + 3 :])
                await asyncio.sleep(0.06)
            editor.type(CARTS, GOOD)
            await editor.until_codes(CARTS)

    run(script())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8", "utf-32"])
def test_positions_count_in_the_units_of_the_encoding(
    encoding: str, tmp_path: Path
) -> None:
    text = "{{ config(mode='append') }}\nSELECT '\N{GRINNING FACE}é\u2028' AS \N{GRINNING FACE}x, status = NULL AS e\n"
    text = (
        text.replace("\N{GRINNING FACE}x", "`\N{GRINNING FACE}x`")
        + "FROM {{ stream('carts') }}\n"
    )

    async def script() -> None:
        async with editing(tmp_path / "p", encoding=encoding) as editor:
            editor.open(CARTS)
            editor.type(CARTS, text)
            (found,) = [
                each for each in await editor.until_codes(CARTS, "LK051") if each.code
            ]
            assert editor.written(CARTS, found.range) == "= NULL"
            line = text.split("\n")[1]
            before = line[: line.index("= NULL")]
            units = {
                "utf-16": len(before.encode("utf-16-le")) // 2,
                "utf-8": len(before.encode()),
                "utf-32": len(before),
            }
            assert found.range.start == types.Position(1, units[encoding])

    run(script())


def test_lines_that_end_as_in_windows_stay_so(tmp_path: Path) -> None:
    text = GOOD.replace("amount", "status = NULL AS is_new").replace("\n", "\r\n")

    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(CARTS)
            editor.type(CARTS, text)
            (found,) = [
                each for each in await editor.until_codes(CARTS, "LK051") if each.code
            ]
            assert (
                found.range.start.line == 1
                and editor.written(CARTS, found.range) == "= NULL"
            )
            actions = await editor.actions(CARTS, found.range)
            quick = next(each for each in actions if each.kind == "quickfix")
            assert quick.edit and quick.edit.changes
            (edit,) = quick.edit.changes[editor.uri(CARTS)]
            assert (edit.new_text, editor.written(CARTS, edit.range)) == (
                "IS",
                "=",
            ) or edit.new_text == "IS NULL"
            (all_,) = await editor.actions(CARTS, found.range, ["source.fixAll"])
            assert all_.edit and all_.edit.changes
            (whole,) = all_.edit.changes[editor.uri(CARTS)]
            assert whole.new_text == text.replace("= NULL", "IS NULL")

    run(script())


def test_names_with_odd_characters(tmp_path: Path) -> None:
    """Files in folders with blanks, quotes, percent signs and letters of all kinds."""
    folder = "models/a b/50% ü'\"#?"
    path = f"{folder}/strange.sql"
    files = {
        path: GOOD,
        "models/reads.sql": "{{ config(mode='table') }}\nSELECT cart_id FROM {{ ref('strange') }}\n",
    }

    async def script() -> None:
        async with editing(tmp_path / "a project, ü", files) as editor:
            editor.open(path)
            editor.type(path, GOOD.replace("cart_id", "cart_idd"))
            await editor.until_codes(path, "unknown-column")
            editor.open("models/reads.sql")
            assert await editor.definition("models/reads.sql", "ref('stra‸nge')") == [
                (path, 1, 1)
            ]
            editor.type(path, GOOD)
            await editor.until_codes(path)

    run(script())


def test_a_file_that_is_deleted_takes_its_errors_along_and_leaves_those_of_its_readers(
    tmp_path: Path,
) -> None:
    files = {
        "models/reads.sql": "{{ config(mode='table') }}\nSELECT cart_id FROM {{ ref('all_carts') }}\n"
    }

    async def script() -> None:
        async with editing(tmp_path / "p", files) as editor:
            editor.open("models/reads.sql")
            editor.open(CARTS)
            editor.type(CARTS, "SELECT")
            await editor.until(CARTS, bool)
            editor.delete(CARTS)
            await editor.until_codes("models/reads.sql", "unknown-ref")
            await editor.until_codes(CARTS)
            editor.type(CARTS, GOOD)  # it is written again, in the editor
            await editor.until_codes("models/reads.sql")

    run(script())


def test_a_project_with_errors_is_known_but_for_its_broken_files(
    tmp_path: Path,
) -> None:
    files = {
        "models/broken.sql": "{{ config(mode='append'",
        "streams/broken.yml": "streams:\n  - name: [\n",
        "models/reads_broken.sql": "{{ config(mode='table') }}\nSELECT 1 AS a FROM {{ ref('broken') }}\n",
    }

    async def script() -> None:
        async with editing(tmp_path / "p", files) as editor:
            editor.open(CARTS)
            await editor.until_codes("models/broken.sql", "template-syntax")
            await editor.until_codes("streams/broken.yml", "yaml-syntax")
            text = "{{ config(mode='append') }}\nSELECT ‸ FROM {{ stream('carts') }}"
            editor.type(CARTS, text)
            assert "weight" in await editor.complete(CARTS, text)
            editor.open("models/broken.sql")
            editor.type("models/broken.sql", GOOD)
            editor.open("streams/broken.yml")
            editor.type("streams/broken.yml", "streams: []\n")
            await editor.until_codes("models/broken.sql")
            await editor.until_codes("streams/broken.yml")

    run(script())


@pytest.mark.parametrize(
    ("path", "text", "condition"),
    [
        ("pyproject.toml", "[tool.lakesql\n", "toml-syntax"),
        (
            "pyproject.toml",
            '[tool.lakesql]\nname = "sample"\nprofil = "x"\n',
            "unknown-option",
        ),
        (
            "profiles.yml",
            "sample:\n  outputs:\n    dev: {catalogue: {}}\n",
            "unknown-option",
        ),
        (
            "profiles.yml",
            "sample: {outputs: {dev: {catalog: {uri: \"{{ env_var('NOT_SET') }}\"}}}}\n",
            "env-var-missing",
        ),
        (
            "streams/sample.yml",
            "streams:\n  - {name: orders, topik: a}\n",
            "unknown-option",
        ),
        ("models/models.yml", "models:\n  - {name: nobody}\n", "unknown-model"),
        (
            "macros/m.sql",
            "{% macro a() %}{{ var('x') }}{% endmacro %}",
            "macro-not-pure",
        ),
        ("selectors.yml", "selectors:\n  - {name: a}\n", "missing-option"),
        ("seeds/zones.yml", "seeds:\n  - {name: nobody}\n", "unknown-seed"),
        ("tests/bad.sql", "SELECT 1", "no-ref"),
    ],
)
def test_every_kind_of_file_has_its_errors_while_it_is_typed(
    path: str, text: str, condition: str, tmp_path: Path
) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p", {"macros/none.sql": ""}) as editor:
            there = editor.root / path
            before = there.read_text() if there.exists() else ""
            right = before or RIGHT.get(path, "")
            editor.open(CARTS)
            editor.open(path, right)
            await editor.settle()
            assert editor.codes(path) == []
            editor.type(path, text)
            await editor.until(
                path, lambda found: condition in {each.code for each in found}
            )
            assert (there.read_text() if there.exists() else "") == before
            editor.type(path, right)
            await editor.until(
                path, lambda found: condition not in {each.code for each in found}
            )

    run(script())


def test_two_projects_of_two_folders_know_nothing_of_each_other(tmp_path: Path) -> None:
    one, other = tmp_path / "w" / "one", tmp_path / "w" / "other"
    lay(one)
    lay(
        other,
        {
            "streams/more.yml": "streams:\n  - {name: returns, connection: shop, topic: r, columns: {a: int}}\n"
        },
    )
    text = "{{ config(mode='append') }}\nSELECT 1 AS a FROM {{ stream('‸"

    async def script() -> None:
        async with editing(tmp_path / "w", plain=True, folders=[one, other]) as editor:
            for name, has in (("one", False), ("other", True)):
                path = f"{name}/{CARTS}"
                editor.open(path)
                editor.type(path, text)
                assert ("returns" in await editor.complete(path, text)) is has
            editor.type(f"one/{CARTS}", GOOD.replace("'carts'", "'returns'"))
            editor.type(
                f"other/{CARTS}",
                GOOD.replace("'carts'", "'returns'").replace("cart_id, amount", "a"),
            )
            await editor.until_codes(f"one/{CARTS}", "unknown-stream")
            await editor.until_codes(f"other/{CARTS}")

    run(script())


def test_files_of_no_project_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.sql").write_text("SELECT {{")

    async def script() -> None:
        async with editing(tmp_path / "w", plain=True) as editor:
            editor.open("a.sql")
            editor.type("a.sql", "SELECT {{ stream('")
            await asyncio.sleep(0.5)
            assert not [
                uri for uri in editor.published if uri.startswith(editor.root.as_uri())
            ]
            assert (
                await editor.complete("a.sql", "stream('‸") == {}
                and await editor.hover("a.sql", "str‸eam") == ""
            )
            untitled = types.TextDocumentItem("untitled:Untitled-1", "sql", 1, "SELECT")
            editor.client.text_document_did_open(
                types.DidOpenTextDocumentParams(untitled)
            )
            assert await editor.hover("a.sql", "str‸eam") == ""

    run(script())


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    profiles = (
        Path(__file__).parents[1] / "lint" / "project" / "profiles.yml"
    ).read_text()
    secret = "hushhushhush"
    files = {
        "profiles.yml": profiles.replace(
            "warehouse: warehouse", "warehouse: \"{{ env_var('LAKESQL_SECRET_A') }}\""
        ),
        CARTS: GOOD.replace("amount", f"'{secret}' AS a"),
    }

    async def script() -> None:
        async with editing(
            tmp_path / "p", files, environ={"LAKESQL_SECRET_A": secret}
        ) as editor:
            editor.open(CARTS)
            editor.type(CARTS, GOOD.replace("amount", f"{secret} AS a"))
            (found,) = await editor.until_codes(CARTS, "unknown-column")
            assert secret not in str(found.message) and "***" in str(found.message)
            editor.type(CARTS, GOOD.replace("amount", f"'{secret}' AS a"))
            await editor.until_codes(CARTS)
            assert secret not in await editor.hover(CARTS, "con‸fig(")

    run(script())


def test_requests_for_what_is_not_there_are_answered(tmp_path: Path) -> None:
    async def script() -> None:
        async with editing(tmp_path / "p") as editor:
            editor.open(CARTS)
            far = types.Position(10_000, 10_000)
            hover = await editor.ask(
                editor.client.text_document_hover_async(
                    types.HoverParams(editor.document(CARTS), far)
                )
            )
            assert hover is None
            gone = types.TextDocumentIdentifier(editor.uri("models/gone.sql"))
            assert (
                await editor.ask(
                    editor.client.text_document_hover_async(
                        types.HoverParams(gone, far)
                    )
                )
                is None
            )
            assert not await editor.ask(
                editor.client.text_document_definition_async(
                    types.DefinitionParams(gone, far)
                )
            )
            editor.type(CARTS, "")
            editor.type(CARTS, "\x00" * 50)
            editor.type(CARTS, "{{ " * 3000)
            editor.type(CARTS, "(" * 3000)
            editor.type(CARTS, GOOD)
            await editor.until_codes(CARTS)

    run(script())
