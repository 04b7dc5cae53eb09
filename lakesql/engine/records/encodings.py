"""How the text of records in another encoding than UTF-8 is converted."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakesql.stream.text_encoding import UTF_8, characters


def encoded(text: Column, encoding: str) -> Column:
    """The text as bytes in a single-byte encoding, with `?` for a character that it
    does not have; or in UTF-8."""
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
    """The bytes of a text in a single-byte encoding, converted to UTF-8.

    Of these encodings Spark decodes only ISO 8859-1, in which each byte is the
    character with that number.
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
