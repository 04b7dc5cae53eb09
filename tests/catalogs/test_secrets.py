"""Secrets of a real run stand in nothing that it shows or leaves behind, whether it
succeeds or fails."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from lakesql.catalog.connect import open_catalog
from lakesql.project.profiles import load_target
from tests.catalogs.command import ROOT, Command, Done
from tests.servers.broker import PASSWORD as BROKERS_PASSWORD
from tests.servers.broker import Broker, jaas
from tests.servers.postgres import Postgres
from tests.servers.seaweed import Seaweed

CREDENTIAL = "LAKESQL_SECRET_CATALOG"
ACCESS_KEY, SECRET_KEY = "LAKESQL_SECRET_S3_ID", "LAKESQL_SECRET_S3_KEY"
PASSWORD, HEADER, LOGIN = (
    "LAKESQL_SECRET_PASSWORD",
    "LAKESQL_SECRET_HEADER",
    "LAKESQL_SECRET_LOGIN",
)


def env(name: str) -> str:
    return f"{{{{ env_var('{name}') }}}}"


def s3(seaweed: Seaweed) -> dict[str, str]:
    keys = {
        "s3.access-key-id": env(ACCESS_KEY),
        "s3.secret-access-key": env(SECRET_KEY),
    }
    return {**seaweed.s3_properties, **keys}


@pytest.fixture
def environ(seaweed: Seaweed, postgres: Postgres) -> dict[str, str]:
    return {
        CREDENTIAL: f"{seaweed.access_key}:{seaweed.secret_key}",
        ACCESS_KEY: seaweed.access_key,
        SECRET_KEY: seaweed.secret_key,
        PASSWORD: postgres.password,
        HEADER: 'a "quoted" header & more=ü',
    }


@pytest.fixture
def rest(seaweed: Seaweed, request: pytest.FixtureRequest) -> dict[str, object]:
    """A target whose secrets are in every place that takes some."""
    name = request.node.name.replace("_", "-")
    warehouse, bucket = (
        seaweed.make_warehouse(f"{name}-tables"),
        seaweed.make_bucket(name),
    )
    catalog = {
        "name": "lake",
        "type": "rest",
        "uri": seaweed.catalog_uri,
        "warehouse": warehouse,
    }
    login = {"credential": env(CREDENTIAL), "header.X-Tenant": env(HEADER)}
    kafka = {
        "type": "kafka",
        "bootstrap_servers": "127.0.0.1:9",
        "options": {"sasl.jaas.config": jaas(env(PASSWORD))},
    }
    return {
        "catalog": {**catalog, **login, **s3(seaweed)},
        "checkpoints": f"{bucket}/c",
        "connections": {
            "broker": {"type": "recorded", "path": "recorded"},
            "unused": kafka,
        },
        "spark": {"conf": {"spark.hadoop.mine": env(HEADER)}},
    }


class Processes:
    """The command lines of all processes, as long as something runs."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Processes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    self.seen.add(
                        (folder / "cmdline")
                        .read_bytes()
                        .replace(b"\0", b" ")
                        .decode("utf-8", "replace")
                    )
                except OSError:
                    continue


def leaks(text: str, secret: str) -> list[str]:
    """The forms of a secret that stand in a text; none of this is lakesql's own
    code."""
    forms = {
        "plain": secret,
        "url": quote(secret, safe=""),
        "url-path": quote(secret),
        "form": quote_plus(secret),
        "json": json.dumps(secret)[1:-1],
        "json-utf8": json.dumps(secret, ensure_ascii=False)[1:-1],
        "base64": base64.b64encode(secret.encode()).decode().rstrip("=")[:-1],
        "base64-url": base64.urlsafe_b64encode(secret.encode())
        .decode()
        .rstrip("=")[:-1],
        "base64-in-login": base64.b64encode(f"user:{secret}".encode()).decode()[8:-4],
    }
    return [name for name, form in forms.items() if form in text]


def check(command: Command, done: Done, processes: Processes) -> None:
    """Nothing printed, no file of the project, no command line, holds a secret in any
    form."""
    texts = {
        "stdout": done.out,
        "stderr": done.err,
        "command lines": "\n".join(processes.seen),
    }
    for file in command.directory.rglob("*"):
        if file.is_file():
            texts[str(file.relative_to(command.directory))] = file.read_bytes().decode(
                "utf-8", "replace"
            )
    assert any(name.startswith("logs/") for name in texts)
    assert find_leaks(texts, command.environ) == {}


def find_leaks(
    texts: Mapping[str, str], environ: Mapping[str, str]
) -> dict[tuple[str, str], list[str]]:
    """In which text which variable's secret stands, and how it is written there."""
    return {
        (place, name): forms
        for place, text in texts.items()
        for name, value in environ.items()
        for part in {value, value.partition(":")[2] if name == CREDENTIAL else value}
        if (forms := leaks(text, part))
    }


