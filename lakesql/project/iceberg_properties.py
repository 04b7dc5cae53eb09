"""Which table properties of Iceberg's a model may set, and with which values.

Iceberg ignores a property that it does not know, and reads every word but `true` as
`false`. So a misspelt property would be set on the table and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from lakesql.decode import Node
from lakesql.errors import ProjectError, did_you_mean, misspelt, nearest
from lakesql.project.iceberg_options import ICEBERG

Takes = Literal[
    "true or false",
    "a whole number",
    "a number of bytes",
    "a number of distinct values",
    "a number of milliseconds",
    "a share, from more than 0 to less than 1",
    "a metrics mode",
    "a text",
]


def read_iceberg_property(key: str, node: Node, text: str) -> str:
    """The value of a table property, checked; words are returned in lower case.

    Properties that are not Iceberg's pass through. Raises `ProjectError`:
    `unknown-option` for a name that looks like Iceberg's and is none, `wrong-value` for
    a value that Iceberg does not accept.
    """
    takes = _taken_by(key)
    if takes is None:
        _refuse_unknown(key, node)
        return text
    if isinstance(takes, tuple):
        return _read_word(key, node, text, takes)
    if takes == "true or false":
        return _read_word(key, node, text, ("true", "false"))
    if _VALUES[takes].match(text):
        return text
    fix = ""
    if takes in ("a number of bytes", "a number of milliseconds"):
        fix = "Write it without a unit, as Iceberg reads it."
    elif takes == "a metrics mode":
        fix = "One of none, counts, truncate(16), full."
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is not a value of '{key}', which is {takes}.",
        fix=fix,
        place=node.place,
    )


def _read_word(key: str, node: Node, text: str, words: tuple[str, ...]) -> str:
    """One of the words in lower case; Iceberg reads them case-insensitively. Raises
    `ProjectError` (`wrong-value`)."""
    if text.lower() in words:
        return text.lower()
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is not a value of '{key}'.",
        fix=did_you_mean(text, words),
        place=node.place,
    )


def _taken_by(key: str) -> Takes | tuple[str, ...] | None:
    """The values that a property takes; None if Iceberg has no such property."""
    for prefix, takes in BY_COLUMN.items():
        if key.startswith(prefix) and key != prefix:
            return takes
    return TAKES.get(key)


def _refuse_unknown(key: str, node: Node) -> None:
    """Raise `ProjectError` (`unknown-option`) for a property that Iceberg sets itself,
    or that it does not have although the name begins like Iceberg's or is nearly one of
    them."""
    if key in KEPT:
        raise ProjectError.of(
            "unknown-option",
            f"Iceberg keeps '{key}' itself: it is not a property that one sets.",
            place=node.place,
        )
    if key in _OF_OTHERS:
        return
    known = [*TAKES, *BY_COLUMN]
    if not key.lower().startswith(_PREFIXES) and not misspelt(key, known):
        return
    near = nearest(key, known)
    meant = f"Did you mean '{near}'? " if near else ""
    raise ProjectError.of(
        "unknown-option",
        f"Iceberg {ICEBERG} has no table property '{key}'.",
        why="It would be set on the table, and change nothing.",
        fix=f"{meant}One that another engine reads is set by ALTER TABLE; lakesql leaves it there.",
        place=node.place,
    )


_PREFIXES = (
    "write.",
    "read.",
    "commit.",
    "history.",
    "gc.",
    "compatibility.",
    "engine.hive.",
)
"""The prefixes of the names of Iceberg's properties."""

_OF_OTHERS = frozenset(
    {"write.py-location-provider.impl", "write.parquet.row-group-limit"}
)
"""The properties with such a prefix that pyiceberg alone reads."""

