"""How a command takes the Java that an earlier command has left running with Spark, and
gives it back.

Java stays with its SparkContext, held by a process of its own, the keeper
(`keep_java.py`); Python and the session are always new. The keeper listens on a socket
in a folder of the project that only its user can enter. It lends its Java to one
command at a time, and only to a command that would start exactly the same one: same
version, jars, settings, folder, environment and secrets. If a command ends without
giving the Java back, the keeper ends it.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import select
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lakesql import __version__
from lakesql.engine.spark.jvm import Launch
from lakesql.errors import ProfileError
from lakesql.secrets import without_secrets

IN_USE = "The warm Spark of this target is in use by another command: this one starts its own, which ends with it."
UNSAFE = "The folder {folder} is open to other users: no warm Spark is left in it, and none is taken."

ANSWER_S = 5.0
"""How long a keeper may take to answer before it is considered dead."""

END_S = 15.0
"""How long a keeper that was told to end may take before another one is started."""

_NO_MATTER = re.compile(
    r"_|SHLVL|OLDPWD|COLUMNS|LINES|TERM|TERM_.+|COLORTERM|NO_COLOR|WINDOWID|STY|TMUX.*|SSH_(TTY|CLIENT|CONNECTION)|"
    r"XDG_SESSION_ID|VSCODE_.+|PS1|PROMPT.*|PYTEST_CURRENT_TEST|LAKESQL_.+"
)
"""Environment variables that do not matter to Java: those that differ between
terminals, and lakesql's own."""


@dataclass(frozen=True, slots=True)
class WarmPlace:
    """Where a command finds the Java of an earlier one: the names to look for, in
    order, and how long an unused Java is kept. A Java that this command starts gets the
    last name."""

    folder: Path
    names: tuple[str, ...]
    idle_s: float

    def beside(self, what: str) -> WarmPlace:
        """The place for a Spark with another purpose: this one if its Java would be
        started the same way, or one of its own."""
        return replace(self, names=(*self.names, f"{self.names[-1]}-{what}"))


@dataclass(frozen=True, slots=True)
class KeeperOrder:
    """What a keeper is started with. `lease` is the file descriptor of its end of the
    connection to the command that starts it in `directory`."""

    launch: Launch
    folder: Path
    name: str
    idle_s: float
    fingerprint: str
    lease: int
    directory: Path


@dataclass(slots=True)
class WarmProcess:
    """A borrowed Java, with the interface of a process that asks its keeper. It ends
    when the connection breaks."""

    lease: socket.socket
    pid: int = 0
    returncode: int | None = None
    is_ended_here: bool = False
    _read: bytearray = field(default_factory=bytearray)

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        if self.returncode is None and select.select([self.lease], [], [], 0)[0]:
            said = receive(self.lease, self._read)
            self.returncode = int(said["ended"]) if said and "ended" in said else -9
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit status, once it has ended. Raises `TimeoutExpired`."""
        if (
            self.returncode is None
            and not select.select([self.lease], [], [], timeout)[0]
        ):
            raise subprocess.TimeoutExpired("java", timeout)
        status = self.poll()
        assert status is not None
        return status

    @property
    def is_lost(self) -> bool:
        """Whether it has ended without this command ending it."""
        return not self.is_ended_here and self.poll() is not None

    def give_back(self) -> None:
        """Leave it to the next command."""
        self._close({"done": True})

    def end(self) -> None:
        """End it at once."""
        self.is_ended_here = self.returncode is None
        self._close({"end": True})
        self.returncode = -9

    def _close(self, said: Mapping[str, Any]) -> None:
        try:
            send(self.lease, said)
            self.lease.shutdown(socket.SHUT_WR)
            self.lease.settimeout(ANSWER_S)
            while self.lease.recv(4096):  # until the keeper has taken it
                pass
        except OSError:
            pass  # it is dead, and its Java with it
        self.lease.close()


@dataclass(slots=True)
class WarmJvm:
    """A Java that was taken or is being started; `wait` returns its address. `is_new`:
    nothing runs in it yet."""

    process: WarmProcess
    is_new: bool
    address: tuple[int, str] | None = None

    def wait(self, say: Callable[[str], None]) -> tuple[int, str]:
        """The port and the secret to connect with. Raises ProfileError
        (`jvm-failed`)."""
        while self.address is None:
            said = receive(self.process.lease, self.process._read)
            if said is None:
                raise ProfileError.of(
                    "jvm-failed",
                    "The process that keeps Java for later commands has ended.",
                )
            if "say" in said:
                say(said["say"])
            elif "problem" in said:
                raise ProfileError.of(**said["problem"])
            else:
                self._take(said)
        return self.address

    def _take(self, said: Mapping[str, Any]) -> None:
        self.address = int(said["port"]), str(said["secret"])
        self.process.pid = int(said["pid"])


def take_java(
    place: WarmPlace,
    launch: Launch,
    conf: Mapping[str, str],
    say: Callable[[str], None],
) -> WarmJvm | None:
    """The Java that an earlier command has left, or one that is started to be left.
    None, with the reason told to `say`, if another command uses it, or if other users
    can enter the folder."""
    place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(place.folder):
        say(UNSAFE.format(folder=place.folder))
        return None
    fingerprint = fingerprint_of(launch, conf)
    for name in place.names:
        connection = reach_keeper(place.folder, name)
        if connection is None:
            continue
        said = _ask(
            connection, {"take": fingerprint, "replace": name == place.names[-1]}
        )
        if "port" in said:
            jvm = WarmJvm(WarmProcess(connection), is_new=False)
            jvm._take(said)
            return jvm
        if "busy" in said and name == place.names[-1]:
            connection.close()
            say(IN_USE)
            return None
        _await_end(connection)
    return _start_keeper(place, launch, fingerprint, say)


def fingerprint_of(launch: Launch, conf: Mapping[str, str]) -> str:
    """A hash of everything that distinguishes the Java that a command would start: only
    a Java with the same hash is taken."""
    jars = [
        f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}"
        for jar in sorted(launch.jars)
    ]
    environ = {
        name: value
        for name, value in launch.environ.items()
        if not _NO_MATTER.fullmatch(name)
    }
    os.umask(umask := os.umask(0o077))
    facts = {
        "lakesql": f"{__version__} {Path(__file__).parent}",
        "python": [sys.executable, sys.version, version("pyspark")],
        "java": [str(launch.java.binary), launch.java.build],
        "jars": jars,
        "class_path": launch.class_path,
        "options": launch.options,
        "conf": sorted(conf.items()),
        "environ": sorted(environ.items()),
        "secrets": launch.secrets.forms,
        "folder": str(Path.cwd()),
        "umask": umask,
        "log": str(launch.log_file),
    }
    return hashlib.sha256(
        json.dumps(facts).encode("utf-8", "surrogateescape")
    ).hexdigest()


def end_keepers(folder: Path) -> tuple[list[str], list[str]]:
    """End every Java that commands have left in a folder. Returns the names of those
    that were ended, and of those that are in use."""
    ended: list[str] = []
    in_use: list[str] = []
    if not folder.is_dir() or not is_private(folder):
        return [], []
    for path in sorted(folder.glob("*.sock")):
        connection = reach_keeper(folder, path.stem)
        if connection is None:
            path.unlink(missing_ok=True)
            continue
        is_busy = "busy" in _ask(connection, {"leave": True})
        _await_end(connection)
        (in_use if is_busy else ended).append(path.stem)
    return ended, in_use


def read_keeper(folder: Path, name: str) -> dict[str, Any]:
    """What a keeper reports about itself: the process ids, how many commands it has
    served, and whether one uses it; empty if there is none."""
    connection = reach_keeper(folder, name)
    if connection is None:
        return {}
    said = _ask(connection, {"who": True})
    connection.close()
    return said


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, is no link, and cannot be entered by others."""
    seen = folder.lstat()
    return (
        stat.S_ISDIR(seen.st_mode)
        and seen.st_uid == os.getuid()
        and not seen.st_mode & 0o077
    )


