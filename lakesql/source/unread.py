"""Why a stream has nothing to read (a missing folder, a pattern that matches nothing, a
topic without records), and which files of its path are not read (hidden files, files
that have changed).

A run reports it and succeeds nevertheless, as files or records may be yet to come; or
the name may be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakesql.counts import count
from lakesql.location import local_folder
from lakesql.source.origin import StreamOrigin
from lakesql.source.pattern import is_pattern, named_folder, unescape_glob

if TYPE_CHECKING:
    from lakesql.source.cluster import Offsets


def explain_no_files(glob: str) -> str:
    """The sentence that no file matches the pattern, with the local folder if that does
    not exist."""
    glob = re.sub(r"(?<!\\){([^{},\\]*)}", r"\1", glob)  # of one topic
    folder = local_folder(named_folder(glob))
    said = f"no file matches {unescape_glob(glob)}"
    if folder is None or folder.exists():
        return said
    return f"{said}: there is no {f'folder {folder}' if is_pattern(glob) else 'file or folder of this name'}"


def explain_no_records(origin: StreamOrigin, beginnings: Offsets, ends: Offsets) -> str:
    """The sentence that the topics hold no record, judged by the first offset of each
    partition and the one after its last; '' if they hold some."""
    if not ends:
        return origin.explain_none()
    if any(
        end > beginnings[topic][partition]
        for topic, parts in ends.items()
        for partition, end in parts.items()
    ):
        return ""
    return f"there is no record in {', '.join(sorted(ends))}"


SHOWN = 3
"""The maximum number of files that are named."""

_NO_DATA = re.compile(
    r"_SUCCESS|_(?:started|committed)_\d+|_metadata|_common_metadata|_spark_metadata|_temporary|_delta_log|"
    r"\..*\.crc|\.DS_Store|.*\._COPYING_"
)
"""Files and folders without rows that Spark, Hadoop and others write beside data
files."""


def explain_hidden(paths: Sequence[str]) -> str:
    """The sentence on files that are not read because a name in their path begins with
    `_` or `.`; '' if there are none.

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
    if there are none."""
    if not paths:
        return ""
    return (
        f"{count(len(paths), 'file')} changed after being read, and what is new there is not read; write it to a new "
        f"file: {_name_some(paths)}"
    )


def _name_some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"
