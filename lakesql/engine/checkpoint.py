"""Spark's checkpoint of a query: its id, and the source positions that it planned for a batch."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def read_checkpoint_id(session: SparkSession, folder: str) -> str:
    """The id that Spark gave the checkpoint when it made it: a checkpoint that is made anew has another one."""
    return str(json.loads(_read_text(session, f"{folder}/metadata"))["id"])


def read_offsets(session: SparkSession, folder: str, batch: int) -> list[Any]:
    """Where each source stands after `batch`, in the order of the query's sources: Spark writes it before the batch.

    The file is a version line, a line of metadata, then one line of JSON a source; `-` is a source without a position.
    """
    lines = _read_text(session, f"{folder}/offsets/{batch}").splitlines()[2:]
    return [None if line == "-" else json.loads(line) for line in lines]


def _read_text(session: SparkSession, path: str) -> str:
    jvm: Any = session._jvm
    file = jvm.org.apache.hadoop.fs.Path(path)
    stream = file.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).open(file)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