def reach_keeper(folder: Path, name: str) -> socket.socket | None:
    """A connection to the keeper of this name; None if there is none, or it is another
    user's."""
    path = folder / f"{name}.sock"
    try:
        seen = path.lstat()
    except OSError:
        return None
    if (
        not stat.S_ISSOCK(seen.st_mode)
        or seen.st_uid != os.getuid()
        or seen.st_mode & 0o077
    ):
        return None
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_S)
    opened = os.open(folder, os.O_RDONLY)
    try:
        connection.connect(short_path(path, opened))
    except OSError:  # a keeper that was killed leaves its socket
        connection.close()
        return None
    finally:
        os.close(opened)
    return connection


def short_path(path: Path, folder: int) -> str:
    """A path of a socket that fits into a socket address, which has room for 100 bytes:
    fewer than the path of a project may have."""
    through = f"/proc/self/fd/{folder}/{path.name}"
    return (
        through
        if len(os.fsencode(path)) > 100 and Path("/proc/self/fd").is_dir()
        else str(path)
    )


def send(connection: socket.socket, said: Mapping[str, Any]) -> None:
    """Send one line of JSON."""
    connection.sendall(json.dumps(said).encode() + b"\n")


def receive(connection: socket.socket, read: bytearray) -> dict[str, Any] | None:
    """The next line of JSON; None at the end of the connection. `read` keeps what was
    read beyond a line."""
    while b"\n" not in read:
        try:
            part = connection.recv(65_536)
        except ConnectionError:
            return None
        if not part:
            return None
        read += part
    line, _, rest = bytes(read).partition(b"\n")
    read[:] = rest
    said: dict[str, Any] = json.loads(line)
    return said


def _ask(connection: socket.socket, said: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a keeper; empty if it has ended."""
    try:
        send(connection, said)
        answer = receive(connection, bytearray())
    except OSError:
        return {}
    connection.settimeout(None)
    return answer or {}


def _await_end(connection: socket.socket) -> None:
    """Wait until a keeper that was told to end has ended: it closes the connection
    last."""
    connection.settimeout(END_S)
    try:
        while connection.recv(4096):
            pass
    except OSError:
        pass
    connection.close()


def _start_keeper(
    place: WarmPlace, launch: Launch, fingerprint: str, say: Callable[[str], None]
) -> WarmJvm | None:
    own, other = socket.socketpair()
    order = KeeperOrder(
        launch,
        place.folder,
        place.names[-1],
        place.idle_s,
        fingerprint,
        other.fileno(),
        Path.cwd(),
    )
    output = launch.log_file.with_suffix(".out")
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as printed:
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", "lakesql.engine.spark.keep_java"],
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            env=without_secrets(os.environ),
            pass_fds=(other.fileno(),),
            start_new_session=True,
        )
    other.close()
    started.communicate(pickle.dumps(order))  # it leaves a process behind, and ends
    said = receive(own, read := bytearray())
    if said is None or "busy" in said:
        own.close()
        say(IN_USE)
        return None
    return WarmJvm(WarmProcess(own, _read=read), is_new=True)
