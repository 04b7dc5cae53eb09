"""What time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The time at which a command is at work."""
    return datetime.fromtimestamp(now_ms() / 1000, UTC)


def now_ms() -> int:
    """The time of an event that happens now."""
    return time.time_ns() // 1_000_000
