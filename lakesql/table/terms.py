"""What the properties of a table say of how it grows: sizes of files, and what a commit
does with manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.model.retention import keeps_files


@dataclass(frozen=True, slots=True)
class Terms:
    """What a table's properties say of its growth.

    `target_bytes` are those of data files, `deletes_target_bytes` of delete files.
    `log` is how many earlier metadata files are kept, `merge_manifests` from how many
    manifests on a commit brings them together, 0 if it never does. `deletes_by_file`: a
    data file has one delete file at most, and another one in its place where more of it
    is deleted; otherwise each commit leaves one in each partition. `is_shared`: other
    tables may have its files too, so that nothing of it expires.
    """

    target_bytes: float = 268_435_456
    deletes_target_bytes: float = 67_108_864
    version: int = 2
    log: int = 100
    merge_manifests: int = 100
    deletes_by_file: bool = True
    is_shared: bool = False


def read_terms(properties: Mapping[str, str], version: int | None = None) -> Terms:
    """What a table's properties mean; Iceberg's defaults where they say nothing, or
    nothing that is a number."""
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
