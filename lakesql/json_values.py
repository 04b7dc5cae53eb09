"""How values of tables are written in JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any


def plain(value: Any, zone: str = "") -> Any:
    """A value as one that JSON has. Others become texts: decimals, so that no digit is
    lost, times, and numbers that are not finite.

    `zone` is added to timestamps without a zone. Bytes that are no UTF-8 become base64.
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
