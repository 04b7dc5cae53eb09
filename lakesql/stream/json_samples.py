"""JSON documents as samples: objects whose fractions keep their digits. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakesql.stream.recording import Digits

JsonObject = Mapping[str, Any]

_DECODER = json.JSONDecoder(parse_float=Digits)


def parse_record(content: bytes) -> list[JsonObject] | None:
    """The objects of a line, which may be an array of objects; None if it is anything
    else."""
    try:
        found = json.loads(content.decode("utf-8-sig"), parse_float=Digits)
    except (ValueError, RecursionError):
        return None
    return _objects(found)


def parse_value(content: bytes | None) -> Any:
    """A key or a value parsed as JSON; the text itself if it is not JSON, None if it is
    not UTF-8."""
    if content is None:
        return None
    try:
        text = content.decode()
        return json.loads(text, parse_float=Digits)
    except UnicodeDecodeError:
        return None
    except (ValueError, RecursionError):
        return text


def parse_documents(content: bytes) -> list[JsonObject] | None:
    """The objects of a file, in sequence or in arrays; None if it contains anything
    else."""
    found: list[JsonObject] = []
    try:
        text = content.decode("utf-8-sig")
        at = _next(text, 0)
        while at < len(text):
            document, end = _DECODER.raw_decode(text, at)
            objects = _objects(document)
            if objects is None:
                return None
            found += objects
            at = _next(text, end)
    except (ValueError, RecursionError):
        return None
    return found


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _objects(found: Any) -> list[JsonObject] | None:
    documents = found if isinstance(found, list) else [found]
    return documents if all(isinstance(each, dict) for each in documents) else None