KEPT = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""The names that Iceberg reserves: it sets these properties itself."""

_VALUES: Mapping[Takes, re.Pattern[str]] = {
    "a whole number": re.compile(r"-?[0-9]{1,18}\Z"),
    "a number of bytes": re.compile(r"0*[1-9][0-9]{0,17}\Z"),
    "a number of distinct values": re.compile(r"0*[1-9][0-9]{0,17}\Z"),
    "a number of milliseconds": re.compile(r"[0-9]{1,18}\Z"),
    "a share, from more than 0 to less than 1": re.compile(r"0?\.[0-9]*[1-9][0-9]*\Z"),
    "a metrics mode": re.compile(
        r"(none|counts|full|truncate\([1-9][0-9]{0,8}\))\Z", re.IGNORECASE
    ),
    "a text": re.compile(r".*\S", re.DOTALL),
}

_FORMATS = ("parquet", "orc", "avro")
_PARQUET_CODECS = (
    "zstd",
    "snappy",
    "gzip",
    "lz4",
    "lz4_raw",
    "brotli",
    "lzo",
    "uncompressed",
)
_AVRO_CODECS = ("gzip", "zstd", "snappy", "uncompressed")
_ORC_CODECS = ("zlib", "zstd", "snappy", "lz4", "lzo", "none")
_CHANGE_MODES = ("copy-on-write", "merge-on-read")
_DISTRIBUTIONS = ("none", "hash", "range")
_ISOLATION = ("serializable", "snapshot")
_PLANNING = ("auto", "local", "distributed")

_OF_FILES: Mapping[str, Takes | tuple[str, ...]] = {
    "format.default": _FORMATS,
    "target-file-size-bytes": "a number of bytes",
    "parquet.row-group-size-bytes": "a number of bytes",
    "parquet.page-size-bytes": "a number of bytes",
    "parquet.page-version": ("v1", "v2"),
    "parquet.page-row-limit": "a whole number",
    "parquet.dict-size-bytes": "a number of bytes",
    "parquet.compression-codec": _PARQUET_CODECS,
    "parquet.compression-level": "a whole number",
    "parquet.row-group-check-min-record-count": "a whole number",
    "parquet.row-group-check-max-record-count": "a whole number",
    "avro.compression-codec": _AVRO_CODECS,
    "avro.compression-level": "a whole number",
    "orc.stripe-size-bytes": "a number of bytes",
    "orc.block-size-bytes": "a number of bytes",
    "orc.vectorized.batch-size": "a whole number",
    "orc.compression-codec": _ORC_CODECS,
    "orc.compression-strategy": ("speed", "compression"),
}
"""The properties of data files, with the prefix `write.`, and of delete files, with the
prefix `write.delete.`."""

_OF_CHANGES: Mapping[str, tuple[str, ...]] = {
    "mode": _CHANGE_MODES,
    "distribution-mode": _DISTRIBUTIONS,
    "isolation-level": _ISOLATION,
}
"""The properties that DELETE, UPDATE and MERGE each have, with a prefix such as
`write.merge.`."""

TAKES: Mapping[str, Takes | tuple[str, ...]] = {
    **{f"write.{key}": takes for key, takes in _OF_FILES.items()},
    **{f"write.delete.{key}": takes for key, takes in _OF_FILES.items()},
    **{
        f"write.{change}.{key}": takes
        for change in ("delete", "update", "merge")
        for key, takes in _OF_CHANGES.items()
    },
    "format-version": ("2", "3"),
    "comment": "a text",
    "commit.retry.num-retries": "a whole number",
    "commit.retry.min-wait-ms": "a number of milliseconds",
    "commit.retry.max-wait-ms": "a number of milliseconds",
    "commit.retry.total-timeout-ms": "a number of milliseconds",
    "commit.status-check.num-retries": "a whole number",
    "commit.status-check.min-wait-ms": "a number of milliseconds",
    "commit.status-check.max-wait-ms": "a number of milliseconds",
    "commit.status-check.total-timeout-ms": "a number of milliseconds",
    "commit.manifest.target-size-bytes": "a number of bytes",
    "commit.manifest.min-count-to-merge": "a whole number",
    "commit.manifest-merge.enabled": "true or false",
    "write.distribution-mode": _DISTRIBUTIONS,
    "write.parquet.row-group-size-track-uncompressed": "true or false",
    "write.parquet.shred-variants": "true or false",
    "write.parquet.variant-inference-buffer-size": "a whole number",
    "write.parquet.bloom-filter-max-bytes": "a number of bytes",
    "write.parquet.bloom-filter-adaptive-enabled": "true or false",
    "write.orc.bloom.filter.columns": "a text",
    "write.orc.bloom.filter.fpp": "a share, from more than 0 to less than 1",
    "write.manifest.compression-codec": _AVRO_CODECS,
    "write.manifest.compression-level": "a whole number",
    "write.delete.granularity": ("file", "partition"),
    "write.location-provider.impl": "a text",
    "write.folder-storage.path": "a text",
    "write.data.path": "a text",
    "write.metadata.path": "a text",
    "write.object-storage.enabled": "true or false",
    "write.object-storage.partitioned-paths": "true or false",
    "write.object-storage.path": "a text",
    "write.summary.partition-limit": "a whole number",
    "write.metadata.compression-codec": ("none", "gzip"),
    "write.metadata.previous-versions-max": "a whole number",
    "write.metadata.delete-after-commit.enabled": "true or false",
    "write.metadata.metrics.max-inferred-column-defaults": "a whole number",
    "write.metadata.metrics.default": "a metrics mode",
    "write.wap.enabled": "true or false",
    "write.spark.fanout.enabled": "true or false",
    "write.spark.accept-any-schema": "true or false",
    "write.spark.auto-schema-evolution.enabled": "true or false",
    "write.spark.advisory-partition-size-bytes": "a number of bytes",
    "write.upsert.enabled": "true or false",
    "read.split.target-size": "a number of bytes",
    "read.split.metadata-target-size": "a number of bytes",
    "read.split.planning-lookback": "a whole number",
    "read.split.open-file-cost": "a whole number",
    "read.split.adaptive-size.enabled": "true or false",
    "read.parquet.vectorization.enabled": "true or false",
    "read.parquet.vectorization.batch-size": "a whole number",
    "read.orc.vectorization.enabled": "true or false",
    "read.orc.vectorization.batch-size": "a whole number",
    "read.data-planning-mode": _PLANNING,
    "read.delete-planning-mode": _PLANNING,
    "schema.name-mapping.default": "a text",
    "identifier-fields.rely": "true or false",
    "compatibility.snapshot-id-inheritance.enabled": "true or false",
    "engine.hive.enabled": "true or false",
    "engine.hive.lock-enabled": "true or false",
    "gc.enabled": "true or false",
    "history.expire.max-snapshot-age-ms": "a number of milliseconds",
    "history.expire.min-snapshots-to-keep": "a whole number",
    "history.expire.max-ref-age-ms": "a number of milliseconds",
    "encryption.key-id": "a text",
    "encryption.data-key-length": "a whole number",
}
"""The values that a property takes, by name, from `org.apache.iceberg.TableProperties`.
A tuple lists the possible words."""

BY_COLUMN: Mapping[str, Takes] = {
    "write.parquet.bloom-filter-enabled.column.": "true or false",
    "write.parquet.bloom-filter-fpp.column.": "a share, from more than 0 to less than 1",
    "write.parquet.bloom-filter-ndv.column.": "a number of distinct values",
    "write.parquet.stats-enabled.column.": "true or false",
    "write.parquet.dict-encoding-enabled.column.": "true or false",
    "write.metadata.metrics.column.": "a metrics mode",
}
"""The values that properties of a single column take, by the prefix to which the
column's name is added."""
