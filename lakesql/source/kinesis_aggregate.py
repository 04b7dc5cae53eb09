"""Records that the Kinesis Producer Library (KPL) has packed into one: recognizing and
unpacking them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

MAGIC = b"\xf3\x89\x9a\xc2"
"""The first bytes of such a record, which are followed by a Protobuf message and its
MD5 (KPL's aggregation format)."""

DIGEST_SIZE = 16


def split_aggregate(data: bytes) -> Sequence[tuple[str, bytes]] | None:
    """The partition key and the value of each record packed into one; None if the data
    is a single record."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + DIGEST_SIZE:
        return None
    message, digest = data[len(MAGIC) : -DIGEST_SIZE], data[-DIGEST_SIZE:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return None
    # imported here: few streams have such records
    from aws_kinesis_agg.messages_pb2 import AggregatedRecord

    found = AggregatedRecord()
    found.ParseFromString(message)
    return [
        (found.partition_key_table[record.partition_key_index], record.data)
        for record in found.records
    ]
