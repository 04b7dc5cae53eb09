"""The cache of jars, and how they get there from a repository on loopback."""

import base64
import hashlib
import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest

from lakesql.engine.spark import jars
from lakesql.engine.spark.jars import (
    JARS,
    Jar,
    driver_jars,
    ensure_jars,
    fetch_jars,
    spark_jars,
    user_cache,
)
from lakesql.errors import ProfileError


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def jar_of(content: bytes, name: str = "thing") -> Jar:
    return Jar("org.example", name, "1.0", hash_of(content))


def publish(repository: Path, jar: Jar, content: bytes) -> str:
    """Put a jar where a Maven repository has it; the repository's address."""
    file = repository / jar.path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return repository.as_uri()


def condition(error: pytest.ExceptionInfo[ProfileError]) -> str:
    return error.value.problems[0].condition


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that holds the one jar of the need `core`."""
    monkeypatch.setattr(
        jars,
        "JARS",
        {"core": (jar_of(b"content"),), "kafka": (jar_of(b"more", "more"),)},
    )
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "thing-1.0.jar").write_bytes(b"content")
    return tmp_path


def ensure(
    home: Path, *needs: str, repository: str = "file:///nowhere"
) -> tuple[Path, ...]:
    return ensure_jars(
        frozenset(needs), home, lambda _: None, {"LAKESQL_MAVEN_URL": repository}
    )


def test_every_jar_is_pinned() -> None:
    pinned = [jar for need in JARS.values() for jar in need]
    assert {"core", "avro", "kafka"} <= JARS.keys()
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in pinned)
    assert (
        len({jar.file for jar in pinned})
        == len({jar.sha256 for jar in pinned})
        == len(pinned)
    )


def test_a_jar_that_is_there_is_not_fetched(cached: Path) -> None:
    said: list[str] = []
    found = ensure_jars(frozenset({"core"}), cached, said.append, {})
    assert found == (cached / "jars" / "thing-1.0.jar",)
    assert said == []


def test_a_changed_jar_is_refused_and_removed(cached: Path) -> None:
    ensure(cached, "core")
    (jar,) = (cached / "jars").glob("*.jar")
    jar.write_bytes(b"CONTENT")
    with pytest.raises(ProfileError) as error:
        ensure(cached, "core")
    assert condition(error) == "jar-checksum"
    assert not jar.exists()


def test_a_verified_jar_is_not_read_again(cached: Path) -> None:
    (jar,) = ensure(cached, "core")
    facts = jar.stat()
    jar.write_bytes(b"CONTENT")
    os.utime(jar, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert ensure(cached, "core") == (jar,)
    os.utime(jar)
    with pytest.raises(ProfileError):
        ensure(cached, "core")


def test_the_note_of_a_check_is_for_all_users(cached: Path) -> None:
    ensure(cached, "core")
    (note,) = (cached / "jars").glob("*.verified")
    assert note.stat().st_mode & 0o777 == 0o644


def test_a_note_that_cannot_be_read_or_replaced_is_none(cached: Path) -> None:
    note = cached / "jars" / "thing-1.0.jar.verified"
    note.mkdir()
    (jar,) = ensure(cached, "core")
    assert {file.name for file in (cached / "jars").iterdir()} == {jar.name, note.name}
    jar.write_bytes(b"CONTENT")
    with pytest.raises(ProfileError) as error:
        ensure(cached, "core")
    assert condition(error) == "jar-checksum"


def test_what_is_missing_is_fetched_and_nothing_else_stays(
    cached: Path, tmp_path: Path
) -> None:
    address = publish(tmp_path / "maven", jar_of(b"more", "more"), b"more")
    found = ensure(cached, "core", "kafka", repository=address)
    assert [jar.read_bytes() for jar in found] == [b"content", b"more"]
    assert sorted(
        file.name
        for file in (cached / "jars").iterdir()
        if not file.name.endswith(".verified")
    ) == [
        "more-1.0.jar",
        "thing-1.0.jar",
    ]


def test_a_fetched_jar_with_other_content_is_refused(
    cached: Path, tmp_path: Path
) -> None:
    address = publish(tmp_path / "maven", jar_of(b"more", "more"), b"evil")
    with pytest.raises(ProfileError) as error:
        ensure(cached, "kafka", repository=address)
    assert condition(error) == "jar-checksum"
    for told in (
        f"{address}/org/example/more/1.0/more-1.0.jar",
        *(hash_of(text) for text in (b"more", b"evil")),
    ):
        assert told in error.value.problems[0].why
    assert [file.name for file in (cached / "jars").iterdir()] == ["thing-1.0.jar"]


def test_a_repository_that_cannot_be_reached_is_named(cached: Path) -> None:
    with pytest.raises(ProfileError) as error:
        ensure(cached, "kafka", repository="http://somebody:secret@127.0.0.1:9/maven")
    assert condition(error) == "jars-unreachable"
    assert (
        "http://127.0.0.1:9/maven/org/example/more/1.0/more-1.0.jar"
        in error.value.problems[0].why
    )
    assert "secret" not in str(error.value.problems)


@pytest.mark.parametrize(
    "address",
    [
        "maven.example",
        "s3://pass/maven",
        "https://somebody:pa/ss@127.0.0.1/maven",
        "https://somebody:1/pass@127.0.0.1/maven",
        "https://somebody:1?pass@127.0.0.1/maven",
        "https://somebody:1#pass@127.0.0.1/maven",
        "https://[::1/pass",
    ],
)
def test_what_is_no_address_of_a_repository_is_refused_and_not_shown(
    cached: Path, address: str
) -> None:
    with pytest.raises(ProfileError) as error:
        ensure(cached, "kafka", repository=address)
    assert condition(error) == "jars-unreachable"
    assert "LAKESQL_MAVEN_URL" in error.value.problems[0].what
    assert "pass@" not in str(error.value.problems) and "ss@127" not in str(
        error.value.problems
    )


def test_authorities_that_cannot_be_read_are_named(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    with pytest.raises(ProfileError) as error:
        ensure(cached, "kafka")
    assert condition(error) == "jars-unreachable"
    assert "/nowhere/ca.pem" in error.value.problems[0].what


class Repository(ThreadingHTTPServer):
    """A Maven repository on loopback that serves `content`, whatever is asked for;
    `asked` are the requests' headers.

    Each answer breaks off after so many bytes of `breaks`, while there are any.
    `status` is what it answers instead.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.breaks: list[int] = []
        self.status = 0
        self.has_ranges = True
        self.asked: list[dict[str, str]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/maven"


class _Handler(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        self.server.asked.append({"path": self.path, **self.headers})
        first = (
            int(self.headers.get("Range", "bytes=0-")[6:-1])
            if self.server.has_ranges
            else 0
        )
        body = self.server.content[first:]
        if self.server.status or (first and not body):
            self.send_error(self.server.status or 416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(
            body[: self.server.breaks.pop(0)] if self.server.breaks else body
        )

    def do_CONNECT(self) -> None:
        self.server.asked.append(
            {"path": self.path, "method": self.command, **self.headers}
        )
        self.send_error(407)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository() -> Iterator[Repository]:
    with Repository(b"0123456789" * 1000) as server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        yield server
        server.shutdown()


def fetch(repository: Repository, folder: Path) -> bytes:
    jar = jar_of(b"0123456789" * 1000)
    fetch_jars([jar], folder, repository.address)
    assert [file.name for file in folder.iterdir()] == [jar.file]
    return (folder / jar.file).read_bytes()


def test_a_connection_that_breaks_is_resumed(
    repository: Repository, tmp_path: Path
) -> None:
    repository.breaks = [4000, 1]
    assert fetch(repository, tmp_path) == repository.content
    assert [asked.get("Range") for asked in repository.asked] == [
        None,
        "bytes=4000-",
        "bytes=4001-",
    ]


def test_what_an_earlier_try_has_fetched_is_not_fetched_again(
    repository: Repository, tmp_path: Path
) -> None:
    repository.breaks = [4000, 0, 0]
    with pytest.raises(ProfileError) as error:
        fetch(repository, tmp_path)
    assert condition(error) == "jars-unreachable"
    assert "4,000 of 10,000 bytes" in error.value.problems[0].why
    assert fetch(repository, tmp_path) == repository.content
    assert repository.asked[-1]["Range"] == "bytes=4000-"


def test_a_file_that_was_complete_but_not_in_place_is_taken(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / ".thing-1.0.jar.part").write_bytes(repository.content)
    assert fetch(repository, tmp_path) == repository.content


def test_a_server_without_ranges_sends_all_of_it_again(
    repository: Repository, tmp_path: Path
) -> None:
    repository.breaks, repository.has_ranges = [4000], False
    assert fetch(repository, tmp_path) == repository.content


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 3)])
def test_a_server_that_has_no_jar_is_asked_again_only_where_that_helps(
    repository: Repository, tmp_path: Path, status: int, tries: int
) -> None:
    repository.status = status
    with pytest.raises(ProfileError) as error:
        fetch(repository, tmp_path)
    assert condition(error) == "jars-unreachable"
    assert str(status) in error.value.problems[0].why
    assert len(repository.asked) == tries


