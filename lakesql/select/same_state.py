"""Whether state that Spark has kept for one SELECT can be continued by another: the
text that is written beside it."""

from __future__ import annotations

STATE_PARTS = "-"
"""What stands between the parts of the text: shape, filters, types, and the shape
whatever CTEs are called."""

UNKNOWN_TYPES = "?"
"""What stands for a part of the state of which not all types are known without
Spark."""


def is_same_state(written: str, now: str) -> bool:
    """Whether state that was `written` can be continued `now`. Former versions wrote
    the first parts alone."""
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
    """Whether the parts whose types are known in both have the same."""
    former, parts = written.split(","), now.split(",")
    if len(former) != len(parts):
        return False
    return all(
        was == is_ or UNKNOWN_TYPES in (was, is_)
        for was, is_ in zip(former, parts, strict=True)
    )
