"""Which numbers a decimal of some scale holds without losing digits."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

Decimals = Literal["exact", "round"]

MAX_DIGITS = 38


def is_exact(text: Column, scale: int) -> Column:
    """Whether the text is a number in digits that a decimal of this scale holds without
    losing any of them."""
    digits = r"\p{Nd}"
    # Most texts are so: the others have white space, an exponent or too many digits.
    is_plain = text.rlike(rf"^[-+]?{digits}*(?:\.{digits}{{0,{scale}}}0*)?$")
    shape = rf"^[-+]?({digits}*)\.?({digits}*)[eE]([-+]?{digits}+)$"
    before, fraction, exponent = (
        F.regexp_extract(text, shape, part) for part in (1, 2, 3)
    )
    digits_of = F.concat(before, fraction)
    significant = F.rtrim(digits_of, F.lit("0"))
    needed = (
        F.length(fraction)
        - F.length(digits_of)
        + F.length(significant)
        - exponent.try_cast("int")
    )
    is_short = text.rlike(shape) & (
        (significant == "") | F.coalesce(needed <= scale, F.lit(False))
    )
    return F.when(is_plain, F.lit(True)).otherwise(is_short)


def is_literal_of_java(text: Column) -> Column:
    """Whether the text is a double in a notation that only Java's source code has:
    `1d`, `1.5F`, `0x1p3`."""
    return text.rlike(r"(?i)^\s*[-+]?(?:0x|[0-9.]+(?:e[-+]?[0-9]+)?[df]\s*$)")


def has_digits(text: Column) -> Column:
    """Whether the text is a number in digits, and nothing else."""
    return text.rlike(r"^[-+]?[\p{Nd}.]+(?:[eE][-+]?\p{Nd}+)?$")


def wider(wanted: T.DecimalType) -> T.DecimalType:
    """The decimal type with as many digits before the point as this one, and as many
    after it as possible."""
    return T.DecimalType(MAX_DIGITS, MAX_DIGITS - wanted.precision + wanted.scale)


def too_long(scale: int) -> str:
    """A regular expression for a JSON number that may have more digits after the point
    than this scale."""
    return rf"\.[0-9]{{{scale + 1},}}|[0-9.][eE]-[0-9]"
