"""`lakesql lint` as its user calls it: what it prints in each format, what it writes,
and how it exits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic_sarif.model import (
    StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif,
)

from lakesql.cli.main import run_command
from lakesql.lint.all_rules import MODULES
from tests.lint.samples import lay

BAD: Mapping[str, str] = {
    "models/nameless.sql": (
        "{{ config(mode='append') }}\n"
        "-- of carts without a customer\n"
        "SELECT cart_id, amount -- what they are worth\n"
        "FROM {{ stream('carts') }}\n"
        "WHERE customer_id = NULL\n"
    ),
    "models/deep/er/newest.sql": (
        "{{ config(mode='upsert', keys='cart_id') }}\nSELECT cart_id, status\nFROM {{ stream('carts') }}\n"
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(lay(tmp_path / "sample", BAD))
    return tmp_path / "sample"


def lint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run_command(["lint", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_text_has_the_place_carets_the_code_and_what_to_do(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = lint(capsys)
    assert (code, err) == (1, "")
    assert "LK001[arrival-order] models/deep/er/newest.sql:1:31\n" in out
    assert (
        "LK051[null-comparison] models/nameless.sql:5:19\n"
        "  5 | WHERE customer_id = NULL\n"
        "    |                   ^^^^^^\n"
    ) in out
    assert "Write IS NULL." in out
    assert (
        out.splitlines()[-1]
        == "8 models, 2 findings, of which `lakesql lint --fix` corrects 1."
    )


def test_a_clean_project_exits_with_0(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in BAD:
        (project / path).unlink()
    assert lint(capsys) == (0, "6 models, no findings.\n", "")


def test_a_second_look_says_the_same_and_reads_no_sql(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = lint(capsys)
    assert lint(capsys) == first
    assert (project / "target" / "cache" / "lint.json").is_file()
    model = project / "models" / "nameless.sql"
    model.write_text(model.read_text().replace("= NULL", "IS NULL"))
    _, out, _ = lint(capsys)
    assert "LK051" not in out and "LK001" in out


def test_what_does_not_parse_is_said_and_nothing_else(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "models" / "broken.sql").write_text(
        "{{ config(mode='append') }}\nSELECT nothing FROM {{ stream('carts') }}\n"
    )
    code, out, err = lint(capsys)
    assert (code, out) == (2, "")
    assert err.startswith("error[unknown-column] models/broken.sql:2:8")


def test_select_means_models(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "streams" / "more.yml").write_text(
        "streams:\n  - {name: returns, connection: shop, topic: r, columns: {id: bigint}}\n"
    )
    code, out, _ = lint(capsys, "--select", "nameless")
    assert code == 1 and "LK051" in out and "LK001" not in out and "LK080" not in out
    assert out.splitlines()[-1].startswith("1 model, 1 finding")
    assert lint(capsys, "--select", "all_carts")[0] == 0
    assert "LK080" in lint(capsys)[1]


def test_annotations_of_github_name_files_from_the_root_of_the_repository(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    code, out, _ = lint(capsys, "--output", "github")
    assert code == 1
    first, second = out.splitlines()
    assert first.startswith(
        "::warning file=sample/models/deep/er/newest.sql,line=1,endLine=1,col=31,"
    )
    assert second.startswith(
        "::warning file=sample/models/nameless.sql,line=5,endLine=5,col=19,endColumn=24,title=LK051::"
    )
    assert re.search(r"::[^:\n]+\Z", second)


def test_sarif_is_what_the_published_schema_says(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = lint(capsys, "--output", "sarif")
    assert code == 1
    log = Sarif.model_validate_json(out)
    (run,) = log.runs
    assert [rule.id for rule in run.tool.driver.rules or ()] == list(MODULES)
    results = run.results or []
    assert [result.ruleId for result in results] == ["LK001", "LK051"]
    for result in results:
        assert (
            result.ruleIndex is not None
            and list(MODULES)[result.ruleIndex] == result.ruleId
        )
    said = json.loads(out)["runs"][0]["results"][1]
    place = said["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "models/nameless.sql"
    assert place["region"] == {
        "startLine": 5,
        "startColumn": 19,
        "endLine": 5,
        "endColumn": 25,
    }
    (change,) = said["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"] == "IS NULL"


def test_the_schema_is_asked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = lint(capsys, "--output", "sarif")
    wrong = json.loads(out)
    wrong["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"][
        "startLine"
    ] = 0
    with pytest.raises(ValueError):
        Sarif.model_validate(wrong)


def test_json_has_ranges_and_edits(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = lint(capsys, "--output", "json")
    assert code == 1
    first, second = json.loads(out)
    assert (first["code"], first["name"], first["edits"]) == (
        "LK001",
        "arrival-order",
        [],
    )
    assert second["start"] == {"line": 5, "column": 19} and second["end"] == {
        "line": 5,
        "column": 25,
    }
    assert second["edits"] == [
        {
            "start": {"line": 5, "column": 19},
            "end": {"line": 5, "column": 25},
            "text": "IS NULL",
        }
    ]


def test_fix_writes_keeps_comments_and_is_done_once(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = project / "models" / "nameless.sql"
    other = (project / "models" / "deep" / "er" / "newest.sql").read_bytes()
    code, out, err = lint(capsys, "--fix")
    assert (code, err) == (1, "1 finding fixed in models/nameless.sql.\n"), (
        "what is left decides"
    )
    assert "LK051" not in out and out.splitlines()[-1] == "8 models, 1 finding."
    fixed = model.read_text()
    assert fixed == BAD["models/nameless.sql"].replace("= NULL", "IS NULL")
    assert (project / "models" / "deep" / "er" / "newest.sql").read_bytes() == other
    assert lint(capsys, "--fix")[2] == "" and model.read_text() == fixed
    assert run_command(["parse"]) == 0


def test_fix_keeps_line_ends_and_the_mark_of_the_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = project / "models" / "nameless.sql"
    windows = (
        b"\xef\xbb\xbf" + BAD["models/nameless.sql"].replace("\n", "\r\n").encode()
    )
    model.write_bytes(windows)
    lint(capsys, "--fix")
    assert model.read_bytes() == windows.replace(b"= NULL", b"IS NULL")


def test_fix_removes_what_hides_nothing_and_leaves_the_file_otherwise(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = project / "streams" / "sample.yml"
    before = streams.read_text()
    streams.write_text(
        before.replace("  - name: orders\n", "  - name: orders  # noqa: LK080\n")
    )
    _, out, err = lint(capsys, "--fix", "--output", "json")
    assert "streams/sample.yml" in err and streams.read_text() == before
    assert json.loads(out)[0]["code"] == "LK001"


SETTINGS = '[tool.lakesql]\nname = "sample"\n\n'


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ("[tool.lakesql.lint]\nignore = ['LK001']\n", ["LK051"]),
        ("[tool.lakesql.lint]\nselect = ['LK001', 'LK002']\n", ["LK001"]),
        ("[tool.lakesql.lint.ignore_in]\n'models/deep' = ['LK001']\n", ["LK051"]),
        (
            "[tool.lakesql.lint.ignore_in]\n'models/nameless.sql' = ['LK051', 'LK001']\n",
            ["LK001"],
        ),
        (
            "[tool.lakesql.lint]\nignore = ['LK051']\nignore_in = {'models' = ['LK001']}\n",
            [],
        ),
    ],
)
def test_settings_choose_rules(
    settings: str, codes: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text(SETTINGS + settings)
    code, out, _ = lint(capsys, "--output", "json")
    assert [finding["code"] for finding in json.loads(out)] == codes
    assert code == (1 if codes else 0)


@pytest.mark.parametrize(
    ("settings", "condition", "named"),
    [
        ("[tool.lakesql.lint]\nignor = ['LK001']\n", "unknown-option", "'ignore'"),
        ("[tool.lakesql.lint]\nignore = ['lk001']\n", "wrong-value", "'LK001'"),
        ("[tool.lakesql.lint]\nselect = ['LK01']\n", "wrong-value", "LK0"),
        (
            "[tool.lakesql.lint.ignore_in]\n'models/depe' = ['LK001']\n",
            "unknown-folder",
            "'models/deep'",
        ),
        ("[tool.lakesql.lint.ignore_in]\n'models' = ['LK999']\n", "wrong-value", "LK9"),
        ("[tool.lakesql]\nlint = 3\n", "wrong-type", "3"),
    ],
)
@pytest.mark.parametrize("command", ["lint", "parse"])
def test_what_settings_cannot_mean_is_refused_by_name(
    command: str,
    settings: str,
    condition: str,
    named: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (
        SETTINGS + settings
        if "lint]" in settings or "lint." in settings
        else settings + 'name = "sample"\n'
    )
    (project / "pyproject.toml").write_text(text)
    assert run_command([command]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error[{condition}] pyproject.toml:") and named in err


def test_a_terminal_gets_colours(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakesql.cli import report

    monkeypatch.setattr(report, "is_colourful", lambda output: True)
    from click.testing import CliRunner

    from lakesql.cli.lint import command
    from lakesql.cli.options import Given

    result = CliRunner().invoke(command, [], obj=Given(), color=True)
    assert "\x1b[33m\x1b[1mLK051[null-comparison]" in result.output
