"""A catalog or a storage that is not there, not what it should be, or does not let one
in: by name, and in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lakesql.catalog import connect
from lakesql.catalog.tables import check_catalog
from lakesql.errors import ProfileError
from lakesql.project.profiles import Catalog
from tests.catalogs.command import Command
from tests.servers.postgres import Postgres
from tests.servers.seaweed import Seaweed

ANSWERS_WITHIN_S = 40


@contextmanager
def serving(status: int, kind: str, body: str) -> Iterator[str]:
    """The address of a server that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@contextmanager
def silence() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def condition(catalog: Catalog) -> str:
    started = time.monotonic()
    with pytest.raises(ProfileError) as caught:
        check_catalog(catalog)
    assert time.monotonic() - started < ANSWERS_WITHIN_S
    (problem,) = caught.value.problems
    tried = (
        catalog.warehouse
        if problem.condition.startswith("storage-")
        else catalog.uri.rpartition("@")[2]
    )
    assert tried in problem.what + problem.why
    assert problem.fix
    return problem.condition


PAGE = "<!doctype html><title>Welcome</title>"
ERROR = '{{"error": {{"message": "no", "type": "NotNow", "code": {code}}}}}'


@pytest.mark.parametrize(
    ("status", "kind", "body", "expected"),
    [
        (200, "text/html", PAGE, "not-a-catalog"),
        (404, "text/html", PAGE, "not-a-catalog"),
        (502, "text/html", PAGE, "not-a-catalog"),
        (200, "application/json", '{"hello": "world"}', "not-a-catalog"),
        (401, "application/json", ERROR.format(code=401), "catalog-refused"),
        (401, "text/html", PAGE, "catalog-refused"),
        (403, "application/json", ERROR.format(code=403), "catalog-refused"),
        (503, "application/json", ERROR.format(code=503), "catalog-unreachable"),
        (500, "application/json", ERROR.format(code=500), "catalog-unreachable"),
    ],
)
@pytest.mark.parametrize("login", [{}, {"credential": "me:hush-hush"}])
def test_each_answer_that_is_no_catalogs_has_its_condition(
    status: int, kind: str, body: str, expected: str, login: dict[str, str]
) -> None:
    with serving(status, kind, body) as uri:
        assert condition(Catalog("lake", "rest", uri, "wh", login)) == expected


def test_a_rest_catalog_without_a_server_is_unreachable() -> None:
    assert (
        condition(Catalog("lake", "rest", "http://127.0.0.1:9/catalog"))
        == "catalog-unreachable"
    )
    assert (
        condition(Catalog("lake", "rest", "http://nobody.invalid/catalog"))
        == "catalog-unreachable"
    )


def test_a_silent_server_is_unreachable_within_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "OPENS_WITHIN_S", 1.0)
    with silence() as address:
        assert (
            condition(Catalog("lake", "rest", f"http://{address}/catalog"))
            == "catalog-unreachable"
        )
        assert (
            condition(Catalog("lake", "sql", f"postgresql://u:p@{address}/db", "/wh"))
            == "catalog-unreachable"
        )
        s3 = {
            "s3.endpoint": f"http://{address}",
            "s3.access-key-id": "a",
            "s3.secret-access-key": "b",
        }
        assert (
            condition(Catalog("lake", "sql", "sqlite:////c.db", "s3://b/wh", s3))
            == "storage-unreachable"
        )


def test_a_rest_catalog_refuses_wrong_logins_and_unknown_warehouses(
    seaweed: Seaweed,
) -> None:
    warehouse = seaweed.make_warehouse("logins")
    login = f"{seaweed.access_key}:{seaweed.secret_key}"

    def catalog(credential: str, warehouse: str = warehouse) -> Catalog:
        return Catalog(
            "lake", "rest", seaweed.catalog_uri, warehouse, {"credential": credential}
        )

    assert "lake (rest)" in check_catalog(catalog(login))
    assert condition(catalog(f"{seaweed.access_key}:wrong")) == "catalog-refused"
    assert (
        condition(Catalog("lake", "rest", seaweed.catalog_uri, warehouse))
        == "catalog-refused"
    )
    assert (
        condition(
            Catalog("lake", "rest", seaweed.catalog_uri, warehouse, {"token": "x"})
        )
        == "catalog-refused"
    )
    assert condition(catalog(login, "s3://nowhere")) == "catalog-not-found"


def test_postgres_refuses_wrong_logins_and_unknown_databases(
    postgres: Postgres,
) -> None:
    uri = postgres.make_database("logins")
    login = {"jdbc.user": postgres.user, "jdbc.password": postgres.password}
    assert "lake (sql)" in check_catalog(Catalog("lake", "sql", uri, "/tmp/wh", login))
    for wrong in (
        {**login, "jdbc.password": "wrong"},
        {**login, "jdbc.user": "nobody"},
        {"jdbc.user": "lake"},
    ):
        assert (
            condition(Catalog("lake", "sql", uri, "/tmp/wh", wrong))
            == "catalog-refused"
        )
    assert (
        condition(Catalog("lake", "sql", f"{uri}s", "/tmp/wh", login))
        == "catalog-not-found"
    )
    assert (
        condition(Catalog("lake", "sql", "postgresql://127.0.0.1:9/db", "/tmp/wh"))
        == "catalog-unreachable"
    )


