"""What is said of files that a stream's path means and that are not read: hidden ones,
and ones that have changed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakesql.counts import count

SHOWN = 3
"""How many files are named."""

_NO_DATA = re.compile(
    r"_SUCCESS|_(?:started|committed)_\d+|_metadata|_common_metadata|_spark_metadata|_temporary|_delta_log|"
    r"\..*\.crc|\.DS_Store|.*\._COPYING_"
)
"""Files and folders that hold no rows, as Spark, Hadoop and others write them beside
those that do."""


def explain_hidden(paths: Sequence[str]) -> str:
    """The sentence on files that are not read, as a name on their path begins with `_`
    or `.`; '' where there are none.

    Files that other programs keep for themselves are not mentioned.
    """
    told = [
        path
        for path in paths
        if not any(_NO_DATA.fullmatch(part) for part in path.split("/"))
    ]
    if not told:
        return ""
    verb = "is" if len(told) == 1 else "are"
    return (
        f"{count(len(told), 'file')} of its path {verb} not read, as a name begins with '_' or '.', which hides it "
        f"from Spark: {_name_some(told)}"
    )


def explain_changed(paths: Sequence[str]) -> str:
    """The sentence on files that have grown or were replaced after they were read; ''
    where there are none."""
    if not paths:
        return ""
    return (
        f"{count(len(paths), 'file')} changed after being read, and what is new there is not read; write it to a new "
        f"file: {_name_some(paths)}"
    )


def _name_some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"
