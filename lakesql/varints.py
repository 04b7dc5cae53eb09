"""Whole numbers of variable length: seven bits a byte, the lowest first, and a bit that
says whether more follow."""

from __future__ import annotations


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """A number without a sign, of 64 bits at most, from a place on, and the place
    behind it.

    Raises `ValueError` where it is cut short, or longer.
    """
    number = shift = 0
    while at < len(content) and shift < 64:
        byte, at = content[at], at + 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise ValueError("it is cut short")
