"""Spark for a project on its target: which jars, which catalog, which settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lakesql.engine.jars import ensure_jars, user_cache
from lakesql.engine.java import find_java
from lakesql.engine.session import Catalog, SessionSettings, open_session
from lakesql.engine.source import Reading
from lakesql.graph.manifest import Manifest
from lakesql.project.profiles import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_FILE = "logs/spark.log"


def open_spark(manifest: Manifest, readings: Iterable[Reading], say: Callable[[str], None]) -> SparkSession:
    """A session that can read `readings`; `say` hears of what takes long. Raises `ProfileError`."""
    java = find_java(os.environ)
    home = user_cache(os.environ)
    target = manifest.target
    jars = ensure_jars(jar_needs(readings), java, home, say)
    catalog = target.catalog
    given = {"uri": catalog.uri, "warehouse": catalog.warehouse, **catalog.properties}
    return open_session(
        SessionSettings(
            app_name=f"lakesql {manifest.settings.name}",
            master=target.spark.master,
            conf=target.spark.conf,
            catalog=Catalog(catalog.name, catalog.type, {key: value for key, value in given.items() if value}),
            jars=jars,
            log_file=manifest.directory / LOG_FILE,
            home=home,
            java=java,
        )
    )


def jar_needs(readings: Iterable[Reading]) -> frozenset[str]:
    """Which groups of jars the readings need beside the core."""
    needs = {"core"}
    for reading in readings:
        if isinstance(reading.source, Kafka):
            needs.add("kafka")
        if reading.stream.format == "avro":
            needs.add("avro")
    return frozenset(needs)


def now_ms() -> int:
    """The time since the epoch."""
    return time.time_ns() // 1_000_000
