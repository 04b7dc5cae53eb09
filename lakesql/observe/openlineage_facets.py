"""Facets of lineage that OpenLineage does not have: which offsets a batch has read, and
which batches a run tells."""

from __future__ import annotations

import attr
from openlineage.client.generated.base import InputDatasetFacet, RunFacet

from lakesql import __version__

PRODUCER = f"urn:lakesql:{__version__}"
"""Who makes the events."""

SCHEMAS = "urn:lakesql:facets:1-0-0"
"""What the schemas of these facets are called: docs/lineage_facets.json has them."""


@attr.define
class OffsetRange:
    """The records of a partition from `begin` on, where that is known, and before
    `end`."""

    partition: str
    end: int
    begin: int | None = None


@attr.define
class OffsetsFacet(InputDatasetFacet):
    """What a run has read of a dataset: offsets by partition, or the positions before
    and behind it, as JSON."""

    partitions: list[OffsetRange] = attr.field(factory=list)
    before: str | None = None
    after: str | None = None

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}#/$defs/OffsetsFacet"


@attr.define
class BatchesFacet(RunFacet):
    """The batches that a run tells, from the first to the last, of a checkpoint of
    Spark's ('' of refreshes).

    `commits` are the snapshots that they have made, `records` what has arrived in them,
    and `deadLetters` those of these that could not be used.
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
