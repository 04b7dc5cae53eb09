"""How a process keeps a Java between commands: it lends it to one command at a time,
and ends it when it was unused for long."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakesql.engine.spark.jvm import Jvm, kill_jvm, start_jvm, wait_for_jvm
from lakesql.engine.spark.warm import ANSWER_S, KeeperOrder, receive, send
from lakesql.errors import ProfileError

MOST_COMMANDS = 200
"""After how many commands Java is ended: what each of them leaves in its memory adds
up."""

EXIT_S = 90.0
"""How long Java may take to end by itself, during which it may write its class-data
archive."""

LOOK_S = 1.0
"""How often the keeper checks that its socket still exists; it learns at once when Java
ends."""


def main() -> None:
    """Keep a Java as ordered on stdin, in a process that is detached from its
    parent."""
    order: KeeperOrder = pickle.loads(sys.stdin.buffer.read())
    if os.fork():
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    lease = socket.socket(fileno=order.lease)
    # a socket address has little room: the path of its folder may be longer
    os.chdir(order.folder)
    lock = os.open(f"{order.name}.lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        send(lease, {"busy": True})
        return
    send(lease, {"started": True})
    _keep(order, lease)


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def _keep(order: KeeperOrder, lease: socket.socket) -> None:
    path = f"{order.name}.sock"
    jvm = _start(order, lease)
    if jvm is None:
        return
    started, address = jvm
    os.chdir(order.folder)
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    # the socket is private from the beginning; Java's files get the usual umask
    usual = os.umask(0o177)
    listener.bind(path)
    os.umask(usual)
    listener.listen(8)
    seen = Path(path).stat()
    keeper = _JavaKeeper(
        order, started, listener, (seen.st_dev, seen.st_ino), address, lease
    )
    try:
        keeper.lend(is_new=True)
        keeper.run()
    finally:
        keeper.close()


def _start(
    order: KeeperOrder, lease: socket.socket
) -> tuple[Jvm, tuple[int, str]] | None:
    """Java, once it is up, and its address; None if it does not start, which the
    command is told.

    It runs in the folder of the command that has started it, as a Java of that
    command's own would.
    """
    os.chdir(order.directory)
    try:
        jvm = start_jvm(order.launch, lambda text: send(lease, {"say": text}))
        return jvm, wait_for_jvm(jvm)
    except ProfileError as error:
        (problem,) = error.problems
        said = {
            "condition": problem.condition,
            "what": problem.what,
            "why": problem.why,
            "fix": problem.fix,
        }
        send(lease, {"problem": said})
        return None


@dataclass(slots=True)
class _JavaKeeper:
    order: KeeperOrder
    jvm: Jvm
    listener: socket.socket
    inode: tuple[int, int]
    address: tuple[int, str]
    lease: socket.socket | None
    lent: int = 0
    idle_since: float = field(default_factory=time.monotonic)
    waiting: list[socket.socket] = field(default_factory=list)
    is_over: bool = False

    def run(self) -> None:
        """Lend Java until it ends, is told to end, or was unused for long."""
        ended = _hear_children()
        while not self.is_over:
            heard = [self.listener, ended, *([self.lease] if self.lease else [])]
            readable, _, _ = select.select(heard, [], [], LOOK_S)
            if ended in readable:
                ended.recv(64)
            if self.lease in readable:
                self._hear_lease()
            if self.listener in readable:
                self._answer()
            self._look()

    def lend(self, *, is_new: bool) -> None:
        """Send the address of Java to the command that has taken it."""
        assert self.lease is not None
        port, secret = self.address
        self.lent += 1
        with contextlib.suppress(OSError):
            send(
                self.lease,
                {
                    "port": port,
                    "secret": secret,
                    "pid": self.jvm.process.pid,
                    "new": is_new,
                },
            )

    def _hear_lease(self) -> None:
        """Read the last message of a command. If there is none, the command has died,
        and Java is ended with all that the command was doing."""
        assert self.lease is not None
        self.lease.settimeout(ANSWER_S)
        try:
            said = receive(self.lease, bytearray())
        except (OSError, ValueError):
            said = None
        if said is None or "done" not in said or self.lent >= MOST_COMMANDS:
            kill_jvm(self.jvm.process)
            self.is_over = True
        self.lease.close()
        self.lease, self.idle_since = None, time.monotonic()

    def _answer(self) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(ANSWER_S)
        try:
            said = receive(connection, bytearray()) if _is_own(connection) else None
            if said is not None:
                self._answer_to(connection, said)
                return
        except (OSError, ValueError):
            pass
        connection.close()

    def _answer_to(self, connection: socket.socket, said: dict[str, Any]) -> None:
        if "who" in said:
            facts = {
                "java": self.jvm.process.pid,
                "keeper": os.getpid(),
                "in_use": self.lease is not None,
            }
            send(connection, {**facts, "commands": self.lent})
        elif self.lease is not None:
            send(connection, {"busy": True})
        elif said.get("take") == self.order.fingerprint:
            connection.settimeout(None)
            self.lease = connection
            self.lend(is_new=False)
            return
        elif "leave" in said or said.get("replace"):
            send(connection, {"ending": True})
            self.waiting.append(connection)  # it is closed when all is over
            self.is_over = True
            return
        else:
            send(connection, {"other": True})
        connection.close()

    def _look(self) -> None:
        status = self.jvm.process.poll()
        if status is not None:
            if self.lease is not None:
                with contextlib.suppress(OSError):
                    send(self.lease, {"ended": status})
            self.is_over = True
        elif self.lease is None:
            is_unused = time.monotonic() - self.idle_since > self.order.idle_s
            self.is_over = self.is_over or is_unused or not self._is_reachable()

    def _is_reachable(self) -> bool:
        """Whether the socket is still the one that this keeper has created: the folder
        may have been removed."""
        try:
            seen = Path(f"{self.order.name}.sock").stat()
        except OSError:
            return False
        return (seen.st_dev, seen.st_ino) == self.inode

    def close(self) -> None:
        """End Java, and remove the socket."""
        if self._is_reachable():
            Path(f"{self.order.name}.sock").unlink()
        self.listener.close()
        process = self.jvm.process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        if not self.waiting:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_S)
        kill_jvm(process)
        for connection in self.waiting:
            connection.close()


def _hear_children() -> socket.socket:
    """A socket that becomes readable whenever a child of this process ends."""
    heard, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return heard


def _is_own(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, if the system can tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    said = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return bool(struct.unpack("3i", said)[1] == os.getuid())


if __name__ == "__main__":
    main()
