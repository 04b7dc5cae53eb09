from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from lakesql.catalog.connect import open_catalog
from lakesql.cli.checks import check_connection
from lakesql.cli.init import find_shop, only_lakesql, rename
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.cli.rows import render_json, render_rows
from lakesql.errors import LakesqlError, Problem, RunError
from lakesql.observe.layout import MOST_LINES
from lakesql.source.files import Files
from lakesql.source.kafka import Kafka
from lakesql.source.rate import Rate
from lakesql.source.recorded import Recorded
from tests.cases import each_of

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(parsed_shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shop whose files have been read, and nothing else done to it, and the working
    directory in it."""
    shutil.copytree(
        parsed_shop, tmp_path / "shop", ignore=shutil.ignore_patterns("compiled*")
    )
    monkeypatch.chdir(tmp_path / "shop")
    for name in tuple(os.environ):
        if name.startswith("LAKESQL_") and name != "LAKESQL_HOME":
            monkeypatch.delenv(name)
    return tmp_path / "shop"


def conditions(stderr: str) -> list[str]:
    return [
        line["condition"]
        for line in map(json.loads, stderr.splitlines())
        if line["event"] == "problem"
    ]


@pytest.mark.parametrize(
    "command", [["rewind", "orders", "--to"], ["rebuild", "orders", "--from"]]
)
def test_a_time_that_is_still_to_come_is_no_place_to_read_from(
    run: Run, shop: Path, command: list[str]
) -> None:
    for at in ("2999-01-31", "2999-01-31T12:00:00+02:00"):
        code, _, err = run(*command, at, "--dry-run", "--log-format", "json")
        assert (code, conditions(err)) == (2, ["usage"]) and "still to come" in err


# ls


def test_ls_lists_each_node_after_those_it_reads(run: Run, shop: Path) -> None:
    code, out, err = run("ls")
    names = out.splitlines()
    assert (code, err, len(names)) == (0, "", 15)
    assert (
        names.index("stream:shop.page_views")
        < names.index("shop.clicks")
        < names.index("shop.checkouts")
    )
    assert names.index("shop.customers") < names.index("shop.order_states")
    assert "shop.reports.visits_per_day" in names


def test_ls_lists_one_resource_type(run: Run, shop: Path) -> None:
    assert run("ls", "--resource-type", "stream")[1].splitlines() == [
        "stream:shop.customers",
        "stream:shop.orders",
        "stream:shop.page_views",
        "stream:shop.product_changes",
    ]
    assert len(run("ls", "--resource-type", "model")[1].splitlines()) == 11


def test_ls_prints_the_paths_of_the_selection(run: Run, shop: Path) -> None:
    assert run("ls", "-s", "+checkouts", "-o", "path")[1].splitlines() == [
        "streams/shop.yml",
        "models/clicks.sql",
        "models/checkouts.sql",
    ]


def test_ls_prints_a_json_object_for_each_node(run: Run, shop: Path) -> None:
    _, out, _ = run(
        "ls", "-s", "stream:page_views", "clicks", "order_states", "--output", "json"
    )
    found = {line["unique_id"]: line for line in map(json.loads, out.splitlines())}
    clicks, states = found["model.clicks"], found["model.order_states"]
    assert {
        key: clicks[key]
        for key in (
            "name",
            "resource_type",
            "path",
            "mode",
            "tags",
            "depends_on",
            "table",
        )
    } == {
        "name": "clicks",
        "resource_type": "model",
        "path": "models/clicks.sql",
        "mode": "append",
        "tags": ["web"],
        "depends_on": ["stream.page_views"],
        "table": "lake.shop.clicks",
    }
    assert set(states["depends_on"]) == {"stream.orders", "model.customers"}
    assert found["stream.page_views"]["resource_type"] == "stream"
    assert found["stream.page_views"]["table"] is None


def test_a_selection_that_matches_nothing_is_noted_and_is_no_error(
    run: Run, shop: Path
) -> None:
    for command in ("ls", "compile", "run"):
        code, out, err = run(
            command, "--log-format", "json", "-s", "ordesr", "tag:none"
        )
        notes = [json.loads(line)["text"] for line in err.splitlines()]
        assert (code, out, len(notes)) == (0, "", 3)
        assert (
            "'ordesr'" in notes[0]
            and "'orders'" in notes[0]
            and "'tag:none'" in notes[1]
        )


@pytest.mark.parametrize(
    ("word", "suggested"),
    [
        ("ordesr", "orders"),
        ("ORDESR", "orders"),
        ("2+ordesr+", "2+orders+"),
        ("@clikcs", "@clicks"),
        ("page_views", "stream:page_views"),
        ("page_view+", "stream:page_views+"),
        ("tag:ordesr", ""),
        ("zzzzz", ""),
    ],
)
def test_a_name_near_a_models_or_a_streams_is_suggested(
    run: Run, shop: Path, word: str, suggested: str
) -> None:
    code, _, err = run("ls", "--log-format", "json", "-s", word)
    assert code == 0
    assert json.loads(err.splitlines()[0])["text"] == f"'{word}' matches nothing." + (
        f" Did you mean '{suggested}'?" if suggested else ""
    )


def test_a_method_that_does_not_exist_is_a_usage_error(run: Run, shop: Path) -> None:
    code, out, err = run("ls", "--log-format", "json", "-s", "tga:web")
    assert (code, out, conditions(err)) == (2, "", ["bad-selector"])


def test_a_folder_without_a_project_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("ls", "--log-format", "json")
    assert (code, conditions(err)) == (2, ["no-project"])


def test_a_project_without_profiles_is_refused_unless_home_has_one(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move("profiles.yml", "elsewhere.yml")
    monkeypatch.setenv("HOME", str(shop.parent))
    code, _, err = run("ls", "--log-format", "json")
    assert (code, conditions(err)) == (2, ["no-profiles"])
    (shop.parent / ".lakesql").mkdir()
    shutil.move("elsewhere.yml", shop.parent / ".lakesql" / "profiles.yml")
    assert run("ls")[0] == 0


def test_a_model_that_is_not_utf8_is_refused(run: Run, shop: Path) -> None:
    (shop / "models" / "odd.sql").write_bytes(b"SELECT '\xff'")
    code, _, err = run("ls", "--log-format", "json")
    assert (code, conditions(err)) == (2, ["not-text"])


# compile, parse, clean


def test_compile_prints_what_it_writes(run: Run, shop: Path) -> None:
    code, out, err = run("compile", "-s", "orders")
    assert (code, err) == (0, "")
    assert (shop / "target" / "compiled" / "models" / "orders.sql").read_text() == out
    assert "MERGE INTO lake.shop.orders" in out
    _, both, _ = run("compile", "-s", "orders", "path:models/reports")
    reports = shop / "target" / "compiled" / "models" / "reports"
    texts = [out, *(path.read_text() for path in sorted(reports.iterdir()))]
    assert len(texts) == 3
    assert both == "\n".join(texts)


def test_compile_shows_the_problems_of_all_models_and_writes_the_others(
    run: Run, shop: Path
) -> None:
    for name in ("clicks", "orders"):
        path = shop / "models" / f"{name}.sql"
        path.write_text(path.read_text() + "ORDER BY 1\n")
    code, out, err = run("compile", "--log-format", "json")
    assert (code, out) == (2, "")
    # What reads clicks as a stream has the problems of clicks, which are told once.
    assert conditions(err) == ["order-over-stream", "order-over-stream"]
    written = {path.name for path in (shop / "target" / "compiled").rglob("*.sql")}
    views = {
        "views_per_10_minutes.sql",
        "visits_per_day.sql",
        "revenue_per_day.sql",
        "top_customers.sql",
    }
    assert written == {
        "customers.sql",
        "order_states.sql",
        "prices.sql",
        "products.sql",
        *views,
    }


def test_compile_writes_the_manifest_that_parse_writes(run: Run, shop: Path) -> None:
    run("compile")
    text = (shop / "target" / "manifest.json").read_text()
    run("parse")
    assert (shop / "target" / "manifest.json").read_text() == text


def test_compiled_files_for_version_control_are_the_same_wherever_the_project_is(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run("compile", "--output-dir", "compiled")
    assert (code, len(out.splitlines()), err) == (0, 1, "")
    first = texts_below(shop / "compiled")
    assert first == texts_below(shop / "target" / "compiled") and len(first) == 11
    copy = shop.parent / "copied" / "further"
    shutil.copytree(shop, copy, ignore=shutil.ignore_patterns("compiled", "target"))
    monkeypatch.chdir(copy)
    assert run("compile", "--output-dir", "reviewed/sql")[0] == 0
    assert texts_below(copy / "reviewed" / "sql") == first


def test_compiled_files_of_models_that_are_gone_are_removed_if_lakesql_wrote_them(
    run: Run, shop: Path
) -> None:
    run("compile", "--output-dir", "compiled")
    ours = set(texts_below(shop / "compiled"))
    theirs = {
        "models/by_hand.sql": "SELECT 1;\n",
        "models/reports/notes.txt": "compiled by lakesql from models/reports/notes.txt\n",
        "old/models/orders.sql": (
            shop / "compiled" / "models" / "orders.sql"
        ).read_text(),
    }
    for path, text in theirs.items():
        (shop / "compiled" / path).parent.mkdir(parents=True, exist_ok=True)
        (shop / "compiled" / path).write_text(text)
    (shop / "models" / "shop.yml").unlink()  # which describes models that go
    (shop / "models" / "more").mkdir()
    (shop / "models" / "orders.sql").rename(shop / "models" / "more" / "orders.sql")
    for name in ("views_per_10_minutes", "visits_per_day"):
        (shop / "models" / "reports" / f"{name}.sql").unlink()
    (shop / "models" / "reports" / "all.sql").write_text(
        "{{ config(mode='append') }} SELECT order_id FROM {{ stream('orders') }}"
    )
    assert run("compile", "--output-dir", "compiled", "-s", "orders")[0] == 0
    gone = {
        "models/orders.sql",
        "models/reports/views_per_10_minutes.sql",
        "models/reports/visits_per_day.sql",
    }
    assert gone < ours
    assert (
        set(texts_below(shop / "compiled"))
        == ours - gone | {"models/more/orders.sql"} | theirs.keys()
    )
    (shop / "models" / "more" / "orders.sql").rename(shop / "models" / "orders.sql")
    assert run("compile", "--output-dir", "compiled", "-s", "orders")[0] == 0
    assert not (shop / "compiled" / "models" / "more").exists()
    assert {path: texts_below(shop / "compiled")[path] for path in theirs} == theirs


@pytest.mark.checks
@pytest.mark.parametrize(
    "folder",
    [".", "models", "models/reports/compiled", "macros", "./streams/../models"],
)
def test_compiled_files_are_not_written_over_or_among_the_projects_own(
    run: Run, shop: Path, folder: str
) -> None:
    before = own_texts(shop)
    code, out, err = run("compile", "--output-dir", folder, "--log-format", "json")
    assert (code, out, conditions(err)) == (2, "", ["bad-output-dir"])
    assert own_texts(shop) == before


def own_texts(project: Path) -> dict[str, str]:
    """The files of a project but for what lakesql has written."""
    return {
        path: text
        for path, text in texts_below(project).items()
        if not path.startswith("target/")
    }


def texts_below(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_parse_writes_the_manifest_alone(run: Run, shop: Path) -> None:
    code, out, err = run("parse")
    *notes, counted = out.splitlines()
    assert (code, err) == (0, "")
    assert counted.startswith("11 models and 4 streams, no errors: ")
    assert [note.split(": ")[0] for note in notes] == ["note  models/order_states.sql"]
    assert not (shop / "target" / "compiled").exists()
    text = (shop / "target" / "manifest.json").read_text()
    run("compile")
    run("parse")
    assert (shop / "target" / "manifest.json").read_text() == text


def test_parse_counts_in_words(run: Run, shop: Path) -> None:
    assert run("parse")[1].splitlines()[-1].startswith("11 models and 4 streams, ")
    for path in [*(shop / "models").rglob("*.sql"), shop / "models" / "shop.yml"]:
        if path.name != "orders.sql":
            path.unlink(missing_ok=True)
    shutil.rmtree(shop / "models" / "reports")
    settings = shop / "pyproject.toml"
    settings.write_text(settings.read_text().partition("[tool.lakesql.models")[0])
    assert run("parse")[1].startswith("1 model and 4 streams, "), run("parse")[2]


def test_the_manifest_holds_every_node(run: Run, shop: Path) -> None:
    run("parse")
    nodes = json.loads((shop / "target" / "manifest.json").read_text())["nodes"]
    kinds = Counter(node["resource_type"] for node in nodes.values())
    assert (kinds["model"], kinds["stream"], kinds["test"]) == (11, 4, 3)
    expiry = nodes["maintenance.orders__dead_letter.expire_snapshots"]
    assert (
        expiry["depends_on"] == ["model.orders"]
        and expiry["table"] == "lake.shop.orders__dead_letter"
    )
    assert (
        expiry["options"]["older_than"] == "5 days" and "every 1 hour" in expiry["when"]
    )
    orders = nodes["model.orders"]
    assert orders["expectations"] == []
    assert orders["compiled_path"] == "target/compiled/models/orders.sql"
    assert orders["config"]["keys"] == ["order_id"]
    assert orders["depends_on"] == ["stream.orders"]
    assert orders["contract"][0] == {
        "name": "order_id",
        "type": "bigint",
        "description": "The shop's number of the order.",
    }
    assert nodes["model.order_states"]["vars"] == ["big_order"]
    assert nodes["model.clicks"]["macros"] == ["page_of"]
    assert (
        nodes["model.clicks"]["stateful"],
        nodes["model.visits_per_day"]["stateful"],
    ) == (False, True)
    stream = nodes["stream.page_views"]
    assert stream["watermark"] == {"column": "viewed_at", "delay": "2 hours"}
    assert [column["name"] for column in stream["contract"] if column["required"]] == [
        "view_id",
        "viewed_at",
    ]


def test_maintenance_written_by_hand_is_a_node_in_the_place_of_the_appended_one(
    run: Run, shop: Path
) -> None:
    file = shop / "models" / "maintenance" / "orders_sorted.sql"
    file.parent.mkdir()
    file.write_text(
        "{{ config(mode='maintenance', of='orders', trigger='1 hour', tags=['nightly']) }}\n"
        "CALL {{ target.catalog }}.system.rewrite_data_files(table => '{{ this }}', strategy => 'sort')\n"
    )
    name = "shop.maintenance.orders_sorted.rewrite_data_files"
    for words in (
        "orders_sorted",
        "tag:nightly",
        "path:models/maintenance",
        "file:orders_sorted.sql",
        "orders_sorted.*",
    ):
        assert run("ls", "--select", words)[1].split() == [name], words
    assert (
        name in run("ls")[1].split()
        and name not in run("ls", "--resource-type", "model")[1].split()
    )
    _, below, noted = run("ls", "--select", "orders+")
    assert [line for line in below.split() if not line.startswith("test:")] == [
        "shop.orders",
        name,
        "shop.revenue_per_day",
        "shop.top_customers",
    ]  # the model's own tasks are counted
    tasks = run("ls", "--select", "orders+", "--resource-type", "maintenance")[
        1
    ].split()
    assert name in tasks and "shop.orders.expire_snapshots" in tasks
    assert noted.startswith(f"{len(tasks) - 1} tasks ")
    rest = run(
        "ls",
        "--select",
        "+order_states+",
        "--exclude",
        "customers",
        "--resource-type",
        "maintenance",
    )[1]
    assert (
        "shop.order_states.expire_snapshots" in rest.split() and "customers" not in rest
    )
    alone = run("ls", "--select", "orders.expire_snapshots")
    assert alone == (0, "shop.orders.expire_snapshots\n", "")
    assert "shop.orders.rewrite_data_files" not in below
    (said,) = map(
        json.loads,
        run("ls", "--select", "orders_sorted", "--output", "json")[1].splitlines(),
    )
    assert (said["path"], said["table"]) == (
        "models/maintenance/orders_sorted.sql",
        "lake.shop.orders",
    )
    compiled = run("compile", "--select", "orders_sorted")[1]
    assert compiled.startswith(
        "-- orders_sorted.rewrite_data_files: every 1 hour\nCALL lake.system.rewrite_data_files("
    )
    assert (
        compiled.rstrip()
        in (shop / "target" / "compiled" / "models" / "orders.sql").read_text()
    )
    nodes = json.loads((shop / "target" / "manifest.json").read_text())["nodes"]
    node = nodes["maintenance.orders_sorted.rewrite_data_files"]
    assert (node["path"], node["tags"], node["depends_on"]) == (
        said["path"],
        ["nightly"],
        ["model.orders"],
    )
    assert (node["when"], node["options"]["trigger"]) == ("every 1 hour", "1 hour")
    assert "maintenance.orders.rewrite_data_files" not in nodes
    file.write_text(file.read_text().replace("'sort'", "'binpack'"))
    assert "'binpack'" in run("compile", "--select", "orders_sorted")[1], (
        "an old text was kept"
    )


def test_parse_reads_every_select(run: Run, shop: Path) -> None:
    path = shop / "models" / "reports" / "visits_per_day.sql"
    path.write_text(path.read_text().replace("AS views", ""))
    code, out, err = run("parse", "--log-format", "json")
    assert (code, out, conditions(err)) == (2, "", ["unnamed-column"])


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_project_is_not_written_where_other_folders_are_named(
    run: Run,
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by_variable: bool,
) -> None:
    profiles = shop / "profiles.yml"
    # ends a run early
    profiles.write_text(
        profiles.read_text().replace("checkpoints: .l", "checkpoints: /dev/null/l")
    )
    before = sorted(shop.rglob("*"))
    target, logs = tmp_path / "elsewhere" / "t", tmp_path / "elsewhere" / "l"
    given = (
        [] if by_variable else ["--target-path", str(target), "--log-path", str(logs)]
    )
    if by_variable:
        monkeypatch.setenv("LAKESQL_TARGET_PATH", str(target))
        monkeypatch.setenv("LAKESQL_LOG_PATH", str(logs))
    assert run("parse", *given)[1].endswith(f": {target}/manifest.json\n")
    assert run("compile", "-s", "orders", *given)[0] == 0
    code, _, err = run("run", "--log-format", "json", *given)
    assert (code, conditions(err)) == (2, ["checkpoints-unwritable"])
    assert sorted(shop.rglob("*")) == before
    assert {path.name for path in target.iterdir()} == {
        "cache",
        "compiled",
        "manifest.json",
        "run_results.json",
    }
    assert (logs / "lakesql.log").is_file()
    nodes = json.loads((target / "manifest.json").read_text())["nodes"]
    assert (
        nodes["model.orders"]["compiled_path"] == f"{target}/compiled/models/orders.sql"
    )
    assert run("clean", *given)[0] == 0
    assert (
        not target.exists() and not logs.exists() and (tmp_path / "elsewhere").exists()
    )


def test_a_relative_folder_is_the_working_directorys(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(shop / "target")
    monkeypatch.chdir(shop.parent)
    assert run("compile", "--project-dir", "shop", "--target-path", "built")[0] == 0
    assert (shop.parent / "built" / "compiled").is_dir() and not (
        shop / "target"
    ).exists()


def test_clean_removes_what_can_be_made_again(run: Run, shop: Path) -> None:
    run("compile")
    for folder in ("logs", ".lakesql"):
        (shop / folder).mkdir()
    assert run("clean")[0] == 0
    assert not (shop / "target").exists() and not (shop / "logs").exists()
    assert (shop / ".lakesql").exists() and (shop / "models").exists()
    assert run("clean") == (0, "", "")


def test_clean_leaves_what_lakesql_has_not_written(run: Run, shop: Path) -> None:
    """A warehouse in target/, and a folder of files named logs/, are somebody's
    data."""
    run("compile")
    for file in (
        "target/warehouse/a.parquet",
        "logs/app/1.json",
        "logs/lakesql.log.1",
        "logs/spark.log",
    ):
        (shop / file).parent.mkdir(parents=True, exist_ok=True)
        (shop / file).touch()
    code, _, err = run("clean")
    assert code == 0 and "target/, which holds other files" in err
    left = {
        path.relative_to(shop).as_posix()
        for name in ("target", "logs")
        for path in (shop / name).rglob("*")
    }
    assert left == {
        "target/warehouse",
        "target/warehouse/a.parquet",
        "logs/app",
        "logs/app/1.json",
    }


def test_clean_follows_no_link_out_of_the_project(run: Run, shop: Path) -> None:
    outside = shop.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    shutil.rmtree(shop / "target")
    (shop / "target").symlink_to(outside, target_is_directory=True)
    assert run("clean")[0] == 0
    assert (outside / "kept").exists()


# init


def test_init_writes_a_project_that_compiles(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "bakery", "--name", "bakery")[0] == 0
    assert run("parse", "--project-dir", "bakery")[0] == 0
    manifest = load_project(Options(project_dir=tmp_path / "bakery"))
    assert (
        manifest.settings.name
        == manifest.settings.profile
        == manifest.target.namespace
        == "bakery"
    )
    written = {
        path.relative_to(tmp_path / "bakery").parts[0]
        for path in (tmp_path / "bakery").rglob("*")
    }
    assert written == {
        *(
            ".gitignore",
            ".schemas",
            "macros",
            "models",
            "profiles.yml",
            "pyproject.toml",
            "streams",
            "target",
        )
    }


def test_init_empty_writes_a_project_that_has_nothing_to_delete(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "--empty", "bakery", "--name", "bakery")[0] == 0
    root = tmp_path / "bakery"
    there = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    assert {path for path in there if not path.startswith(".schemas/")} == {
        *(
            ".gitignore",
            ".schemas",
            "macros",
            "models",
            "profiles.yml",
            "pyproject.toml",
            "streams",
        ),
    }
    code, out, err = run("parse", "--project-dir", "bakery")
    assert (code, out.partition(",")[0], err) == (0, "0 models and 0 streams", "")
    target = load_project(Options(project_dir=root)).target
    assert (target.name, target.namespace) == ("dev", "bakery")
    open_catalog(target.catalog)
    assert run("init", "--empty", "bakery", "--log-format", "json")[0] == 2


def test_the_sample_can_be_deleted(run: Run, shop: Path) -> None:
    for folder in ("models", "streams", "macros"):
        shutil.rmtree(shop / folder)
    code, out, err = run("parse", "--log-format", "json")
    assert (code, out.partition(",")[0]) == (0, "0 models and 0 streams")
    (warning,) = map(json.loads, err.splitlines())
    assert (warning["event"], warning["condition"]) == ("warning", "unknown-folder")
    assert "warning[unknown-folder] pyproject.toml:" in run("parse")[2]


def test_a_default_for_no_folder_is_an_error_where_there_are_models(
    run: Run, shop: Path
) -> None:
    shutil.rmtree(shop / "models" / "reports")
    code, _, err = run("parse", "--log-format", "json")
    assert (code, "unknown-folder" in conditions(err)) == (2, True)


@pytest.mark.parametrize("broken", [b"streams: [", b"\xff", b"streams: [{nam: x}]"])
def test_a_stream_file_that_cannot_be_read_is_all_that_is_said(
    run: Run, shop: Path, broken: bytes
) -> None:
    (shop / "streams" / "shop.yml").write_bytes(broken)
    code, _, err = run("parse", "--log-format", "json")
    places = {json.loads(line)["place"]["path"] for line in err.splitlines()}
    assert (code, places) == (2, {"streams/shop.yml"})


def test_all_files_that_cannot_be_read_are_named_at_once(run: Run, shop: Path) -> None:
    for file in ("streams/shop.yml", "models/orders.sql", "models/shop.yml"):
        (shop / file).write_bytes(b"\xff")
    _, _, err = run("parse", "--log-format", "json")
    assert [json.loads(line)["place"]["path"] for line in err.splitlines()] == [
        *("models/orders.sql", "models/shop.yml", "streams/shop.yml"),
    ]


def test_init_leaves_nothing_to_change_for_a_run(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project may be read-only when it is run: the times of recorded files are in
    the order of their names."""
    for topic in (shop / "streams" / "recorded").iterdir():
        ages = [
            file.stat().st_mtime_ns // 1_000_000
            for file in sorted(topic.glob("*.jsonl"))
        ]
        assert ages == sorted(set(ages)) and ages


def test_init_writes_over_nothing(run: Run, shop: Path) -> None:
    (shop / "models" / "orders.sql").write_text("-- mine\n")
    code, _, err = run("init", "--log-format", "json")
    assert (code, conditions(err)) == (2, ["project-exists"])
    assert (shop / "models" / "orders.sql").read_text() == "-- mine\n"


def test_init_keeps_a_gitignore(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert run("init", str(tmp_path))[0] == 0
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["my shop", "on", "null", "no"])
def test_init_takes_a_name_that_everything_can_have(
    run: Run, tmp_path: Path, name: str
) -> None:
    code, _, err = run(
        "init", str(tmp_path / "new"), "--name", name, "--log-format", "json"
    )
    assert (code, conditions(err)) == (2, ["bad-name"])
    assert not (tmp_path / "new").exists()


def test_the_shop_is_the_repositorys(run: Run, shop: Path) -> None:
    for folder in ("models", "streams", "macros"):
        for path in filter(Path.is_file, (shop / folder).rglob("*")):
            assert (
                without_modeline(path)
                == (find_shop() / path.relative_to(shop)).read_bytes()
            )
    assert (
        without_modeline(shop / "profiles.yml")
        == (find_shop() / "profiles.yml").read_bytes()
    )


def without_modeline(path: Path) -> bytes:
    """A file without the line that tells an editor its schema."""
    first, _, rest = path.read_bytes().partition(b"\n")
    return rest if b"$schema=" in first else path.read_bytes()


def test_only_lakesqls_settings_are_taken() -> None:
    text = "[project]\nname = 'x'\n\n[tool.lakesql]\nname = 'a'\n\n[tool.other]\nb = 1\n[tool.lakesql.vars]\nc = 2\n"
    assert (
        only_lakesql(text)
        == "[tool.lakesql]\nname = 'a'\n\n[tool.lakesql.vars]\nc = 2\n"
    )


def test_only_the_projects_name_is_changed() -> None:
    assert (
        rename('name = "shop"\n# a shop\nnames = ["shop"]\n', "b")
        == 'name = "b"\n# a shop\nnames = ["shop"]\n'
    )
    assert (
        rename("shop:\n      namespace: shop\n        shop: {}\n", "b")
        == "b:\n      namespace: b\n        shop: {}\n"
    )


# show


@pytest.fixture
def clicks(shop: Path) -> None:
    """The table of the model clicks with three rows, written by pyiceberg."""
    import pyarrow

    catalog = open_catalog(
        load_project(Options(project_dir=shop)).target.catalog
    ).iceberg
    catalog.create_namespace("shop")
    rows = pyarrow.table({"view_id": ["a", "b", None], "amount": [1, 2, 3]})
    catalog.create_table("shop.clicks", rows.schema).append(rows)


@pytest.mark.usefixtures("clicks")
def test_show_reads_rows_of_a_table(run: Run) -> None:
    code, out, err = run("show", "clicks", "--output", "json")
    assert (code, err) == (0, "")
    assert sorted(line["amount"] for line in map(json.loads, out.splitlines())) == [
        1,
        2,
        3,
    ]
    assert len(run("show", "clicks", "-o", "json", "--limit", "2")[1].splitlines()) == 2
    assert len(run("show", "clicks")[1].splitlines()) == 5


@pytest.mark.usefixtures("clicks")
def test_show_refuses_missing_tables_unknown_models_and_bad_options(run: Run) -> None:
    for arguments, code, expected in (
        (["show", "orders"], 1, ["table-missing"]),
        (["show", "clikcs"], 2, ["unknown-model"]),
        (["show", "clicks", "--limit", "-1"], 2, ["usage"]),
        (["show", "clicks", "--preview", "--dead-letters"], 2, ["usage"]),
    ):
        found, out, err = run(*arguments, "--log-format", "json")
        assert (found, out, conditions(err)) == (code, "", expected)


@pytest.mark.usefixtures("clicks")
def test_no_dead_letters_are_no_error(run: Run) -> None:
    code, out, err = run("show", "clicks", "--dead-letters")
    assert (code, out) == (0, "")
    assert "lake.shop.clicks__dead_letter" in err


def test_rows_are_printed_as_an_aligned_table() -> None:
    columns = ("id", "text", "at", "nested")
    rows = [
        (1, "a\nb", datetime(2026, 3, 1, 12, tzinfo=UTC), {"x": [1, None]}),
        (None, "日本", None, None),
        (23, "x" * 80, datetime(2026, 3, 1), []),
    ]
    wide = "-" * 60
    assert render_rows(columns, rows, sys.maxsize).splitlines() == [
        f"  id | text{' ' * 56} | at                   | nested",
        f"-----+-{wide}-+----------------------+-----------------",
        f'   1 | a b{" " * 57} | 2026-03-01 12:00:00Z | {{"x": [1, null]}}',
        f"NULL | 日本{' ' * 56} | NULL                 | NULL",
        f"  23 | {'x' * 59}… | 2026-03-01 00:00:00  | []",
    ]


def test_a_table_wider_than_the_terminal_is_printed_by_row() -> None:
    columns = ("id", "a_long_name", "日本")
    rows = [(1, "x" * 30, None), (20, "日本" * 12, {"k": [1]})]
    assert render_rows(columns, rows, 200) == render_rows(columns, rows, sys.maxsize)
    assert render_rows(columns, rows, 40).splitlines() == [
        f"-- 1 {'-' * 35}",
        "id          | 1",
        f"a_long_name | {'x' * 26}",
        f"            | {'x' * 4}",
        "日本        | NULL",
        f"-- 2 {'-' * 35}",
        "id          | 20",
        f"a_long_name | {'日本' * 6}日",
        f"            | 本{'日本' * 5}",
        '日本        | {"k": [1]}',
    ]


@each_of("width", [20, 80, 81, 120])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    columns = [f"column_{number}" for number in range(19)]
    rows = [["word " * number for number in range(19)], ["y" * 2000] * 19]
    lines = render_rows(columns, rows, width).splitlines()
    assert max(map(len, lines)) <= max(width, 9 + 3 + 20)
    assert sum(line.startswith("-- ") for line in lines) == 2
    assert len(lines) <= 2 + 38 * MOST_LINES
    assert lines[-1].endswith("…")


@pytest.mark.parametrize("width", [80, 9])
def test_markup_in_a_row_is_shown_to_the_letter(width: int) -> None:
    texts = ("[red]x[/red]", ":smile: a\\x1b[31mb", "[/]", "http://x")
    shown = render_rows(
        ("[b]", "c"), [(texts[0], ":smile: a\x1b[31mb"), texts[2:]], width
    )
    assert all(text in shown for text in (*texts, "[b]"))
    assert shown.startswith("-- 1") == (width == 9)


def test_a_wide_table_without_rows_keeps_its_columns() -> None:
    assert (
        render_rows(["c" * 50, "d" * 50], [], 80).splitlines()[0]
        == f"{'c' * 50} | {'d' * 50}"
    )


def test_rows_as_json_lose_nothing() -> None:
    row = (
        Decimal("1.10"),
        date(2026, 3, 1),
        b"\xff\x00",
        b"text",
        float("nan"),
        {"k": (1, b"b")},
        True,
        None,
    )
    (line,) = render_json(
        [f"c{number}" for number in range(len(row))], [row]
    ).splitlines()
    assert list(json.loads(line).values()) == [
        "1.10",
        "2026-03-01",
        "/wA=",
        "text",
        "nan",
        {"k": [1, "b"]},
        True,
        None,
    ]


def test_no_columns_are_no_table() -> None:
    assert render_rows((), [], 80) == ""


# debug


def test_debug_finds_what_is_wrong(run: Run, shop: Path) -> None:
    shutil.rmtree(shop / "streams" / "recorded")
    (shop / "models" / "orders.sql").write_text("{{ config(mode='upsert') }}")
    code, out, _ = run("debug", "--log-format", "json")
    found = {line["check"]: line for line in map(json.loads, out.splitlines())}
    wrong = {
        name: [it["condition"] for it in line["problems"]]
        for name, line in found.items()
        if not line["ok"]
    }
    assert code == 1
    assert wrong.pop("models") == ["missing-option"]
    assert wrong.pop("connection shop") == ["connection-unreachable"]
    assert not wrong.keys() - {"Java", "jars"}
    assert {
        "project",
        "Java",
        "pyspark",
        "target",
        "jars",
        "catalog",
        "checkpoints",
    } <= found.keys()


@pytest.mark.checks
@pytest.mark.parametrize(
    ("before", "after", "check", "expected"),
    [
        (
            "        shop: {type: rec",
            "        shops: {type: rec",
            "streams",
            ["unknown-connection"] * 4,
        ),
        (", warehouse: .lakesql/warehouse}", "}", "catalog", ["missing-option"]),
        (
            "/warehouse}",
            "/warehouse, s3.access-key-id: a}",
            "catalog",
            ["missing-option"],
        ),
    ],
)
def test_debug_refuses_what_a_run_refuses(
    run: Run, shop: Path, before: str, after: str, check: str, expected: list[str]
) -> None:
    profiles = shop / "profiles.yml"
    text = profiles.read_text()
    assert before in text
    profiles.write_text(text.replace(before, after, 1))
    code, out, _ = run("debug", "--log-format", "json")
    found = {
        line["check"]: [problem["condition"] for problem in line["problems"]]
        for line in map(json.loads, out.splitlines())
    }
    assert (code, found[check]) == (1, expected)
    assert set(conditions(run("run", "--log-format", "json")[2])) == set(expected)


def test_debug_says_which_streams_have_nothing_to_read(run: Run, shop: Path) -> None:
    shutil.rmtree(shop / "streams" / "recorded" / "shop.orders")
    _, out, _ = run("debug", "--log-format", "json")
    (streams,) = (
        line for line in map(json.loads, out.splitlines()) if line["check"] == "streams"
    )
    (warning,) = streams["warnings"]
    assert streams["ok"] and warning.startswith("stream orders: no file matches ")
    assert warning.endswith(
        "/shop.orders/*.jsonl: there is no folder "
        + str(shop / "streams/recorded/shop.orders")
    )
    assert warning in run("debug")[1]


def test_debug_says_what_reads_protobuf_and_what_executors_need(
    run: Run, shop: Path
) -> None:
    stream = "{name: orders_of, connection: shop, topic: t, format: protobuf, registry: r, columns: {id: int}}"
    (shop / "streams" / "more.yml").write_text(f"streams: [{stream}]")

    def of_protobuf() -> dict[str, object]:
        lines = map(json.loads, run("debug", "--log-format", "json")[1].splitlines())
        found: dict[str, dict[str, object]] = {line["check"]: line for line in lines}
        return found["Protobuf"]

    found = of_protobuf()
    assert (
        found["ok"]
        and "libprotoc" in str(found["found"])
        and "ptars" in str(found["found"])
    )
    assert "executors" not in str(found["found"])
    profiles = shop / "profiles.yml"
    text = profiles.read_text()
    cluster = text.replace('{master: "local[*]"}', '{master: "spark://localhost:1"}', 1)
    assert cluster != text
    profiles.write_text(cluster)
    assert "executors need" in str(of_protobuf()["found"])


def test_debug_without_a_target_still_looks_at_the_machine(
    run: Run, shop: Path
) -> None:
    code, out, _ = run("debug", "--log-format", "json", "--target", "prod")
    found = {line["check"]: line for line in map(json.loads, out.splitlines())}
    assert code == 1
    assert found.keys() == {"project", "Java", "pyspark", "target"}
    assert {problem["condition"] for problem in found["target"]["problems"]} == {
        "env-var-missing"
    }


def test_debug_shows_each_problem_of_a_connection(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lakesql parse` asks no broker, so it would show none of them."""
    missing = [
        Problem("unknown-topic", f"There is no topic '{name}'\x1b[0m.", fix="Make it.")
        for name in "ab"
    ]

    def ask(*_: object) -> str:
        raise RunError(missing)

    monkeypatch.setattr("lakesql.cli.checks.check_connection", ask)
    _, out, _ = run("debug")
    assert (
        "There is no topic 'a'" in out
        and "There is no topic 'b'" in out
        and "\x1b[0m." not in out
    )


def test_debug_makes_nothing(run: Run, shop: Path) -> None:
    run("debug")
    assert not (shop / ".lakesql").exists()


def test_each_connection_is_reachable_or_refused(tmp_path: Path) -> None:
    assert check_connection(Files(str(tmp_path))).text
    assert check_connection(Recorded("s3://somewhere/else")).text
    assert check_connection(Rate()).text
    for wrong in (
        Kafka("127.0.0.1:1"),
        Kafka("no-port"),
        Files(str(tmp_path / "none")),
        Recorded("/none"),
    ):
        with pytest.raises(LakesqlError) as caught:
            check_connection(wrong)
        assert [problem.condition for problem in caught.value.problems] == [
            "connection-unreachable"
        ]
