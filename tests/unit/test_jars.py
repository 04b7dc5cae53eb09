"""The cache of jars. Ivy itself, which needs Java, is used in the tests that are marked so."""

import hashlib
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lakesql.engine.spark import jars
from lakesql.engine.spark.jars import JARS, Jar, ensure_jars, fetch_jars, render_ivy, render_ivy_settings, user_cache
from lakesql.engine.spark.java import Java, find_java
from lakesql.errors import ProfileError

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="runs Ivy")
NO_JAVA = Java(Path("/nowhere"), Path("/nowhere/bin/java"), "17.0.1", "")


def jar_of(content: bytes, name: str = "thing") -> Jar:
    return Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())


def publish(repository: Path, jar: Jar, content: bytes) -> str:
    """Put a jar where a Maven repository has it; the repository's address."""
    folder = repository / jar.organisation.replace(".", "/") / jar.name / jar.revision
    folder.mkdir(parents=True)
    (folder / jar.file).write_bytes(content)
    return repository.as_uri()


def condition(error: pytest.ExceptionInfo[ProfileError]) -> str:
    return error.value.problems[0].condition


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that holds the one jar of the need `core`."""
    monkeypatch.setattr(jars, "JARS", {"core": (jar_of(b"content"),), "kafka": (jar_of(b"more", "more"),)})
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "thing-1.0.jar").write_bytes(b"content")
    return tmp_path


def ensure(home: Path, *needs: str, repository: str = "file:///nowhere") -> tuple[Path, ...]:
    java = find_java(os.environ) if shutil.which("java") else NO_JAVA
    return ensure_jars(frozenset(needs), java, home, lambda _: None, {"LAKESQL_MAVEN_URL": repository})


def test_every_jar_is_pinned() -> None:
    pinned = [jar for need in JARS.values() for jar in need]
    assert {"core", "avro", "kafka"} <= JARS.keys()
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in pinned)
    assert len({jar.file for jar in pinned}) == len({jar.sha256 for jar in pinned}) == len(pinned)


def test_a_jar_that_is_there_is_not_fetched(cached: Path) -> None:
    said: list[str] = []
    found = ensure_jars(frozenset({"core"}), NO_JAVA, cached, said.append, {})
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


@needs_java
def test_what_is_missing_is_fetched_and_nothing_else_stays(cached: Path, tmp_path: Path) -> None:
    address = publish(tmp_path / "maven", jar_of(b"more", "more"), b"more")
    found = ensure(cached, "core", "kafka", repository=address)
    assert [jar.read_bytes() for jar in found] == [b"content", b"more"]
    assert sorted(file.name for file in (cached / "jars").iterdir() if not file.name.endswith(".verified")) == [
        "more-1.0.jar",
        "thing-1.0.jar",
    ]


@needs_java
def test_a_fetched_jar_with_other_content_is_refused(cached: Path, tmp_path: Path) -> None:
    address = publish(tmp_path / "maven", jar_of(b"more", "more"), b"evil")
    with pytest.raises(ProfileError) as error:
        ensure(cached, "kafka", repository=address)
    assert condition(error) == "jar-checksum"
    assert not (cached / "jars" / "more-1.0.jar").exists()


@needs_java
def test_a_repository_that_cannot_be_reached_is_named(cached: Path) -> None:
    address = "http://127.0.0.1:9/maven"
    with pytest.raises(ProfileError) as error:
        ensure(cached, "kafka", repository=address)
    assert condition(error) == "jars-unreachable"
    assert f"{address}/org/example/more/1.0/more-1.0.jar" in error.value.problems[0].why


@needs_java
def test_two_may_fetch_at_once(tmp_path: Path) -> None:
    content = b"x" * 1_000_000
    address = publish(tmp_path / "maven", jar_of(content), content)
    java, folder = find_java(os.environ), tmp_path / "jars"
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: fetch_jars([jar_of(content)], java, folder, address), range(2)))
    assert [file.read_bytes() for file in folder.iterdir()] == [content]


def test_ivy_gets_exact_versions_and_nothing_transitive() -> None:
    module = ElementTree.fromstring(render_ivy(JARS["core"]))
    asked = [dict(entry.attrib) for entry in module.iter("dependency")]
    assert [(entry["name"], entry["rev"]) for entry in asked] == [(jar.name, jar.revision) for jar in JARS["core"]]
    assert {entry["transitive"] for entry in asked} == {"false"}


def test_a_mirror_is_the_root_and_no_host_is_named_without_one() -> None:
    mirror = ElementTree.fromstring(render_ivy_settings('http://mirror/a&"b'))
    assert [entry.get("root") for entry in mirror.iter("ibiblio")] == ['http://mirror/a&"b/']
    assert "http" not in render_ivy_settings(None)


def test_the_cache_is_the_users_unless_it_is_moved(tmp_path: Path) -> None:
    assert user_cache({"LAKESQL_HOME": str(tmp_path), "XDG_CACHE_HOME": "/x"}) == tmp_path
    assert user_cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/lakesql")
    assert user_cache({}) == Path.home() / ".cache" / "lakesql"
