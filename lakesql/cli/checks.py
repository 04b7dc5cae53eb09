"""The checks of `lakesql debug`, from the project's files to the brokers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lakesql.catalog.connect import check_checkpoints
from lakesql.catalog.tables import check_catalog
from lakesql.cli.options import Options, find_directory, find_outputs
from lakesql.cli.project import load_files, profile_folders, read_vars
from lakesql.cli.report import explain
from lakesql.counts import count
from lakesql.errors import LakesqlError, Problem, ProfileError, RunError, not_installed
from lakesql.graph.manifest import Manifest
from lakesql.location import local_folder
from lakesql.project.files import read_project
from lakesql.project.profiles import Target, load_target, resolve_paths
from lakesql.registry.registry_client import check_registry
from lakesql.source.kafka import Kafka
from lakesql.source.source import Source
from lakesql.stream.stream import Stream

if TYPE_CHECKING:
    from lakesql.engine.sources.binding import StreamBinding

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: a line of text, or an error.

    `warnings` are of streams that have nothing to read.
    """

    name: str
    found: str = ""
    error: LakesqlError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamFindings:
    """The result of a check of streams: a line of text, and warnings of streams that
    have nothing to read."""

    text: str
    warnings: tuple[str, ...] = ()


def check_everything(options: Options) -> Iterator[CheckResult]:
    """The results of all checks, each as soon as it is known. Checks that need the
    project or its target are left out if these have errors."""
    directory = find_directory(options)
    files = _attempt(partial(read_project, directory, find_outputs(options)))
    yield _result(
        "project", files, lambda found: f"{found.settings.name} in {directory}"
    )
    yield _result("Java", _attempt(_find_java))
    yield _result("pyspark", _attempt(_find_pyspark))
    if isinstance(files, LakesqlError):
        return
    profile, folders = files.settings.profile, profile_folders(options, directory)
    target = _attempt(
        partial(load_target, profile, options.target, folders, os.environ)
    )
    yield _result(
        "target",
        target,
        lambda found: f"{found.name} of profile {profile}, runs {found.run}",
    )
    if isinstance(target, LakesqlError):
        return
    target = resolve_paths(target, directory)
    manifest = _attempt(partial(load_files, files, target, read_vars(options.vars)))
    yield _result(
        "models",
        manifest,
        lambda found: (
            f"{count(len(found.models), 'model')}, {count(len(found.streams), 'stream')}"
        ),
    )
    declared: tuple[Stream, ...] = ()
    if not isinstance(manifest, LakesqlError):
        declared = tuple(manifest.streams.values())
        yield _result("streams", _attempt(partial(_check_streams, manifest)))
    yield _result("jars", _attempt(partial(_check_jars, target, declared)))
    if any(stream.record_format.has_messages for stream in declared):
        yield _result("Protobuf", _attempt(partial(_check_protobuf, target)))
    yield _result("catalog", _attempt(partial(check_catalog, target.catalog)))
    yield _result(
        "checkpoints",
        _attempt(partial(check_checkpoints, target.checkpoints, target.catalog)),
    )
    for name, connection in target.connections.items():
        streams = [stream for stream in declared if stream.connection == name]
        if connection.events_in == "queue":
            streams = [
                stream
                for stream in declared
                if stream.notifications and stream.notifications.connection == name
            ]
        yield _result(
            f"connection {name}",
            _attempt(partial(check_connection, connection, streams)),
        )
    for name, registry in target.registries.items():
        yield _result(f"connection {name}", _attempt(partial(check_registry, registry)))


def _attempt(check: Callable[[], T]) -> T | LakesqlError:
    try:
        return check()
    except (LakesqlError, ModuleNotFoundError) as error:
        return explain(error)


def _result(
    name: str, found: T | LakesqlError, say: Callable[[T], str] = str
) -> CheckResult:
    match found:
        case LakesqlError():
            return CheckResult(name, error=found)
        case StreamFindings(text, warnings):
            return CheckResult(name, text, warnings=warnings)
        case _:
            return CheckResult(name, say(found))


def _check_streams(manifest: Manifest) -> StreamFindings:
    """A line on the streams that models read, with warnings of those without files.
    Raises `ProfileError` with the problems of all that cannot be bound to the target,
    such as a missing connection."""
    from lakesql.run.streams.bind import bind_stream
    from lakesql.run.streams.count_files import count_files

    names = {
        reference.name
        for model in manifest.models.values()
        for reference in model.facts.streams
    }
    problems: list[Problem] = []
    warnings: list[str] = []
    for name in sorted(names & manifest.streams.keys()):
        try:
            warnings += _look_for_files(bind_stream(manifest, manifest.streams[name]))
        except LakesqlError as error:
            problems += error.problems
    if problems:
        raise ProfileError(problems)
    counted = "; ".join(count_files(manifest, names))
    shown = f" ({counted})" if counted else ""
    text = f"{len(names & manifest.streams.keys())} are read{shown}, and the target has their connections"
    return StreamFindings(text, tuple(warnings))


