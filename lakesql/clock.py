"""The time now, and times in milliseconds since the epoch."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The time now, in UTC."""
    return datetime.fromtimestamp(now_ms() / 1000, UTC)


def now_ms() -> int:
    """The time now, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def epoch_ms(at: datetime) -> int:
    """A time with a zone, in milliseconds since the epoch."""
    return round(at.timestamp() * 1000)
