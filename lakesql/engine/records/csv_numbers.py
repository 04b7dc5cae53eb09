"""How CSV numbers with other marks than a decimal point are read: 1.234,56, 1'234.56.

Such a number is read as a text, and rewritten to one that Spark takes for the same
number, or for none: never for another.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.records.formats.csv import Csv

NO_NUMBER = "no number: "
"""The prefix of a text that is no number by the marks of its stream, even if it is one
by others."""

_WORDS = r"[-+]?(?:NaN|Inf|Infinity)"


def is_marked(kind: T.DataType, options: Csv) -> bool:
    """Whether the type is a number and the stream has configured marks of its own."""
    return options.has_marks and isinstance(kind, T.NumericType)


def plain_number(text: Column, options: Csv) -> Column:
    """The text of a number with a decimal point and without thousands marks; with the
    prefix `NO_NUMBER` if it is none.

    A number has a thousands mark at each group of three digits or at none, and never
    after a single zero: 0.123 is a fraction that was written with a point.
    """
    mark, point = re.escape(options.thousands), re.escape(options.decimal)
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+|[0-9]+)" if mark else "[0-9]+"
    number = rf"[-+]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?"
    without = F.replace(text, F.lit(options.thousands), F.lit("")) if mark else text
    plain = F.replace(without, F.lit(options.decimal), F.lit("."))
    is_word = text.rlike(rf"\A{_WORDS}\z")
    return (
        F.when(text.rlike(rf"\A{number}\z"), plain)
        .when(is_word, text)
        .otherwise(F.concat(F.lit(NO_NUMBER), text))
    )


def is_too_large(plain: Column, kind: T.DataType) -> Column:
    """Whether a number of digits became infinite because no double holds it; a word for
    infinity does not count."""
    if not isinstance(kind, T.DoubleType | T.FloatType):
        return F.lit(False)
    return (F.abs(plain.try_cast(kind)) == F.lit(float("inf"))) & plain.rlike("[0-9]")
