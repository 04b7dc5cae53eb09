"""A real Prometheus loads the alerts of the docs, and scrapes a run of its own process
and the status of its tables."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lakesql.observe.metrics import CONTENT_TYPE, RUN_METRICS, TABLE_STATES
from tests.catalogs.command import Command
from tests.servers.process import LOOPBACK, free_ports, running
from tests.servers.prometheus import Prometheus, has_prometheus, promtool
from tests.servers.runner import Event, Runner, of
from tests.unit.test_dashboards import DASHBOARD, DOCS, RULES, read_expression

pytestmark = pytest.mark.skipif(
    not has_prometheus(), reason="apt-get install prometheus"
)

ROOT = Path(__file__).parents[2]
ALERTS = DOCS / "alerts.yml"
STALLS_AFTER_S = 120
WITHIN_S = 60
RECORDS = 40
UNREAD = 3
"""Those that are no JSON."""
UNKNOWN = {
    *("lakesql_backlog_records", "lakesql_backlog_files", "lakesql_backlog_seconds"),
    *("lakesql_table_backlog_seconds", "lakesql_table_last_event_timestamp_seconds"),
}
"""Metrics of which a run of few recorded files in mode append may have none."""

# Fails for good with the first record, as dividing by zero is an error.
FRAGILE = "{{ config(mode='append', trigger='1 second') }}\nSELECT 1 / (id - id) AS n FROM {{ stream('faults') }}\n"
STREAMS = """\
streams:
  - {name: orders, connection: broker, topic: orders, columns: {id: bigint, state: string}}
  - {name: faults, connection: broker, topic: faults, columns: {id: bigint}}
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that goes on, the port of its metrics, and the Prometheus that scrapes
    it."""

    runner: Runner
    port: int
    prometheus: Prometheus

    def wait(self, seen: Callable[[list[Event]], bool]) -> None:
        self.runner.wait(seen, STALLS_AFTER_S)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("monitoring")
    write_project(directory / "project")
    (port,) = free_ports(1)
    flags = ("--metrics-port", str(port), "--healthy-within", "10 minutes")
    runner = Runner(directory / "project", "orders", "fragile", options=flags)
    runner.start()
    try:
        runner.wait(
            lambda events: bool(of(events, "batch_committed", "orders")), STALLS_AFTER_S
        )
        with serve_status(runner.directory) as status:
            jobs = {"lakesql": f"{LOOPBACK}:{port}", "tables": f"{LOOPBACK}:{status}"}
            with running(
                Prometheus(directory / "prometheus", ALERTS, jobs)
            ) as prometheus:
                yield Watched(runner, port, prometheus)
    finally:
        runner.stop()


def write_project(directory: Path) -> None:
    """Two models: one that has read all of its topic soon, and one that waits for a
    record that it cannot bear."""
    directory.mkdir()
    target = {
        "catalog": {
            "name": "lake",
            "type": "sql",
            "uri": "sqlite:///.lakesql/catalog.db",
            "warehouse": ".lakesql",
        },
        "spark": {
            "master": "local[2]",
            "conf": {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
        },
        "checkpoints": ".lakesql/checkpoints",
    }
    Command(directory).write(target, records=RECORDS)
    (directory / "models" / "fragile.sql").write_text(FRAGILE)
    orders = directory / "models" / "orders.sql"
    orders.write_text(
        orders.read_text().replace("mode='append'", "mode='append', trigger='1 second'")
    )
    (directory / "streams" / "orders.yml").write_text(STREAMS)
    (directory / "recorded" / "faults").mkdir()
    bad = [
        {"partition": 0, "offset": RECORDS + number, "timestamp": 0, "value": "{"}
        for number in range(UNREAD)
    ]
    (directory / "recorded" / "orders" / "2.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in bad)
    )


@contextmanager
def serve_status(directory: Path) -> Iterator[int]:
    """What `lakesql status` writes for Prometheus, at an address, as a node exporter
    serves it; its port."""
    command = [sys.executable, "-m", "lakesql", "status", "--output", "prometheus"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
            pass

    text = subprocess.run(
        command, cwd=directory, capture_output=True, check=True
    ).stdout
    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            f"http://{LOOPBACK}:{port}{path}", timeout=10
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(seen: Callable[[], Any]) -> Any:
    """What `seen` finds, once it finds something."""
    deadline = time.monotonic() + WITHIN_S
    while not (found := seen()):
        assert time.monotonic() < deadline, f"not seen within {WITHIN_S} s"
        time.sleep(0.1)
    return found


def firing(prometheus: Prometheus) -> set[tuple[str, str]]:
    alerts = prometheus.ask("alerts")["alerts"]
    return {
        (each["labels"]["alertname"], each["labels"]["model"])
        for each in alerts
        if each["state"] == "firing"
    }


def test_the_rules_are_valid() -> None:
    checked = promtool("check", "rules", ALERTS)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout


def test_each_alert_fires_for_what_it_is_for_and_for_nothing_else() -> None:
    checked = promtool("test", "rules", Path(__file__).with_name("alerts_test.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_run_serves_its_metrics_and_its_health(watched: Watched) -> None:
    code, text = get(watched.port, "/metrics")
    assert code == 200
    labels = '{catalog="lake",model="orders",namespace="p",table="orders"}'
    values = dict(re.findall(rf"^(\w+){re.escape(labels)} (\S+)$", text, re.MULTILINE))
    counts = (
        "lakesql_batches_total",
        "lakesql_rows_total",
        "lakesql_dead_letters_total",
        "lakesql_model_running",
    )
    assert [float(values[name]) for name in counts] == [1, RECORDS, UNREAD, 1]
    assert (
        0
        < time.time() - float(values["lakesql_table_last_commit_timestamp_seconds"])
        < WITHIN_S * 10
    )
    assert get(watched.port, "/healthz") == (200, "ok\n")
    # it is not opened at every address of the machine
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", watched.port), 10)


def test_a_port_that_is_taken_ends_a_run_before_it_begins(
    watched: Watched, tmp_path: Path
) -> None:
    write_project(tmp_path / "project")
    done = Command(tmp_path / "project").run(
        "--log-format", "json", "run", "--metrics-port", str(watched.port)
    )
    assert (done.code, done.conditions(), done.out) == (2, ["metrics-port"], "")
    assert Command(tmp_path / "project").written() == set()


def test_prometheus_has_every_series_and_the_dashboard_something_to_draw(
    watched: Watched,
) -> None:
    prometheus = watched.prometheus
    until(lambda: len(prometheus.query("up == 1")) == 2)
    until(
        lambda: prometheus.query(
            'count_over_time(lakesql_records_total{model="orders"}[1m]) >= 4'
        )
    )
    found = {
        labels["__name__"] for labels, _ in prometheus.query('{__name__=~"lakesql_.+"}')
    }
    known = {
        metric.name
        for metric in (*RUN_METRICS, *TABLE_STATES)
        if metric.kind != "summary"
    }
    assert known - found <= UNKNOWN
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            asked = (
                target["expr"].replace("$__rate_interval", "1m").replace("$model", ".*")
            )
            drawn = prometheus.query(asked)
            is_there = read_expression(asked)[0] <= found
            assert bool(drawn) == is_there, f"{panel['title']}: {asked}"


def test_the_run_and_the_status_of_the_table_say_the_same(watched: Watched) -> None:
    """Three dead letters for forty rows are too many."""
    watched.wait(lambda events: bool(of(events, "health_judged", "orders")))
    judged = of(watched.runner.runs[-1], "health_judged", "orders")[-1]
    assert [(each["figure"], each["word"]) for each in judged["findings"]] == [
        ("dead_letter_ratio", "watch")
    ]
    done = Command(watched.runner.directory).run(
        "status", "--select", "orders", "--output", "json"
    )
    status = json.loads(done.out)
    assert [{**each, "text": ""} for each in status["findings"]] == [
        {**each, "text": ""} for each in judged["findings"]
    ]
    told = watched.prometheus.query(
        '{__name__=~"lakesql_(model|table)_health", model="orders"}'
    )
    assert [value for _, value in told] == [1, 1]


def test_prometheus_evaluates_every_rule(watched: Watched) -> None:
    def evaluated() -> list[dict[str, Any]]:
        groups = watched.prometheus.ask("rules", type="alert")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = until(evaluated)
    assert {rule["name"]: rule["health"] for rule in rules} == {
        rule["alert"]: "ok" for rule in RULES
    }


def test_a_model_that_fails_for_good_makes_the_run_unwell_and_an_alert_fire(
    watched: Watched,
) -> None:
    """The last test of the run: it ends it."""
    assert not firing(watched.prometheus) & {("LakesqlModelFailed", "fragile")}
    fault = {
        "partition": 0,
        "offset": 0,
        "timestamp": 0,
        "key": None,
        "value": {"id": 1},
    }
    (watched.runner.directory / "recorded" / "faults" / "1.jsonl").write_text(
        json.dumps(fault) + "\n"
    )
    watched.wait(lambda events: bool(of(events, "model_finished", "fragile")))
    assert get(watched.port, "/healthz") == (503, "fragile has failed\n")
    until(lambda: ("LakesqlModelFailed", "fragile") in firing(watched.prometheus))
    assert ("LakesqlModelFailed", "orders") not in firing(watched.prometheus)
    assert watched.runner.terminate(WITHIN_S) == 1
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{LOOPBACK}:{watched.port}/metrics", timeout=10)