def test_a_wrong_bucket_or_key_is_refused_and_an_endpoint_without_an_answer_is_away(
    seaweed: Seaweed, tmp_path: Path
) -> None:
    bucket, uri = seaweed.make_bucket("keys"), f"sqlite:///{tmp_path}/c.db"

    def catalog(place: str, **changed: str) -> Catalog:
        properties = {
            **seaweed.s3_properties,
            **{key.replace("_", "-"): value for key, value in changed.items()},
        }
        return Catalog(
            "lake",
            "sql",
            uri,
            place,
            {key.replace("s3-", "s3."): v for key, v in properties.items()},
        )

    check_catalog(catalog(f"{bucket}/wh"))
    assert condition(catalog("s3://no-such-bucket/wh")) == "storage-refused"
    assert (
        condition(catalog(f"{bucket}/wh", s3_secret_access_key="wrong"))
        == "storage-refused"
    )
    assert (
        condition(catalog(f"{bucket}/wh", s3_endpoint="http://127.0.0.1:9"))
        == "storage-unreachable"
    )
    (tmp_path / "file").write_text("")
    assert (
        condition(Catalog("lake", "sql", uri, str(tmp_path / "file" / "wh")))
        == "storage-refused"
    )
    away = catalog(f"{bucket}/wh", s3_endpoint="http://127.0.0.1:9")
    with pytest.raises(ProfileError) as caught:
        connect.check_checkpoints(f"{bucket}/points", away)
    assert (
        [each.condition for each in caught.value.problems],
        caught.value.exit_code,
    ) == (["storage-unreachable"], 1)


def test_a_checkpoint_folder_that_cannot_be_written_is_refused(
    seaweed: Seaweed, tmp_path: Path
) -> None:
    bucket, catalog = (
        seaweed.make_bucket("progress"),
        Catalog("lake", "sql", "", "", seaweed.s3_properties),
    )
    (tmp_path / "file").write_text("")
    assert bucket in connect.check_checkpoints(f"{bucket}/deep/down", catalog)
    assert str(tmp_path) in connect.check_checkpoints(str(tmp_path / "new"), catalog)
    for place in ("s3://no-such-bucket/x", str(tmp_path / "file" / "x")):
        with pytest.raises(ProfileError) as caught:
            connect.check_checkpoints(place, catalog)
        assert [problem.condition for problem in caught.value.problems] == [
            "checkpoints-unwritable"
        ]


def embedded(**changed: Any) -> dict[str, Any]:
    catalog = {"type": "sql", "uri": "sqlite:///state/c.db", "warehouse": "state/wh"}
    return {
        "catalog": {**catalog, **changed.pop("catalog", {})},
        "checkpoints": "state/checkpoints",
        **changed,
    }


def test_debug_and_run_refuse_a_bad_target_before_anything_is_written(
    tmp_path: Path, seaweed: Seaweed
) -> None:
    s3 = seaweed.s3_properties
    with serving(200, "text/html", PAGE) as page:
        for number, (target, check, expected) in enumerate(
            [
                (
                    embedded(catalog={"type": "rest", "uri": page, "warehouse": ""}),
                    "catalog",
                    "not-a-catalog",
                ),
                (embedded(catalog={"uri": "mysql://h/db"}), "catalog", "catalog-uri"),
                (
                    embedded(catalog={"warehouse": "s3://no-such-bucket", **s3}),
                    "catalog",
                    "storage-refused",
                ),
                (
                    embedded(checkpoints="s3://no-such-bucket/c", catalog=s3),
                    "checkpoints",
                    "checkpoints-unwritable",
                ),
                (
                    embedded(checkpoints="profiles.yml/c"),
                    "checkpoints",
                    "checkpoints-unwritable",
                ),
            ]
        ):
            command = Command(tmp_path / str(number))
            command.write(target)
            found = {
                name: command.run(name, "--log-format", "json")
                for name in ("debug", "run")
            }
            assert {
                name: (done.code, done.conditions()) for name, done in found.items()
            } == {
                "debug": (1, [expected]),
                "run": (2, [expected]),
            }
            assert f'"check": "{check}", "ok": false' in found["debug"].out
            assert command.written() == set()
            assert not any(
                "Traceback" in done.out + done.err for done in found.values()
            )


def test_storage_that_refuses_only_spark_fails_the_run_as_unreachable(
    tmp_path: Path, seaweed: Seaweed
) -> None:
    """The catalog lets one in, and makes the table; then the storage refuses, or nobody
    has told Spark of it."""
    warehouse = seaweed.make_warehouse("refusing")
    login = {"credential": f"{seaweed.access_key}:{seaweed.secret_key}"}
    catalog = {
        "type": "rest",
        "uri": seaweed.catalog_uri,
        "warehouse": warehouse,
        **login,
    }
    wrong = {**seaweed.s3_properties, "s3.secret-access-key": "wrong-wrong"}
    unsaid = {"warehouse": "", "prefix": "refusing"}
    for name, changed in (("wrong", wrong), ("unsaid", unsaid)):
        command = Command(tmp_path / name)
        command.write(
            {
                "catalog": {**catalog, **changed},
                "checkpoints": "checkpoints",
                "namespace": name,
            }
        )
        done = command.run("run", "--log-format", "json")
        assert (done.code, done.conditions()) == (1, ["storage-unreachable"]), done
