"""What `lakesql debug` looks at, from the project's files to the brokers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, assert_never

from lakesql.cli.options import Options, find_directory
from lakesql.cli.project import load_files, profile_folders, read_vars
from lakesql.cli.report import explain
from lakesql.errors import LakesqlError, ProfileError
from lakesql.project.files import read_project
from lakesql.project.profiles import (
    Catalog,
    Connection,
    Files,
    Kafka,
    Rate,
    Recorded,
    Target,
    load_target,
    resolve_paths,
)

T = TypeVar("T")
CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one check found: a line, or the error that says what is wrong."""

    name: str
    found: str = ""
    error: LakesqlError | None = None


def check_everything(options: Options) -> Iterator[Result]:
    """The results of all checks, each as soon as it is there. What needs the project or its target waits for those."""
    directory = find_directory(options)
    files = _attempt(partial(read_project, directory))
    yield _result("project", files, lambda found: f"{found.settings.name} in {directory}")
    yield _result("Java", _attempt(_find_java))
    yield _result("pyspark", _attempt(_find_pyspark))
    if isinstance(files, LakesqlError):
        return
    profile, folders = files.settings.profile, profile_folders(options, directory)
    target = _attempt(partial(load_target, profile, options.target, folders, os.environ))
    yield _result("target", target, lambda found: f"{found.name} of profile {profile}, runs {found.run}")
    if isinstance(target, LakesqlError):
        return
    target = resolve_paths(target, directory)
    manifest = _attempt(partial(load_files, files, target, read_vars(options.vars)))
    yield _result("models", manifest, lambda found: f"{len(found.models)}, of {len(found.streams)} streams")
    formats = () if isinstance(manifest, LakesqlError) else {stream.format for stream in manifest.streams.values()}
    yield _result("jars", _attempt(partial(_check_jars, target, formats)))
    yield _result("catalog", _attempt(partial(_check_catalog, target.catalog)))
    yield _result("checkpoints", _attempt(partial(_check_checkpoints, target)))
    for name, connection in target.connections.items():
        yield _result(f"connection {name}", _attempt(partial(check_connection, connection)))


def _attempt(check: Callable[[], T]) -> T | LakesqlError:
    try:
        return check()
    except (LakesqlError, ModuleNotFoundError) as error:
        return explain(error)


def _result(name: str, found: T | LakesqlError, say: Callable[[T], str] = str) -> Result:
    return Result(name, error=found) if isinstance(found, LakesqlError) else Result(name, say(found))


def _find_java() -> str:
    from lakesql.engine.java import find_java

    java = find_java(os.environ)
    return f"{java.version} in {java.home}"


def _find_pyspark() -> str:
    from importlib.metadata import version

    from lakesql.engine.jars import spark_jars

    folder = spark_jars().parent
    return f"{version('pyspark')} in {folder}"


def _check_jars(target: Target, formats: Collection[str]) -> str:
    """Which jars are there, each verified; the others are fetched by the first run."""
    from lakesql.engine.jars import JARS, user_cache, verify_jar
    from lakesql.project.iceberg import jar_needs

    kafka = any(isinstance(connection, Kafka) for connection in target.connections.values())
    needs = {*jar_needs(target), *(["kafka"] if kafka else []), *(["avro"] if "avro" in formats else [])}
    folder = user_cache(os.environ) / "jars"
    wanted = [jar for need in sorted(needs) for jar in JARS[need]]
    present = [jar for jar in wanted if (folder / jar.file).exists()]
    for jar in present:
        verify_jar(jar, folder)
    missing = len(wanted) - len(present)
    return f"{len(present)} in {folder}" + (f", {missing} more will be fetched by the first run" if missing else "")


def _check_catalog(catalog: Catalog) -> str:
    from lakesql.catalog.tables import check_catalog

    return check_catalog(catalog)


def _check_checkpoints(target: Target) -> str:
    from lakesql.catalog.connect import check_checkpoints

    return check_checkpoints(target.checkpoints, target.catalog)


def check_connection(connection: Connection) -> str:
    """A line on what the connection points to. Raises `ProfileError` (`connection-unreachable`)."""
    match connection:
        case Recorded(path) | Files(path):
            return _check_folder(path)
        case Kafka(servers):
            return _check_brokers(servers)
        case Rate(rows):
            return f"{rows} rows a second, made by Spark"
        case _:
            assert_never(connection)


def _check_folder(path: str) -> str:
    if "://" in path:
        return f"{path}, which the first run will try"
    if not Path(path).is_dir():
        raise _unreachable(
            f"There is no folder {path}.", "Make it, or correct the connection's `path` in profiles.yml."
        )
    return path


def _check_brokers(servers: str) -> str:
    """Whether one of the brokers takes a connection; a client needs one to find the others."""
    failures = []
    for server in (part.strip() for part in servers.split(",")):
        host, _, port = server.rpartition(":")
        if not port.isdecimal():
            failures.append(f"{server}: no port")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            return f"{server} answers"
        except (OSError, OverflowError) as error:
            failures.append(f"{server}: {error}")
    raise _unreachable(
        f"No broker answers at {servers}.",
        "Start the broker, or correct `bootstrap_servers` in profiles.yml.",
        why="; ".join(failures),
    )


def _unreachable(what: str, fix: str, why: str = "") -> ProfileError:
    return ProfileError.of("connection-unreachable", what, why=why, fix=fix)
