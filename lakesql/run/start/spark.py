"""Opens Spark for a project on its target: finds jars, catalog and settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakesql.catalog.connect import OpenCatalog, check_warehouse, open_catalog
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.spark.jars import ensure_jars, user_cache
from lakesql.engine.spark.java import find_java
from lakesql.engine.spark.session import (
    Opening,
    SessionSettings,
    check_java,
    check_warm,
    close_session,
    open_session,
)
from lakesql.engine.spark.warm import WarmPlace
from lakesql.graph.manifest import Manifest
from lakesql.observe.download import download_bars
from lakesql.project.catalog import check_block, jar_needs
from lakesql.project.profiles import Target
from lakesql.stream.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_settings(
    manifest: Manifest,
    bindings: Iterable[StreamBinding],
    say: Callable[[str], None],
    is_brief: bool = False,
    *,
    is_shared: bool = False,
) -> SessionSettings:
    """The settings of a session that reads `bindings` and writes: finds Java, and
    fetches missing jars, for which `say` is called.

    `is_brief` is for a session of some ten seconds. With `is_shared`, if the target
    sets `warm`, Java is taken over from the previous command and left to the next one;
    it then has the jars for all streams of the project, and `is_brief` is ignored.

    Raises `ProfileError`.
    """
    return find_settings(
        manifest,
        [binding.stream for binding in bindings],
        say,
        is_brief,
        is_shared=is_shared,
    )


def find_settings(
    manifest: Manifest,
    streams: Iterable[Stream],
    say: Callable[[str], None],
    is_brief: bool,
    *,
    is_shared: bool = False,
) -> SessionSettings:
    """`session_settings` for streams that are not bound to connections yet."""
    target = manifest.target
    warm = warm_place(manifest) if is_shared else None
    if warm is not None:
        streams, is_brief = manifest.streams.values(), False
    check_block(target.catalog)
    java = find_java(os.environ)
    home = user_cache(os.environ)
    with download_bars() as show:
        jars = ensure_jars(find_needs(target, streams), home, say, show=show)
    return SessionSettings(
        app_name=f"lakesql {manifest.settings.name}",
        master=target.spark.master,
        conf=target.spark.conf,
        places=target.spark.places,
        catalog=target.catalog,
        jars=jars,
        log_file=manifest.outputs.spark_log,
        home=home,
        java=java,
        is_brief=is_brief,
        warm=warm,
    )


def warm_place(manifest: Manifest) -> WarmPlace | None:
    """Where one command leaves Java running for the next one; None if the target does
    not set `warm`."""
    idle = manifest.target.spark.warm
    if idle is None:
        return None
    return WarmPlace(
        manifest.outputs.warm,
        (quote(manifest.target.name, safe=""),),
        idle.length_ms / 1000,
    )


@contextmanager
def open_spark(
    settings: SessionSettings,
    say: Callable[[str], None] = lambda text: None,
    ahead: Opening | None = None,
) -> Iterator[tuple[SparkSession, OpenCatalog]]:
    """Yields a Spark session, which ends with the block, and the catalog opened without
    Spark. `say` and `ahead` are those of `open_session`.

    Raises `ProfileError`; and `RunError` (`java-ended`) in place of whatever the block
    raises if Java has ended meanwhile.
    """
    opened: list[OpenCatalog] = []

    def reach_catalog() -> None:
        check_warehouse(settings.catalog)
        opened.append(open_catalog(settings.catalog))

    with _open(settings, reach_catalog, say, ahead) as session:
        yield session, opened[0]


@contextmanager
def open_spark_alone(
    settings: SessionSettings, say: Callable[[str], None] = lambda text: None
) -> Iterator[SparkSession]:
    """Yields a Spark session for a command that reads no table; it ends with the block.
    The catalog is not opened, which saves importing its client. Raises what
    `open_spark` raises."""
    with _open(settings, lambda: None, say, None) as session:
        yield session


@contextmanager
def _open(
    settings: SessionSettings,
    meanwhile: Callable[[], None],
    say: Callable[[str], None],
    ahead: Opening | None,
) -> Iterator[SparkSession]:
    session = open_session(settings, meanwhile, say, ahead)
    is_broken_off = True
    try:
        yield session
        check_warm()
        is_broken_off = False
    except Exception:
        check_java()
        is_broken_off = False
        raise
    finally:
        close_session(session, is_broken_off=is_broken_off)


def find_needs(target: Target, streams: Iterable[Stream]) -> frozenset[str]:
    """The groups of jars needed to read the streams on the target, and to write
    there."""
    needs = set(jar_needs(target))
    for stream in streams:
        events = (
            target.connections.get(stream.notifications.connection)
            if stream.notifications
            else None
        )
        if (connection := target.connections.get(stream.connection)) is not None:
            needs |= connection.as_asked(stream, events).jars
        needs |= stream.record_format.jars | stream.key_record_format.jars
    return frozenset(needs)
