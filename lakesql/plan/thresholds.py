"""From which figures on a table is not well: one place for what reports and acts on
it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """Above `watch` somebody should look at a figure, above `ill` somebody must act."""

    watch: float
    ill: float


AVERAGE_SMALL_FILES = Bound(50, 500)
"""Small data files in a partition, on average: each is opened by a reader of the
partition."""

COMPACTION_LAG_MS = Bound(86_400_000, 7 * 86_400_000)
"""Age of the oldest data that is not compacted: a day, a week. It counts where there is
enough to compact."""

DELETE_RATIO = Bound(0.1, 0.3)
"""Rows that are deleted and still in data files, as a share of all rows in data files:
each is read and left out."""

DELETE_FILES_PER_DATA_FILE = Bound(1, 10)
"""A reader of a data file opens the delete files that may apply to it."""

FEW_DELETE_FILES = 10
"""Up to so many delete files are no reason: a table of few small files is read at once,
whatever is deleted in it."""

METADATA_BYTES = Bound(16_000_000, 256_000_000)
"""What a reader reads before it knows the table's files, and of which each commit
writes a part anew."""

DEAD_LETTER_RATIO = Bound(0.01, math.inf)
"""Dead letters as a share of dead letters and rows, over the last hour. A model that
groups writes few rows of many records, so only its author can say what is too much."""

LATE_RATIO = DEAD_LETTER_RATIO
"""The same for events that a watermark has dropped."""
