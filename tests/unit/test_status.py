"""`lakesql status` and `lakesql freshness` over tables that pyiceberg wrote: what they
say, and how they end."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.cli.main import run_command
from lakesql.names import LEDGER_BACKLOG, LEDGER_BATCH, LEDGER_EVENT_TIME, LEDGER_MODEL
from lakesql.observe.metrics import LABELS, TABLE_METRICS
from lakesql.project.profiles import Catalog
from lakesql.table.maintenance_record import MaintenanceRecord, render_record
from tests.long_tables import Past, make_past
from tests.share import a_few

SCHEMA = Schema(NestedField(1, "id", LongType()))
MINUTE = 60_000
SQL = "{{ config(mode='append') }}\nSELECT id FROM {{ stream('events') }}\n"
STREAM = "streams: [{name: events, connection: landing, path: events, format: json, columns: {id: bigint}}]\n"
CATALOG = "{name: lake, type: sql, uri: 'sqlite:///catalog.db', warehouse: warehouse}"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs one command line: its exit code, what it said on stdout and on stderr."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the models a, b and c, and the working directory in it."""
    monkeypatch.chdir(tmp_path)
    for name in tuple(os.environ):
        if name.startswith("LAKESQL_"):
            monkeypatch.delenv(name)
    write(tmp_path, CATALOG)
    return tmp_path


def write(root: Path, catalog: str) -> None:
    others = "namespace: shop, checkpoints: points, connections: {landing: {type: files, path: .}}"
    target = f"{{catalog: {catalog}, {others}}}"
    files = {
        "pyproject.toml": '[tool.lakesql]\nname = "p"\n',
        "profiles.yml": f"p: {{outputs: {{dev: {target}}}}}\n",
        "streams/events.yml": STREAM,
        **{f"models/{name}.sql": SQL for name in "abc"},
    }
    for path, text in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)


def hold(project: Path, **limits: str) -> None:
    """Give models their `freshness`."""
    entries = [
        f"  - {{name: {model}, freshness: {{{said}}}}}"
        for model, said in limits.items()
    ]
    (project / "models" / "p.yml").write_text("\n".join(("models:", *entries)) + "\n")


@pytest.fixture
def lake(project: Path) -> OpenCatalog:
    return open_catalog(
        Catalog(
            name="lake",
            type="sql",
            uri=f"sqlite:///{project}/catalog.db",
            warehouse=str(project / "warehouse"),
        )
    )


def batches(
    *minutes: float, latency_s: float | None = None, **summary: str
) -> list[Past]:
    """Commits of that many minutes ago, each of a small file."""
    now = time.time_ns() // 1_000_000
    found = []
    for number, ago in enumerate(minutes):
        at_ms = now - round(ago * MINUTE)
        keys = {LEDGER_MODEL: "a", LEDGER_BATCH: str(number), **summary}
        if latency_s is not None:
            event = datetime.fromtimestamp(at_ms / 1000 - latency_s, UTC)
            keys[LEDGER_EVENT_TIME] = event.isoformat()
        found.append(Past(at_ms, (1000,), summary=keys))
    return found


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def words(out: str) -> dict[str, str]:
    """Each model's one word, by the table on a terminal."""
    body = out.split("\n\n")[0].splitlines()[1:]
    return {line.split()[0]: line.split()[1] for line in body}


def by_model(family: Metric) -> dict[str, float]:
    return {sample.labels["model"]: sample.value for sample in family.samples}


def conditions(err: str) -> list[str]:
    return [line["condition"] for line in lines(err) if line["event"] == "problem"]


def spoil(lake: OpenCatalog, model: str, text: str = "{") -> None:
    place = lake.iceberg.load_table(("shop", model)).metadata_location
    Path(place.removeprefix("file://")).write_text(text)


