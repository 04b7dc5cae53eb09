"""Records' text in another encoding than UTF-8, as Spark reads it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakesql.stream.text_encoding import characters


def decoded(value: Column, encoding: str) -> Column:
    """The bytes of a text in an encoding of one byte a character, in UTF-8.

    Spark decodes ISO 8859-1 alone of these encodings, in which each byte is the character of its number.
    """
    text = F.decode(value, "ISO-8859-1")
    plain = characters("iso8859-1")
    others = [(was, is_) for was, is_ in zip(plain, characters(encoding), strict=True) if was != is_]
    if others:
        text = F.translate(text, "".join(was for was, _ in others), "".join(is_ for _, is_ in others))
    return F.encode(text, "UTF-8")