def _look_for_files(binding: StreamBinding) -> Iterator[str]:
    """Warnings of a stream that is read from files on this machine: that there are
    none, or that some are skipped because they are hidden."""
    from lakesql.source.local_files import local_files, local_hidden
    from lakesql.source.unread import explain_hidden, explain_no_files

    glob, name = binding.glob, binding.stream.name
    local = local_folder(glob) if glob is not None else None
    if glob is None or local is None:
        return
    if not any(local_files(str(local))):
        yield f"stream {name}: {explain_no_files(glob)}"
    if hidden := explain_hidden(local_hidden(str(local))):
        yield f"stream {name}: {hidden}"


def _find_java() -> str:
    from lakesql.engine.spark.java import find_java

    java = find_java(os.environ)
    return f"{java.version} in {java.home}"


def _find_pyspark() -> str:
    from importlib.metadata import version

    from lakesql.engine.spark.jars import spark_jars

    return f"{version('pyspark')} in {spark_jars().parent}"


def _check_jars(target: Target, streams: Sequence[Stream]) -> str:
    """A line on the jars that are present, each verified, and on how many the first run
    will fetch."""
    from lakesql.engine.spark.jars import JARS, user_cache, verify_jar
    from lakesql.run.start.spark import find_needs

    folder = user_cache(os.environ) / "jars"
    wanted = [jar for need in sorted(find_needs(target, streams)) for jar in JARS[need]]
    present = [jar for jar in wanted if (folder / jar.file).exists()]
    for jar in present:
        verify_jar(jar, folder)
    missing = len(wanted) - len(present)
    return f"{len(present)} in {folder}" + (
        f", {missing} more will be fetched by the first run" if missing else ""
    )


def _check_protobuf(target: Target) -> str:
    """A line on the programs that read Protobuf here, and on what executors elsewhere
    need. Raises `ProfileError` (`extra-missing`)."""
    from importlib.metadata import PackageNotFoundError, version

    from lakesql.registry.proto_compiler import EXTRA, compiler_version

    compiler = compiler_version()
    try:
        found = f"{compiler}, ptars {version('ptars')}, protobuf {version('protobuf')}"
    except PackageNotFoundError as error:
        raise not_installed(str(error.name), EXTRA) from None
    if target.spark.master.startswith("local"):
        return found
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    return f"{found}; not looked at: executors need {python} with ptars, protobuf and pyarrow"


def check_connection(
    connection: Source, streams: Sequence[Stream] = ()
) -> StreamFindings:
    """A line on what the connection leads to, after checking that it has what `streams`
    read through it.

    Raises `connection-unreachable`, and for a broker what `open_broker` and
    `find_topics` raise.
    """
    if (cluster := connection.cluster) is not None:
        return _check_broker(cluster, streams)
    return StreamFindings(connection.reach(streams))


def _check_broker(connection: Kafka, streams: Sequence[Stream]) -> StreamFindings:
    from lakesql.engine.sources.broker import open_broker, open_java
    from lakesql.engine.spark.jars import JARS, user_cache
    from lakesql.engine.spark.java import find_java
    from lakesql.source.cluster import reach_broker
    from lakesql.source.unread import explain_no_records

    server = reach_broker(connection.bootstrap_servers)
    jars = [user_cache(os.environ) / "jars" / jar.file for jar in JARS["kafka"]]
    if not all(jar.exists() for jar in jars):
        return StreamFindings(
            f"{server} accepts connections; more is checked once the first run has fetched the jars"
        )
    problems: list[Problem] = []
    warnings: list[str] = []
    topics: dict[str, int] = {}
    with (
        open_java(find_java(os.environ), jars) as jvm,
        open_broker(jvm, connection) as broker,
    ):
        for stream in streams:
            try:
                found = broker.find_topics(stream.origin, stream.place)
                topics |= {
                    topic.name: len(topic.partitions) for topic in found.values()
                }
                first, ends = (
                    broker.beginning_offsets(found.values()),
                    broker.log_ends(found.values()),
                )
                if nothing := explain_no_records(stream.origin, first, ends):
                    warnings.append(f"stream {stream.name}: {nothing}")
            except RunError as error:
                problems += error.problems
    if problems:
        raise RunError(problems)
    text = f"{server} answers, {len(topics)} topics with {sum(topics.values())} partitions are read"
    return StreamFindings(text, tuple(warnings))
