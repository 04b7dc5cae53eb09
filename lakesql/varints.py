"""How whole numbers of variable length are read: seven bits a byte, the lowest first,
and a bit that says whether more bytes follow."""

from __future__ import annotations


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of at most 64 bits that begins at position `at`, and the
    position after it.

    Raises `ValueError` if the content ends within it, or if it is longer.
    """
    number = shift = 0
    while at < len(content) and shift < 64:
        byte, at = content[at], at + 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise ValueError("it is cut short")