class TestStatus:
    def test_a_broken_table_of_dead_letters_hides_its_own_figures_alone(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(3, 2))
        make_past(lake, ("shop", "a__dead_letter"), SCHEMA, batches(2))
        spoil(lake, "a__dead_letter")
        hold(project, a="max_dead_letter_ratio: 0.5")
        code, out, err = run("status", "--select", "a")
        assert (code, words(out)) == (1, {"a": "ill"}), (
            "a limit that nobody can check is not kept"
        )
        assert "table-unreadable" in err and "a__dead_letter" in err
        assert "their table cannot be read (limit 50 %)" in out
        _, out, err = run(
            "status", "--select", "a", "--output", "json", "--log-format", "json"
        )
        (told,) = lines(out)
        assert (
            told["figures"]["commits_last_hour"],
            told["figures"]["dead_letters_last_hour"],
        ) == (2, None)
        assert (
            [problem["condition"] for problem in told["problems"]]
            == conditions(err)
            == ["table-unreadable"]
        )
        code, out, _ = run("freshness", "--output", "json")
        assert (code, [each["result"] for each in lines(out)]) == (1, ["error"])
        hold(project, a="warn_after: 1 day")
        code, out, _ = run("status", "--select", "a")
        assert (code, words(out)) == (1, {"a": "well"})
        assert "nobody knows how many dead letters" in run("status", "a")[1]

    def test_nothing_is_made_where_nothing_is(self, run: Run, project: Path) -> None:
        code, out, _ = run("status")
        assert (code, words(out)) == (
            0,
            {"a": "missing", "b": "missing", "c": "missing"},
        )
        assert not (project / "catalog.db").exists()

    def test_each_table_has_its_word_and_its_reason(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(3, 2))
        make_past(lake, ("shop", "b"), SCHEMA, batches(*range(600, 0, -1)))
        code, out, err = run("status")
        assert (code, err) == (0, "")
        assert words(out) == {"a": "well", "b": "ill", "c": "missing"}
        assert "b: ill: 600 small data files in a partition (limit 500)" in out
        assert "lake.shop.c" in out

    def test_a_table_of_somebody_else_is_marked(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(
            lake, ("shop", "a"), SCHEMA, [Past(time.time_ns() // 1_000_000, (10,))]
        )
        code, out, _ = run("status", "--select", "a")
        assert (code, words(out)) == (0, {"a": "well*"})
        assert "not written by lakesql" in out
        (line,) = lines(run("status", "-s", "a", "-o", "json")[1])
        assert (
            line["by_lakesql"],
            line["health"],
            line["figures"]["commits_last_hour"],
        ) == (False, "well", 1)

    def test_a_table_that_somebody_else_maintains_says_so(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        for model in "ab":
            make_past(lake, ("shop", model), SCHEMA, batches(1))
        with lake.iceberg.load_table(("shop", "a")).transaction() as change:
            change.set_properties({"lakesql.maintenance.enabled": "false"})
        said = {
            line["model"]: line["remarks"]
            for line in lines(run("status", "-o", "json")[1])
        }
        assert (
            said["a"] == ["not maintained by lakesql: somebody else maintains it"]
            and said["b"] == []
        )
        (project / "models" / "b.sql").write_text(
            SQL.replace("'append'", "'append', maintenance=False")
        )
        assert "b: not maintained by lakesql" in run("status")[1]

    def test_maintenance_that_is_due_and_waits_says_why_and_until_when(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        now = time.time_ns() // 1_000_000
        records = {
            "a": MaintenanceRecord(spent=((now - 60_000, 3_000_000),)),
            "b": MaintenanceRecord(retry_at={"b.rewrite_data_files": now + 300_000}),
            "c": MaintenanceRecord(),
        }
        for model, record in records.items():
            make_past(lake, ("shop", model), SCHEMA, batches(*range(40, 0, -1)))
            with lake.iceberg.load_table(("shop", model)).transaction() as change:
                change.set_properties({"lakesql.maintenance": render_record(record)})
        found = {line["model"]: line for line in lines(run("status", "-o", "json")[1])}
        (late,) = (
            wait
            for wait in found["a"]["waits"]
            if wait["task"] == "a.rewrite_data_files"
        )
        assert (late["why"], late["until_ms"] > now) == ("40 small files", True)
        assert [(wait["task"], wait["until_ms"]) for wait in found["b"]["waits"]] == [
            ("b.rewrite_data_files", now + 300_000)
        ]
        assert found["c"]["waits"] == [], "the next batch calls it"
        out = " ".join(run("status", "-s", "a")[1].split())
        assert (
            "a.rewrite_data_files is due (40 small files) and waits: maintenance has taken its share"
            in out
        )

    def test_a_table_that_cannot_be_read_hides_no_other(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        for model in "ab":
            make_past(lake, ("shop", model), SCHEMA, batches(1))
        spoil(lake, "a")
        code, out, err = run("--log-format", "json", "status")
        assert (code, words(out)) == (
            1,
            {"a": "unreadable", "b": "well", "c": "missing"},
        )
        assert conditions(err) == ["table-unreadable"]
        assert "lake.shop.a" in err

    def test_an_unreachable_catalog_is_named_once(
        self, run: Run, project: Path
    ) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            write(
                project, f"{{name: lake, type: rest, uri: 'http://127.0.0.1:{port}'}}"
            )
            code, out, err = run("--log-format", "json", "status")
        assert (code, words(out)) == (1, dict.fromkeys("abc", "unreachable"))
        assert conditions(err) == ["catalog-unreachable"]
        assert "'lake'" in err and str(port) in err

    def test_json_has_every_figure_in_its_unit(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(90, 2, latency_s=12.5))
        spoiled = make_past(lake, ("shop", "b"), SCHEMA, batches(1))
        Path(spoiled.metadata_location.removeprefix("file://")).unlink()
        code, out, _ = run("status", "--output", "json")
        a, b, c = lines(out)
        assert code == 1
        assert [line["model"] for line in (a, b, c)] == ["a", "b", "c"]
        assert (a["table"], a["by_lakesql"], a["problems"]) == ("lake.shop.a", True, [])
        figures = a["figures"]
        assert (
            figures["latency_ms"],
            figures["commits_last_hour"],
            figures["data_files"],
        ) == (12_500, 1, 2)
        assert 2 * MINUTE <= figures["age_ms"] < 3 * MINUTE
        assert figures["freshness_ms"] == figures["age_ms"] + 12_500
        assert (b["health"], b["figures"], b["problems"][0]["condition"]) == (
            "unreadable",
            None,
            "table-unreadable",
        )
        assert (c["health"], c["figures"], c["problems"]) == ("missing", None, [])

    def test_prometheus_can_read_it(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        make_past(
            lake,
            ("shop", "a"),
            SCHEMA,
            batches(2, latency_s=3, **{LEDGER_BACKLOG: "1200 records"}),
        )
        make_past(lake, ("shop", "b"), SCHEMA, batches(2))
        spoil(lake, "b")
        code, out, _ = run("status", "--output", "prometheus")
        assert code == 1
        families = {
            family.name: family for family in text_string_to_metric_families(out)
        }
        assert set(families) == {
            metric.name for metric, field in TABLE_METRICS if field != "backlog_ms"
        } | {
            "lakesql_status_timestamp_seconds",
            "lakesql_table_exists",
            "lakesql_table_readable",
            "lakesql_table_health",
            "lakesql_table_last_commit_timestamp_seconds",
            "lakesql_table_last_event_timestamp_seconds",
        }
        assert all(
            family.documentation and family.type == "gauge"
            for family in families.values()
        )
        states = ("exists", "readable", "health")
        found = {
            state: by_model(families[f"lakesql_table_{state}"]) for state in states
        }
        assert found == {
            "exists": {"a": 1, "b": 1, "c": 0},
            "readable": {"a": 1, "b": 0},
            "health": {"a": 0},
        }
        read_at = by_model(families["lakesql_status_timestamp_seconds"])
        assert set(read_at) == set("abc")
        assert all(abs(time.time() - at) < 60 for at in read_at.values())
        (latency,) = families["lakesql_table_latency_seconds"].samples
        assert latency.value == 3
        assert [each.value for each in families["lakesql_table_backlog"].samples] == [
            1200
        ]
        assert latency.labels == dict(
            zip(LABELS, ("lake", "shop", "a", "a"), strict=True)
        )
        (at,) = families["lakesql_table_last_commit_timestamp_seconds"].samples
        assert abs(time.time() - 120 - at.value) < 60

    def test_prometheus_does_not_take_a_table_for_gone_whose_catalog_is_away(
        self, run: Run, project: Path
    ) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            write(
                project,
                f"{{name: lake, type: rest, uri: 'http://127.0.0.1:{closed.getsockname()[1]}'}}",
            )
            code, out, _ = run("status", "--output", "prometheus")
        families = {
            family.name: by_model(family)
            for family in text_string_to_metric_families(out)
        }
        assert code == 1
        assert set(families) == {
            "lakesql_status_timestamp_seconds",
            "lakesql_table_readable",
        }
        assert families["lakesql_table_readable"] == dict.fromkeys("abc", 0)

    def test_one_model_has_its_day(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        hours = [60 * hour + 30 for hour in range(30, -1, -1)]
        make_past(lake, ("shop", "a"), SCHEMA, batches(*hours, latency_s=2))
        code, out, _ = run("status", "a")
        drawn = {line.split("  ")[0]: line for line in out.splitlines() if "█" in line}
        assert code == 0
        assert drawn["commits"].split()[-1] == "24"
        assert [
            drawn[label].count("█") for label in ("commits", "file size", "latency")
        ] == [24, 24, 24]
        assert max(map(len, out.splitlines())) <= 120

    @pytest.mark.parametrize("width", [80, 120])
    def test_it_fits_the_terminal(
        self,
        run: Run,
        project: Path,
        lake: OpenCatalog,
        monkeypatch: pytest.MonkeyPatch,
        width: int,
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(width))
        make_past(
            lake, ("shop", "a"), SCHEMA, batches(*range(2000, 0, -5), latency_s=100_000)
        )
        for arguments in (("status",), ("status", "a")):
            assert max(map(len, run(*arguments)[1].splitlines())) <= width

    def test_a_terminal_of_ascii_gets_ascii(
        self,
        run: Run,
        project: Path,
        lake: OpenCatalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        make_past(lake, ("shop", "a"), SCHEMA, batches(30, 20, latency_s=2))
        monkeypatch.setattr(type(sys.stdout), "encoding", "ascii", raising=False)
        _, out, _ = run("status", "a")
        assert out.isascii() and "#" not in out.split("\n")[0] and "@" in out

    def test_a_model_and_a_selection_are_one_too_many(
        self, run: Run, project: Path
    ) -> None:
        assert run("status", "a", "--select", "b")[0] == 2
        assert run("status", "nowhere")[0] == 2

    def test_an_empty_selection_is_no_failure(self, run: Run, project: Path) -> None:
        assert run("status", "--select", "tag:none")[:2] == (0, "")


class TestFreshness:
    @pytest.fixture(autouse=True)
    def tables(self, lake: OpenCatalog) -> Iterator[None]:
        make_past(lake, ("shop", "a"), SCHEMA, batches(10))
        make_past(lake, ("shop", "b"), SCHEMA, batches(10))
        yield

    @pytest.mark.parametrize(
        ("limits", "code", "result"),
        a_few(
            [
                ("warn_after: 15 minutes", 0, "pass"),
                ("warn_after: 5 minutes, error_after: 15 minutes", 0, "warn"),
                ("warn_after: 5 minutes, error_after: 9 minutes", 1, "error"),
                ("error_after: 15 minutes", 0, "pass"),
                ("max_average_small_files: 1", 0, "pass"),
                ("max_average_small_files: 0.5", 1, "error"),
                ("max_compaction_lag: 1 minute", 0, "pass"),
                ("max_dead_letter_ratio: 0", 0, "pass"),
            ],
            4,
        ),
    )
    def test_each_limit_ends_the_command_as_it_says(
        self, run: Run, project: Path, limits: str, code: int, result: str
    ) -> None:
        hold(project, a=limits)
        found = run("freshness", "--output", "json")
        (line,) = lines(found[1])
        assert (found[0], line["model"], line["result"]) == (code, "a", result)
        assert line["figure"] == (
            "freshness"
            if "after" in limits
            else limits.split(":")[0].removeprefix("max_")
        )

    def test_a_table_that_is_behind_its_source_is_not_fresh(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        hold(project, c="error_after: 15 minutes")
        past = batches(3, 2, 1)
        newest = [
            datetime.fromtimestamp(each.at_ms / 1000, UTC) - timedelta(days=3)
            for each in past
        ]
        behind = [
            replace(each, summary={**each.summary, LEDGER_EVENT_TIME: at.isoformat()})
            for each, at in zip(past, newest, strict=True)
        ]
        make_past(lake, ("shop", "c"), SCHEMA, behind)
        code, out, _ = run("freshness")
        assert code == 1
        assert "newest event 3 d 00 h ago" in out

    def test_dead_letters_of_the_last_hour_count(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        hold(project, a="max_dead_letter_ratio: 0.25")
        letters = batches(5)
        make_past(lake, ("shop", "a__dead_letter"), SCHEMA, letters)
        code, out, _ = run("freshness", "-o", "json")
        (line,) = lines(out)
        # 100 letters, 100 rows
        assert (code, line["result"], line["value"]) == (1, "error", 0.5)

    def test_a_table_shows_what_was_checked(self, run: Run, project: Path) -> None:
        hold(
            project,
            a="warn_after: 5 minutes, max_average_small_files: 10",
            b="error_after: 1 minute",
        )
        code, out, _ = run("freshness")
        assert code == 1
        assert [line.split()[:2] for line in out.splitlines()[1:]] == [
            ["a", "warn"],
            ["a", "pass"],
            ["b", "error"],
        ]
        assert run("freshness", "--select", "a")[0] == 0

    def test_a_table_that_is_not_there_is_not_fresh(
        self, run: Run, project: Path
    ) -> None:
        hold(project, c="error_after: 100 days")
        assert run("freshness")[0] == 1
        hold(project, c="warn_after: 100 days")
        assert run("freshness")[0] == 0

    def test_a_table_that_cannot_be_read_is_an_error(
        self, run: Run, project: Path, lake: OpenCatalog
    ) -> None:
        hold(project, a="warn_after: 100 days", b="warn_after: 100 days")
        spoil(lake, "a")
        code, out, err = run("--log-format", "json", "freshness", "-o", "json")
        assert code == 1
        assert [(line["model"], line["result"]) for line in lines(out)] == [
            ("a", "error"),
            ("b", "pass"),
        ]
        assert conditions(err) == ["table-unreadable"]

    def test_nothing_to_check_is_said(self, run: Run, project: Path) -> None:
        code, out, err = run("freshness")
        assert (code, out) == (0, "")
        assert "nothing to check" in err

    def test_the_manifest_has_the_limits(self, run: Run, project: Path) -> None:
        hold(project, a="warn_after: 90 seconds, max_dead_letter_ratio: 0.1")
        for _ in range(2):  # from the files, and from the cache
            assert run("parse")[0] == 0
            nodes = json.loads((project / "target" / "manifest.json").read_text())[
                "nodes"
            ]
            assert nodes["model.a"]["freshness"] == {
                "warn_after": "90 seconds",
                "max_dead_letter_ratio": 0.1,
            }
            assert nodes["model.b"]["freshness"] is None
