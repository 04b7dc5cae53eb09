"""The encodings of records' text: UTF-8, one byte a character or, for CSV files, UTF-16
and UTF-32."""

from __future__ import annotations

import codecs
from functools import cache

UTF_8 = "utf-8"

_WIDE = {
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32": "UTF-32",
}
"""Encodings in which a byte of ASCII may be a part of any character, with Java's
names."""


def find_encoding(name: str) -> str | None:
    """Python's name of an encoding that lakesql reads, by any of its names; None for
    any other encoding."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return found if found == UTF_8 or found in _WIDE or _is_single_byte(found) else None


def is_wide(encoding: str) -> bool:
    """Whether a byte of ASCII may be a part of any character in this encoding."""
    return encoding in _WIDE


def java_name(encoding: str) -> str:
    """Java's name of a wide encoding."""
    return _WIDE[encoding]


@cache
def characters(encoding: str) -> str:
    """The characters of the 256 bytes in an encoding of one byte a character; U+FFFD
    for a byte that is none."""
    return "".join(
        bytes([byte]).decode(encoding, errors="replace") for byte in range(256)
    )


def _is_single_byte(encoding: str) -> bool:
    """Whether each byte is one character in this encoding, and ASCII is unchanged."""
    try:
        found = characters(encoding)
    except (LookupError, UnicodeError):  # one that is no encoding of texts
        return False
    is_ascii = found[:128] == bytes(range(128)).decode("ascii")
    return (
        len(found) == 256
        and is_ascii
        and "escape" not in encoding
        and found.count("\ufffd") < 64
    )
