"""Java's classes, as Python reaches them in the session's own Java."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext


def java_class(name: str) -> Any:
    """A class of Java's by its whole name. `session._jvm.org.apache…` asks Java at each dot, and Java all its jars."""
    gateway = SparkContext._gateway
    assert gateway is not None
    return JavaClass(name, gateway._gateway_client)
