"""Which snapshots of a table an expiry removes: by their age, and by their number."""

from __future__ import annotations

from lakesql.project.procedures import LEAST_EXPIRY_MS, ExpireSnapshots
from lakesql.table.metadata import TableMetadata


def count_old(metadata: TableMetadata, options: ExpireSnapshots, now_ms: int) -> int:
    """How many snapshots an expiry would remove."""
    return count_older(metadata, options, expires_before_ms(metadata, options, now_ms))


def count_older(metadata: TableMetadata, options: ExpireSnapshots, before_ms: int) -> int:
    """How many snapshots from before a time an expiry would remove."""
    newest = metadata.history[: snapshots_kept(metadata, options)]
    kept = {each.id for each in newest} | set(metadata.refs.values())
    return sum(each.at_ms < before_ms and each.id not in kept for each in metadata.snapshots.values())


def snapshots_kept(metadata: TableMetadata, options: ExpireSnapshots) -> int:
    """How many snapshots stay, however old they are: what keeps more counts, the option or the table's property."""
    return max(options.retain_last, metadata.retention.snapshots or 0)


def expires_before_ms(metadata: TableMetadata, options: ExpireSnapshots, now_ms: int) -> int:
    """Before which time snapshots expire: by their age, or as they are too many.

    Of the ages that the option, the table's property and its branch main say, the longest one counts; one that the
    table says is kept, however many these are.
    """
    said_ms = max(metadata.retention.age_ms or 0, metadata.retention.main_age_ms or 0)
    by_age = now_ms - max(options.older_than.length_ms, said_ms)
    if said_ms >= options.older_than.length_ms:
        return by_age
    if options.most is None or len(metadata.history) <= options.most:
        return by_age
    by_count = metadata.history[options.most - 1].at_ms
    return max(by_age, min(by_count, now_ms - LEAST_EXPIRY_MS))


def goes_further(metadata: TableMetadata, options: ExpireSnapshots, before_ms: int, now_ms: int) -> bool:
    """Whether Iceberg would expire more than it is told to: it goes by the age that the branch main says of itself."""
    age_ms = metadata.retention.main_age_ms
    if age_ms is None or now_ms - age_ms <= before_ms:
        return False
    return count_older(metadata, options, now_ms - age_ms) > count_older(metadata, options, before_ms)
