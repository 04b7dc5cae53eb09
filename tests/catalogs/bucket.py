"""Objects of a bucket, as another program writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakesql.engine.spark.gateway import java_class


class Bucket:
    """Written and removed by Hadoop, which knows where S3 is from the catalog, or from
    `conf`."""

    def __init__(
        self, session: SparkSession, url: str, conf: Mapping[str, str] | None = None
    ) -> None:
        self.url = url
        self._path = java_class("org.apache.hadoop.fs.Path")
        known = java_class("org.apache.hadoop.conf.Configuration")(
            session.sparkContext._jsc.hadoopConfiguration()
        )
        for key, value in (conf or {}).items():
            known.set(key, value)
        self._system = java_class("org.apache.hadoop.fs.FileSystem").newInstance(
            self._path(url).toUri(), known
        )

    def write(self, name: str, *ids: int) -> None:
        """An object with a line for each id."""
        stream = self._system.create(self._path(f"{self.url}/{name}"), True)
        stream.write(
            bytearray("".join(f"{json.dumps({'id': id_})}\n" for id_ in ids), "utf-8")
        )
        stream.close()

    def remove(self, name: str) -> None:
        """An object less."""
        self._system.delete(self._path(f"{self.url}/{name}"), False)
