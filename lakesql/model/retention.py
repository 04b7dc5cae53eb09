"""What Iceberg's own properties of a table say of keeping and deleting, whoever has set
them."""

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
    """How long a table's properties keep its snapshots: of which age they are kept, and
    how many at least.

    `limits_refs`: tags and branches go too, at some age. `main_age_ms` is the age that
    the main branch says of itself: Iceberg takes it in the place of the age that an
    expiry is given.
    """

    age_ms: int | None = None
    snapshots: int | None = None
    limits_refs: bool = False
    main_age_ms: int | None = None


def keeps_files(properties: Mapping[str, str]) -> bool:
    """Whether no file of the table may be deleted, as others may have it too. Iceberg
    takes each word for `false` that is not `true` in any case."""
    return properties.get(GC_ENABLED, "true").lower() != "true"


def read_retention(
    properties: Mapping[str, str], main_age_ms: int | None = None
) -> Retention:
    """What the properties of a table say; nothing where a value is no number, which
    Iceberg refuses by itself."""
    return Retention(
        _whole(properties, SNAPSHOT_AGE),
        _whole(properties, SNAPSHOTS_KEPT),
        REF_AGE in properties,
        main_age_ms,
    )


def replaced_options(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The properties whose place an option of `expire_snapshots` takes, each with that
    option as one writes it."""
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
