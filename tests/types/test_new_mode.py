"""A mode is two files: one is added here, and everything that asks a mode is asked of
it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakesql.cli.main import run_command
from lakesql.modes.all_modes import MODES
from lakesql.modes.batches.all_batches import BATCHES
from lakesql.modes.batches.batches import Batches
from tests.types.insert_new import InsertNew
from tests.types.insert_new_batches import InsertNewBatches

ROOT = Path(__file__).parents[2]

MODEL = "{{ config(mode='insert_new', keys=['view_id'], tags=['new']) }}\nSELECT * FROM {{ stream('clicks') }}\n"

SIZES = """\
{{ config(mode='insert_new', keys=['name'], ignored=['none']) }}
SELECT name, size FROM {{ stream('sizes') }}
"""

STREAM = """\
streams:
  - name: sizes
    connection: shop
    topic: sizes
    columns: {name: string, size: bigint}
"""

UNIT_TEST = """\
unit_tests:
  - name: first_stays
    model: sizes
    given:
      - stream: sizes
        batches:
          - - {name: a, size: 1}
            - {name: a, size: 2}
            - {name: none, size: 3}
            - {size: 4}
          - - {name: a, size: 5}
            - {name: b, size: 6}
    expect:
      rows:
        - {name: a, size: 1, inserted: true}
        - {name: b, size: 6, inserted: true}
      dead_letters:
        - {stream: sizes, reason: key-missing}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shop, in a process that knows the mode."""
    monkeypatch.setitem(MODES, (InsertNew.mode, InsertNew.reads), InsertNew)
    monkeypatch.setitem(BATCHES, InsertNew, InsertNewBatches)
    for name in ("models", "streams", "macros"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("recorded")
        )
    for name in ("profiles.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "models" / "first_clicks.sql").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_compiled_with_its_statements_and_what_is_said_of_it(
    project: Path,
) -> None:
    assert run_command(["compile", "--select", "first_clicks"]) == 0
    text = (project / "target/compiled/models/first_clicks.sql").read_text()
    assert text.startswith("-- shop.first_clicks: mode insert_new, table ")
    assert "-- rows: one for each view_id, as it was inserted\n" in text
    assert "-- bad records: " in text and "rows whose view_id is NULL go to " in text
    assert "`inserted` boolean" in text or "inserted boolean" in text
    assert (
        "WHERE NOT EXISTS (SELECT 1 FROM lake.shop.first_clicks AS target WHERE target.view_id = source.view_id"
        in text
    )
    assert run_command(["parse"]) == 0  # and once more, from what the caches have
    assert run_command(["compile", "--select", "first_clicks"]) == 0
    assert (
        (project / "target/compiled/models/first_clicks.sql")
        .read_text()
        .startswith(text[:100])
    )


def test_its_options_are_decoded_and_its_checks_refuse(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "models/first_clicks.sql"
    path.write_text(MODEL.replace("keys=", "key="))
    assert run_command(["parse"]) == 2
    assert "unknown-option" in capsys.readouterr().err
    path.write_text(MODEL.replace("'view_id'", "'nothing'"))
    assert run_command(["parse"]) == 2
    assert "key-not-selected" in capsys.readouterr().err
    path.write_text(MODEL.replace("SELECT *", "SELECT DISTINCT view_id"))
    assert run_command(["parse"]) == 2
    assert "cdc-stateful" in capsys.readouterr().err


def test_a_plan_says_what_another_value_of_its_options_means(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["parse"]) == 0
    (project / "target").rename(project / "before")
    (project / "models/first_clicks.sql").write_text(
        MODEL.replace("tags=", "ignored=['x'], tags=")
    )
    capsys.readouterr()
    run_command(
        ["plan", "--state", "before", "--output", "json", "--select", "first_clicks"]
    )
    said = json.loads(capsys.readouterr().out)
    (model,) = said["models"]
    assert [(it["verdict"], it["condition"]) for it in model["reasons"]] == [
        ("next-batch", "option-changed")
    ]


def test_its_batches_are_written_by_a_unit_test(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "models/sizes.sql").write_text(SIZES)
    (project / "streams/sizes.yml").write_text(STREAM)
    (project / "models/sizes.yml").write_text(UNIT_TEST)
    assert run_command(["test", "--select", "sizes"]) == 0, "".join(capsys.readouterr())


def test_a_mode_without_an_answer_is_none() -> None:
    class Silent(Batches):
        pass

    abstract = Batches.__abstractmethods__
    assert abstract == {"check", "steps", "unique_by", "rows"}
    assert Silent.__abstractmethods__ == abstract
