"""Values of tables as JSON has them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any


def plain(value: Any, zone: str = "") -> Any:
    """A value as JSON has it; what it has not, as text: decimals, so that no digit is
    lost, and times.

    `zone` is written behind a time with a date that has no zone of its own. Bytes that
    are not UTF-8 are in base64.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return (
                value if value == value and abs(value) != float("inf") else str(value)
            )
        case datetime(tzinfo=None):
            return f"{value.isoformat()}{zone}"
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode()
        case Mapping():
            return {str(key): plain(item, zone) for key, item in value.items()}
        case list() | tuple():
            return [plain(item, zone) for item in value]
        case _:
            return str(value)