def test_a_login_in_the_address_is_sent(repository: Repository, tmp_path: Path) -> None:
    address = repository.address.replace("//", "//some%40body:pass@")
    fetch_jars([jar_of(repository.content)], tmp_path, address)
    (asked,) = repository.asked
    assert (
        asked["Authorization"]
        == f"Basic {base64.b64encode(b'some@body:pass').decode()}"
    )
    assert asked["path"] == "/maven/org/example/thing/1.0/thing-1.0.jar"


@pytest.fixture
def proxy(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The repository as the machine's proxy, with a login."""
    address = repository.address.removesuffix("/maven").replace(
        "//", "//somebody:secret@"
    )
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, address)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return repository


def test_the_usual_variables_name_a_proxy(proxy: Repository, tmp_path: Path) -> None:
    fetch_jars([jar_of(proxy.content)], tmp_path, "http://maven.invalid/root")
    assert (
        proxy.asked[0]["path"]
        == "http://maven.invalid/root/org/example/thing/1.0/thing-1.0.jar"
    )


def test_every_try_by_https_goes_through_a_tunnel_of_the_proxy(
    proxy: Repository, tmp_path: Path
) -> None:
    with pytest.raises(ProfileError) as error:
        fetch_jars([jar_of(proxy.content)], tmp_path, "https://maven.invalid/root")
    login = f"Basic {base64.b64encode(b'somebody:secret').decode()}"
    asked = [
        (each["path"], each.get("method"), each.get("Proxy-Authorization"))
        for each in proxy.asked
    ]
    assert asked == [("maven.invalid:443", "CONNECT", login)] * jars.TRIES
    why = error.value.problems[0].why
    assert f"127.0.0.1:{proxy.server_port}" in why and "407" in why
    assert "secret" not in str(error.value.problems)


