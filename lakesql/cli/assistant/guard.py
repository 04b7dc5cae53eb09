"""The guard of a reading tool's process: whatever a project's files lead it to, it may
not write, start programs, or read outside the project."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesql.errors import UsageError

PROGRAMS = ("git", "protoc")
"""The programs that may be started, as reading a project needs them: for its former
version, and for the schemas of its streams."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Mapping[str, Sequence[tuple[int, int | None]]] = {
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
}
"""The audit events of functions that change files. For each path among an event's
arguments: its index, and the index of the directory descriptor that it is relative to,
None if there is none."""
_STARTS = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
)
_CONNECTS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto")
_OF_THE_SYSTEM = (
    "/dev",
    "/proc",
    "/sys",
    "/usr",
    "/lib",
    "/lib64",
    "/etc/localtime",
    "/etc/gitconfig",
    "/System",
)


@dataclass(frozen=True, slots=True)
class Guard:
    """Python's audit hook for a process of a reading tool, which may write only below
    `scratch`.

    `readable` are the folders of the project, and those of the programs that read it.
    If it is None, anything may be read, and connections may be opened, as clients of a
    catalog do.
    """

    scratch: Path
    readable: tuple[Path, ...] | None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises `UsageError` (`tool-guard`) if the process may not do what the audit
        event reports."""
        if event == "open":
            self._check_open(*arguments)
        elif event in _CHANGES:
            for path, folder in _CHANGES[event]:
                self._check_write(
                    arguments[path], -1 if folder is None else arguments[folder]
                )
        elif event == "subprocess.Popen":
            if Path(os.fsdecode(arguments[0])).name not in PROGRAMS:
                raise _refused("start a program")
        elif event in _STARTS:
            raise _refused("start a program")
        elif event in _CONNECTS and self.readable is not None:
            raise _refused("open a connection")

    def _check_open(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        if flags & _WRITES:
            self._check_write(path)
        elif self.readable is not None and not _is_below(
            path, (*self.readable, self.scratch)
        ):
            raise _refused(f"read {os.fsdecode(path)}, which is outside the project")

    def _check_write(self, path: Any, folder: int = -1) -> None:
        if isinstance(path, int):
            return
        whole = path
        if folder >= 0:
            whole = os.path.join(_opened_path(folder), os.fsdecode(path))  # noqa: PTH118
        if not _is_below(whole, (self.scratch, Path(os.devnull))):
            raise _refused(f"change {os.fsdecode(path)}")


def guard_process(scratch: Path, readable: Iterable[Path] | None) -> None:
    """Guard this process from now on; the hook cannot be removed. `readable` and
    `scratch` are as in `Guard`; the folders of Python and of the system are added to
    `readable`."""
    if readable is None:
        sys.addaudithook(Guard(scratch.resolve(), None))
        return
    installed = [
        *sysconfig.get_paths().values(),
        sys.prefix,
        sys.base_prefix,
        *filter(None, sys.path),
    ]
    own = Path(__file__).parents[2]
    folders = (
        *readable,
        own,
        Path(tempfile.gettempdir()),
        *map(Path, installed),
        *map(Path, _OF_THE_SYSTEM),
    )
    sys.addaudithook(
        Guard(scratch.resolve(), tuple(dict.fromkeys(map(Path.resolve, folders))))
    )


def _opened_path(folder: int) -> str:
    """The path of the directory with this file descriptor."""
    if sys.platform == "darwin":
        import fcntl

        return fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
    return str(Path(f"/proc/self/fd/{folder}").readlink())


def _is_below(path: Any, folders: Iterable[Path]) -> bool:
    real = os.path.realpath(os.fsdecode(path))
    return any(
        real == str(folder) or real.startswith(f"{folder}{os.sep}")
        for folder in folders
    )


def _refused(what: str) -> UsageError:
    return UsageError.of("tool-guard", f"A tool that only reads was about to {what}.")
