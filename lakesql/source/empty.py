"""Why a stream has nothing to read: a missing folder, a pattern that matches nothing, a
topic without records.

A run says so and succeeds all the same: the files or the records may be still to come.
Or the name is wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakesql.location import local_folder
from lakesql.source.origin import StreamOrigin
from lakesql.source.pattern import is_pattern, named_folder, unescape_glob

if TYPE_CHECKING:
    from lakesql.source.cluster import Offsets


def explain_no_files(glob: str) -> str:
    """The sentence that no file matches the pattern, with the local folder that does
    not exist, if that is why."""
    glob = re.sub(r"(?<!\\){([^{},\\]*)}", r"\1", glob)  # of one topic
    folder = local_folder(named_folder(glob))
    said = f"no file matches {unescape_glob(glob)}"
    if folder is None or folder.exists():
        return said
    return f"{said}: there is no {f'folder {folder}' if is_pattern(glob) else 'file or folder of this name'}"


def explain_no_records(origin: StreamOrigin, beginnings: Offsets, ends: Offsets) -> str:
    """The sentence that the topics hold no record, by the first offset of each
    partition and the one behind its last; '' where they hold some."""
    if not ends:
        return origin.explain_none()
    if any(
        end > beginnings[topic][partition]
        for topic, parts in ends.items()
        for partition, end in parts.items()
    ):
        return ""
    return f"there is no record in {', '.join(sorted(ends))}"
