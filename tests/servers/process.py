"""What every test server needs: free ports, a process whose output is kept, and a
bounded wait until it answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from lakesql.progress.holder import Process

LOOPBACK = "127.0.0.1"
JAVA_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
"""A Java that starts fast and stays small."""


class Server(Protocol):
    """What can be started and stopped."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


S = TypeVar("S", bound=Server)


@contextmanager
def running(server: S) -> Iterator[S]:
    """A server from its start to its stop, which comes after a failure too."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def spawn(
    command: Sequence[str | Path],
    output: Path,
    environ: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a server whose output goes to the end of `output`. Ctrl-C in the tests does
    not reach it."""
    with output.open("ab") as file:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environ,
            process_group=0,
        )


def wait_until(
    answers: Callable[[], bool],
    process: subprocess.Popen[bytes],
    output: Path,
    within_s: float,
) -> None:
    """Return when the server answers; fail with the end of its output when it ends, or
    does not in time."""
    deadline = time.monotonic() + within_s
    while not answers():
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            stop(process)
            said = output.read_text(errors="replace")[-4000:]
            raise AssertionError(
                f"The server {'ended' if ended else f'did not answer in {within_s} s'}:\n{said}"
            )
        time.sleep(0.05)


def accepts(port: int) -> bool:
    """Whether somebody listens on a port of loopback."""
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True


def stop(process: subprocess.Popen[bytes], within_s: float = 10) -> None:
    """End a server as an operator does, and one that does not end by SIGKILL."""
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        kill(process)


def kill_all(processes: Sequence[Process], within_s: float = 30) -> None:
    """SIGKILL to those that are still there, and wait for their end.

    Only to them: numbers are given again soon, also to a thread of somebody else.
    """
    for process in processes:
        if process.is_there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.id, signal.SIGKILL)
    deadline = time.monotonic() + within_s
    while any(process.is_there for process in processes):
        assert time.monotonic() < deadline, (
            f"{processes} are still there after {within_s} s"
        )
        time.sleep(0.05)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a server as a crash does."""
    process.kill()
    process.wait()


def hear_interrupts() -> None:
    """What a shell starts in the background ignores the signal of Ctrl-C, and hands
    that on to what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
