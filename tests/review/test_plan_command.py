"""`lakesql plan` and `state:` as commands, in a repository of its own, and what may be
wrong with what is compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesql.review.verdicts import CAUSES, VERDICTS

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
Run = Callable[..., tuple[int, str, str]]


def git(directory: Path, *arguments: str) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    who = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.invalid",
        "-c",
        "protocol.file.allow=always",
    )
    subprocess.run(
        ["git", *who, *arguments],
        cwd=directory,
        env=environ,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder of a repository, committed on the branch `main`, and the
    working directory in it."""
    project = tmp_path / "repository" / "shop"
    shutil.copytree(FOLDER / "project", project)
    (project / ".gitignore").write_text("target/\nlogs/\n")
    git(project.parent, "init", "--initial-branch", "main")
    commit(project)
    monkeypatch.chdir(project)
    return project


def commit(project: Path) -> None:
    git(project, "add", "--all", "..")
    git(project, "commit", "--message", "a step")


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")


def conditions(stderr: str) -> list[str]:
    return [
        line["condition"]
        for line in map(json.loads, stderr.splitlines())
        if line["event"] == "problem"
    ]


def test_nothing_changes(run: Run, shop: Path) -> None:
    code, out, err = run("plan")
    assert (code, err) == (0, "")
    assert out.startswith("Compared with main (") and out.endswith("15 none.\n")


def test_a_file_whose_lines_have_moved_says_the_same(run: Run, shop: Path) -> None:
    described = shop / "models" / "described.yml"
    columns = "    columns:\n      - {name: hits, tests: [accepted_values: {values: [1, 2]}]}\n"
    (shop / "models" / "described.sql").write_text(
        (shop / "models" / "orders.sql").read_text("utf-8")
    )
    tested = f"models:\n  - name: described\n{columns}"
    described.write_text(tested)
    commit(shop)
    described.write_text(f"\n# a remark\n\n{tested}")
    assert "description-changed" not in run("plan", "--against", "HEAD")[1]
    described.write_text(tested.replace("[1, 2]", "[1, 3]"))
    assert "description-changed" in run("plan", "--against", "HEAD")[1]


def test_what_is_not_committed_is_compared_with_the_merge_base(
    run: Run, shop: Path
) -> None:
    git(shop, "checkout", "-b", "feature")
    edit(shop / "models/products.sql", "stock > 0", "stock > 1")
    commit(shop)
    git(shop, "checkout", "main")
    edit(shop / "models/orders.sql", "30 seconds", "1 minute")
    commit(shop)
    git(shop, "checkout", "feature")
    edit(shop / "models/clicks.sql", "'days(viewed_at)'", "'hours(viewed_at)'")
    plan = json.loads(run("plan", "--output", "json")[1])
    assert {
        it["name"]: it["verdict"] for it in plan["models"] if it["verdict"] != "none"
    } == {
        "clicks": "alter",
        "products": "rebuild",
    }
    against_main = json.loads(run("plan", "--against", "main", "-o", "json")[1])
    assert [
        it["name"] for it in against_main["models"] if it["verdict"] == "next-batch"
    ] == ["orders"]


def test_the_exit_code_is_3_where_the_worst_verdict_reaches_the_limit(
    run: Run, shop: Path
) -> None:
    edit(shop / "models/clicks.sql", "'days(viewed_at)'", "'hours(viewed_at)'")
    reached = {verdict: run("plan", "--fail-on", verdict)[0] for verdict in VERDICTS}
    hard = VERDICTS.index("alter")
    assert reached == {
        verdict: 3 if index <= hard else 0 for index, verdict in enumerate(VERDICTS)
    }
    assert run("plan", "--select", "orders", "--fail-on", "docs")[0] == 0
    assert run("plan", "--fail-on", "worse")[0] == 2


