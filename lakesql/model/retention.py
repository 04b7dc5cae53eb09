"""Iceberg's table properties on how long snapshots, refs and files are kept, whoever
has set them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesql.project.duration import interval_text

GC_ENABLED = "gc.enabled"
SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
SNAPSHOTS_KEPT = "history.expire.min-snapshots-to-keep"
REF_AGE = "history.expire.max-ref-age-ms"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a table's snapshots are kept by its properties: to which age, and how
    many at least; None where no property says so.

    `limits_refs`: tags and branches expire at some age too. `main_age_ms` is the age
    that is set for the main branch, which Iceberg uses instead of the one given to an
    expiry.
    """

    age_ms: int | None = None
    snapshots: int | None = None
    limits_refs: bool = False
    main_age_ms: int | None = None


def keeps_files(properties: Mapping[str, str]) -> bool:
    """Whether, by `gc.enabled`, no file of the table may be deleted, as other tables
    may use it. Like Iceberg, every value but `true`, in any case, counts as false."""
    return properties.get(GC_ENABLED, "true").lower() != "true"


def read_retention(
    properties: Mapping[str, str], main_age_ms: int | None = None
) -> Retention:
    """The retention in a table's properties. Values that are no numbers are ignored, as
    Iceberg refuses them itself."""
    return Retention(
        _whole(properties, SNAPSHOT_AGE),
        _whole(properties, SNAPSHOTS_KEPT),
        REF_AGE in properties,
        main_age_ms,
    )


def replaced_options(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The given properties that an option of `expire_snapshots` replaces, each with
    that option as it is to be written."""
    if SNAPSHOT_AGE in properties:
        age_ms = _whole(properties, SNAPSHOT_AGE)
        yield (
            SNAPSHOT_AGE,
            f"'older_than': '{interval_text(age_ms) if age_ms else '5 days'}'",
        )
    if SNAPSHOTS_KEPT in properties:
        yield (
            SNAPSHOTS_KEPT,
            f"'retain_last': {_whole(properties, SNAPSHOTS_KEPT) or 20}",
        )


def _whole(properties: Mapping[str, str], key: str) -> int | None:
    text = properties.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None
