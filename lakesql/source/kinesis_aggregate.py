"""Records that Kinesis' producer library (KPL) has packed into one: how they are told,
and taken apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

MAGIC = b"\xf3\x89\x9a\xc2"
"""How such a record begins; behind it are a message of Protobuf and its MD5 (KPL's
aggregation format)."""

DIGEST_SIZE = 16


def split_aggregate(data: bytes) -> Sequence[tuple[str, bytes]] | None:
    """The partition key and the value of each record in one; None where it is a record
    by itself."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + DIGEST_SIZE:
        return None
    message, digest = data[len(MAGIC) : -DIGEST_SIZE], data[-DIGEST_SIZE:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return None
    # only here: few streams have such records
    from aws_kinesis_agg.messages_pb2 import AggregatedRecord

    found = AggregatedRecord()
    found.ParseFromString(message)
    return [
        (found.partition_key_table[record.partition_key_index], record.data)
        for record in found.records
    ]
