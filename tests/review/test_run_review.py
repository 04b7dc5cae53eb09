"""What a run says and asks of a change before it applies anything. No JVM: the run
itself is not started."""

from __future__ import annotations

import io
import json
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakesql.catalog.connect import open_catalog
from lakesql.cli.main import run_command
from lakesql.cli.options import Options
from lakesql.cli.project import load_project, read_schemas
from lakesql.cli.run_review import RunReview, start_review
from lakesql.compile.table import DEFAULT_PROPERTIES
from lakesql.events import Event, Noted
from lakesql.run.manifest.former import holds_files
from tests.review.corpus import apply

MODEL = """\
{{ config(mode='append') }}
SELECT id, size FROM {{ stream('landing') }}
"""


class Terminal(io.StringIO):
    """A terminal at which somebody has typed an answer."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def parsed(project: Path) -> Path:
    (project / "models/sizes.sql").write_text(MODEL)
    assert run_command(["parse"]) == 0
    return project


def make_table(project: Path) -> None:
    catalog = open_catalog(
        load_project(Options(project_dir=project)).target.catalog
    ).iceberg
    catalog.create_namespace_if_not_exists("shop")
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "note", StringType())
    )
    catalog.create_table("shop.sizes", schema, properties=dict(DEFAULT_PROPERTIES))


def begin(project: Path, target: str | None = None) -> RunReview | None:
    options = Options(project_dir=project, target=target)
    return start_review(options, load_project(options), ["sizes", "orders"])


def said(project: Path, review: RunReview | None) -> list[tuple[str | None, str]]:
    events: list[Event] = []
    assert review is not None
    review.say(
        open_catalog(load_project(Options(project_dir=project)).target.catalog),
        events.append,
    )
    return [(event.model, event.text) for event in events if isinstance(event, Noted)]


def test_a_run_says_the_reasons_of_the_plan(
    parsed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_table(parsed)
    apply(
        "-SELECT id, size\n+SELECT id, size, size + 1 AS next",
        parsed / "models/sizes.sql",
    )
    apply('-trigger = "1 minute"\n+trigger = "2 minutes"', parsed / "pyproject.toml")
    found = said(parsed, begin(parsed))
    capsys.readouterr()
    assert (
        run_command(
            ["plan", "--state", "target", "--live", "--select", "sizes", "-o", "json"]
        )
        == 0
    )
    (model,) = json.loads(capsys.readouterr().out)["models"]
    expected = [
        f"plan: {it['verdict']}: {it['what']}{' ' + it['do'] if it['do'] else ''}"
        for it in model["reasons"]
    ]
    assert found == [("sizes", text) for text in expected]
    assert any(
        text.startswith("plan: alter: Column 'next' is added to the table")
        for text in expected
    )
    assert any(
        text.startswith("plan: alter: The table is not as the former version leaves it")
        for text in expected
    )


def test_nothing_is_said_of_a_model_without_a_table(parsed: Path) -> None:
    apply(
        "-SELECT id, size\n+SELECT id, size, size + 1 AS next",
        parsed / "models/sizes.sql",
    )
    assert said(parsed, begin(parsed)) == []


def test_nothing_is_said_of_what_a_run_that_refuses_the_model_does_not_do(
    parsed: Path,
) -> None:
    make_table(parsed)
    catalog = open_catalog(
        load_project(Options(project_dir=parsed)).target.catalog
    ).iceberg
    catalog.load_table("shop.sizes").append(pa.table({"id": [1], "note": ["a"]}))
    keyed = "{{ config(mode='upsert', keys=['id'], order_by=['size']) }}"
    apply(f"-{{{{ config(mode='append') }}}}\n+{keyed}", parsed / "models/sizes.sql")
    apply(
        "-SELECT id, size\n+SELECT id, size, size + 1 AS next",
        parsed / "models/sizes.sql",
    )
    assert said(parsed, begin(parsed)) == []


def test_nothing_is_worked_out_where_nothing_has_changed(parsed: Path) -> None:
    manifest = load_project(Options(project_dir=parsed))
    texts = {**manifest.texts, **read_schemas(manifest, parsed)}
    assert holds_files(parsed / "target", texts)
    assert not holds_files(parsed / "target", {**texts, "models/sizes.sql": ""})
    assert not holds_files(parsed, texts)
    (parsed / "target/manifest.json").write_text("[")
    assert not holds_files(parsed / "target", texts)
    assert begin(parsed) is None


def test_a_manifest_of_another_target_is_not_compared_with(parsed: Path) -> None:
    text = (parsed / "target/manifest.json").read_text()
    (parsed / "target/manifest.json").write_text(
        text.replace('"name": "dev"', '"name": "test"')
    )
    assert begin(parsed) is None


def test_a_former_version_that_cannot_be_read_fails_no_run(parsed: Path) -> None:
    path = parsed / "target/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["streams/landing.yml"] = "streams: 1"
    path.write_text(json.dumps(manifest))
    assert said(parsed, begin(parsed)) == []


def test_a_run_does_not_wait_for_what_takes_long(
    parsed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesql.cli.run_review.WAITS_S", 0.01)
    assert said(parsed, RunReview(Future())) == [
        (
            None,
            "the project has changed; what that does is not worked out yet: lakesql plan",
        )
    ]


def test_without_a_terminal_nobody_is_asked(
    parsed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    before = (parsed / "target/manifest.json").read_text()
    apply("-SELECT id, size\n+SELECT id", parsed / "models/sizes.sql")
    assert run_command(["run", "--plan-first", "--log-format", "json"]) == 2
    (error,) = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert "usage" in json.dumps(error)
    assert (parsed / "target/manifest.json").read_text() == before


@pytest.mark.parametrize("is_known", [True, False])
def test_who_says_no_has_run_nothing(
    parsed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_known: bool,
) -> None:
    make_table(parsed)
    manifest = parsed / "target/manifest.json"
    if not is_known:
        manifest.unlink()
    before = manifest.read_text() if is_known else None
    apply(
        "-SELECT id, size\n+SELECT id, size, size + 1 AS next",
        parsed / "models/sizes.sql",
    )
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    capsys.readouterr()
    assert run_command(["run", "--plan-first", "--select", "sizes"]) == 1
    out = capsys.readouterr().out
    assert "Run? [y/N]" in out
    assert ("Column 'next' is added to the table" in out, "is not known" in out) == (
        is_known,
        not is_known,
    )
    assert (manifest.read_text() if manifest.exists() else None) == before
    assert not (parsed / ".lakesql/checkpoints").exists()
