"""A Java with Kafka's clients alone, by which a cluster is asked where no Spark
runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def open_kafka(say: Callable[[str], None] = lambda _: None) -> Iterator[Any]:
    """A JVM with Kafka's clients alone, which starts in half a second. `say` hears of
    jars that are fetched first, as they show in the terminal."""
    # Only here: what asks a cluster is not loaded for a project that declares all of
    # its streams.
    from lakesql.engine.sources.broker import open_java
    from lakesql.engine.spark.jars import ensure_jars, user_cache
    from lakesql.engine.spark.java import find_java
    from lakesql.observe.download import download_bars

    java = find_java(os.environ)
    with download_bars() as show:
        jars = ensure_jars(frozenset({"kafka"}), user_cache(os.environ), say, show=show)
    with open_java(java, jars) as jvm:
        yield jvm
