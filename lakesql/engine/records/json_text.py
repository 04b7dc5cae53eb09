"""The text of JSON that Spark's parser does not keep: the records of a file, and the values of an object's members."""

from __future__ import annotations

import json
import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

DEPTH = 24
"""How many arrays and objects may stand within each other where the text of a value is looked for."""

_STRING = r'"(?:[^"\\]|\\.)*+"'


def _nested(opening: str = r"\[{") -> str:
    """An array or an object, and all in it, as a regular expression. That it is JSON has been seen before."""
    pattern = r'[\[{](?:[^"\[\]{}]|' + _STRING + r")*+[\]}]"
    for depth in range(DEPTH):
        first = opening if depth == DEPTH - 1 else r"\[{"
        pattern = f"[{first}]" + r'(?:[^"\[\]{}]++|' + _STRING + "|" + pattern + r")*+[\]}]"
    return pattern


_VALUE = f"(?:{_STRING}|{_nested()}|" + r'[^"\[\]{},\s]++)'


def member(text: Column, name: str) -> Column:
    """The value of an object's member as it stands in the text; '' where there is none of this name."""
    key = re.escape(json.dumps(name, ensure_ascii=False))
    others = r"(?:(?!" + key + r"\s*+:)" + _STRING + r"\s*+:\s*+" + _VALUE + r"\s*+,\s*+)*+"
    return F.regexp_extract(text, r"(?s)^\s*+\{\s*+" + others + key + r"\s*+:\s*+(" + _VALUE + ")", 1)


def items(text: Column) -> Column:
    """The values of an array as they stand in the text."""
    return F.regexp_extract_all(text, F.lit(r"(?s)(?:^\s*+\[|\G(?<!^)\s*+,)\s*+(" + _VALUE + ")"), F.lit(1))


def split_documents(files: DataFrame) -> DataFrame:
    """The records of whole files, `value`: the objects of an array, or those that follow each other.

    A file that has anything else beside them is one record, which is none that can be read.
    """
    # Each byte is a character, so that the bytes of a record are those of the file.
    text = F.decode(F.col("value").cast("binary"), "ISO-8859-1")
    objects = F.lit("(?s)(" + _nested("{") + ")")
    mark = b"\xef\xbb\xbf".decode("latin-1")
    beside = F.regexp_replace(F.regexp_replace(text, "^" + mark, ""), objects, F.lit("0"))
    is_known = beside.rlike(r"^\s*+(?:\[\s*+(?:0\s*+(?:,\s*+0\s*+)*+)?+\]|(?:0\s*+)*+)\s*+$")
    found = F.when(is_known, F.regexp_extract_all(text, objects, F.lit(1))).otherwise(F.array(text))
    each = files.withColumn("value", F.explode(found))
    return each.withColumn("value", F.encode("value", "ISO-8859-1"))
