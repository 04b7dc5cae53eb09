"""Fetch the jars that Spark needs beside its own, once per user, each known by its SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from lakesql.engine.spark.java import Java
from lakesql.errors import ProfileError, not_installed
from lakesql.project.files import write_atomically
from lakesql.secrets import without_secrets


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a Maven repository, pinned by version and content."""

    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name, in the repository and in the cache."""
        return f"{self.name}-{self.revision}.jar"


# A need is what a project's target asks for: every session needs `core`, a Kafka connection `kafka`, …
# Each list is complete: nothing is resolved transitively.
JARS: dict[str, tuple[Jar, ...]] = {
    "core": (
        Jar(
            "org.apache.iceberg",
            "iceberg-spark-runtime-4.1_2.13",
            "1.12.0",
            "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
        ),
        Jar(
            "org.xerial",
            "sqlite-jdbc",
            "3.53.2.0",
            "dc320e4102884c135ccc30c3c6fc3fb190b750e1586a100e3aba3be783cf33a9",
        ),
    ),
    # Files on this machine's disks, without a process for the permissions of each.
    "local-files": (
        Jar(
            "com.globalmentor",
            "hadoop-bare-naked-local-fs",
            "0.1.0",
            "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
        ),
    ),
    "avro": (
        Jar(
            "org.apache.spark",
            "spark-avro_2.13",
            "4.1.1",
            "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
        ),
    ),
    "kafka": (
        Jar(
            "org.apache.spark",
            "spark-sql-kafka-0-10_2.13",
            "4.1.3",
            "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
        ),
        Jar(
            "org.apache.spark",
            "spark-token-provider-kafka-0-10_2.13",
            "4.0.0",
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        ),
        Jar(
            "org.apache.kafka",
            "kafka-clients",
            "3.9.1",
            "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
        ),
        Jar(
            "org.apache.commons",
            "commons-pool2",
            "2.12.1",
            "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
        ),
    ),
    "postgres": (
        Jar(
            "org.postgresql",
            "postgresql",
            "42.7.13",
            "6e0e4cc2d8cae902084f8a2b18728b073a6fd9d1f87c9d8bff8f298c18185b93",
        ),
    ),
    "s3": (
        Jar(
            "org.apache.iceberg",
            "iceberg-aws-bundle",
            "1.12.0",
            "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
        ),
    ),
    # Hadoop's own S3, for checkpoints. The AWS SDK is the one in the bundle above, which lacks these two parts of it.
    "s3a": (
        Jar(
            "org.apache.hadoop",
            "hadoop-aws",
            "3.4.2",
            "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9",
        ),
        Jar(
            "software.amazon.awssdk",
            "s3-transfer-manager",
            "2.54.17",
            "7bef0ea4efd5e0860bab63e08317040951edb51b72a5be734284c28b8324ab87",
        ),
        Jar(
            "software.amazon.awssdk",
            "apache-client",
            "2.54.17",
            "0b00ae3d55c3d1213ca47b5651dc4c2a0080fc9b6192dde3d53c3da6c1811bcb",
        ),
    ),
}


def ensure_jars(
    needs: frozenset[str],
    java: Java,
    home: Path,
    say: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> tuple[Path, ...]:
    """The jars of `needs` as verified files of `home`/jars, in the order of `JARS`; fetched when they are not there.

    Raises ProfileError `jars-unreachable` when they cannot be fetched, `jar-checksum` when a file is not the
    pinned one (it is removed, so that the next run fetches it anew).
    """
    folder = home / "jars"
    wanted = [jar for need, jars in JARS.items() if need in needs for jar in jars]
    missing = [jar for jar in wanted if not (folder / jar.file).exists()]
    if missing:
        say(f"Fetching {len(missing)} jars into {folder} (once per user)")
        fetch_jars(missing, java, folder, environ.get("LAKESQL_MAVEN_URL"))
    for jar in wanted:
        verify_jar(jar, folder)
    return tuple(folder / jar.file for jar in wanted)


def user_cache(environ: Mapping[str, str]) -> Path:
    """Where lakesql keeps what belongs to the user and not to a project: LAKESQL_HOME, or the XDG cache."""
    if home := environ.get("LAKESQL_HOME"):
        return Path(home).expanduser().absolute()
    caches = environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "lakesql"


def verify_jar(jar: Jar, folder: Path) -> None:
    """Check that the file in `folder` is the pinned one; remove it and raise `jar-checksum` when it is not.

    A file whose size and modification time are those noted after a full check is not read again.
    """
    file, note = folder / jar.file, folder / f"{jar.file}.verified"
    facts = file.stat()
    seen = f"{jar.sha256} {facts.st_size} {facts.st_mtime_ns}"
    if _read_note(note) == seen.encode():
        return
    _check_content(jar, file)
    with contextlib.suppress(OSError):  # a cache that cannot be written is read again each time
        write_atomically(note, seen)


def fetch_jars(jars: Sequence[Jar], java: Java, folder: Path, repository: str | None) -> None:
    """Fetch `jars` with the Ivy that pyspark ships and put each into `folder` when its content is the pinned one.

    `repository` is the root of a Maven repository; None means Ivy's default, Maven Central. All work is done in
    a directory beside the jars, and each is then moved into place, so two processes may do this at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as name:
        work = Path(name)
        (work / "ivy.xml").write_text(render_ivy(jars))
        (work / "settings.xml").write_text(render_ivy_settings(repository))
        output = _run_ivy(java, work)
        lost = [jar.file for jar in jars if not (work / jar.file).exists()]
        if lost:
            raise ProfileError.of(
                "jars-unreachable",
                f"{len(lost)} jars could not be fetched: {', '.join(lost)}.",
                why=f"Tried: {', '.join(_addresses(output)) or repository or 'Maven Central'}.",
            )
        for jar in jars:
            _check_content(jar, work / jar.file)
            (work / jar.file).replace(folder / jar.file)