def test_a_successful_run_shows_and_stores_no_secret(
    tmp_path: Path, rest: dict[str, Any], environ: dict[str, str], broker: Broker
) -> None:
    """From a broker that asks for a password, to a catalog and a storage that do."""
    broker.create_topic("guarded")
    broker.produce(
        "guarded",
        [json.dumps({"id": number, "state": "new"}).encode() for number in range(3)],
    )
    environ = {**environ, LOGIN: BROKERS_PASSWORD}
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    options["sasl.jaas.config"] = jaas(env(LOGIN))
    rest["connections"]["broker"] = {
        "type": "kafka",
        "bootstrap_servers": broker.sasl_servers,
        "options": options,
    }
    command = Command(tmp_path, environ)
    command.write(rest)
    stream = tmp_path / "streams" / "orders.yml"
    stream.write_text(stream.read_text().replace("topic: orders", "topic: guarded"))
    with Processes() as processes:
        done = command.run("run", "--debug", "--log-format", "json")
        shown = command.run("show", "orders", "--output", "json")
    assert done.code == 0, done
    assert [json.loads(line)["id"] for line in sorted(shown.out.splitlines())] == [
        0,
        1,
        2,
    ]
    assert any("SparkSubmit" in line for line in processes.seen)
    check(command, done, processes)
    check(command, shown, processes)
    target = load_target("p", None, [tmp_path], {**os.environ, **environ})
    table = open_catalog(target.catalog).iceberg.load_table(("p", "orders"))
    kept = {"table": table.metadata.model_dump_json()}
    assert "lakesql.offsets" in kept["table"] and find_leaks(kept, environ) == {}


def test_an_error_that_quotes_a_record_masks_the_secret_in_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Spark quotes the value that cannot be cast, in its log and in the error."""
    command = Command(tmp_path, environ)
    catalog = {"type": "sql", "uri": "sqlite:///state/c.db", "warehouse": "state/wh"}
    command.write({"catalog": catalog, "checkpoints": "state/checkpoints"}, records=0)
    (tmp_path / "models" / "orders.sql").write_text(
        "{{ config(mode='append') }}\nSELECT id, CAST(state AS int) AS state FROM {{ stream('orders') }}\n"
    )
    value = {"id": 1, "state": " ".join(environ.values())}
    record = {"partition": 0, "offset": 0, "timestamp": 0, "key": None, "value": value}
    (tmp_path / "recorded" / "orders" / "1.jsonl").write_text(json.dumps(record) + "\n")
    with Processes() as processes:
        done = command.run("run", "--debug")
    assert done.code == 1
    for output in (done.out + done.err, (tmp_path / "logs" / "spark.log").read_text()):
        assert "CAST_INVALID_INPUT" in output or "cannot be cast" in output
        assert "***" in output
    assert "***" in (tmp_path / "target" / "run_results.json").read_text()
    (tmp_path / "recorded" / "orders" / "1.jsonl").unlink()
    check(command, done, processes)


class Echo(BaseHTTPRequestHandler):
    """Refuses every request, in words that quote all of it."""

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        said = f"{self.path} {dict(self.headers)} {sent}"
        answer = json.dumps(
            {"error": {"message": said, "type": "NoException", "code": 403}}
        ).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["debug", "run"])
@pytest.mark.parametrize(
    "login",
    [
        {"credential": env(CREDENTIAL)},
        {"token": env(HEADER).replace("HEADER", "TOKEN")},
    ],
)
def test_a_login_that_the_server_quotes_is_masked(
    tmp_path: Path, environ: dict[str, str], echo: str, login: dict[str, str], name: str
) -> None:
    command = Command(
        tmp_path, {**environ, "LAKESQL_SECRET_TOKEN": "eyJhbGciOi.J9-token_x"}
    )
    command.write({"catalog": {"type": "rest", "uri": echo, **login}})
    with Processes() as processes:
        done = command.run(name, "--debug")
    assert done.code in (1, 2)
    assert "catalog-refused" in done.err or "refuses the login" in done.out
    assert "***" in done.out + done.err
    (tmp_path / "logs").mkdir(exist_ok=True)
    (tmp_path / "logs" / "of.debug").touch()
    check(command, done, processes)


def test_a_login_in_a_catalogs_uri_is_masked(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    uri = "postgresql://me:{}@127.0.0.1:9/db".format(
        "{{ env_var('LAKESQL_SECRET_PASSWORD') }}"
    )
    command = Command(tmp_path, environ)
    command.write({"catalog": {"type": "sql", "uri": uri, "warehouse": "wh"}})
    with Processes() as processes:
        done = command.run("run", "--debug")
    assert done.code == 1
    assert "error[catalog-unreachable]" in done.err
    check(command, done, processes)


LISTING = """
import sys
from pathlib import Path
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.run.start.spark import open_spark, session_settings

with open_spark(session_settings(load_project(Options()), [], print)) as (session, _):
    for statement in ("SET", "SET -v"):
        for row in session.sql(statement).collect():
            print(row)
"""


def test_sparks_listing_of_its_settings_holds_no_secret(
    tmp_path: Path, rest: dict[str, object], environ: dict[str, str]
) -> None:
    command = Command(tmp_path, environ)
    command.write(rest)
    with Processes() as processes:
        listed = subprocess.run(
            [sys.executable, "-c", LISTING],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
            capture_output=True,
            text=True,
            check=True,
        )
    assert (
        "spark.sql.catalog.lake.credential" in listed.stdout
        and "spark.hadoop.mine" in listed.stdout
    )
    check(command, Done(0, listed.stdout, listed.stderr), processes)


def test_a_secret_in_vars_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    command = Command(tmp_path, environ)
    command.write({})
    done = command.run(
        "compile",
        "--vars",
        json.dumps({"x": environ[SECRET_KEY]}),
        "--log-format",
        "json",
    )
    assert (done.code, done.conditions()) == (2, ["secret-in-vars"])
    assert not (tmp_path / "target").exists()


def test_the_leak_check_finds_plain_quoted_and_base64_secrets() -> None:
    secret = "s3cret/K+y"
    for text in (
        secret,
        quote(secret, safe=""),
        base64.b64encode(f"user:{secret}".encode()).decode(),
    ):
        assert leaks(text, secret)
