"""Which numbers a decimal of some scale holds without losing digits."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

Decimals = Literal["exact", "round"]

MAX_DIGITS = 38


def is_exact(text: Column, scale: int) -> Column:
    """Whether the text is a number in digits, of which a decimal of this scale loses
    none."""
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
    """Whether the text is a double as Java's source code has it, and nobody else's:
    `1d`, `1.5F`, `0x1p3`."""
    return text.rlike(r"(?i)^\s*[-+]?(?:0x|[0-9.]+(?:e[-+]?[0-9]+)?[df]\s*$)")


def has_digits(text: Column) -> Column:
    """Whether the text is a number in digits, and nothing else."""
    return text.rlike(r"^[-+]?[\p{Nd}.]+(?:[eE][-+]?\p{Nd}+)?$")


def wider(wanted: T.DecimalType) -> T.DecimalType:
    """The decimal of as many digits before the point, and of as many behind it as there
    may be."""
    return T.DecimalType(MAX_DIGITS, MAX_DIGITS - wanted.precision + wanted.scale)


def too_long(scale: int) -> str:
    """What a JSON number looks like that may have more digits behind the point than
    this, as a regular expression."""
    return rf"\.[0-9]{{{scale + 1},}}|[0-9.][eE]-[0-9]"
