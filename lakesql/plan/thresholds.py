"""The limits above which figures of a table are not healthy, for all that reports on
them or acts on them."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """The limits of a figure: above `watch` somebody should look at it, above `ill`
    somebody must act."""

    watch: float
    ill: float


AVERAGE_SMALL_FILES = Bound(50, 500)
"""The average number of small data files in a partition: a reader of the partition
opens each of them."""

COMPACTION_LAG_MS = Bound(86_400_000, 7 * 86_400_000)
"""The age of the oldest data that is not compacted: a day, a week. It counts only if
there is enough to compact."""

DELETE_RATIO = Bound(0.1, 0.3)
"""The share of the rows in data files that is deleted: readers read these rows and
discard them."""

DELETE_FILES_PER_DATA_FILE = Bound(1, 10)
"""The number of delete files for each data file: a reader of a data file opens those
that may apply to it."""

FEW_DELETE_FILES = 10
"""The number of delete files up to which neither limit on deletes counts: a table of
few small files is read quickly, whatever is deleted in it."""

METADATA_BYTES = Bound(16_000_000, 256_000_000)
"""The size of the metadata that a reader needs to find the table's files, and of which
each commit writes a part anew."""

DEAD_LETTER_RATIO = Bound(0.01, math.inf)
"""The share of dead letters in dead letters and rows of the last hour. It is never
`ill` by itself: a model that groups writes few rows of many records, so that only its
author can know which share is too high."""

LATE_RATIO = DEAD_LETTER_RATIO
"""The share of events that a watermark dropped, likewise."""