def render_ivy(jars: Sequence[Jar]) -> str:
    """The Ivy module that depends on exactly `jars`."""
    lines = [
        f'    <dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.revision}"'
        ' conf="jars->default" transitive="false"/>'
        for jar in jars
    ]
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            '  <info organisation="lakesql" module="jars"/>',
            '  <configurations><conf name="jars"/></configurations>',
            "  <dependencies>",
            *lines,
            "  </dependencies>",
            "</ivy-module>",
        ]
    )


def render_ivy_settings(repository: str | None) -> str:
    """Ivy's settings: one Maven repository, whose .pom files are not read (nothing is transitive)."""
    root = f" root={quoteattr(repository.rstrip('/') + '/')}" if repository else ""
    return "\n".join(
        [
            "<ivysettings>",
            '  <settings defaultResolver="maven"/>',
            "  <timeout-constraints>",  # or it waits for ever, whatever Java's own defaults are
            '    <timeout-constraint name="bounded" connectionTimeout="20000" readTimeout="60000"/>',
            "  </timeout-constraints>",
            "  <resolvers>",
            f'    <ibiblio name="maven" m2compatible="true" usepoms="false" timeoutConstraint="bounded"{root}/>',
            "  </resolvers>",
            "</ivysettings>",
        ]
    )


def spark_jars() -> Path:
    """The folder of Spark's own jars, inside the installed pyspark (which this does not import)."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise not_installed("pyspark", "spark")
    return Path(spec.origin).parent / "jars"


def _run_ivy(java: Java, work: Path) -> str:
    """What Ivy printed. Its failure shows in the files that are not there."""
    ivy = next(spark_jars().glob("ivy-*.jar"))
    command: list[str | Path] = [
        java.binary,
        *("-jar", ivy),
        *("-settings", work / "settings.xml"),
        *("-ivy", work / "ivy.xml"),
        *("-cache", work / "cache"),
        *("-retrieve", f"{work}/[artifact]-[revision].[ext]"),
    ]
    environ = without_secrets(os.environ)
    return subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", check=False).stdout


def _addresses(output: str) -> list[str]:
    """The addresses that Ivy says it tried."""
    return [line.strip() for line in output.splitlines() if line.strip().startswith(("http:", "https:", "file:"))]


def _check_content(jar: Jar, file: Path) -> None:
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != jar.sha256:
        file.unlink(missing_ok=True)
        raise ProfileError.of(
            "jar-checksum",
            f"{jar.file} is not the file that lakesql was built with, and has been removed.",
            why=f"Its SHA-256 is {found}, not {jar.sha256}.",
        )


def _read_note(note: Path) -> bytes | None:
    """What is noted; None where nothing is, or where this user cannot read it."""
    try:
        return note.read_bytes()
    except OSError:
        return None
