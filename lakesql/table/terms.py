"""What a table's properties mean for its growth: sizes of files, and what a commit does
with manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.model.retention import keeps_files


@dataclass(frozen=True, slots=True)
class Terms:
    """What a table's properties mean for its growth.

    `target_bytes` is the target size of data files, `deletes_target_bytes` of delete
    files. `log` is how many earlier metadata files are kept; `merge_manifests` is the
    number of manifests from which on a commit merges them, 0 if it never does.
    `deletes_by_file`: a data file has at most one delete file, which further deletes
    replace; otherwise each commit adds one in each partition. `is_shared`: other tables
    may reference its files, so that nothing of it expires.
    """

    target_bytes: float = 268_435_456
    deletes_target_bytes: float = 67_108_864
    version: int = 2
    log: int = 100
    merge_manifests: int = 100
    deletes_by_file: bool = True
    is_shared: bool = False


def read_terms(properties: Mapping[str, str], version: int | None = None) -> Terms:
    """The meaning of a table's properties; Iceberg's defaults for those that are
    missing or no number."""
    plain = Terms(target_bytes=536_870_912)
    merges = properties.get("commit.manifest-merge.enabled", "true").lower() != "false"
    return Terms(
        target_bytes=_whole(
            properties, "write.target-file-size-bytes", int(plain.target_bytes)
        ),
        deletes_target_bytes=_whole(
            properties,
            "write.delete.target-file-size-bytes",
            int(plain.deletes_target_bytes),
        ),
        version=version or _whole(properties, "format-version", plain.version),
        log=_whole(properties, "write.metadata.previous-versions-max", plain.log),
        merge_manifests=_whole(properties, "commit.manifest.min-count-to-merge", 100)
        if merges
        else 0,
        deletes_by_file=properties.get("write.delete.granularity") != "partition",
        is_shared=keeps_files(properties),
    )


def _whole(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) else default
