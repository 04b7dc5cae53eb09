"""A MariaDB with its own files that writes a binary log, as Debezium reads one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers.process import LOOPBACK, free_ports, spawn, stop, wait_until

USER, PASSWORD = "debezium", "the password of the tests"
STARTS_WITHIN_S = 60
_SYSTEM_USER = "mysql"
"""MariaDB does not run as root: then it runs as this user."""


def has_mariadb() -> bool:
    """Whether this machine has one: Debian's package `mariadb-server`."""
    return _find("mariadbd") is not None


class MariaDb:
    """Started and stopped on the same port and the same files. It has the database
    `shop`."""

    def __init__(self) -> None:
        # Not where pytest keeps its folders: no other user may enter those.
        self._directory = tempfile.TemporaryDirectory(prefix="lakesql-mariadb-")
        directory = Path(self._directory.name)
        self._data, self._output, self._socket = (
            directory / "data",
            directory / "mariadb.log",
            directory / "socket",
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user: tuple[str, ...] = ()
        if os.getuid() == 0:
            self._as_user = (f"--user={_SYSTEM_USER}",)
            shutil.chown(directory, _SYSTEM_USER)
        (self.port,) = free_ports(1)
        # Rights of its own for whom the files belong to, and none for anybody else.
        options = [
            "--no-defaults",
            f"--datadir={self._data}",
            *self._as_user,
            "--auth-root-authentication-method=normal",
        ]
        _run([_program("mariadb-install-db"), *options, "--skip-test-db"])

    def start(self) -> None:
        """Return when it answers: in a second."""
        is_new = not (self._data / "shop").exists()
        options = {
            "datadir": self._data,
            "socket": self._socket,
            "port": self.port,
            "bind-address": LOOPBACK,
            "server-id": 7,
            "log-bin": "bin",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "innodb-buffer-pool-size": "32M",
            "innodb-flush-log-at-trx-commit": 0,
            "character-set-server": "utf8mb4",
            "default-time-zone": "+00:00",
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        self._process = spawn(
            [_program("mariadbd"), "--no-defaults", *flags, *self._as_user],
            self._output,
        )
        wait_until(self._answers, self._process, self._output, STARTS_WITHIN_S)
        if is_new:
            self.execute(
                "CREATE DATABASE shop",
                f"CREATE USER {USER}@'{LOOPBACK}' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT ALL ON *.* TO {USER}@'{LOOPBACK}'",
                database="mysql",
            )

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def execute(self, *statements: str, database: str = "shop") -> None:
        """Statements in one session, each a transaction of its own unless they say
        otherwise."""
        self._query(";\n".join(statements), database)

    def rows(self, query: str) -> list[list[Any]]:
        """The rows of a query for one column, which is a JSON array."""
        return [json.loads(line) for line in self._query(query, "shop").splitlines()]

    def _query(self, text: str, database: str) -> str:
        login = [
            "--no-defaults",
            f"--socket={self._socket}",
            "--user=root",
            "--default-character-set=utf8mb4",
        ]
        command = [
            _program("mariadb"),
            *login,
            "--batch",
            "--raw",
            "--skip-column-names",
            database,
        ]
        return _run(command, text)

    def _answers(self) -> bool:
        try:
            self._query("SELECT 1", "mysql")
        except AssertionError:
            return False
        return True


def _program(name: str) -> str:
    found = _find(name)
    assert found is not None, f"there is no {name}: apt-get install mariadb-server"
    return found


def _find(name: str) -> str | None:
    """Debian keeps servers where not everybody looks for programs."""
    return shutil.which(
        name,
        path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"]),
    )


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
