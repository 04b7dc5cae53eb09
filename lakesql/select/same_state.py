"""Whether Spark's state of one SELECT can be continued by another, by the text that is
written beside it."""

from __future__ import annotations

STATE_PARTS = "-"
"""The separator of the parts of the text: shape, filters, types, and the shape without
the names of CTEs."""

UNKNOWN_TYPES = "?"
"""What is written for a part of the state whose types are not all known without
Spark."""


def is_same_state(written: str, now: str) -> bool:
    """Whether the state with the text `written` can be continued by a SELECT with the
    text `now`. Former versions of lakesql wrote only the first parts."""
    if written == now:
        return True
    if not (written and now):
        return False
    was, is_ = written.split(STATE_PARTS), now.split(STATE_PARTS)
    is_same_shape = was[0] == is_[0] or (len(was) > 3 and was[3:] == is_[3:])
    return (
        is_same_shape
        and was[1:2] in ([], is_[1:2])
        and (len(was) < 3 or _is_same_types(was[2], is_[2]))
    )


def _is_same_types(written: str, now: str) -> bool:
    """Whether all parts whose types are known in both texts have the same types."""
    former, parts = written.split(","), now.split(",")
    if len(former) != len(parts):
        return False
    return all(
        was == is_ or UNKNOWN_TYPES in (was, is_)
        for was, is_ in zip(former, parts, strict=True)
    )
