"""What an editor asks: the findings of one file as it is typed, with its text from
memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.errors import Place, ProjectError
from lakesql.graph.load_manifest import with_texts
from lakesql.lint.finding import LintFinding
from lakesql.lint.fix import apply_edits, fix_texts
from lakesql.lint.lint import lint
from lakesql.lint.lint_settings import LintSettings
from lakesql.lint.noqa import read_noqas
from tests.lint.samples import find, lay, load

CARTS = "models/all_carts.sql"
TYPED = "{{ config(mode='append') }}\nSELECT cart_id, status = NULL AS is_new\nFROM {{ stream('carts') }}\n"


def test_one_model_is_looked_at_with_a_text_that_no_file_has(tmp_path: Path) -> None:
    manifest = load(lay(tmp_path))
    before = {
        path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()
    }
    (finding,) = lint(
        with_texts(manifest, {CARTS: TYPED}), LintSettings(), ["all_carts"], whole=False
    )
    assert finding.code == "LK051"
    assert (finding.span.start, finding.span.end) == (
        Place(CARTS, 2, 24),
        Place(CARTS, 2, 30),
    )
    assert apply_edits(TYPED, [finding]) == (TYPED.replace("= NULL", "IS NULL"), 1)
    assert {
        path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()
    } == before
    assert lint(manifest, LintSettings(), ["all_carts"], whole=False) == (), (
        "the project is as it was"
    )


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (
            "{{ config(mode='append') }}\nSELECT cart_id FROM {{ stream('crats') }}\n",
            "unknown-stream",
        ),
        (
            "{{ config(mode='append') }}\nSELECT cart_id FROM {{ ref('nobody') }}\n",
            "unknown-ref",
        ),
        (
            "{{ config(mode='apend') }}\nSELECT cart_id FROM {{ stream('carts') }}\n",
            "unknown-mode",
        ),
        (
            "{{ config(mode='append') }}\nSELECT cart_idd FROM {{ stream('carts') }}\n",
            "unknown-column",
        ),
        (
            "{{ config(mode='append') }}\nSELECT cart_id, FROM {{ stream('carts') }}\n",
            "sql-syntax",
        ),
        ("{{ config(mode='append'", "template-syntax"),
    ],
)
def test_a_text_that_does_not_parse_says_what_parse_says(
    text: str, condition: str, tmp_path: Path
) -> None:
    manifest = load(lay(tmp_path))
    with pytest.raises(ProjectError) as refused:
        lint(
            with_texts(manifest, {CARTS: text}),
            LintSettings(),
            ["all_carts"],
            whole=False,
        )
    assert [problem.condition for problem in refused.value.problems] == [condition]
    assert all(
        problem.place is not None and problem.place.path == CARTS
        for problem in refused.value.problems
    )


def test_other_models_that_do_not_parse_are_in_nobodys_way(tmp_path: Path) -> None:
    broken = {
        "models/broken.sql": "{{ config(mode='upsert', keys='a') }}\nSELECT no_such AS a FROM {{ stream('carts') }}\n"
    }
    reads = {
        "models/reads.sql": "{{ config(mode='append') }}\nSELECT c.cart_id FROM {{ stream('carts') }} AS c JOIN "
        "{{ ref('broken') }} AS b ON b.a = c.cart_id\n"
    }
    manifest = load(lay(tmp_path, broken, reads))
    found = lint(manifest, LintSettings(), ["reads"], whole=False)
    assert [finding.code for finding in found] == ["LK005"]


def test_the_text_of_a_view_is_its_own_models_and_no_readers(tmp_path: Path) -> None:
    view = "{{ config(mode='view') }}\nSELECT order_id, amount = NULL AS is_free FROM {{ ref('latest_orders') }}\n"
    reader = "{{ config(mode='table') }}\nSELECT order_id, is_free FROM {{ ref('free_orders') }}\n"
    manifest = load(
        lay(tmp_path, {"models/free_orders.sql": view, "models/reader.sql": reader})
    )
    assert [(finding.code, finding.path) for finding in find(manifest)] == [
        ("LK051", "models/free_orders.sql")
    ]


def test_what_a_macro_writes_is_found_where_it_is_called_and_not_fixed(
    tmp_path: Path,
) -> None:
    macro = "{% macro is_none(x) %}{{ x }} = NULL{% endmacro %}\n"
    text = "{{ config(mode='append') }}\nSELECT cart_id, {{ is_none('status') }} AS is_new\nFROM {{ stream('carts') }}\n"
    manifest = load(lay(tmp_path, {"macros/none.sql": macro, CARTS: text}))
    (finding,) = find(manifest)
    assert (finding.code, finding.span.start, finding.edits) == (
        "LK051",
        Place(CARTS, 2, 17),
        (),
    )
    assert finding.span.end == Place(CARTS, 2, 17 + len("{{ is_none('status') }}"))


def test_a_fix_with_which_a_file_would_not_parse_is_left_out(tmp_path: Path) -> None:
    text = TYPED.replace("NULL AS", "NULL AND status = NULL AS")
    manifest = load(lay(tmp_path, {CARTS: text}))

    def find_until_fixed(changed: dict[str, str]) -> tuple[LintFinding, ...]:
        if "IS NULL" in changed.get(CARTS, ""):
            raise ProjectError.of("sql-syntax", "As if it did not parse.")
        return find(with_texts(manifest, changed))

    fixed = fix_texts(manifest.texts, find_until_fixed)  # type: ignore[arg-type]
    assert (fixed.texts, fixed.count) == ({}, 0)
    both = fix_texts(
        manifest.texts, lambda changed: find(with_texts(manifest, changed))
    )
    assert both.texts == {CARTS: text.replace("= NULL", "IS NULL")} and both.count == 2


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("-- noqa", ((),)),
        ("-- NOQA : lk001", (("LK001",),)),
        ("--noqa:LK001,LK002", (("LK001", "LK002"),)),
        ("-- noqa: LK001 LK002 as of then", (("LK001", "LK002"),)),
        ("{#- noqa: LK001 -#}", (("LK001",),)),
        ("-- noqa: LT01", ()),
        ("-- noqa: LK001, LT01", (("LK001",),)),
        ("-- noqa: disable=all", ()),
        ("-- noqa: layout.spacing", ()),
        ("-- see noqa: LK001", ()),
        ("/* noqa */", ()),
        ("'-- noqa'", ()),
        ("-- noqa: KL001", (("KL001",),)),
    ],
)
def test_comments_are_read(comment: str, codes: tuple[tuple[str, ...], ...]) -> None:
    found = read_noqas("models/a.sql", f"SELECT a {comment}\nFROM b\n")
    assert tuple(tuple(code for code, _ in noqa.codes) for noqa in found.noqas) == codes


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("  - name: a  # noqa: LK080", 1),
        ("# noqa: LK080", 1),
        ("    description: 'a # noqa: LK080'", 0),
        ("    description: it's  # noqa: LK080", 1),
        ("    topic: a#noqa", 0),
        ("    topic: a  # noqa: E501", 0),
    ],
)
def test_comments_of_yaml_are_read(line: str, count: int) -> None:
    assert len(read_noqas("streams/a.yml", f"streams:\n{line}\n").noqas) == count


def test_a_fix_that_would_close_a_circle_is_left_out(tmp_path: Path) -> None:
    first = "{{ config(mode='table') }}\nSELECT order_id FROM lake.sample.second\n"
    second = "{{ config(mode='table') }}\nSELECT order_id FROM {{ ref('first') }}\n"
    manifest = load(
        lay(tmp_path, {"models/first.sql": first, "models/second.sql": second})
    )
    assert [finding.code for finding in find(manifest) if finding.edits] == ["LK056"]
    assert (
        fix_texts(
            manifest.texts, lambda changed: find(with_texts(manifest, changed))
        ).texts
        == {}
    )
