"""Problems of what a stream configures for the keys of its records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakesql.decode import Node
from lakesql.errors import Problem

if TYPE_CHECKING:
    from lakesql.stream.stream import Stream


def find_key_problems(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of columns that are read from keys, and of `key_format`."""
    columns = node.get("columns") or node
    in_key = [column for column in stream.columns if column.is_in_key]
    if in_key and (stream.is_feed or stream.origin.brings != "records"):
        what = f"'{in_key[0].name}' stands in the key of records, and stream '{stream.name}' reads none of keys."
        why = (
            "The columns of a change feed are those of its rows."
            if stream.is_feed
            else "Only topics have keys."
        )
        yield Problem(
            "wrong-value", what, why, place=columns.keys.get(in_key[0].name, node.place)
        )
    said = node.get("key_format")
    if said is None:
        return
    place = said.place
    if stream.is_feed or stream.origin.brings != "records":
        what = f"Stream '{stream.name}' says 'key_format', which is asked of topics that are no change feed."
        why = (
            "The keys of a feed are written as its values are."
            if stream.is_feed
            else "Only topics have keys."
        )
        yield Problem("wrong-value", what, why, place=place)
    elif not (in_key or stream.key):
        what = f"Stream '{stream.name}' says 'key_format', and nothing is read of its keys."
        fix = "Say which columns stand there: `order_id: {type: bigint, in: key}`, or name the stream's `key`."
        yield Problem("wrong-value", what, fix=fix, place=place)
    elif stream.key_kind and not stream.registry:
        what = f"Stream '{stream.name}' lacks the 'registry' that has the schemas which its keys name."
        yield Problem("missing-option", what, place=place)
