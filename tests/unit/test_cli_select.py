"""What commands select beside words: selectors.yml, results of a run, another version;
and what --defer reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

import pyarrow
import pytest

from lakesql.catalog.connect import open_catalog
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.events import ModelFinished, RunFinished, RunStarted
from lakesql.observe.emitter import Emitter
from lakesql.observe.results import RunResults

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(parsed_shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shop that has been read before, and the working directory in it."""
    shutil.copytree(parsed_shop, tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def conditions(stderr: str) -> list[str]:
    return [
        line["condition"]
        for line in map(json.loads, stderr.splitlines())
        if line["event"] == "problem"
    ]


def refused(run: Run, *arguments: str) -> list[str]:
    code, out, err = run(*arguments, "--log-format", "json")
    assert (code, out) == (2, "")
    return conditions(err)


def listed(run: Run, *arguments: str) -> list[str]:
    code, out, _ = run("ls", "--resource-type", "model", *arguments)
    assert code == 0
    return sorted(line.rpartition(".")[2] for line in out.splitlines())


# selectors.yml

SELECTORS = """\
selectors:
- name: web
  definition: {method: tag, value: web}
- name: reports
  default: true
  definition: {union: ['path:models/reports', {exclude: [visits_per_day]}]}
"""


def test_selectors_are_said_as_options_and_as_words(run: Run, shop: Path) -> None:
    (shop / "selectors.yml").write_text(SELECTORS)
    web = listed(run, "--select", "tag:web")
    assert "checkouts" in web
    assert (
        listed(run, "--selector", "web")
        == listed(run, "--select", "selector:web")
        == web
    )
    assert listed(run, "--selector", "web", "--selector", "reports") == sorted(
        {*web, "views_per_10_minutes"}
    )
    assert listed(run, "--selector", "web", "--exclude", "checkouts") == [
        it for it in web if it != "checkouts"
    ]
    assert listed(run, "--selector", "web", "--select", "orders") == sorted(
        [*web, "orders"]
    )


def test_the_default_selector_stands_where_nothing_is_said(
    run: Run, shop: Path
) -> None:
    (shop / "selectors.yml").write_text(SELECTORS)
    code, out, err = run("compile")
    assert code == 0
    assert out.count("-- shop.") == 1 and "'reports'" in err
    assert listed(run) == ["views_per_10_minutes"]
    assert "orders" in listed(run, "--exclude", "clicks")


def test_a_wrong_selectors_file_is_told_as_other_files_are(
    run: Run, shop: Path
) -> None:
    (shop / "selectors.yml").write_text(
        SELECTORS.replace("{method: tag,", "{method: tga,")
    )
    assert refused(run, "parse") == ["bad-selector"]
    (shop / "selectors.yml").write_text(SELECTORS)
    assert refused(run, "ls", "--selector", "wbe") == ["unknown-selector"]
    assert refused(run, "ls", "--selector", "web reports") == ["unknown-selector"]
    (shop / "selectors.yml").unlink()
    assert refused(run, "compile", "--selector", "web") == ["unknown-selector"]


# result:


def write_results(
    folder: Path, **statuses: Literal["success", "error", "skipped"]
) -> None:
    """The file of a run, by the code that a run writes it with."""
    folder.mkdir(exist_ok=True)
    results = RunResults(folder / "run_results.json", command="run", clock=lambda: 1)
    with Emitter([results]) as emit:
        emit(RunStarted("dev", tuple(statuses), False, at_ms=1))
        for name, status in statuses.items():
            emit(ModelFinished(name, status, 0, 0, 0, 0, 0, 1, at_ms=1))
        emit(RunFinished(1, False, at_ms=2))


def test_models_are_selected_by_what_became_of_them(run: Run, shop: Path) -> None:
    assert refused(run, "ls", "--select", "result:error") == ["results-missing"]
    write_results(
        shop / "target",
        orders="success",
        clicks="error",
        checkouts="skipped",
        gone="error",
    )
    assert listed(run, "--select", "result:error") == ["clicks"]
    assert listed(run, "--select", "result:error", "result:skipped") == [
        "checkouts",
        "clicks",
    ]
    assert listed(run, "--select", "1+result:skipped,result:error") == ["clicks"]
    assert refused(run, "ls", "--select", "result:failed") == ["bad-selector"]
    write_results(shop / "before", orders="error", clicks="success")
    assert listed(run, "--select", "result:error", "--state", "before") == ["orders"]
    (shop / "before/run_results.json").write_text(
        '{"metadata": {"dbt_version": "1.9"}, "results": []}'
    )
    assert refused(run, "ls", "--select", "result:error", "--state", "before") == [
        "results-unreadable"
    ]


# state:


@pytest.mark.checks
def test_every_command_that_selects_knows_states(run: Run, shop: Path) -> None:
    assert run("parse")[0] == 0
    shutil.copytree(shop / "target", shop / "before")
    model = shop / "models/orders.sql"
    model.write_text(model.read_text().replace("30 seconds", "1 minute"))
    assert listed(run, "--select", "state:modified", "--state", "before") == ["orders"]
    code, out, _ = run("compile", "--select", "state:modified", "--state", "before")
    assert (
        code == 0 and out.count("-- shop.") == 1 and out.startswith("-- shop.orders:")
    )
    assert refused(run, "compile", "--select", "state:modified") == ["bad-selector"]
    assert refused(
        run, "compile", "--select", "state:modified", "--state", "missing"
    ) == ["state-missing"]
    assert refused(run, "plan", "--select", "result:error", "--state", "before") == [
        "bad-selector"
    ]


# --defer


@pytest.fixture
def prod(run: Run, shop: Path) -> Path:
    """The state of a target whose tables are in the namespace `prod` of the same
    catalog; customers is there."""
    profiles = shop / "profiles.yml"
    text = profiles.read_text()
    profiles.write_text(text.replace("namespace: shop", "namespace: prod", 1))
    assert run("parse")[0] == 0
    shutil.copytree(shop / "target", shop / "state")
    profiles.write_text(text)
    create(shop, "prod", "customers")
    return shop / "state"


def create(shop: Path, namespace: str, table: str) -> None:
    catalog = open_catalog(
        load_project(Options(project_dir=shop)).target.catalog
    ).iceberg
    catalog.create_namespace_if_not_exists(namespace)
    catalog.create_table(
        f"{namespace}.{table}", pyarrow.schema([("customer_id", pyarrow.int64())])
    )


def joined(run: Run, *arguments: str) -> str:
    """The table that the statement of order_states joins."""
    code, out, err = run("compile", "--select", "order_states", *arguments)
    assert code == 0, err
    return next(
        line for line in out.splitlines() if line.startswith("LEFT JOIN")
    ).split()[2]


@pytest.mark.checks
def test_ref_means_the_other_targets_table_where_there_is_none_here(
    run: Run, shop: Path, prod: Path
) -> None:
    defer = ("--defer", "--state", "state")
    assert joined(run) == "lake.shop.customers"
    assert joined(run, *defer) == "lake.prod.customers"
    # it is run here
    assert joined(run, *defer, "--select", "customers") == "lake.shop.customers"
    assert joined(run) == "lake.shop.customers"  # nothing of it is kept
    create(shop, "shop", "customers")
    assert joined(run, *defer) == "lake.shop.customers"
    assert joined(run, *defer, "--favor-state") == "lake.prod.customers"


@pytest.mark.checks
def test_what_is_deferred_is_said(run: Run, shop: Path, prod: Path) -> None:
    _, _, err = run(
        "compile", "--select", "order_states", "--defer", "--state", "state"
    )
    assert "ref('customers') reads lake.prod.customers." in err


@pytest.mark.checks
def test_a_stream_is_not_deferred(run: Run, shop: Path, prod: Path) -> None:
    create(shop, "prod", "clicks")
    defer = ("--defer", "--state", "state")
    code, out, err = run(
        "compile", "--select", "checkouts", *defer, "--log-format", "json"
    )
    assert (code, out) == (2, "")
    (problem,) = [
        line for line in map(json.loads, err.splitlines()) if line["event"] == "problem"
    ]
    assert problem["condition"] == "defer-stream"
    assert (problem["place"]["path"], problem["place"]["line"]) == (
        "models/checkouts.sql",
        4,
    )
    assert run("compile", "--select", "checkouts", "clicks", *defer)[0] == 0
    create(shop, "shop", "clicks")
    assert run("compile", "--select", "checkouts", *defer)[0] == 0


@pytest.mark.checks
def test_what_cannot_be_deferred(run: Run, shop: Path, prod: Path) -> None:
    select = ("compile", "--select", "order_states")
    assert refused(run, *select, "--defer") == ["usage"]
    assert refused(run, *select, "--favor-state") == ["usage"]
    assert refused(run, *select, "--defer", "--state", "missing") == ["state-missing"]
    manifest = prod / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace("lake.prod.customers", "lake.nowhere.customers"))
    assert refused(run, *select, "--defer", "--state", "state") == ["defer-missing"]
    assert run(*select, "customers", "--defer", "--state", "state")[0] == 0
    manifest.write_text(text.replace("lake.prod.customers", "other.prod.customers"))
    assert refused(run, *select, "--defer", "--state", "state") == ["defer-catalog"]
    assert run(*select, "customers", "--defer", "--state", "state")[0] == 0
    manifest.write_text('{"metadata": {"dbt_version": "1.9"}}')
    assert refused(run, *select, "--defer", "--state", "state") == ["state-outdated"]


