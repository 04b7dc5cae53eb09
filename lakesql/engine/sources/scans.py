"""The files of a batch, from the plan or the RDD with which Spark is about to read
them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakesql.engine.spark.gateway import java_class


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that Spark has listed for a batch, with its path as Hadoop writes it."""

    path: str
    length: int
    modified_ms: int


_STATUS = re.compile(
    r"\{path=(.*); isDirectory=false; length=(\d+); .*?modification_time=(\d+);",
    re.DOTALL,
)
"""Hadoop's status of a file as text."""


def listed_files(execution: Any) -> list[ListedFile]:
    """The files that a batch of a streaming query has listed, even if it does not read
    them."""
    leaves, found = execution.analyzed().collectLeaves(), []
    for number in range(leaves.size()):
        if str(leaves.apply(number).nodeName()) != "LogicalRelation":
            continue
        relation = leaves.apply(number).relation()
        # one call of Java for all files
        if _class_of(relation) == "HadoopFsRelation":
            found += str(relation.location().allFiles().mkString("\0")).split("\0")
    matches = (_STATUS.search(text) for text in found)
    return [
        ListedFile(match[1], int(match[2]), int(match[3])) for match in matches if match
    ]


def uri_of(path: str) -> str:
    """The URI of a file as Spark writes it in `_metadata.file_path`."""
    uri = str(java_class("org.apache.hadoop.fs.Path")(path).toUri().toString())
    return uri.replace("file:/", "file:///", 1) if re.match("file:/(?!/)", uri) else uri


def scanned_files(rows: Any) -> Iterator[tuple[str, str]]:
    """The files that an RDD reads, each as in `_metadata.file_path` and as a URI."""
    for file in _partitioned_files(rows):
        uri = str(file.urlEncodedPath())
        yield _as_read(uri), uri


def _as_read(uri: str) -> str:
    """The URI of a file as `_metadata.file_path` has it in the rows that are read."""
    return uri.replace("file:///", "file:/", 1)


def _partitioned_files(rows: Any) -> Iterator[Any]:
    """The files, or parts of files, that an RDD reads."""
    for rdd in _with_dependencies(rows):
        if _class_of(rdd) != "FileScanRDD":
            continue
        partitions = rdd.filePartitions()
        for number in range(partitions.size()):
            yield from partitions.apply(number).files()


def scanned_times(rows: Any) -> Iterator[tuple[str, int]]:
    """The files that an RDD reads, as in `_metadata.file_path`, each with the time of
    its last change in milliseconds since the epoch."""
    for file in _partitioned_files(rows):
        yield _as_read(str(file.urlEncodedPath())), int(file.modificationTime())


def united(rows: Any) -> list[Any]:
    """The RDDs of which the given one is the union; only itself if it is none."""
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
        todo += [
            dependencies.apply(number).rdd() for number in range(dependencies.size())
        ]


def _class_of(rdd: Any) -> str:
    return str(rdd.getClass().getSimpleName())