def test_a_host_that_needs_no_proxy_is_asked_itself(
    proxy: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "maven.invalid,127.0.0.1")
    fetch_jars([jar_of(proxy.content)], tmp_path, proxy.address)
    assert [asked["path"] for asked in proxy.asked] == [
        "/maven/org/example/thing/1.0/thing-1.0.jar"
    ]


def test_a_server_that_keeps_silent_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "SILENT_AFTER_S", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ProfileError) as error,
    ):
        fetch_jars(
            [jar_of(b"")], tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}"
        )
    assert condition(error) == "jars-unreachable"
    assert "timed out" in error.value.problems[0].why


def test_of_two_that_fetch_at_once_one_waits(
    repository: Repository, tmp_path: Path
) -> None:
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda _: fetch_jars(
                    [jar_of(repository.content)], tmp_path, repository.address
                ),
                range(4),
            )
        )
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [repository.content]
    assert len(repository.asked) == 1


def test_each_of_several_that_fetch_at_once_hears_of_other_content(
    repository: Repository, tmp_path: Path
) -> None:
    def fetch_other(_: int) -> str:
        with pytest.raises(ProfileError) as error:
            fetch_jars([jar_of(b"other")], tmp_path, repository.address)
        return condition(error)

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(fetch_other, range(4))) == ["jar-checksum"] * 4
    assert not list(tmp_path.iterdir())


def test_a_jar_is_where_maven_has_it() -> None:
    (jar,) = JARS["avro"]
    assert (
        jar.path
        == f"org/apache/spark/spark-avro_2.13/{jar.revision}/spark-avro_2.13-{jar.revision}.jar"
    )


def test_the_cache_is_the_users_unless_it_is_moved(tmp_path: Path) -> None:
    assert (
        user_cache({"LAKESQL_HOME": str(tmp_path), "XDG_CACHE_HOME": "/x"}) == tmp_path
    )
    assert user_cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/lakesql")
    assert user_cache({}) == Path.home() / ".cache" / "lakesql"


@pytest.mark.checks
def test_the_class_path_has_no_signed_jar_and_no_mllib(tmp_path: Path) -> None:
    own = {jar.name: jar for jar in spark_jars().glob("*.jar")}
    found = driver_jars(tmp_path)
    assert len(found) == len(own) - 1
    assert not any("mllib_" in jar.name for jar in found)
    copies = [jar for jar in found if jar.parent == tmp_path / "jars"]
    assert sorted(jar.name.partition("-3")[0] for jar in copies) == [
        "commons-compiler",
        "janino",
    ]
    for jar in found:
        with ZipFile(jar) as content:
            assert not [
                name
                for name in content.namelist()
                if re.match(r"META-INF/.*\.(SF|RSA|DSA|EC)$", name)
            ], jar
    for jar in copies:
        with (
            ZipFile(jar) as copy,
            ZipFile(own[jar.name.replace("-unsigned", "")]) as signed,
        ):
            kept = [
                name
                for name in signed.namelist()
                if not name.startswith("META-INF/DUMMY.")
            ]
            assert copy.namelist() == kept
            assert all(copy.read(name) == signed.read(name) for name in kept)
    assert driver_jars(tmp_path) == found, "they are made once"


def test_a_signed_jar_is_taken_as_it_is_where_its_copy_cannot_be_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "jars").write_text("a file where the folder should be")
    assert {jar.parent for jar in driver_jars(tmp_path)} == {spark_jars()}
