"""Spark for a project on its target: which jars, which catalog, which settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog, check_warehouse, open_catalog
from lakesql.engine.jars import ensure_jars, user_cache
from lakesql.engine.java import find_java
from lakesql.engine.session import SessionSettings, open_session
from lakesql.engine.source import Reading
from lakesql.graph.manifest import Manifest
from lakesql.project.iceberg import jar_needs
from lakesql.project.profiles import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_FILE = "logs/spark.log"


def open_spark(
    manifest: Manifest, readings: Iterable[Reading], say: Callable[[str], None]
) -> tuple[SparkSession, OpenCatalog]:
    """A session that can read `readings`, and the catalog without Spark; `say` hears of what takes long.

    Raises `ProfileError`.
    """
    java = find_java(os.environ)
    home = user_cache(os.environ)
    target = manifest.target
    jars = ensure_jars(jar_needs(target) | reading_needs(readings), java, home, say)
    settings = SessionSettings(
        app_name=f"lakesql {manifest.settings.name}",
        master=target.spark.master,
        conf=target.spark.conf,
        catalog=target.catalog,
        jars=jars,
        log_file=manifest.directory / LOG_FILE,
        home=home,
        java=java,
    )
    opened: list[OpenCatalog] = []

    def reach_catalog() -> None:
        check_warehouse(target.catalog)
        opened.append(open_catalog(target.catalog))

    session = open_session(settings, reach_catalog)
    return session, opened[0]


def reading_needs(readings: Iterable[Reading]) -> frozenset[str]:
    """Which groups of jars the readings need beside those."""
    needs: set[str] = set()
    for reading in readings:
        if isinstance(reading.source, Kafka):
            needs.add("kafka")
        if reading.stream.format == "avro":
            needs.add("avro")
    return frozenset(needs)


def now_ms() -> int:
    """The time since the epoch."""
    return time.time_ns() // 1_000_000
