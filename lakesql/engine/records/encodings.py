"""Records' text in another encoding than UTF-8, as Spark reads it."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakesql.stream.text_encoding import UTF_8, characters


def encoded(text: Column, encoding: str) -> Column:
    """A text as bytes of an encoding of one byte a character, with `?` for a character
    that it does not have; or of UTF-8."""
    if encoding == UTF_8:
        return F.encode(text, "UTF-8")
    plain, own = characters("iso8859-1"), characters(encoding)
    others = [
        (was, is_)
        for was, is_ in zip(own, plain, strict=True)
        if was not in (is_, "\ufffd")
    ]
    text = F.regexp_replace(text, f"[^{re.escape(own)}]", "?")
    if others:
        text = F.translate(
            text, "".join(was for was, _ in others), "".join(is_ for _, is_ in others)
        )
    return F.encode(text, "ISO-8859-1")


def decoded(value: Column, encoding: str) -> Column:
    """The bytes of a text in an encoding of one byte a character, in UTF-8.

    Spark decodes ISO 8859-1 alone of these encodings, in which each byte is the
    character of its number.
    """
    text = F.decode(value, "ISO-8859-1")
    plain = characters("iso8859-1")
    others = [
        (was, is_)
        for was, is_ in zip(plain, characters(encoding), strict=True)
        if was != is_
    ]
    if others:
        text = F.translate(
            text, "".join(was for was, _ in others), "".join(is_ for _, is_ in others)
        )
    return F.encode(text, "UTF-8")