# data tests


def test_what_a_selector_excludes_is_excluded_from_data_tests_too(
    run: Run, shop: Path
) -> None:
    (shop / "selectors.yml").write_text(
        "selectors: [{name: sales, definition: orders}]\n", "utf-8"
    )
    code, out, err = run("test", "--data", "--exclude", "selector:sales")
    assert (code, out) == (0, ""), err
    assert "No selected model has a data test" in err
    assert refused(run, "test", "--data", "--exclude", "state:modified") == [
        "bad-selector"
    ]


# maintain


@pytest.mark.checks
@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["orders"], {"orders": "*"}),
        (["reports.*"], {"views_per_10_minutes": "*", "visits_per_day": "*"}),
        (["orders.expire_snapshots"], {"orders": "orders.expire_snapshots"}),
        (
            ["orders", "orders.*", "clicks.rewrite_*"],
            {"orders": "*", "clicks": "clicks.rewrite_*"},
        ),
        (
            ["tag:web", "*.rewrite_manifests"],
            {"clicks": "*", "checkouts": "*", "": "*.rewrite_manifests"},
        ),
    ],
)
def test_maintain_runs_the_tasks_that_selectors_mean(
    shop: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    chosen: dict[str, str],
) -> None:
    """`chosen` are patterns of tasks by model, of all others by ''."""
    ran: dict[str, frozenset[str]] = {}

    def maintenance_jobs(
        tasks: Mapping[str, frozenset[str]], at_once: bool, sweep: str
    ) -> None:
        ran.update(tasks)

    monkeypatch.setattr("lakesql.run.maintain.maintenance_jobs", maintenance_jobs)
    monkeypatch.setattr(
        "lakesql.run.models.run_models", lambda *arguments, **options: True
    )
    code, _, _ = run("maintain", *words)
    code_ls, out, _ = run("ls", "--resource-type", "maintenance")
    assert (code, code_ls) == (0, 0)
    wanted = dict[str, set[str]]()
    for name in (".".join(line.split(".")[-2:]) for line in out.splitlines()):
        model = name.partition(".")[0].partition("__")[0]
        pattern = chosen.get(model, chosen.get("", "nothing"))
        if fnmatch(name, pattern):
            wanted.setdefault(model, set()).add(name)
    assert {model: set(tasks) for model, tasks in ran.items()} == wanted
