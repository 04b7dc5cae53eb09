"""lakesql's own facets of OpenLineage's events: which offsets a run has read, and which
batches it consists of."""

from __future__ import annotations

import attr
from openlineage.client.generated.base import InputDatasetFacet, RunFacet

from lakesql import __version__

PRODUCER = f"urn:lakesql:{__version__}"
"""The producer that is named in events."""

SCHEMAS = "urn:lakesql:facets:1-0-0"
"""The id of the schemas of these facets, which are in docs/lineage_facets.json."""


@attr.define
class OffsetRange:
    """A range of offsets of a partition: from `begin`, None if unknown, to `end`,
    exclusively."""

    partition: str
    end: int
    begin: int | None = None


@attr.define
class OffsetsFacet(InputDatasetFacet):
    """What a run has read of a dataset: offsets by partition, or the positions before
    and after it, as JSON."""

    partitions: list[OffsetRange] = attr.field(factory=list)
    before: str | None = None
    after: str | None = None

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}#/$defs/OffsetsFacet"


@attr.define
class BatchesFacet(RunFacet):
    """The batches of a run, from the first to the last, in a checkpoint of Spark's (''
    for refreshes).

    `commits` counts the snapshots that they made, `records` the records that they read,
    and `deadLetters` those of these that became dead letters.
    """

    checkpoint: str
    firstBatch: int  # noqa: N815  as OpenLineage writes names
    lastBatch: int  # noqa: N815
    commits: int
    records: int
    deadLetters: int  # noqa: N815

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}#/$defs/BatchesFacet"
