"""The files of a batch, as Spark is about to read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def scanned_files(rows: Any) -> Iterator[tuple[str, str]]:
    """The files that an RDD is read from, as `_metadata.file_path` has them, and as URIs."""
    for rdd in _with_dependencies(rows):
        if _class_of(rdd) != "FileScanRDD":
            continue
        partitions = rdd.filePartitions()
        for number in range(partitions.size()):
            for file in partitions.apply(number).files():
                yield str(file.toPath().toString()), str(file.urlEncodedPath())


def united(rows: Any) -> list[Any]:
    """The RDDs of which one is the union, or that one alone."""
    top = rows
    while _class_of(top) in ("SQLExecutionRDD", "MapPartitionsRDD"):
        top = top.dependencies().head().rdd()
    if not _class_of(top).endswith("UnionRDD"):
        return [rows]
    return [top.rdds().apply(index) for index in range(top.rdds().size())]


def _with_dependencies(rows: Any) -> Iterator[Any]:
    todo, seen = [rows], set[int]()
    while todo:
        rdd = todo.pop()
        if int(rdd.id()) in seen:
            continue
        seen.add(int(rdd.id()))
        yield rdd
        dependencies = rdd.dependencies()
        todo += [dependencies.apply(number).rdd() for number in range(dependencies.size())]


def _class_of(rdd: Any) -> str:
    return str(rdd.getClass().getSimpleName())