def test_the_json_has_the_shape_of_its_schema(run: Run, shop: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs/plan.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    edit(shop / "models/softly.sql", "CAST(price AS double)", "CAST(price AS string)")
    edit(
        shop / "models/clicks.sql",
        "visitor, customer_id,",
        "customer_id, length(url) AS url_length,",
    )
    edit(
        shop / "streams/shop.yml", "product_id: {type: int", "product_id: {type: bigint"
    )
    (shop / "models/everything.sql").unlink()
    code, out, _ = run("plan", "--output", "json")
    plan = json.loads(out)
    jsonschema.validate(plan, schema)
    assert code == 0 and plan["verdict"] == "refused"
    assert schema["$defs"]["verdict"]["enum"] == list(VERDICTS)
    broken = json.loads(out)
    broken["models"][0]["verdict"] = "worse"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_a_day_is_told_before_and_after_where_it_differs(run: Run, shop: Path) -> None:
    edit(shop / "pyproject.toml", 'trigger = "1 minute"', 'trigger = "60 minutes"')
    edit(shop / "models/order_states.sql", "o.status,", "upper(o.status) AS status,")
    edit(shop / "models/orders.sql", "30 seconds", "30s")
    plan = {it["name"]: it for it in json.loads(run("plan", "-o", "json")[1])["models"]}
    days = {name: it["forecast"] for name, it in plan.items() if it["forecast"]}
    assert set(days) == {"views_per_10_minutes", "visits_per_day"}
    for name, day in days.items():
        assert (
            day["before"]["freshness_ms"] == 62_000
            and day["after"]["freshness_ms"] == 3_602_000
        )
        for side in ("before", "after"):
            end, most = day[side]["unmaintained"], day[side]["maintained"]
            header = " ".join(
                plan[name]["statements"][side]
                .split("\n\n")[0]
                .replace("\n--  ", "")
                .split()
            )
            deletes = [
                f" and {it['delete_files']:,} delete files"
                if it["delete_files"]
                else ""
                for it in (end, most)
            ]
            assert (
                f"{end['commits']:,} commits leave {end['data_files']:,} data files{deletes[0]}, "
                in header
            )
            assert f"; maintained, {most['commits']:,} commits leave {most['data_files']:,} data files{deletes[1]}, "\
                f"{most['snapshots']:,} snapshots and {most['metadata_bytes'] / 1e6:,.1f} MB" in header  # fmt: skip
    text, markdown = run("plan")[1], run("plan", "-o", "markdown")[1]
    assert text.count("a day at 100 rows of 100 bytes a second\n") == 2
    assert "newest row at most old                 1 min 02 s -> 1 h 00 min\n" in text
    assert "| newest row at most old | 1 min 02 s | 1 h 00 min |\n" in markdown


def test_a_batch_that_reads_more_does_not_fall_behind(run: Run, shop: Path) -> None:
    edit(
        shop / "streams/shop.yml",
        "delay: 2 hours}\n    max_per_batch: 400",
        "delay: 2 hours}\n    max_per_batch: 4000",
    )
    plan = {it["name"]: it for it in json.loads(run("plan", "-o", "json")[1])["models"]}
    day = plan["clicks"]["forecast"]
    assert (day["before"].pop("is_behind"), day["after"].pop("is_behind")) == (
        True,
        False,
    )
    assert day["before"] == day["after"]
    assert [
        row
        for row in run("plan", "--select", "clicks")[1].splitlines()
        if row.startswith("    a batch reads")
    ] == ["    a batch reads all that comes                   no -> yes"]


def test_a_run_of_what_is_there_takes_as_many_batches_as_it_needs(
    run: Run, shop: Path
) -> None:
    edit(shop / "models/clicks.sql", "trigger='10 seconds'", "trigger='available_now'")
    day = {it["name"]: it for it in json.loads(run("plan", "-o", "json")[1])["models"]}[
        "clicks"
    ]["forecast"]
    assert (day["before"]["is_behind"], day["after"]["is_behind"]) == (True, False)
    assert day["after"]["freshness_ms"] == 3_602_000
    commit(shop)
    edit(shop / "models/clicks.sql", "trigger='available_now'", "trigger='1 hour'")
    clicks = json.loads(
        run("plan", "--against", "HEAD", "--select", "clicks", "-o", "json")[1]
    )["models"][0]
    assert [
        clicks["forecast"][side].pop("is_behind") for side in ("before", "after")
    ] == [False, True]
    by_run, always = clicks["forecast"]["before"], clicks["forecast"]["after"]
    assert (
        by_run.pop("maintained")["data_files"] < always.pop("maintained")["data_files"]
    ), "half a threshold is enough"
    assert by_run == always


def test_columns_steps_and_readers_are_told(run: Run, shop: Path) -> None:
    edit(shop / "models/customers.sql", "    on_schema_change='fail',\n", "")
    edit(
        shop / "models/customers.sql",
        "    name,\n",
        "    name,\n    upper(name) AS loud,\n    CAST(customer_id AS int) AS n,\n",
    )
    plan = {it["name"]: it for it in json.loads(run("plan", "-o", "json")[1])["models"]}
    found = plan["customers"]
    assert found["columns"]["added"] == [
        {"name": "loud", "type": "string"},
        {"name": "n", "type": "int"},
    ]
    (step,) = found["steps"]
    assert step["statements"][0].startswith(
        "ALTER TABLE lake.shop.customers ADD COLUMNS (loud"
    )
    assert found["downstream"] == [
        {"name": "joined", "columns": ["loud", "n"], "through": "customers"}
    ]
    assert (
        "upper(name) AS loud" in found["statements"]["after"]
        and "loud" not in found["statements"]["before"]
    )


def test_readers_of_a_column_are_named_through_others(run: Run, shop: Path) -> None:
    (shop / "models/paid.sql").write_text(
        "{{ config(mode='append') }}\nSELECT view_id, page AS where_paid FROM {{ stream('clicks') }}\n"
    )
    (shop / "models/payers.sql").write_text(
        "{{ config(mode='append') }}\nSELECT where_paid, view_id FROM {{ stream('paid') }}\n"
    )
    commit(shop)
    edit(shop / "macros/text.sql", "(/[^?#]*)", "(/[^?#;]*)")
    plan = {it["name"]: it for it in json.loads(run("plan", "-o", "json")[1])["models"]}
    assert plan["clicks"]["downstream"] == [
        {"name": "checkouts", "columns": ["page"], "through": "clicks"},
        {"name": "paid", "columns": ["page"], "through": "clicks"},
        {"name": "payers", "columns": ["where_paid"], "through": "paid"},
    ]


def test_markdown_has_a_table_first_and_folds_the_rest(run: Run, shop: Path) -> None:
    edit(shop / "models/products.sql", "stock > 0", "/* | <b> ``` */ stock > 1")
    out = run("plan", "-o", "markdown")[1]
    lines = out.splitlines()
    assert lines[0] == "<!-- lakesql plan -->"
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == 1 and rows[0].startswith("| `products` | 🟠 rebuild | WHERE")
    assert lines.index(rows[0]) < lines.index(
        next(it for it in lines if it.startswith("<details>"))
    )
    assert (
        out.count("````") == 2
        and out.count("<details>") == out.count("</details>") == 1
    )


def test_markdown_of_many_models_is_what_a_comment_takes(run: Run, shop: Path) -> None:
    name = "a_model_whose_name_is_longer_than_most_names_are_{}"
    model = "{{ config(mode='append') }}\nSELECT page FROM {{ stream('clicks') }}\n"
    for number in range(800):
        (shop / "models" / f"{name.format(number)}.sql").write_text(model)
    out = run("plan", "-o", "markdown")[1]
    rows = [line for line in out.splitlines() if line.startswith("| `")]
    assert 60_000 > len(out) > 58_000
    assert f"\n{800 - len(rows)} more in the output of `lakesql plan`.\n" in out
    assert out.endswith("\n800 more in the output of `lakesql plan`.\n")


def test_text_quotes_the_places(run: Run, shop: Path) -> None:
    edit(shop / "pyproject.toml", "big_order = 500", "big_order = 400")
    out = run("plan")[1]
    assert "next-batch  order_states" in out
    assert "pyproject.toml:6:1 [expression-changed]" in out
    assert (
        "-    o.amount >= 500 AS is_big," in out
        and "+    o.amount >= 400 AS is_big," in out
    )


def test_secrets_that_are_not_set_are_not_needed(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "SPARK_MASTER",
        "CATALOG_URI",
        "LAKESQL_SECRET_CATALOG",
        "CHECKPOINTS",
        "KAFKA_BOOTSTRAP",
    ):
        monkeypatch.delenv(name, raising=False)
    assert run("parse", "--target", "prod")[0] == 2
    edit(shop / "streams/shop.yml", "topic: shop.orders", "topic: shop.orders.v2")
    code, out, err = run("plan", "--target", "prod", "-o", "json")
    assert (code, err) == (0, "")
    assert {
        it["name"] for it in json.loads(out)["models"] if it["verdict"] == "breaks"
    } == {*("joined", "order_states", "orders", "pairs", "totals")}


def test_a_project_that_was_not_there_is_all_added(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("nothing yet\n")
    git(tmp_path, "init", "--initial-branch", "main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message", "first")
    shutil.copytree(FOLDER / "project", tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    plan = json.loads(run("plan", "-o", "json")[1])
    assert {it["verdict"] for it in plan["models"]} == {"added"}


def test_a_renamed_folder_is_compared_with_what_it_was(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop.parent / "teams").mkdir()
    git(shop, "mv", str(shop), str(shop.parent / "teams/store"))
    monkeypatch.chdir(shop.parent / "teams/store")
    edit(Path("models/orders.sql"), "amount, status", "amount + 1 AS amount, status")
    code, out, _ = run("plan", "--against", "HEAD", "--fail-on", "next-batch")
    assert code == 3
    assert f"where the project is in {shop.name}/" in out
    assert "added" not in out


def test_a_commit_without_the_project_is_said_to_have_none(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rename(shop.parent / "store")  # which git is not told
    monkeypatch.chdir(shop.parent / "store")
    code, out, _ = run("plan", "--against", "HEAD")
    assert code == 0
    assert "which has no project in store/" in out


@pytest.mark.parametrize(
    "folder", ["models", "models/reports", "streams", "seeds", "tests"]
)
def test_a_part_that_is_a_repository_of_its_own_is_refused(
    run: Run, shop: Path, folder: str
) -> None:
    (shop / folder).mkdir(exist_ok=True)
    git(shop / folder, "init")
    code, out, err = run("plan", "--log-format", "json")
    assert (code, out, conditions(err)) == (2, "", ["git-nested"])
    assert run("parse")[0] == 0
    assert run("plan", "--state", "target")[0] == 0


def test_an_old_model_that_cannot_be_read_is_said_and_not_guessed(
    run: Run, shop: Path
) -> None:
    good = (shop / "models/clicks.sql").read_text("utf-8")
    edit(shop / "models/clicks.sql", "mode='append'", "mode='appnd'")
    edit(shop / "models/orders.sql", "SELECT order_id", "SELECT no_such_column")
    commit(shop)
    (shop / "models/clicks.sql").write_text(good)
    edit(shop / "models/orders.sql", "SELECT no_such_column", "SELECT order_id")
    plan = {it["name"]: it for it in json.loads(run("plan", "-o", "json")[1])["models"]}
    for name, condition in (("clicks", "unknown-mode"), ("orders", "unknown-column")):
        (reason,) = plan[name]["reasons"]
        assert (reason["verdict"], reason["condition"]) == ("breaks", "not-compared")
        assert condition in reason["what"]
    assert plan["customers"]["verdict"] == "none"


def test_an_old_project_that_cannot_be_read_is_an_error(run: Run, shop: Path) -> None:
    edit(shop / "streams/landing.yml", "size: int", "size: integr")
    commit(shop)
    edit(shop / "streams/landing.yml", "size: integr", "size: int")
    code, out, err = run("plan", "--log-format", "json")
    assert (code, out, conditions(err)) == (2, "", ["old-unreadable"])
    assert "streams/landing.yml:6:13" in err
    commit(shop)
    assert run("plan", "--against", "HEAD")[0] == 0


def test_a_ref_that_is_not_there(run: Run, shop: Path) -> None:
    for ref in ("no-such-branch", "--help", "HEAD:models"):
        code, out, err = run("plan", f"--against={ref}", "--log-format", "json")
        assert (code, out, conditions(err)) == (2, "", ["git-ref"]), ref
    assert run("plan", "--against=main")[0] == 0


def test_no_main_branch_and_nothing_in_common(run: Run, shop: Path) -> None:
    git(shop, "checkout", "--orphan", "other")
    edit(shop / "models/orders.sql", "30 seconds", "1 minute")
    commit(shop)
    assert conditions(run("plan", "--log-format", "json")[2]) == ["git-ref"]
    git(shop, "branch", "--delete", "--force", "main")
    assert conditions(run("plan", "--log-format", "json")[2]) == ["git-ref"]


def test_no_repository(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(FOLDER / "project", tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert conditions(run("plan", "--log-format", "json")[2]) == ["git-missing"]
    monkeypatch.setenv("PATH", "")
    assert conditions(run("plan", "--log-format", "json")[2]) == ["git-missing"]


def test_a_shallow_clone(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(shop / "models/orders.sql", "30 seconds", "1 minute")
    commit(shop)
    git(shop, "checkout", "-b", "feature", "HEAD~1")
    edit(shop / "models/products.sql", "stock > 0", "stock > 1")
    commit(shop)
    git(shop, "checkout", "main")
    origin = f"file://{shop.parent}"
    git(
        tmp_path,
        "clone",
        "--depth",
        "1",
        "--no-single-branch",
        "--branch",
        "feature",
        origin,
        "shallow",
    )
    monkeypatch.chdir(tmp_path / "shallow" / "shop")
    assert conditions(run("plan", "--log-format", "json")[2]) == ["shallow-clone"]
    assert conditions(
        run("plan", "--against", "HEAD~1", "--log-format", "json")[2]
    ) == ["shallow-clone"]
    git(tmp_path / "shallow", "fetch", "--unshallow")
    plan = json.loads(run("plan", "-o", "json")[1])
    assert [it["name"] for it in plan["models"] if it["verdict"] != "none"] == [
        "products"
    ]


def test_a_state_is_compared_as_a_commit_is(run: Run, shop: Path) -> None:
    assert run("parse")[0] == 0
    shutil.copytree("target", "before")
    edit(shop / "models/products.sql", "stock > 0", "stock > 1")
    edit(shop / "pyproject.toml", 'trigger = "1 minute"', 'trigger = "5 minutes"')
    of_state, of_commit = (
        json.loads(run("plan", *words, "-o", "json")[1])
        for words in (("--state", "before"), ("--against", "HEAD"))
    )
    assert of_state["models"] == of_commit["models"]
    assert of_state["verdict"] == "rebuild"


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"metadata": {"dbt_version": "1.9"}, "nodes": {}}', None, "older"],
)
def test_a_state_that_is_none(run: Run, shop: Path, text: str | None) -> None:
    Path("before").mkdir()
    if text == "older":
        run("parse")
        manifest = json.loads(Path("target/manifest.json").read_text("utf-8"))
        del manifest["files"]
        text = json.dumps(manifest)
    if text is not None:
        Path("before/manifest.json").write_text(text)
    code, out, err = run("plan", "--state", "before", "--log-format", "json")
    assert (code, out, conditions(err)) == (
        2,
        "",
        ["state-missing" if text is None else "state-outdated"],
    )


def test_a_state_writes_no_file_outside_of_its_folder(run: Run, shop: Path) -> None:
    run("parse")
    manifest = json.loads(Path("target/manifest.json").read_text("utf-8"))
    manifest["files"]["../../escaped.sql"] = "SELECT 1"
    Path("before").mkdir()
    Path("before/manifest.json").write_text(json.dumps(manifest))
    assert conditions(run("plan", "--state", "before", "--log-format", "json")[2]) == [
        "state-outdated"
    ]


def test_a_manifest_holds_nothing_of_the_profile_but_names(
    run: Run, shop: Path
) -> None:
    edit(
        shop / "profiles.yml",
        "shop: {type: recorded, path: streams/recorded}",
        "shop: {type: kafka, bootstrap_servers: 'hidden:1'}",
    )
    assert run("parse")[0] == 0
    assert "hidden" not in Path("target/manifest.json").read_text("utf-8")


STATES = {
    "new": ["shop.fresh"],
    "modified": [
        "shop.clicks",
        "shop.everything",
        "shop.order_states",
        "shop.orders",
        "stream:shop.page_views",
    ],
    "modified.body": ["shop.order_states"],
    "modified.macros": ["shop.clicks"],
    "modified.configs": ["shop.orders"],
    "modified.contract": ["shop.clicks", "shop.everything", "stream:shop.page_views"],
}


@pytest.mark.parametrize("state", STATES)
def test_models_are_selected_by_what_has_changed(
    run: Run, shop: Path, state: str
) -> None:
    (shop / "models/fresh.sql").write_text(
        "{{ config(mode='append') }}\nSELECT order_id FROM {{ stream('orders') }}\n"
    )
    edit(
        shop / "models/shop.yml",
        "description: Customers as they are now.",
        "description: Customers.",
    )
    edit(shop / "models/orders.sql", "30 seconds", "1 minute")
    edit(shop / "models/order_states.sql", "o.status,", "upper(o.status) AS status,")
    edit(
        shop / "models/reports/views_per_10_minutes.sql",
        "{{ page_of('url') }}",
        "regexp_extract(url, '^https?://[^/]+(/[^?#]*)', 1)",
    )
    edit(shop / "macros/text.sql", "(/[^?#]*)", "(/[^?#;]*)")
    edit(
        shop / "streams/shop.yml",
        "      view_id: {type: string, required: true}",
        "      view_id: {type: string}",
    )
    listed = run("ls", "--select", f"state:{state}", "--against", "main")[
        1
    ].splitlines()
    readers = {
        "shop.views_per_10_minutes",
        "shop.reports.views_per_10_minutes",
        "shop.reports.visits_per_day",
    }
    assert sorted(set(listed) - readers) == STATES[state]


def test_a_state_needs_something_to_compare_with(run: Run, shop: Path) -> None:
    assert conditions(
        run("ls", "--select", "state:new", "--log-format", "json")[2]
    ) == ["bad-selector"]
    assert conditions(
        run("ls", "--select", "state:nwe", "--against", "main", "--log-format", "json")[
            2
        ]
    ) == ["bad-selector"]
    assert run("ls", "--select", "state:modified+", "--against", "main")[:2] == (0, "")


def test_every_cause_is_documented_and_met() -> None:
    page = (ROOT / "docs/plan.md").read_text("utf-8")
    assert {cause for cause in CAUSES if f"`{cause}`" not in page} == set()
    assert {verdict for verdict in VERDICTS if f"| `{verdict}` |" not in page} == set()


def plan_of(run: Run, *arguments: str) -> dict[str, dict[str, Any]]:
    code, out, err = run("plan", "-o", "json", *arguments)
    assert (code, err) == (0, "")
    return {it["name"]: it for it in json.loads(out)["models"] if it["reasons"]}


SEED = "code,name,vat\nDE,Germany,0.19\n"


@pytest.fixture
def with_seed(shop: Path) -> Path:
    """The project with a seed that a model joins, committed."""
    (shop / "seeds").mkdir()
    (shop / "seeds/countries.csv").write_text(SEED)
    (shop / "seeds/seeds.yml").write_text(
        "seeds: [{name: countries, columns: {code: string, name: string, vat: 'decimal(4,2)'}}]\n"
    )
    (shop / "models/named.sql").write_text(
        "{{ config(mode='append') }}\nSELECT o.order_id, c.name FROM {{ stream('orders') }} AS o "
        "LEFT JOIN {{ ref('countries') }} AS c ON c.code = o.status\n"
    )
    commit(shop)
    return shop


@pytest.mark.parametrize("with_state", [False, True])
def test_what_a_changed_seed_means(run: Run, with_seed: Path, with_state: bool) -> None:
    against = ("--state", "target/before") if with_state else ()
    assert run("parse", "--target-path", "target/before")[0] == 0
    assert plan_of(run, *against) == {}
    edit(with_seed / "seeds/countries.csv", "0.19", "0.20")
    (found,) = plan_of(run, *against).values()
    (reason,) = found["reasons"]
    assert (found["name"], found["verdict"], reason["condition"]) == (
        "seed.countries",
        "next-batch",
        "seed-changed",
    )
    assert reason["do"] == "lakesql seed --select countries"
    assert (
        run("ls", "-s", "state:modified", *(against or ("--against", "main")))[1]
        == "shop.countries\n"
    )
    edit(
        with_seed / "seeds/countries.csv",
        SEED.replace("0.19", "0.20"),
        "code,name,area\nDE,Germany,1\n",
    )
    edit(
        with_seed / "seeds/seeds.yml",
        "name: string, vat: 'decimal(4,2)'",
        "name: int, area: bigint",
    )
    found = plan_of(run, *against)["seed.countries"]
    assert found["verdict"] == "alter"
    assert found["columns"] == {
        "added": [{"name": "area", "type": "bigint"}],
        "dropped": [{"name": "vat", "type": "decimal(4,2)"}],
        "retyped": [{"name": "name", "before": "string", "after": "int"}],
    }
    assert found["downstream"] == [
        {"name": "named", "columns": ["name"], "through": "seed.countries"}
    ]
    assert (
        "seed.countries" in run("plan", *against)[1]
        and plan_of(run, *against, "-s", "products") == {}
    )


def test_seeds_that_come_and_go_are_said(run: Run, with_seed: Path) -> None:
    (with_seed / "seeds/countries.csv").rename(with_seed / "seeds/regions.csv")
    edit(with_seed / "seeds/seeds.yml", "countries", "regions")
    edit(with_seed / "models/named.sql", "countries", "regions")
    verdicts = {
        name: it["verdict"]
        for name, it in plan_of(run).items()
        if name.startswith("seed.")
    }
    assert verdicts == {"seed.countries": "removed", "seed.regions": "added"}
    edit(
        with_seed / "seeds/seeds.yml",
        "{name: regions, columns",
        "{name: regions, description: new, columns",
    )
    commit(with_seed)
    edit(with_seed / "seeds/seeds.yml", "description: new", "description: newer")
    found = plan_of(run)
    assert {name: it["verdict"] for name, it in found.items()} == {
        "seed.regions": "docs"
    }


def test_csv_files_that_are_no_seeds_are_not_read_of_a_commit(
    run: Run, shop: Path
) -> None:
    (shop / "landing").mkdir()
    (shop / "landing/rows.csv").write_bytes(b"\xff\xfe")
    commit(shop)
    assert plan_of(run) == {}
